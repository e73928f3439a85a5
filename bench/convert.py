"""How fast a spool becomes a trace, how large the trace is, and how much memory that takes.

    python bench/convert.py [--millions 10] [--threads 1,4] [--repeats 3] [--folder /tmp]

The spool is a decode loop repeated, as the collector writes it: copies, kernels, a graph launch, events, a
synchronization and a step mark a step; with several threads their records alternate every 10 ms. Each
conversion runs in a process of its own. Stamps and CUPTI rows are measured by the `nodes` case: one GPU row
a launch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from spool_builder import Records, SpoolBuilder, decode_loop, write_recording

from cctrace.collectors.spool import convert
from cctrace.collectors.spool.layout import RECORD, Kind, Operation

PIECE_STEPS = 4000


def with_gpu_rows(spool: SpoolBuilder, records: Records) -> Records:
    """The records, and for every kernel launch the two that CUPTI adds: a host call and a kernel."""
    launches = records[(records["kind"] == Kind.CALL) & (records["operation"] == Operation.KERNEL)]
    links = np.arange(1, len(launches) + 1, dtype=np.uint32)
    host = launches.copy()
    host["kind"], host["operation"], host["link"] = Kind.HOST_CALL, 0, links
    gpu = host.copy()
    gpu["kind"], gpu["tid"], gpu["stream"], gpu["name"] = Kind.KERNEL, 0, 13, launches["link"]
    gpu["start_ns"] += np.uint64(8000)
    gpu["end_ns"] = gpu["start_ns"] + np.uint64(1500)
    return np.concatenate((records, host, gpu))


def write_spool(folder: Path, rows: int, threads: int, *, nodes: bool) -> int:
    """Writes a spool of about so many rows, piece by piece; returns how many a trace of it has."""
    spool = SpoolBuilder()
    decode_loop(spool, steps=PIECE_STEPS // threads, threads=threads)
    data = spool.data()
    every = np.frombuffer(data, dtype=RECORD)
    first = int(np.flatnonzero(every["kind"] == Kind.CALL)[0])
    piece = every[first:].copy()
    if nodes:
        piece = with_gpu_rows(spool, piece)
    count = int(np.count_nonzero(piece["kind"] != Kind.HOST_CALL))
    links = int(piece["link"][piece["kind"] == Kind.HOST_CALL].max(initial=0))
    gpu = (piece["kind"] == Kind.HOST_CALL) | (piece["kind"] == Kind.KERNEL)
    times = piece["start_ns"]
    span = np.uint64(int(piece["end_ns"].max()) - int(times.min()) + 10_000)
    copies = max(1, rows // count)
    write_recording(folder, {"collector": {"gpu_mode": "nodes" if nodes else "stamps"}})
    with (folder / f"{spool.pid}-{spool.start_ns}.spool").open("wb") as file:
        file.write(data[: first * RECORD.itemsize])
        for _ in range(copies):
            file.write(piece.tobytes())
            for name in ("start_ns", "end_ns"):
                piece[name] += span
            piece["link"][gpu] += np.uint32(links)
    return copies * count


def peak_anonymous() -> tuple[threading.Event, list[int]]:
    """Samples this process's own memory (RssAnon), without the mapped spool, until the event is set."""
    stop, peak = threading.Event(), [0]

    def sample() -> None:
        while not stop.wait(0.02):
            status = Path("/proc/self/status").read_text()
            peak[0] = max(peak[0], int(status.split("RssAnon:")[1].split()[0]))

    threading.Thread(target=sample, daemon=True).start()
    return stop, peak


def convert_once(folder: Path, output: Path) -> None:
    """The measured process: converts and prints JSON."""
    stop, peak = peak_anonymous()
    begin, cpu = time.perf_counter(), time.process_time()
    conversion = convert(folder, output, force=True)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    stop.set()
    report = {
        "rows": conversion.rows,
        "seconds": seconds,
        "cpu_s": cpu,
        "bytes": conversion.trace_bytes,
        "peak_kib": peak[0],
    }
    print(json.dumps(report))


def measure(name: str, rows: int, threads: int, repeats: int, where: Path, *, nodes: bool) -> None:
    with tempfile.TemporaryDirectory(dir=where) as temporary:
        folder = Path(temporary) / "spool"
        folder.mkdir()
        expected = write_spool(folder, rows, threads, nodes=nodes)
        output = Path(temporary) / "t.parquet"
        runs = []
        for _ in range(repeats):
            command = [sys.executable, __file__, "--convert", str(folder), str(output)]
            runs.append(
                json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            )
    if any(run["rows"] != expected for run in runs):
        raise SystemExit(f"{name}: {runs[0]['rows']} rows, expected {expected}")
    rates = sorted(run["rows"] / run["seconds"] / 1e6 for run in runs)
    cpu = min(run["cpu_s"] / run["rows"] for run in runs) * 1e9
    peak = max(run["peak_kib"] for run in runs) / 1024
    print(
        f"| {name} | {expected / 1e6:.1f} M | {rates[0]:.2f}–{rates[-1]:.2f} | {cpu:.0f} | "
        f"{runs[0]['bytes'] / expected:.2f} | {peak:.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", type=float, default=10)
    parser.add_argument("--threads", default="1,4")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument(
        "--convert", nargs=2, type=Path, metavar=("SPOOLDIR", "TRACE"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.convert:
        convert_once(*options.convert)
        return
    rows = int(options.millions * 1e6)
    print("| spool | rows | M rows/s | CPU ns a row | bytes a row | peak MiB |")
    print("|---|---|---|---|---|---|")
    for threads in map(int, options.threads.split(",")):
        name = f"host calls, {threads} thread{'s' if threads > 1 else ''}"
        measure(name, rows, threads, options.repeats, options.folder, nodes=False)
    measure("host calls and CUPTI nodes", rows, 1, options.repeats, options.folder, nodes=True)


if __name__ == "__main__":
    main()
