"""An index of a trace for drawing: any stretch of time, at any zoom, in milliseconds.

`reading` puts all rows in few bytes each; `index` divides them into lanes and tracks (`division`, `tracks`),
with a pyramid of row blocks over each track (`levels`). `gather` finds what is visible at a zoom; `query`
makes an answer of it. `search`, `links` and `details` answer what one asks about single rows, `step_places`
where steps are. Times are nanoseconds from the index's `base_ns`, where nothing else is said.
"""

from cctrace.analyzers.viewport.details import RowDetails, Value, row_details
from cctrace.analyzers.viewport.gather import Window
from cctrace.analyzers.viewport.index import Index, build_index
from cctrace.analyzers.viewport.lanes import Lane
from cctrace.analyzers.viewport.links import Links, linked_rows, links_of
from cctrace.analyzers.viewport.query import (
    MAX_COLUMNS,
    MAX_ITEMS,
    MAX_LANES,
    Answer,
    LaneAnswer,
    TrackAnswer,
    visible,
)
from cctrace.analyzers.viewport.search import (
    FoundName,
    FoundRow,
    found_names,
    next_blocking_copy,
    next_by_name,
)
from cctrace.analyzers.viewport.step_places import (
    StepPlace,
    class_named,
    place_of,
    step_at,
    step_of_class,
    typical_step,
)
from cctrace.analyzers.viewport.tones import TONES, TRACKS, Tone

__all__ = [
    "MAX_COLUMNS",
    "MAX_ITEMS",
    "MAX_LANES",
    "TONES",
    "TRACKS",
    "Answer",
    "FoundName",
    "FoundRow",
    "Index",
    "Lane",
    "LaneAnswer",
    "Links",
    "RowDetails",
    "StepPlace",
    "Tone",
    "TrackAnswer",
    "Value",
    "Window",
    "build_index",
    "class_named",
    "found_names",
    "linked_rows",
    "links_of",
    "next_blocking_copy",
    "next_by_name",
    "place_of",
    "row_details",
    "step_at",
    "step_of_class",
    "typical_step",
    "visible",
]
