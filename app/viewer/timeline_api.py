"""The timeline's data: what its canvas asks for while one looks around, as JSON.

Every route takes `arm` and `run` (default 0). Times are nanoseconds from the start of the run's first row. A
request that makes no sense is answered with status 400, a recording that cannot be used with 422, both with
`{"error": one line}`; while an index is built the answer is 202 with `{"pending": how far it is}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import wraps
from typing import Any, Final

import numpy as np
import pyarrow as pa
from flask import Flask, Response, request

from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.step_series import ProcessSeries, main_process, step_series
from cctrace.analyzers.viewport import (
    MAX_COLUMNS,
    MAX_LANES,
    TONES,
    TRACKS,
    Answer,
    FoundRow,
    Index,
    Lane,
    Links,
    TrackAnswer,
    Window,
    class_named,
    found_names,
    links_of,
    next_blocking_copy,
    next_by_name,
    place_of,
    row_details,
    step_at,
    step_of_class,
    typical_step,
    visible,
)
from cctrace.app.viewer.jobs import Pending
from cctrace.app.viewer.timeline_index import Indexed, Indexes
from cctrace.app.viewer.timeline_request import MAX_CLASS, MAX_NUMBER, BadRequestError, Parameters
from cctrace.app.viewer.view import Run, View
from cctrace.errors import CctraceError

MAX_NAME: Final = 500
"""Characters of a name in an answer; the details of a row hold all of it."""
PREFIX: Final = "/api/timeline/"
BLOCKING_COPY, SEARCH = "blocking-copy", "search"
FORWARD, BACKWARD = "1", "-1"
TYPICAL: Final = "typical"
"""Instead of a step's number: the one that looks most as steps of this run do."""

_Document = Mapping[str, Any]


def register(server: Flask, view: View) -> None:
    """Adds the timeline's routes to a server."""
    routes = _Routes(view)
    for name in ("lanes", "view", "row", "next", "search", "step"):
        server.add_url_rule(f"{PREFIX}{name}", f"timeline-{name}", _answered(getattr(routes, name)))


class _NoStepError(CctraceError):
    """The recording has no such step."""


class _Routes:
    """What each route answers."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._indexes = Indexes(view)

    def lanes(self, given: Parameters) -> _Document:
        """What there is to draw."""
        index = self._indexed(given).index
        return {
            "base_ns": str(index.base_ns),
            "rows": index.rows,
            "end": index.end,
            "tones": [{"id": number, **asdict(tone)} for number, tone in enumerate(TONES)],
            "lanes": [_lane_document(lane) for lane in index.lanes],
        }

    def view(self, given: Parameters) -> _Document:
        """What a stretch of time looks like."""
        window = _window(given)
        indexed = self._indexed(given)
        answer = visible(indexed.index, _lanes(given, indexed.index), window)
        with indexed.reading:
            links = links_of(indexed.index, indexed.trace, answer)
        return _view_document(indexed.index, answer, links)

    def row(self, given: Parameters) -> _Document:
        """All that is known of one row."""
        number = given.integer("row", 0, MAX_NUMBER)
        indexed = self._indexed(given)
        with indexed.reading:
            found = row_details(indexed.index, indexed.trace, number)
        if found is None:
            raise BadRequestError(f"row must be below {indexed.index.rows}, the rows of this recording")
        return {
            "row": number,
            "lane": found.lane,
            "start": found.start,
            "duration": found.duration,
            "columns": [asdict(value) for value in found.values],
            "linked": [_row_document(one) for one in found.linked],
        }

    def next(self, given: Parameters) -> _Document:
        """The next row of some kind."""
        after = given.time("after")
        forward = given.choice("direction", (FORWARD, BACKWARD), FORWARD) == FORWARD
        what = given.choice("what", (BLOCKING_COPY, SEARCH))
        text = given.text("text") if what == SEARCH else ""
        index = self._indexed(given).index
        lanes = (
            (_lane(index, given.integer("lane", -MAX_NUMBER, MAX_NUMBER)),)
            if "lane" in given
            else index.lanes
        )
        if what == SEARCH:
            found = next_by_name(index, lanes, after, text, forward=forward)
        else:
            found = next_blocking_copy(index, lanes, after, forward=forward)
        if found is not None:
            return _row_document(found)
        missing = f"no row with {text!r} in its name" if what == SEARCH else "no blocking copy"
        return {"row": None, "why": f"{missing} {'after' if forward else 'before'} this time"}

    def search(self, given: Parameters) -> _Document:
        """Which names hold a text."""
        text = given.text("text")
        count, names = found_names(self._indexed(given).index, text)
        return {"count": count, "names": [{"name": _cut(one.name), "count": one.count} for one in names]}

    def step(self, given: Parameters) -> _Document:
        """When a step is; why there is none, which is no fault of the request."""
        run = self._run(given)
        base_ns = self._indexes.of(run).index.base_ns
        try:
            steps = self._steps(run, given)
            wanted = self._wanted_step(given, run, steps, base_ns)
        except _NoStepError as none:
            return {"step": None, "why": str(none)}
        document = asdict(place_of(steps, wanted))
        start, end = document.pop("start_ns") - base_ns, document.pop("end_ns") - base_ns
        return {**document, "start": start, "end": end}

    def _wanted_step(self, given: Parameters, run: Run, steps: ProcessSeries, base_ns: int) -> int:
        if "at" in given:
            found = step_at(steps, given.time("at") + base_ns)
            if found is None:
                raise _NoStepError(f"{run.name}: no step holds this time")
            return found
        if "class" in given:
            name, ordinal = given.text("class", most=MAX_CLASS), given.integer("ordinal", 0, MAX_NUMBER, 0)
            number = class_named(steps, name)
            for arm in self._view.arms:
                if number is None:
                    number = class_named(steps, name, self._steps(arm.runs[0], given))
            if number is None:
                raise _NoStepError(f"{run.name}: no steps of the class {name}, or like it")
            return step_of_class(steps, number, ordinal)
        if given.text("step") == TYPICAL:
            return typical_step(steps)
        return given.integer("step", 0, len(steps) - 1)

    def _steps(self, run: Run, given: Parameters) -> ProcessSeries:
        """The steps of the process that is asked for, or that stands for the run."""
        series = self._view.of_run(step_series, run)
        steps = main_process(series, given.integer("pid", 0, MAX_NUMBER, 0))
        if steps is None:
            raise _NoStepError(f"{run.name}: cannot tell the steps, because {series.no_steps_because}")
        return steps

    def _run(self, given: Parameters) -> Run:
        arm = self._view.arm(given.text("arm"))
        return arm.runs[given.integer("run", 0, len(arm.runs) - 1, 0)]

    def _indexed(self, given: Parameters) -> Indexed:
        return self._indexes.of(self._run(given))


def _answered(route: Callable[[Parameters], _Document]) -> Callable[[], Response]:
    """A view function of a route."""

    @wraps(route)
    def respond() -> Response:
        try:
            return _json(200, route(Parameters(request.args)))
        except Pending as pending:
            return _json(202, {"pending": str(pending)})
        except BadRequestError as error:
            return _json(400, {"error": str(error)})
        except CctraceError as error:
            return _json(422, {"error": str(error)})

    return respond


def _json(status: int, document: _Document) -> Response:
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return Response(text, status, {"Cache-Control": "no-store"}, "application/json")


def _window(given: Parameters) -> Window:
    begin, end = int(np.floor(given.time("from"))), int(np.ceil(given.time("to")))
    if begin >= end:
        raise BadRequestError("from must be before to")
    return Window(begin, end, given.integer("pixels", 1, MAX_COLUMNS))


def _lanes(given: Parameters, index: Index) -> tuple[Lane, ...]:
    numbers = given.integers("lanes", MAX_LANES)
    if numbers is None:
        return tuple(lane for lane in index.lanes if lane.tracks)[:MAX_LANES]
    return tuple(_lane(index, number) for number in numbers)


def _lane(index: Index, number: int) -> Lane:
    lane = index.lane(number)
    if lane is None:
        raise BadRequestError(f"this recording has no lane {number}")
    return lane


def _lane_document(lane: Lane) -> _Document:
    return {
        "lane": lane.number,
        "kind": lane.kind,
        "pid": lane.pid,
        "title": lane.title,
        "role": lane.role,
        "rows": lane.rows,
        "tracks": [
            {"track": track.name, "title": TRACKS[track.name], "depth": track.lines} for track in lane.tracks
        ],
    }


def _view_document(index: Index, answer: Answer, links: Links) -> _Document:
    tracks = [track for lane in answer.lanes for track in lane.tracks]
    names, name_of_form = _names(index, tracks)
    documents = iter([_track_document(track, name_of_form) for track in tracks])
    return {
        "from": answer.window.begin,
        "to": answer.window.end,
        "pixels": answer.window.columns,
        "dust_pixels": answer.factor,
        "names": names,
        "lanes": [
            {"lane": one.lane.number, "tracks": [next(documents) for _ in one.tracks]} for one in answer.lanes
        ],
        "links": {column: getattr(links, column).tolist() for column in Links.__dataclass_fields__},
        "marks": answer.marks,
    }


def _names(index: Index, tracks: list[TrackAnswer]) -> tuple[list[str], IntArray]:
    """The texts on the marks of some tracks, and the position of each form's there."""
    forms = np.unique(np.concatenate([np.zeros(0, np.int64), *(track.form for track in tracks)]))
    labels = [_cut(label) for label in index.forms.label.take(pa.array(forms)).to_pylist()]
    names = {name: number for number, name in enumerate(dict.fromkeys(labels))}
    name_of_form = np.zeros(len(index.forms.tone), np.int64)
    name_of_form[forms] = [names[label] for label in labels]
    return list(names), name_of_form


def _track_document(track: TrackAnswer, name_of_form: IntArray) -> _Document:
    return {
        "track": track.track.name,
        "marks": {
            "row": track.number.tolist(),
            "start": track.start.tolist(),
            "duration": track.duration.tolist(),
            "depth": track.depth.tolist(),
            "name": name_of_form[track.form].tolist(),
            "tone": track.tone.tolist(),
            "blocked": track.blocked.tolist(),
        },
        "dust": {
            "pixel": track.pixel.tolist(),
            "busy": np.round(track.busy, 4).tolist(),
            "count": track.count.tolist(),
            "tone": track.dust_tone.tolist(),
        },
    }


def _cut(name: str) -> str:
    """A name as an answer holds it: symbols of kernels can be as long as one likes."""
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def _row_document(row: FoundRow) -> _Document:
    return {
        "row": row.number,
        "lane": row.lane,
        "start": row.start,
        "duration": row.duration,
        "name": _cut(row.name),
    }
