"""Writes the generated parts of docs/: pictures of the terminal output, and tables of the trace format.

Run it after a change of the output or of the traces: `make docs`.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import profile_tables
import trace_tables
from rich.console import Console

from cctrace.analyzers.loading import load
from cctrace.analyzers.report.runs import compared_runs
from cctrace.analyzers.summary import summarize
from cctrace.app.attribution_view import opening_blocks, whole_blocks
from cctrace.app.summary_view import show_summary
from cctrace.app.terminal_report import show_blocks
from cctrace.trace import open_trace

DOCS: Final = Path(__file__).resolve().parent
SAMPLES: Final = DOCS.parent / "sample_traces"
WIDTH: Final = 110
"""Columns: the tables need about 90, and GitHub shows a picture of 110 without scaling it down."""


def picture(name: str, title: str, show: Callable[[Console], None]) -> None:
    """Writes docs/images/<name>.svg with what `show` prints."""
    out = Console(
        width=WIDTH,
        record=True,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        markup=False,
        emoji=False,
    )
    show(out)
    target = DOCS / "images" / f"{name}.svg"
    target.parent.mkdir(exist_ok=True)
    drawn = out.export_svg(title=title, unique_id=name)
    # Fonts are the reader's own: a picture must not ask another host for one.
    target.write_text(re.sub(r"@font-face\s*{.*?}\s*", "", drawn, flags=re.DOTALL), encoding="utf-8")
    print(f"wrote {target.relative_to(DOCS.parent)}")


def main() -> int:
    """Draws the pictures of README and docs, and fills in the tables of trace-format.md and profiles.md."""
    trace_tables.main()
    profile_tables.main()
    # Paths are printed as given; relative ones keep the pictures the same everywhere.
    on = SAMPLES.relative_to(Path.cwd()) / "server-graph-overlap-emulated.parquet"
    off = SAMPLES.relative_to(Path.cwd()) / "server-graph-overlap-off.parquet"
    vllm = SAMPLES.relative_to(Path.cwd()) / "vllm-8b-full-off.parquet"
    difference = compared_runs([off], [on])
    # What comes first: the README has room for one screen.
    first = [*opening_blocks(difference), *whole_blocks(difference)]
    picture("diff", f"cctrace diff {on.name} {off.name}", lambda out: show_blocks(out, first))
    summary = summarize(load(open_trace(vllm)))
    picture("summary", f"cctrace summary {vllm.name}", lambda out: show_summary(out, summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
