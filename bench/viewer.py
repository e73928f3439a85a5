"""How long the viewer takes on a pair of recordings of N million rows, and how much memory.

    python bench/viewer.py [--rows 10e6] [--zooms 400] [--repeats 3] [--folder DIR] [--one | --files ON [OFF]]

Every repeat is a new `cctrace view` and a new browser. The recordings are those of bench/analysis.py, with
--one that without costs alone; --files measures others. Needs Chromium, as the tests do.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import chromium
from analysis import PIECE_STEPS, SERVER, write
from playwright.sync_api import sync_playwright
from simulator import OFF, ON, Recorder, Run
from viewer_pages import HAS_CONTENT, PAGES, Opened, complete
from viewer_process import Viewer, command, start

from cctrace.trace import open_trace

PIXELS: Final = 1200
"""Width of a timeline on a screen of 1280."""
NARROWEST_NS: Final = 20_000
"""Of the random zooms: a few calls. The widest is everything."""


@dataclass
class Memory:
    """Memory of a process and all of its children, sampled until they end."""

    process: int
    high: dict[int, float] = field(default_factory=dict)
    together: float = 0.0

    def sample(self) -> None:
        """Notes what each process has, MiB."""
        now = 0.0
        for process in family(self.process):
            status = text_of(Path(f"/proc/{process}/status"))
            if "VmHWM:" in status:
                now += kib(status, "VmRSS") / 1024
                self.high[process] = kib(status, "VmHWM") / 1024
        self.together = max(self.together, now)


def kib(status: str, name: str) -> int:
    """A value of /proc/PID/status."""
    return int(status.split(f"{name}:")[1].split(maxsplit=1)[0])


def text_of(file: Path) -> str:
    """A file of /proc; empty if its process or thread has just ended."""
    try:
        return file.read_text()
    except OSError:
        return ""


def family(process: int) -> list[int]:
    """The process and all that descend from it."""
    found = [process]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, text_of(children).split())
    return found


@contextmanager
def watched(process: int) -> Iterator[Memory]:
    """Samples memory every 20 ms."""
    memory = Memory(process)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            memory.sample()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield memory
    finally:
        done.set()
        thread.join()


@dataclass
class Results:
    """What was measured, by name; seconds."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    latencies: list[float] = field(default_factory=list)
    marks: int = 0
    largest_process: float = 0.0
    together: float = 0.0

    def show(self) -> None:
        """Prints the tables."""
        print(f"{'':54s} {'least':>7s} {'median':>7s} {'most':>7s}")
        for name, values in self.seconds.items():
            print(f"{name:54s} {min(values):7.2f} {np.median(values):7.2f} {max(values):7.2f} s")
        median, late, most = np.percentile(self.latencies, [50, 95, 100]) * 1e3
        count = len(self.latencies)
        print(f"viewport, {count} random zooms: median {median:.1f}, 95 % {late:.1f}, most {most:.1f} ms")
        print(f"most marks in an answer: {self.marks}")
        print(f"peak memory: {self.together:.0f} MiB together, {self.largest_process:.0f} MiB of one process")


def pair(folder: Path, rows: int) -> tuple[Path, Path]:
    """The recordings of bench/analysis.py: on, off."""
    off, on = folder / "off.parquet", folder / "on.parquet"
    run = Run(SERVER, OFF, steps=PIECE_STEPS, seed=1, recorder=Recorder(gpu="stamps", marks=False))
    write(off, run, "off", rows)
    write(on, replace(run, costs=ON, seed=2), "on", rows)
    return on, off


def json_of(viewer: Viewer, path: str, **parameters: object) -> dict[str, object]:
    """An answer of the timeline's interface, once its index is there."""
    while True:
        status, text = viewer.get(f"{path}?{urlencode(parameters)}")
        if status == 200:
            return dict(json.loads(text))
        if status != 202:
            raise SystemExit(f"{path} answered {status}: {text[:300]}")
        time.sleep(0.05)


def zoom(viewer: Viewer, arms: Sequence[str], zooms: int, results: Results) -> None:
    """Asks for random viewports of every width, as a user who zooms and pans does, but without a cache."""
    chance = random.Random(1)
    ends = {arm: int(str(json_of(viewer, "/api/timeline/lanes", arm=arm)["end"])) for arm in arms}
    for _ in range(zooms):
        arm = chance.choice(arms)
        width = round(NARROWEST_NS * (ends[arm] / NARROWEST_NS) ** chance.random())
        begin = round(chance.random() * (ends[arm] - width))
        asked = {"arm": arm, "from": begin, "to": begin + width, "pixels": PIXELS}
        clock = time.perf_counter()
        answer = json_of(viewer, "/api/timeline/view", **asked)
        results.latencies.append(time.perf_counter() - clock)
        results.marks = max(results.marks, int(str(answer["marks"])))


def visit(viewer: Viewer, results: Results, first: str) -> None:
    """Opens one page at once, then all; each in a browser that has nothing cached."""
    chromium.look_where_fetched()
    with sync_playwright() as playwright:
        if not chromium.is_there(playwright):
            raise SystemExit("no Chromium: see tests/support/chromium.py")
        browser = chromium.launched(playwright)
        opened = Opened(browser.new_context(), browser.new_context)
        for number, path in enumerate([first, *PAGES]):
            name = path if number else f"{path} (first)"
            clock = time.perf_counter()
            page = opened.open(viewer, path, wait=False, alone=True)
            page.wait_for_function(HAS_CONTENT)
            results.seconds[f"{name}: something to see"].append(time.perf_counter() - clock)
            complete(page)
            results.seconds[f"{name}: complete"].append(time.perf_counter() - clock)
        opened.close()
        browser.close()
        if opened.problems:
            print("problems:", *opened.problems, sep="\n  ")


def measured(files: Sequence[Path], folder: Path, zooms: int, first: str, results: Results) -> None:
    """One viewer, from its start to its end."""
    clock = time.perf_counter()
    viewer = start(folder / "viewer.log", command(*files))
    results.seconds["from the start of the process to the first answer"].append(time.perf_counter() - clock)
    with watched(viewer.process.pid) as memory:
        visit(viewer, results, first)
        zoom(viewer, ("on", "off") if len(files) > 1 else ("one",), zooms, results)
        memory.sample()
    if viewer.stop() != 0:
        raise SystemExit(viewer.printed)
    results.largest_process = max(results.largest_process, *memory.high.values())
    results.together = max(results.together, memory.together)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=10e6, help="of each recording")
    parser.add_argument("--zooms", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--one", action="store_true", help="the off recording alone")
    parser.add_argument("--files", type=Path, nargs="+", help="one recording, or on and off")
    options = parser.parse_args()
    if options.files and (options.one or len(options.files) > 2):
        parser.error("--files takes one recording or two, and no --one")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        files = options.files or pair(folder, int(options.rows))[1 if options.one else 0 :]
        print(" + ".join(f"{open_trace(path).num_rows:,}" for path in files), "rows", flush=True)
        for first in ("/", "/timeline"):
            results = Results()
            for _ in range(options.repeats):
                measured(files, folder, options.zooms, first, results)
            print(f"\nfirst page {first}, {options.repeats} viewers")
            results.show()


if __name__ == "__main__":
    main()
