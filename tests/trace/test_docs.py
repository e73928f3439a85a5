import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from scripts import load_script

from cctrace.trace import Collector, Lane, Metadata, Process

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "trace-format.md"


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def tables() -> ModuleType:
    return load_script(DOCS / "trace_tables.py")


@pytest.fixture
def in_folder_with_trace(
    write_trace: Callable[..., Path],
    make_table: Callable[[list[dict[str, Any]]], pa.Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder with a small recording, `off.parquet`: two steps with a replay and a wait each."""
    rows: list[dict[str, Any]] = []
    for step in range(2):
        at = step * 1000
        launch = {"kind": "submit", "operation": "graph", "graph_id": 3, "correlation": step}
        rows += [
            {"kind": "step", "step": step, "step_class": "decode", "start_ns": at, "duration_ns": 900},
            {**launch, "start_ns": at + 10, "duration_ns": 50},
            {"kind": "submit", "operation": "kernel", "start_ns": at + 100, "duration_ns": 20},
            {
                "kind": "wait",
                "operation": "event-sync",
                "blocking": True,
                "start_ns": at + 200,
                "duration_ns": 400,
            },
        ]
    gpu = [
        {
            "kind": "graph",
            "lane": 1,
            "graph_id": 3,
            "correlation": s,
            "start_ns": s * 1000 + 70,
            "duration_ns": 300,
        }
        for s in range(2)
    ]
    metadata = Metadata(
        lanes=(Lane(lane=0, pid=1, role="scheduler"), Lane(lane=1, pid=1, kind="stream")),
        collector=Collector(processes=(Process(pid=1, first_record_ns=0),)),
    ).with_value("security.cc_mode", "off")
    path = write_trace(make_table(rows), make_table(gpu), name="off.parquet", metadata=metadata)
    monkeypatch.chdir(path.parent)


def test_the_tables_of_the_page_are_those_of_the_code(tables: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == tables.filled(page), "run `make docs`"


@pytest.mark.usefixtures("in_folder_with_trace")
def test_the_python_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(examples("python")) == 3
    for example in examples("python"):
        exec(compile(example, str(PAGE), "exec"), {})
    printed = capsys.readouterr().out
    assert re.search(r"graph\s+2\.0\s+50\.0", printed)
    assert "off []" in printed
    assert printed.endswith("800\n")


@pytest.mark.usefixtures("in_folder_with_trace")
def test_the_sql_examples_run() -> None:
    steps, replays = (duckdb.connect().execute(sql).fetchall() for sql in examples("sql"))
    assert steps == [("decode", 2, 2.0, 0.4)]
    assert replays == [(3, 2, 300.0, 50.0)]
