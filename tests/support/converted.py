"""A converted spool folder, as tests look at it."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from cctrace.collectors.spool import Conversion
from cctrace.trace import Trace, open_trace


class Converted:
    """What `convert` said, the trace, and its rows as a frame."""

    def __init__(self, conversion: Conversion) -> None:
        self.conversion = conversion
        self.trace: Trace = open_trace(conversion.path)
        self.metadata = self.trace.metadata
        self.frame: pd.DataFrame = self.trace.frame()

    def kind(self, *kinds: str) -> pd.DataFrame:
        """Rows of some kinds."""
        return self.frame[self.frame.kind.isin(kinds)].reset_index(drop=True)


Convert = Callable[..., Converted]
