#!/usr/bin/env python3
"""The results of run.py as Markdown: expected and measured, what each cause costs, what was injected.

  bench/groundtruth/table.py RESULTS-FOLDER

Growth and loss are against the arm `zero`. Exit code 1 if a bar was missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from groundtruth.expectations import (
    EXACT,
    Check,
    Result,
    arms_compared,
    checks_of,
    differences,
    launch_cost,
    medians,
    ratios,
    unit_of,
)
from groundtruth.measuring import load
from groundtruth.scenarios import BARE, PLAIN, SCENARIOS, ZERO

VERDICTS: Final = {True: "yes", False: "**no**", None: "–"}


def tables(results: Sequence[Result]) -> str:
    """All tables, with headings."""
    checks = [check for result in results for check in checks_of(result)]
    parts = [
        about(results),
        "### Expected and measured\n\n" + expected_table([c for c in checks if c.bar != EXACT]),
        "### Counts\n\n" + counted([c for c in checks if c.bar == EXACT]),
        "### What each cause costs\n\n" + growth_table(results),
        "### What the machinery costs\n\n" + machinery_table(results),
        "### Injected\n\n" + injected_table(results),
    ]
    return "\n\n".join(parts) + "\n"


def about(results: Sequence[Result]) -> str:
    """Machine, dates and how it was measured."""
    gpus = sorted({gpu for r in results for gpu in r["machine"].get("gpus", ())})
    drivers = sorted({str(r["machine"]["driver"]) for r in results if r["machine"].get("driver")})
    dates = sorted({r["date"] for r in results})
    where = f"{', '.join(gpus)}, driver {', '.join(drivers)}" if gpus else "no GPU"
    when = "–".join(dict.fromkeys((dates[0], dates[-1])))
    return (
        f"{where}; {when}. Median over processes (lowest to highest); a process counts with the median of "
        "its rounds; arms took turns in random order."
    )


def expected_table(checks: Sequence[Check]) -> str:
    """One row per check."""
    rows = [
        (
            c.scenario,
            c.what,
            _expected(c),
            _spread(c.values, c.unit),
            _deviation(c),
            c.bar,
            VERDICTS[c.passed],
        )
        for c in checks
    ]
    return markdown(("scenario", "what", "expected", "measured", "deviation", "bar", "met"), rows)


def counted(checks: Sequence[Check]) -> str:
    """How many recordings' counts equal the truth, and a row for each that does not."""
    known = [c for c in checks if c.passed is not None]
    wrong = [c for c in known if not c.passed]
    total = sum(int(c.measured or 0) for c in known)
    text = (
        f"{len(known) - len(wrong)} of {len(known)} comparisons of arm and cause are exact "
        f"({total:,} charged rows); {len(checks) - len(known)} cannot be counted in rows."
    )
    if not wrong:
        return text
    rows = [(c.scenario, c.what, _expected(c), f"{c.measured:g}") for c in wrong]
    return text + "\n\n" + markdown(("scenario", "what", "truth", "rows"), rows)


def growth_table(results: Sequence[Result]) -> str:
    """One row per scenario and arm: step, growth, loss of throughput, launch toll in the step."""
    rows: list[Sequence[str]] = []
    for result in results:
        step = result["scenario"]["step"]
        rows.append((result["scenario"]["name"], ZERO, _step(result, ZERO), "", "", ""))
        for arm in arms_compared(result):
            growth = _spread(differences(result, arm, step), unit_of(step))
            rows.append(("", arm, _step(result, arm), growth, _loss(result, arm), _toll(result, arm)))
    head = ("scenario", "arm", "step", "growth", "loss of throughput", "launch toll in the step")
    return markdown(head, rows)


def machinery_table(results: Sequence[Result]) -> str:
    """Bare, plain and zero beside each other."""
    rows = []
    for result in results:
        if PLAIN not in result["arms"]:
            continue
        ratio = statistics.median(ratios(result, ZERO, result["scenario"]["step"], PLAIN))
        steps = [_step(result, arm) for arm in (BARE, PLAIN, ZERO)]
        rows.append((result["scenario"]["name"], *steps, f"{ratio:.4f}"))
    return markdown(("scenario", BARE, PLAIN, ZERO, "zero ÷ plain"), rows)


def injected_table(results: Sequence[Result]) -> str:
    """The truth of the first recording of each arm: count and mean of each cause."""
    rows = []
    for result in results:
        for arm in arms_compared(result):
            recording = result["arms"][arm][0]["recording"]
            found = recording["injected"] if recording else {}
            cells = [
                f"{name} {cause['count']:,} × {cause['sum_ns'] / 1e3 / cause['count']:.2f} µs"
                for name, cause in found.items()
                if cause.get("count")
            ]
            rows.append((result["scenario"]["name"], arm, "; ".join(cells) or "nothing"))
    return markdown(("scenario", "arm", "injected in the first process"), rows)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _step(result: Result, arm: str) -> str:
    if arm not in result["arms"]:
        return ""
    step = result["scenario"]["step"]
    return _spread(medians(result, arm, step), unit_of(step))


def _toll(result: Result, arm: str) -> str:
    costs = [launch_cost(process["recording"]) for process in result["arms"][arm] if process["recording"]]
    known = [cost for cost in costs if cost]
    return f"{statistics.median(known):.0f} µs" if known else ""


def _loss(result: Result, arm: str) -> str:
    if "output_throughput" not in result["scenario"]["fields"]:
        return ""
    return f"{100 * (1 - statistics.median(ratios(result, arm, 'output_throughput'))):.1f} %"


def _expected(check: Check) -> str:
    if check.expected is None:
        return "cannot tell"
    if isinstance(check.expected, tuple):
        return f"{check.expected[0]:.4g}–{check.expected[1]:.4g} {check.unit}".rstrip()
    return f"{_number(check.expected)} {check.unit}".rstrip()


def _spread(values: Sequence[float], unit: str) -> str:
    if not values:
        return ""
    middle = f"{_number(statistics.median(values))} {unit}".rstrip()
    return f"{middle} ({min(values):.4g} to {max(values):.4g})" if len(values) > 1 else middle


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def _deviation(check: Check) -> str:
    if not isinstance(check.expected, float) or not check.expected or check.measured is None:
        return ""
    return f"{100 * (check.measured / check.expected - 1):+.1f} %"


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="what run.py wrote")
    args = parser.parse_args()
    try:
        results = load(args.folder)
    except ValueError as error:
        print(f"table: {error}", file=sys.stderr)
        return 2
    if not results:
        print(f"table: no results in {args.folder}", file=sys.stderr)
        return 2
    names = [scenario.name for scenario in SCENARIOS]
    results.sort(key=lambda result: names.index(result["scenario"]["name"]))
    print(tables(results), end="")
    return int(any(check.passed is False for result in results for check in checks_of(result)))


if __name__ == "__main__":
    sys.exit(main())
