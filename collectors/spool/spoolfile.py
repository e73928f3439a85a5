"""One spool file: checked header, records as a memory map, and where its texts lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.layout import MAGIC, RECORD, RECORD_BYTES, VERSION, Kind
from cctrace.errors import UnusableInputError

Records: TypeAlias = npt.NDArray[np.void]

CHUNK_RECORDS: Final = 64 << 10
"""Records looked at together, 4 MiB: the columns taken out of them stay in the processor's cache."""

_WORDS: Final = RECORD_BYTES // 8

MAX_TEXT_BYTES: Final = 4096
"""The collector cuts longer texts; a longer one is damage."""


class NotASpoolError(Exception):
    """A file that holds no spool; the message says why, without the file's name."""


@dataclass(frozen=True)
class SpoolFile:
    """An open spool.

    `records` is the whole file, header first; `torn_bytes` behind it are the begin of a record that was not
    finished.
    """

    path: Path
    records: Records
    torn_bytes: int

    @property
    def header(self) -> np.void:
        """The first record."""
        header: np.void = self.records[0]
        return header

    @property
    def pid(self) -> int:
        """Process that wrote it."""
        return int(self.header["tid"])


def open_spool(path: Path) -> SpoolFile:
    """Maps a spool into memory.

    Raises:
        NotASpoolError: it is empty or foreign, or cannot be read.
        UnusableInputError: it was written by a newer collector.
    """
    try:
        size = path.stat().st_size if path.is_file() else 0
        count = size // RECORD_BYTES
        if not count:
            raise NotASpoolError("holds no record")
        records: Records = np.asarray(np.memmap(path, RECORD, mode="r", shape=(count,)))
    except OSError as error:
        raise NotASpoolError(f"cannot be read: {error.strerror or error}") from None
    header = records[0]
    if header["kind"] != Kind.HEADER or header["link"] != MAGIC:
        raise NotASpoolError("is not a spool of cctrace")
    if header["bytes"] > VERSION:
        raise UnusableInputError(
            f"{path}: made by a newer cctrace (spool version {header['bytes']}): upgrade"
        )
    if header["bytes"] < 1 or not 0 < header["tid"] < 2**31:
        raise NotASpoolError("has a damaged header")
    return SpoolFile(path, records, size % RECORD_BYTES)


def take(records: Records, places: npt.NDArray[Any]) -> Records:
    """A copy of the records at `places` (numbers or a mask)."""
    # Indexing copies a record field by field, and `np.take` words eight at a time, in a fifth of the time.
    if places.dtype == np.bool_:
        places = np.flatnonzero(places)
    words = np.take(records.view(np.uint64).reshape(-1, _WORDS), places, axis=0)
    taken: Records = words.view(RECORD).reshape(-1)
    return taken


def joined(parts: Sequence[Records]) -> Records:
    """A copy of several arrays of records, one behind the other; empty for none."""
    words = [part.view(np.uint64) for part in parts if len(part)]
    if not words:
        return np.zeros(0, dtype=RECORD)
    return np.concatenate(words).view(RECORD)


@dataclass(frozen=True)
class Chunk:
    """Records from `base` on; `kinds` is 0 where a text lies: its bytes are no records."""

    base: int
    records: Records
    kinds: npt.NDArray[np.uint8]
    strings: npt.NDArray[np.intp]


def chunks(records: Records) -> Iterator[Chunk]:
    """All records in order, in pieces, with the blocks of texts told apart."""
    skip = 0
    for base in range(0, len(records), CHUNK_RECORDS):
        piece = records[base : base + CHUNK_RECORDS]
        kinds = piece["kind"].copy()
        kinds[:skip] = 0
        skip = max(0, skip - len(piece))
        candidates = np.flatnonzero(kinds == Kind.STRING)
        strings = candidates
        if len(candidates):
            blocks = _text_blocks(piece["bytes"][candidates])
            strings = _not_inside(candidates, blocks)
            if len(strings) != len(candidates):
                blocks = _text_blocks(piece["bytes"][strings])
            ends = strings + 1 + blocks
            skip = max(skip, int(ends[-1]) - len(piece))
            kinds[_spans(strings, np.minimum(ends, len(piece)))] = 0
        yield Chunk(base, piece, kinds, strings)


def text_at(records: Records, position: int) -> str | None:
    """The text of the string record at `position`; None if the file ends before the text does."""
    length = int(records[position]["bytes"])
    blocks = -(-length // RECORD_BYTES)
    if length > MAX_TEXT_BYTES or position + 1 + blocks > len(records):
        return None
    raw = records[position + 1 : position + 1 + blocks].tobytes()[:length]
    return raw.decode("utf-8", errors="replace")


def _text_blocks(lengths: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    # A longer length than the collector writes is damage; the text's own blocks then read as unknown records.
    lengths = np.where(lengths > MAX_TEXT_BYTES, 0, lengths)
    return -(-lengths.astype(np.intp) // RECORD_BYTES)


def _not_inside(candidates: npt.NDArray[np.intp], blocks: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """String records only: text may hold a block that looks like one."""
    if bool(np.all(candidates[1:] > candidates[:-1] + blocks[:-1])):
        return candidates
    kept = []
    end = -1
    for position, count in zip(candidates.tolist(), blocks.tolist(), strict=True):
        if position > end:
            kept.append(position)
            end = position + count
    return np.array(kept, dtype=np.intp)


def _spans(starts: npt.NDArray[np.intp], ends: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """All positions of the half-open spans, one after the other."""
    lengths = ends - starts
    offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return offsets + np.arange(int(lengths.sum()))
