#!/usr/bin/env python3
"""Write TRACES.md: one row for each trace of a folder, from what the traces say about themselves."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow.compute as pc

from cctrace.errors import CctraceError
from cctrace.trace import Metadata, Trace, open_trace

TITLE: Final = """# The sample traces

Made by `record.sh`; this table by `table.py`, from the traces' own metadata. **`emulated` traces are not
measurements of confidential computing**: the recorder charged published tolls to a run with it off.
`steps` counts marked steps; without marks (—) `cctrace steps` infers them. TPOT is the load client's median.
"""
HEAD: Final = (
    "trace",
    "labels",
    "steps",
    "rows",
    "KiB",
    "TPOT ms",
    "GPU",
    "CC",
    "driver",
    "software",
    "date",
)
FRAMEWORKS: Final = ("torch", "vllm")


def row(path: Path, trace: Trace) -> list[str]:
    """The cells of one trace, in the order of HEAD."""
    about = trace.metadata
    accepted = about.acceptance
    tpot = accepted.results.tpot_ms
    return [
        f"`{path.name}`",
        ", ".join(about.labels),
        str(marked_steps(trace) or "—"),
        f"{trace.num_rows:,}".replace(",", " "),
        str(round(path.stat().st_size / 1024)),
        "" if tpot is None else f"{tpot:.2f}",
        f"{accepted.hardware.gpus or '?'} × {accepted.hardware.gpu_model or '?'}",
        accepted.security.cc_mode or "?",
        accepted.software.driver or "?",
        software(about),
        (about.recording.started_at or "?")[:10],
    ]


def marked_steps(trace: Trace) -> int:
    """Steps that the program marked; each once, though the hook and NVTX may both have marked it."""
    sources = trace.table(["source"], kinds=["step"]).column("source")
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(sources).to_pylist()}
    return max(counts.values(), default=0)


def software(about: Metadata) -> str:
    """The frameworks that matter here, with their versions."""
    frameworks = about.acceptance.software.frameworks or {}
    return ", ".join(f"{name} {frameworks[name]}" for name in FRAMEWORKS if name in frameworks)


def command(about: Metadata) -> str:
    """The recorded command, without the file that only carried its results into the trace."""
    words = list(about.recording.command or ())
    if "--result-filename" in words:
        at = words.index("--result-filename")
        del words[at : at + 2]
    return shlex.join(words)


def render(traces: Sequence[tuple[Path, Trace]]) -> str:
    """The whole document."""
    lines = [TITLE, line(HEAD), line(["---"] * len(HEAD))]
    lines += [line(row(path, trace)) for path, trace in traces]
    total = sum(path.stat().st_size for path, _ in traces) / 2**20
    lines += ["", f"{len(traces)} traces, {total:.1f} MiB.", "", "## Commands", ""]
    lines += [f"- `{path.name}`: `{command(trace.metadata)}`" for path, trace in traces]
    return "\n".join(lines) + "\n"


def line(cells: Sequence[str]) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(folder: Path) -> int:
    """Read all traces of `folder` and write the table beside them."""
    try:
        traces = [(path, open_trace(path)) for path in sorted(folder.glob("*.parquet"))]
    except CctraceError as error:
        print(f"table: {error}", file=sys.stderr)
        return 2
    new = folder / f".TRACES.{os.getpid()}.md"
    new.write_text(render(traces), encoding="utf-8")
    new.replace(folder / "TRACES.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
