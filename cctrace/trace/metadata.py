"""The metadata document of a trace: JSON in the Parquet file, and the same shape in `recording.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from cctrace.errors import UnusableInputError
from cctrace.trace.acceptance import Acceptance
from cctrace.trace.documents import (
    DocumentError,
    described,
    from_document,
    json_schema,
    to_document,
    unknown_keys,
)
from cctrace.trace.schema import FORMAT_VERSION
from cctrace.trace.settable import resolve
from cctrace.trace.state_check import StateCheck

MAX_DOCUMENT_BYTES: Final = 16 << 20
"""A document is refused above this size: a lane takes about 120 bytes, so this is a hundred thousand
lanes."""

SCHEMA_FILE: Final = Path(__file__).with_name("metadata.schema.json")
"""The published JSON schema."""


@dataclass(frozen=True)
class Recording:
    """The recorded command and the window that was recorded."""

    command: tuple[str, ...] | None = described("the recorded command and its arguments")
    started_at: str | None = described("begin of the recording, ISO 8601 with time zone")
    start_ns: int | None = described("begin of the recording", unit="ns, CLOCK_MONOTONIC")
    stop_ns: int | None = described("end of the recording", unit="ns, CLOCK_MONOTONIC")
    exit_code: int | None = described("exit code of the command; null if it was killed or still ran")
    exit_signal: int | None = described("signal that ended the command")
    window: Mapping[str, Any] | None = described(
        "limits that were asked for: delay_s, duration_s, steps, max_bytes"
    )
    step_pattern: str | None = described("patterns, separated by ';', of NVTX labels that are steps")
    host: str | None = described("name of the host")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Process:
    """One recorded process image: a process that calls exec has several."""

    pid: int = described("process", default=0)
    parent_pid: int | None = described("parent process")
    name: str | None = described("what ran, without its arguments")
    image_start_ns: int | None = described("when the image was loaded or forked", unit="ns, CLOCK_MONOTONIC")
    first_record_ns: int | None = described("begin of the first row", unit="ns, CLOCK_MONOTONIC")
    last_record_ns: int | None = described("end of the last row", unit="ns, CLOCK_MONOTONIC")
    records: int = described("rows of this process", default=0)
    torn_bytes: int = described(
        "bytes of an unfinished record at the end of its spool", unit="bytes", default=0
    )
    lost: Mapping[str, int] = field(
        default_factory=dict, metadata={"meaning": "reason -> records that were not kept"}
    )
    unmatched: Mapping[str, int] = field(
        default_factory=dict, metadata={"meaning": "what -> records that could not be joined and gave no row"}
    )
    tax_ns: Mapping[str, float] = field(
        default_factory=dict, metadata={"meaning": "what -> cost of recording one call", "unit": "ns"}
    )
    state: Mapping[str, str | int] = field(
        default_factory=dict, metadata={"meaning": "facts about the collector in this process"}
    )
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Collector:
    """What recorded, how, and what it could not keep."""

    version: str | None = described("version of cctrace that recorded")
    gpu_mode: str | None = described("source of GPU times", choices=("none", "stamps", "graphs", "nodes"))
    timing: str | None = described(
        "whether host times may be used for tolls", choices=("undisturbed", "distorted")
    )
    processes: tuple[Process, ...] = field(default=(), metadata={"meaning": "recorded process images"})
    notes: tuple[str, ...] = field(
        default=(), metadata={"meaning": "what a reader should know about the recording"}
    )
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class GpuClock:
    """How one process's GPU clock was mapped to CLOCK_MONOTONIC."""

    pid: int = described("process", default=0)
    device: int | None = described("CUDA device ordinal")
    readings: int = described("clock readings", default=0)
    kept: int = described("readings that were tight enough to use", default=0)
    drift_ppm: float | None = described("rate of the GPU clock against CLOCK_MONOTONIC", unit="ppm")
    drift_source: str | None = described("what the rate was taken from", choices=("readings", "launches"))
    residual_ns: float | None = described(
        "median distance of a kept reading from the mapping; null if there are too few to show one", unit="ns"
    )
    moved_ns: int = described(
        "what was added to all times because runs seemed to begin before their launches", unit="ns", default=0
    )
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Clock:
    """Readings that tie clocks together."""

    pairs: tuple[tuple[int, ...], ...] = field(
        default=(), metadata={"meaning": "CLOCK_MONOTONIC and CLOCK_REALTIME read together", "unit": "ns"}
    )
    gpu: tuple[GpuClock, ...] = field(default=(), metadata={"meaning": "mappings of GPU clocks"})
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Emulation:
    """Costs that the recorder charged to the program: this is no measurement of confidential computing."""

    profile: str | None = described("platform profile")
    causes: tuple[str, ...] = field(default=(), metadata={"meaning": "causes that were charged"})
    values: Mapping[str, Any] = field(default_factory=dict, metadata={"meaning": "what was to be charged"})
    injected: Mapping[str, Mapping[str, int]] | None = described(
        "cause -> what calls of the trace were really charged, by the recorder's clock: their `count`, their "
        "`sum_ns`; beside it, `queued_ns` of pcie: copies waiting for other threads' copies; null: not known"
    )
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Lane:
    """One host thread, GPU stream, or set of counters: rows of one lane are sorted by time."""

    lane: int = described("number, as in the column `lane`", default=0)
    pid: int = described("process", default=0)
    kind: str = described("what it is", choices=("thread", "stream", "graph", "counter"), default="thread")
    tid: int | None = described("host thread")
    role: str | None = described("role of the thread")
    device: int | None = described("CUDA device ordinal")
    stream: int | None = described("stream, as in the column `stream`")
    name: str | None = described("text for people")
    rows: int | None = described("rows of the lane")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Metadata:
    """The whole document. `None` is "not known"."""

    format_version: int = described("version of the trace format", default=FORMAT_VERSION)
    created_by: str | None = described("program that wrote the file, with its version")
    label: str | None = described("name that the user gave the recording")
    recording: Recording = field(default_factory=Recording)
    acceptance: Acceptance = field(default_factory=Acceptance)
    environment_variables: Mapping[str, str] = field(
        default_factory=dict, metadata={"meaning": "variables that matter, from an allow-list"}
    )
    collector: Collector = field(default_factory=Collector)
    clock: Clock = field(default_factory=Clock)
    emulation: Emulation | None = field(
        default=None, metadata={"meaning": "what the recorder charged; null if nothing was emulated"}
    )
    state_check: StateCheck | None = field(
        default=None,
        metadata={"meaning": "state of the GPUs right before the command started; null if not checked"},
    )
    lanes: tuple[Lane, ...] = field(default=(), metadata={"meaning": "host threads and GPU streams"})
    labels: tuple[str, ...] = field(
        default=(),
        metadata={"meaning": "warnings that every output must carry: emulated, distorted, devtools"},
    )
    extra: Mapping[str, Any] = unknown_keys()

    def to_document(self) -> dict[str, Any]:
        """The document as JSON types."""
        document: dict[str, Any] = to_document(self)
        return document

    def to_json(self, *, indent: int | None = None) -> str:
        """The document as JSON text. Raises ValueError for a number that JSON lacks (NaN, infinity)."""
        return json.dumps(self.to_document(), allow_nan=False, ensure_ascii=False, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Metadata:
        """Reads a document; raises UnusableInputError, without a file name, for what is not one."""
        return cls.from_document(parse(text))

    @classmethod
    def from_document(cls, document: Any) -> Metadata:
        """As `from_json`, from JSON types."""
        check_version(document)
        try:
            return from_document(cls, document)
        except DocumentError as error:
            raise UnusableInputError(f"the metadata is broken: {_short(str(error))}") from None

    def with_value(self, name: str, value: Any) -> Metadata:
        """A copy with one settable field set, as `--set name=value` does.

        Texts are converted to the field's type. Raises UnusableInputError for an unknown name (the message
        lists the nearest names) or a value that the field cannot hold.
        """
        path, converted = resolve(name, value)
        if len(path) == 1:
            return replace(self, **{path[0]: converted})
        area, key = path
        changed = replace(getattr(self.acceptance, area), **{key: converted})
        return replace(self, acceptance=replace(self.acceptance, **{area: changed}))


def parse(text: str | bytes) -> Any:
    """JSON text as JSON types, within bounds. Raises UnusableInputError."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise UnusableInputError(f"the metadata is larger than {MAX_DOCUMENT_BYTES >> 20} MiB")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        document = json.loads(text, parse_constant=_refuse_constant)
        json.dumps(document, ensure_ascii=False).encode(
            "utf-8"
        )  # finds lone surrogates, which cannot be written
    except (ValueError, RecursionError) as error:
        raise UnusableInputError(f"the metadata is not valid JSON ({_short(str(error))})") from None
    return document


def check_version(document: Any) -> None:
    """Raises UnusableInputError if the document is of a newer format version, or has none."""
    version = document.get("format_version") if isinstance(document, Mapping) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UnusableInputError("the metadata has no valid format_version")
    if version > FORMAT_VERSION:
        raise UnusableInputError(
            f"made by a newer cctrace (format {version}; this one reads up to {FORMAT_VERSION}): upgrade"
        )


def published_schema() -> dict[str, Any]:
    """The JSON schema of the document; `metadata.schema.json` holds the same."""
    schema = json_schema(Metadata)
    schema["required"] = ["format_version"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cctrace metadata",
        "description": "The key `cctrace` of a trace's Parquet metadata. Unknown keys are kept.",
        **schema,
    }


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _short(text: str, limit: int = 160) -> str:
    """One printable line: names and values in a document are data that nobody checked."""
    line = "".join(c if c.isprintable() else "?" for c in text)
    return line if len(line) <= limit else line[: limit - 1] + "…"
