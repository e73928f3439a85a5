"""Traces: their columns (`schema`), their metadata, reading and writing."""

from cctrace.trace.acceptance import Acceptance
from cctrace.trace.metadata import (
    Clock,
    Collector,
    Emulation,
    GpuClock,
    Lane,
    Metadata,
    Process,
    Recording,
)
from cctrace.trace.reader import Trace, open_trace, to_frame
from cctrace.trace.schema import COLUMNS, FORMAT_VERSION, KINDS, OPERATIONS, SCHEMA, SOURCES
from cctrace.trace.settable import SettableField, settable_fields
from cctrace.trace.state_check import GpuState, ReferenceLoop, StateCheck
from cctrace.trace.writer import TraceWriter

__all__ = [
    "COLUMNS",
    "FORMAT_VERSION",
    "KINDS",
    "OPERATIONS",
    "SCHEMA",
    "SOURCES",
    "Acceptance",
    "Clock",
    "Collector",
    "Emulation",
    "GpuClock",
    "GpuState",
    "Lane",
    "Metadata",
    "Process",
    "Recording",
    "ReferenceLoop",
    "SettableField",
    "StateCheck",
    "Trace",
    "TraceWriter",
    "open_trace",
    "settable_fields",
    "to_frame",
]
