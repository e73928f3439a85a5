"""The timeline's data, asked for as the browser does."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flask
import numpy as np
import pyarrow.parquet as pq
import pytest
from drawn_rows import rows, write

from cctrace.app.viewer.timeline_api import register
from cctrace.app.viewer.view import opened
from cctrace.trace import Metadata, TraceWriter, open_trace

SAMPLES = Path(__file__).parents[2] / "sample_traces"
WORKER_ON, WORKER_OFF = (SAMPLES / f"server-graph-worker-{arm}.parquet" for arm in ("emulated", "off"))
BLOCKED = SAMPLES / "server-graph-overlap-emulated.parquet"
NODES = SAMPLES / "server-graph-overlap-nodes.parquet"
UNLABELLED = tuple(SAMPLES / f"vllm-8b-full-{arm}.parquet" for arm in ("emulated", "off"))
SECOND = 10**9


class Asked:
    """A viewer's routes, without its pages."""

    def __init__(self, on: list[Path], off: list[Path]) -> None:
        server = flask.Flask("viewer")
        self.view = opened(on, off)
        register(server, self.view)
        self._client = server.test_client()

    def status(self, route: str, **parameters: object) -> tuple[int, Any]:
        """Status and answer, once it is no longer pending."""
        given = {key.rstrip("_"): value for key, value in parameters.items()}
        for _ in range(1200):
            response = self._client.get(f"/api/timeline/{route}", query_string=given)
            if response.status_code != 202:
                return response.status_code, strict(response.text)
            assert set(response.json) == {"pending"}
            time.sleep(0.05)
        raise AssertionError("pending for a minute")

    def __call__(self, route: str, **parameters: object) -> Any:
        """The answer of a request that makes sense."""
        status, answer = self.status(route, **{"arm": "on", **parameters})
        assert status == 200, answer
        return answer

    def error(self, route: str, **parameters: object) -> tuple[int, str]:
        """Status and the one line of a request that is refused."""
        status, answer = self.status(route, **parameters)
        assert set(answer) == {"error"}
        assert "\n" not in answer["error"]
        assert "Traceback" not in answer["error"]
        return status, answer["error"]


def strict(text: str) -> Any:
    """JSON as a browser reads it: without NaN and infinities."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def worker() -> Asked:
    """A pair with marked steps, a copy worker and graph stamps."""
    return Asked([WORKER_ON], [WORKER_OFF])


def test_lanes(worker: Asked) -> None:
    answer = worker("lanes")
    trace = open_trace(WORKER_ON)

    assert answer["rows"] == trace.num_rows
    drawn = trace.frame(["kind", "start_ns", "duration_ns"])
    drawn = drawn[drawn["kind"] != "counter"]
    assert int(answer["base_ns"]) == drawn["start_ns"].min()
    assert answer["end"] == (drawn["start_ns"] + drawn["duration_ns"]).max() - drawn["start_ns"].min()
    shown = [(one["lane"], one["kind"], one["title"], one["role"]) for one in answer["lanes"]]
    assert shown == [
        (2, "thread", "scheduler 1929", "scheduler"),
        (3, "thread", "copy-worker 1995", "copy-worker"),
        (5, "stream", "GPU 0, sampled steps", None),
        (4, "stream", "GPU 0, stream 1", None),
        (0, "counter", "counters of GPU 0", None),
        (1, "counter", "counters of GPU 1", None),
    ] or shown == [shown[0], shown[1], *sorted(shown[2:4]), *shown[4:]]
    assert answer["lanes"][0]["tracks"] == [
        {"track": "ranges", "title": "steps and ranges", "depth": 2},
        {"track": "calls", "title": "calls", "depth": 1},
    ]
    assert [tone["id"] for tone in answer["tones"]] == list(range(len(answer["tones"])))
    assert {"launch", "pcie", "overlap", "nvlink"} <= {tone["key"] for tone in answer["tones"]}


def test_a_step_as_the_canvas_draws_it(worker: Asked) -> None:
    step = worker("step", step="typical")
    answer = worker("view", from_=step["start"], to=step["end"], pixels=1200)
    trace = open_trace(WORKER_ON)
    base = int(worker("lanes")["base_ns"])

    assert (answer["from"], answer["to"], answer["pixels"]) == (step["start"], step["end"], 1200)
    assert answer["dust_pixels"] == 1
    total = 0
    for lane in answer["lanes"]:
        for track in lane["tracks"]:
            marks = track["marks"]
            total += len(marks["row"])
            assert len({len(column) for column in marks.values()}) == 1
            for place, row in enumerate(marks["row"]):
                (stored,) = trace.rows([row]).to_pylist()
                assert stored["lane"] == lane["lane"]
                assert stored["start_ns"] - base == marks["start"][place]
                assert stored["duration_ns"] == marks["duration"][place]
                assert answer["names"][marks["name"][place]] in (stored["name"], stored["kernel"], "graph")
    assert answer["marks"] == total
    assert total > 15


def test_the_copy_worker_waits(worker: Asked) -> None:
    step = worker("step", step="typical")
    tones = [tone["key"] for tone in worker("lanes")["tones"]]
    lane = next(one["lane"] for one in worker("lanes")["lanes"] if one["role"] == "copy-worker")

    answer = worker("view", from_=step["start"], to=step["end"], pixels=1200, lanes=lane)

    (track,) = answer["lanes"][0]["tracks"]
    marks = track["marks"]
    waiting = [place for place, blocked in enumerate(marks["blocked"]) if blocked]
    assert waiting
    assert {tones[marks["tone"][place]] for place in waiting} == {"overlap"}
    assert all(marks["blocked"][place] < marks["duration"][place] for place in waiting)


def test_the_whole_recording_within_the_budget(worker: Asked) -> None:
    end = worker("lanes")["end"]
    answer = worker("view", from_=0, to=end, pixels=1000)

    items = dust = 0
    for track in (track for lane in answer["lanes"] for track in lane["tracks"]):
        items += len(track["marks"]["row"]) + len(track["dust"]["pixel"])
        dust += sum(track["dust"]["count"])
        assert len({len(column) for column in track["dust"].values()}) == 1
        assert all(0 <= busy <= 1 for busy in track["dust"]["busy"])
        assert all(0 <= pixel < 1000 for pixel in track["dust"]["pixel"])
    assert items <= 4000
    drawn = sum(one["rows"] for one in worker("lanes")["lanes"] if one["tracks"])
    assert answer["marks"] + dust == drawn


def test_links_join_launches_and_graphs(worker: Asked) -> None:
    step = worker("step", step="typical")
    links = worker("view", from_=step["start"], to=step["end"], pixels=1200)["links"]

    (row,), (linked,) = links["from_row"], links["to_row"]
    assert links["to_time"][0] > links["from_time"][0]
    assert [one["row"] for one in worker("row", row=row)["linked"]] == [linked]
    assert [one["row"] for one in worker("row", row=linked)["linked"]] == [row]


def test_all_nodes_of_a_graph_are_linked_to_its_launch() -> None:
    asked = Asked([NODES], [])
    trace = open_trace(NODES).frame(["kind", "operation", "correlation"])
    launch = int(np.flatnonzero((trace["operation"] == "graph") & (trace["kind"] == "submit"))[-1])
    nodes = np.flatnonzero(
        (trace["correlation"] == trace["correlation"][launch])
        & trace["kind"].isin(["kernel", "copy", "memset"])
    )

    found = [one["row"] for one in asked("row", arm="one", row=launch)["linked"]]

    assert len(nodes) > 50
    assert len(found) == 50
    assert set(found) <= set(nodes.tolist())
    assert [one["row"] for one in asked("row", arm="one", row=found[7])["linked"]] == [launch]


def test_a_row_has_all_its_columns(worker: Asked) -> None:
    number = worker("next", after=0, what="blocking-copy")["row"]
    answer = worker("row", row=number)
    (stored,) = open_trace(WORKER_ON).rows([number]).to_pylist()

    values = {column["name"]: column["value"] for column in answer["columns"]}
    assert int(values.pop("waiting")) > 0
    assert values == {name: str(value) for name, value in stored.items() if value is not None}
    assert all(column["meaning"] for column in answer["columns"])


def blocking_copies(asked: Asked, after: float, direction: int) -> tuple[list[int], str]:
    """All blocking copies one after the other, and why there are no more."""
    found: list[int] = []
    while True:
        answer = asked("next", arm="one", after=after, what="blocking-copy", direction=direction)
        if answer["row"] is None:
            return found, answer["why"]
        found.append(answer["row"])
        after = answer["start"]


def test_blocking_copies_one_after_the_other() -> None:
    asked = Asked([BLOCKED], [])
    marked = set()
    for turn in range(50):
        end = asked("lanes", arm="one")["end"]
        begin, stop = end * turn // 50, end * (turn + 1) // 50
        for lane in asked("view", arm="one", from_=begin, to=stop, pixels=16000)["lanes"]:
            for track in lane["tracks"]:
                tones = zip(
                    track["marks"]["row"], track["marks"]["tone"], track["marks"]["blocked"], strict=True
                )
                marked |= {row for row, tone, blocked in tones if blocked and tone in (1, 4)}

    found, why = blocking_copies(asked, -1, 1)
    back, why_back = blocking_copies(asked, 10**15, -1)

    assert len(found) > 50
    assert found == back[::-1]
    assert set(found) == marked
    assert (why, why_back) == ("no blocking copy after this time", "no blocking copy before this time")


def test_search(worker: Asked) -> None:
    frame = open_trace(WORKER_ON).frame(["name", "kernel"])
    hits = frame["name"].astype("string").str.contains("memcpy", case=False).fillna(False)
    hits |= frame["kernel"].astype("string").str.contains("memcpy", case=False).fillna(False)

    answer = worker("search", text="MEMCPY")
    nothing = worker("next", after=0, what="search", text="<b>no such</b>")

    assert answer["count"] == hits.sum()
    assert sum(one["count"] for one in answer["names"]) == answer["count"]
    assert worker("next", after=-1, what="search", text="MEMCPY")["row"] == int(np.flatnonzero(hits)[0])
    assert nothing == {"row": None, "why": "no row with '<b>no such</b>' in its name after this time"}


def test_steps(worker: Asked) -> None:
    typical = worker("step", step="typical")
    first, last = worker("step", step=0), worker("step", step=typical["steps"] - 1)

    assert typical["counts"]
    assert typical["phase"] == "decode"
    assert first["start"] < typical["start"] < last["start"]
    for step in (first, typical, last):
        assert worker("step", at=step["start"]) == step
        assert worker("step", at=step["end"] - 1) == step
        assert worker("step", class_=step["step_class"], ordinal=step["ordinal"]) == step


@pytest.mark.parametrize("pair", [(WORKER_ON, WORKER_OFF), UNLABELLED])
def test_the_counterpart_in_the_other_arm(pair: tuple[Path, Path]) -> None:
    asked = Asked([pair[0]], [pair[1]])
    step = asked("step", step="typical")

    other = asked("step", arm="off", class_=step["step_class"], ordinal=step["ordinal"])
    beyond = asked("step", arm="off", class_=step["step_class"], ordinal=10**6)

    assert other["phase"] == step["phase"]
    assert other["ordinal"] in (step["ordinal"], beyond["ordinal"])
    assert beyond["class_index"] == other["class_index"]
    assert beyond["ordinal"] >= other["ordinal"]


def test_runs_of_a_folder(tmp_path: Path) -> None:
    shutil.copy(WORKER_ON, tmp_path / "a.parquet")
    shutil.copy(WORKER_OFF, tmp_path / "b.parquet")
    asked = Asked([tmp_path], [])

    answers = [asked("lanes", arm="one", run=run) for run in (0, 1)]

    assert [answer["rows"] for answer in answers] == [
        open_trace(path).num_rows for path in (WORKER_ON, WORKER_OFF)
    ]
    assert asked.error("lanes", arm="one", run=2) == (400, "run must be from 0 to 1, not '2'")


REFUSED = [
    ("lanes", {}, "arm is missing"),
    ("lanes", {"arm": "on", "run": "1"}, "run must be from 0 to 0"),
    ("lanes", {"arm": "on", "run": "x"}, "run must be a whole number"),
    ("view", {"from": 0, "to": 9, "pixels": 9}, "arm is missing"),
    ("view", {"arm": "on", "to": 9, "pixels": 9}, "from is missing"),
    ("view", {"arm": "on", "from": 0, "pixels": 9}, "to is missing"),
    ("view", {"arm": "on", "from": 0, "to": 9}, "pixels is missing"),
    ("view", {"arm": "on", "from": 9, "to": 9, "pixels": 9}, "from must be before to"),
    ("view", {"arm": "on", "from": 9, "to": 0, "pixels": 9}, "from must be before to"),
    ("view", {"arm": "on", "from": "nan", "to": 9, "pixels": 9}, "from must be a time"),
    ("view", {"arm": "on", "from": "-inf", "to": 9, "pixels": 9}, "from must be a time"),
    ("view", {"arm": "on", "from": "1e400", "to": 9, "pixels": 9}, "from must be a time"),
    ("view", {"arm": "on", "from": 0, "to": 10**40, "pixels": 9}, "to must be a time"),
    ("view", {"arm": "on", "from": "a", "to": 9, "pixels": 9}, "from must be a number"),
    ("view", {"arm": "on", "from": 0, "to": 9, "pixels": 0}, "pixels must be from 1"),
    ("view", {"arm": "on", "from": 0, "to": 9, "pixels": 10**9}, "pixels must be from 1"),
    ("view", {"arm": "on", "from": 0, "to": 9, "pixels": 2.5}, "pixels must be a whole number"),
    ("view", {"arm": "on", "from": 0, "to": 9, "pixels": 9, "lanes": "1;2"}, "lanes must be numbers"),
    ("view", {"arm": "on", "from": 0, "to": 9, "pixels": 9, "lanes": ""}, "lanes must be numbers"),
    ("view", {"arm": "on", "from": 0, "to": 9, "pixels": 9, "lanes": "99"}, "no lane 99"),
    ("view", {"arm": "on", "from": 0, "to": 9, "pixels": 9, "lanes": "1," * 5000}, "lanes must be at most"),
    ("view", {"arm": "on", "from": 0, "to": 9, "pixels": 9, "lanes": "9" * 5000}, "lanes must be numbers"),
    ("row", {"arm": "on"}, "row is missing"),
    ("row", {"arm": "on", "row": -1}, "row must be from 0"),
    ("row", {"arm": "on", "row": 10**12}, "row must be below"),
    ("row", {"arm": "on", "row": 10**90}, "row must be from 0"),
    ("row", {"arm": "on", "row": "9" * 5000}, "row has more than 200 characters"),
    ("next", {"arm": "on", "after": 0}, "what is missing"),
    ("next", {"arm": "on", "after": 0, "what": "<script>"}, "what must be blocking-copy or search"),
    ("next", {"arm": "on", "after": 0, "what": "search"}, "text is missing"),
    ("next", {"arm": "on", "after": 0, "what": "search", "text": "x" * 999}, "text has more than 200"),
    ("next", {"arm": "on", "after": 0, "what": "blocking-copy", "direction": 0}, "direction must be"),
    ("next", {"arm": "on", "after": 0, "what": "blocking-copy", "direction": 7}, "direction must be"),
    ("next", {"arm": "on", "after": 0, "what": "blocking-copy", "lane": 1000}, "no lane 1000"),
    ("search", {"arm": "on"}, "text is missing"),
    ("search", {"arm": "on", "text": ""}, "text is missing"),
    ("step", {"arm": "on"}, "step is missing"),
    ("step", {"arm": "on", "step": -1}, "step must be from 0"),
    ("step", {"arm": "on", "step": 10**9}, "step must be from 0"),
    ("step", {"arm": "on", "step": "last"}, "step must be a whole number"),
    ("step", {"arm": "on", "class": "x", "ordinal": -5}, "ordinal must be from 0"),
]


@pytest.mark.parametrize(("route", "parameters", "line"), REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(
    worker: Asked, route: str, parameters: dict[str, Any], line: str
) -> None:
    status, error = worker.error(route, **parameters)

    assert status == 400
    assert line in error
    assert len(error) < 200


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"at": 10**15}, "no step holds this time"),
        ({"at": -5}, "no step holds this time"),
        ({"class": "no such class"}, "no steps of the class no such class"),
    ],
)
def test_there_is_no_such_step(worker: Asked, parameters: dict[str, Any], why: str) -> None:
    answer = worker("step", **parameters)

    assert answer["step"] is None
    assert why in answer["why"]


def test_a_recording_without_steps(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.parquet") as writer:
        writer.write(open_trace(WORKER_ON).table(kinds="counter"))
        writer.finish(Metadata())
    asked = Asked([tmp_path / "t.parquet"], [])

    answer = asked("step", arm="one", step="typical")

    assert answer["step"] is None
    assert "cannot tell the steps, because" in answer["why"]
    assert asked("view", arm="one", from_=0, to=10, pixels=10)["lanes"] == []


def test_there_is_no_such_arm(worker: Asked) -> None:
    status, error = worker.error("lanes", arm="nope" * 40)

    assert status == 422
    assert "this viewer shows on, off" in error


def copied(folder: Path) -> Path:
    return Path(shutil.copy(WORKER_ON, folder / "copy.parquet"))


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    path = copied(tmp_path)
    asked = Asked([path], [])
    assert asked("lanes", arm="one")["rows"] == open_trace(path).num_rows

    shutil.copy(WORKER_OFF, path)
    status, error = asked.error("lanes", arm="one")

    assert status == 422
    assert "has changed since it was opened" in error
    path.unlink()
    assert asked.error("row", arm="one", row=1) == (422, f"{path}: cannot be read any more")


def damage(path: Path, column: str) -> None:
    """Overwrites a column of a trace; its footer stays as it is."""
    group = pq.read_metadata(path).row_group(0)
    chunk = next(one for one in map(group.column, range(group.num_columns)) if one.path_in_schema == column)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)


def view_of(asked: Asked) -> tuple[int, str]:
    return asked.error("view", arm="one", **{"from": 0, "to": SECOND, "pixels": 1000})


@pytest.mark.parametrize(
    ("column", "request_"),
    [
        ("start_ns", view_of),
        ("kind", lambda asked: asked.error("lanes", arm="one")),
        ("correlation", lambda asked: asked.error("row", arm="one", row=5000)),
        ("attributes", lambda asked: asked.error("row", arm="one", row=5000)),
        ("kind", lambda asked: asked.error("step", arm="one", step=0)),
    ],
)
def test_a_damaged_file(tmp_path: Path, column: str, request_: Callable[[Asked], tuple[int, str]]) -> None:
    path = copied(tmp_path)
    damage(path, column)

    status, error = request_(Asked([path], []))

    assert status == 422
    assert error.startswith(f"{path}: the file is damaged")


def test_many_lanes_share_an_answer(tmp_path: Path) -> None:
    asked = Asked([NODES], [])
    lanes = [lane for lane in asked("lanes", arm="one")["lanes"] if lane["tracks"]]

    answer = asked("view", arm="one", from_=0, to=asked("lanes", arm="one")["end"], pixels=16000)

    items = sum(
        len(track["marks"]["row"]) + len(track["dust"]["pixel"])
        for lane in answer["lanes"]
        for track in lane["tracks"]
    )
    assert len(answer["lanes"]) == len(lanes)
    assert answer["dust_pixels"] > 1
    assert 500 < items <= 4000


def test_long_names_are_cut_but_found(tmp_path: Path) -> None:
    name = "void kernel<" + "x" * 100_000 + ">::end"
    start = np.arange(100) * 1000
    asked = Asked([write(tmp_path / "t.parquet", rows(start, start * 0 + 500, kind="kernel", name=name))], [])

    (shown,) = asked("view", arm="one", from_=0, to=100_000, pixels=100)["names"]
    found = asked("next", arm="one", after=0, what="search", text=">::END")

    assert shown == name[:499] + "…"
    assert found["name"] == shown
    assert asked("search", arm="one", text=">::end") == {
        "count": 100,
        "names": [{"name": shown, "count": 100}],
    }
    columns = asked("row", arm="one", row=found["row"])["columns"]
    assert [column["value"] for column in columns if column["name"] == "name"] == [name]
