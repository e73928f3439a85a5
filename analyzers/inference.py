"""Steps of a program that marks none: the call that comes once a step, found from the structure of the calls.

Distance alone misleads. A graph cut at each of 28 layers repeats more regularly than the step does, and a
kernel that every layer launches is the most regular call of an eager step. Three observations tell a step
from a layer:

- *boundary*: in each step the host gets something back from the GPU (a copy to the host, a synchronization).
  A stretch between two layers holds neither.
- *votes*: many different calls come exactly once a step, so the number of steps is the count that most
  different calls share.
- *consistency*: a step holds the same calls as the step before it, or as one of the few before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.calls import OPERATION_WORDS, SUBMIT, CallForms, Calls
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.trace.schema import COPY_KINDS

WINDOW_CALLS: Final = 60_000
"""Calls at the end of a thread that are searched first: start-up comes first, and this many calls hold more
than 20 steps of the longest eager decode steps seen (2000 calls)."""
WIDE_WINDOW_CALLS: Final = 200_000
"""Second try, for a thread that ends in something else than its loop."""
NARROW_WINDOWS: Final = (15_000, 4_000)
"""Looked at besides: of a short run the last calls hold only its loop. The loading of weights repeats a copy
and its synchronization for every tensor, more often than a short run has steps."""
MUCH_CLEARER: Final = 2.0
"""The call found among fewer calls must be so much clearer: what comes last may be the program's end."""
MIN_CLARITY: Final = 4.0
"""Clarity that must be beaten where nothing was found: a few alike calls at the end of a run are no loop."""
MIN_STEPS: Final = 5
"""Fewer repetitions than this are no structure."""
MIN_BOUNDARY_SHARE: Final = 0.9
"""Part of the candidate's stretches that must hold a copy to the host or a synchronization."""
ENOUGH_VOTES: Final = 16
"""More different calls than this say no more: vLLM's steps have 10 to 21. Without a bound, a short phase with
many kernels of its own would outvote a long one with few."""
COUNT_TOLERANCE: Final = 0.02
"""Two calls come equally often if their counts differ by no more (first and last step, rare extra calls)."""
SIMILAR: Final = 0.8
"""Two stretches are alike if this part of their calls is the same: one prefill among decode steps is not, one
more event or copy in a step is."""
MAX_LAG: Final = 4
"""Stretches back that a stretch may resemble: engines that alternate two or three buffers, or mix in
prefill."""
LAG_PENALTY: Final = 0.8
"""Resembling only the stretch before last is worse: a call that comes twice a step looks so."""
EQUAL_SCORE: Final = 0.9
"""Calls that come equally often and score within this part of the best may begin the step; the preferred one
does."""
GENERAL_LOSS: Final = 0.02
"""Regularity that may be lost when sizes are left out of the anchor: one prefill in fifty steps."""
MIN_CONFIDENCE: Final = 0.6
"""Below this part of alike stretches no steps are reported."""
MAX_SCORED: Final = 16
"""Candidates whose consistency is computed: the best by votes."""
MAX_MATRIX: Final = 30_000_000
"""Cells of the (stretch × different call) count matrix; beyond it only the last stretches are compared."""
_BYTES_BUCKETS: Final = 64
_WIDER: Final = 4
"""So many times more calls are looked at, if too few of the last ones are submissions or waits."""


@dataclass(frozen=True, eq=False)
class Anchor:
    """The call that begins a step.

    Attributes:
        start_ns: begin of each occurrence on its thread, in order.
        description: the call in words, e.g. "copy d2h".
        confidence: part (0–1) of the stretches between two occurrences that hold the same calls as a recent
            one, over the calls that were searched.
        votes: different calls that come equally often.
        self_shift: part (0–1) of the calls that are equal to the call one median stretch earlier; confirms
            the period.
    """

    start_ns: IntArray
    description: str
    confidence: float
    votes: int
    self_shift: float


@dataclass(frozen=True)
class NoAnchor:
    """Why no step structure was found."""

    reason: str


@dataclass(frozen=True, eq=False)
class _Keys:
    """What the calls of a sequence are, at one level of detail: a number per call, and words per number."""

    of_call: IntArray
    words: tuple[str, ...]
    preference: IntArray


@dataclass(frozen=True, eq=False)
class _Sequence:
    """Submissions and blocking waits of one thread; `rows` are their positions among the thread's calls.

    The levels of detail: operation; with stream and symbol; with the size too.
    """

    rows: IntArray
    start_ns: IntArray
    levels: tuple[_Keys, ...]

    @property
    def structure(self) -> _Keys:
        """The level at which steps are compared: sizes change from step to step, kernels do not."""
        return self.levels[1]


@dataclass(frozen=True)
class _Candidate:
    """One call that might begin a step."""

    level: int
    key: int
    count: int
    preference: int
    votes: int


def find_anchor(thread: Calls, boundary_ns: IntArray) -> Anchor | NoAnchor:
    """The call of one thread that comes once a step.

    Args:
        thread: the calls of one thread.
        boundary_ns: sorted begin times of all calls of the process that bring something back to the host
            (`Calls.is_host_boundary`); another thread may read the tokens back.

    Returns:
        The anchor, or the reason why there is none.
    """
    found: _Candidate | NoAnchor = NoAnchor("no call repeats")
    for window in (WINDOW_CALLS, WIDE_WINDOW_CALLS):
        sequence = _sequence(thread, window)
        if len(sequence.start_ns) < 2 * MIN_STEPS:
            return NoAnchor(f"the thread made only {len(sequence.start_ns)} submissions and synchronizations")
        found = _search(sequence, boundary_ns)
        if isinstance(found, _Candidate) or len(sequence.start_ns) < window:
            break
    sequence, found = _clearest(thread, boundary_ns, sequence, found)
    return _anchor(thread, sequence, found) if isinstance(found, _Candidate) else found


def _clearest(
    thread: Calls, boundary_ns: IntArray, sequence: _Sequence, found: _Candidate | NoAnchor
) -> tuple[_Sequence, _Candidate | NoAnchor]:
    """What was found, or what is much clearer among fewer of the last calls, with the calls searched."""
    clarity = _clarity(sequence, found)
    for window in NARROW_WINDOWS:
        if window >= len(sequence.start_ns):
            continue
        last = _sequence(thread, window)
        other = _search(last, boundary_ns)
        if _clarity(last, other) >= MUCH_CLEARER * clarity:
            return last, other
    return sequence, found


def _clarity(sequence: _Sequence, found: _Candidate | NoAnchor) -> float:
    if isinstance(found, NoAnchor):
        return MIN_CLARITY
    return min(found.votes, ENOUGH_VOTES) * _regularity(sequence, found) ** 2


def _sequence(thread: Calls, wanted: int) -> _Sequence:
    """The last submissions and blocking waits of a thread."""
    rows = _last_rows(thread, (thread.forms.kind == SUBMIT) | thread.forms.is_blocking_wait, wanted)
    calls = thread.pick(rows)
    levels = tuple(_keys(calls, level, values) for level, values in enumerate(_raw_keys(calls)))
    return _Sequence(rows, calls.start_ns, levels)


def _last_rows(thread: Calls, of_forms: BoolArray, wanted: int) -> IntArray:
    """Positions of the last calls whose form is chosen, as many as wanted if there are so many."""
    looked_at = wanted
    while True:
        begin = max(len(thread) - looked_at, 0)
        rows = np.flatnonzero(of_forms[thread.form[begin:]]) + begin
        if len(rows) >= wanted or not begin:
            return rows[-wanted:]
        looked_at *= _WIDER


def _raw_keys(calls: Calls | CallForms) -> tuple[IntArray, ...]:
    """One number per call, or form, and level of detail; equal numbers are equal calls, in all of a trace."""
    directions = len(COPY_KINDS) + 1
    operation = np.maximum(calls.operation.astype(np.int64), 0) * directions + calls.copy_kind + 1
    stream = np.minimum(calls.stream + 1, 0xFFF)
    structure = (operation << 12 | stream) * (len(calls.symbols) + 1) + calls.symbol + 1
    bucket = np.where(calls.bytes > 0, np.log2(np.maximum(calls.bytes, 1)).astype(np.int64) + 1, 0)
    return operation, structure, structure * _BYTES_BUCKETS + bucket


def _keys(calls: Calls, level: int, raw: IntArray) -> _Keys:
    _, first, of_call = np.unique(raw, return_index=True, return_inverse=True)
    words = [call_words(calls, int(row)) for row in first]
    preference = np.array([_preference(word) for word in words], np.int64)
    if level >= 1:
        words = [_with_symbol(calls, int(row), word) for row, word in zip(first, words, strict=True)]
    if level >= 2:
        words = [_with_bytes(calls, int(row), word) for row, word in zip(first, words, strict=True)]
    return _Keys(of_call.astype(np.int64), tuple(words), preference)


def call_words(calls: Calls, row: int) -> str:
    """What a call does, in the words of the output: "kernel", "copy d2h"."""
    operation = OPERATION_WORDS[calls.operation[row]] if calls.operation[row] >= 0 else "unknown"
    return f"{operation} {COPY_KINDS[calls.copy_kind[row]]}" if calls.copy_kind[row] >= 0 else operation


def _with_symbol(calls: Calls, row: int, word: str) -> str:
    return f"{word} {calls.symbols[calls.symbol[row]]}" if calls.symbol[row] >= 0 else word


def _with_bytes(calls: Calls, row: int, word: str) -> str:
    return f"{word} of about {int(calls.bytes[row])} bytes" if calls.bytes[row] > 0 else word


def _preference(word: str) -> int:
    """Which of the calls that come once a step begins it: a read-back is in prefill and decode alike."""
    order = ("copy d2h", "event-sync", "stream-sync", "context-sync", "graph", "copy h2d", "event-record")
    return order.index(word) if word in order else len(order)


def _search(window: _Sequence, boundary_ns: IntArray) -> _Candidate | NoAnchor:
    candidates = _candidates(window, boundary_ns)
    if not candidates:
        return NoAnchor(
            f"no submission or synchronization repeats at least {MIN_STEPS} times "
            "with a copy to the host or a synchronization in between"
        )
    best_first = sorted(candidates, key=lambda c: -_weight(c))[:MAX_SCORED]
    scored = [(_regularity(window, candidate), candidate) for candidate in best_first]
    regularity, top = max(scored, key=lambda item: _weight(item[1]) * item[0] ** 2)
    if regularity < MIN_CONFIDENCE:
        return NoAnchor(
            f"the most regular call ({_words(window, top)}) is followed by the same calls "
            f"in only {regularity:.0%} of cases"
        )
    equals = [
        candidate
        for value, candidate in scored
        if _weight(candidate) * value**2 >= EQUAL_SCORE * _weight(top) * regularity**2
        and abs(candidate.count - top.count) <= _tolerance(top.count)
    ]
    chosen = min(equals, key=lambda c: (c.preference, c.level, -c.count))
    return _most_general(window, chosen, candidates)


def _most_general(window: _Sequence, chosen: _Candidate, candidates: list[_Candidate]) -> _Candidate:
    """The same call without size or symbol, if as regular: other batch sizes then begin a step too."""
    row = int(_positions(window, chosen)[0])
    limit = _regularity(window, chosen) - GENERAL_LOSS
    for candidate in sorted(candidates, key=lambda c: c.level):
        if candidate.level >= chosen.level:
            break
        same_call = window.levels[candidate.level].of_call[row] == candidate.key
        if same_call and _regularity(window, candidate) >= limit:
            return candidate
    return chosen


def _regularity(window: _Sequence, candidate: _Candidate) -> float:
    previous, recent = _consistency(window, _positions(window, candidate))
    return float(np.where(previous >= SIMILAR, 1.0, np.where(recent >= SIMILAR, LAG_PENALTY, 0.0)).mean())


def _candidates(window: _Sequence, boundary_ns: IntArray) -> list[_Candidate]:
    occurrences: dict[tuple[int, int, int], tuple[int, int]] = {}
    times: dict[tuple[int, int, int], IntArray] = {}
    for level, keys in enumerate(window.levels):
        counts = np.bincount(keys.of_call, minlength=len(keys.words))
        order = np.argsort(keys.of_call, kind="stable")
        ends = np.cumsum(counts)
        for key in np.flatnonzero(counts >= MIN_STEPS).tolist():
            positions = order[ends[key] - counts[key] : ends[key]]
            # A finer key with the very same occurrences as a coarser one adds nothing.
            same = (int(positions[0]), int(positions[-1]), len(positions))
            if same not in occurrences:
                occurrences[same] = (level, key)
                times[same] = window.start_ns[positions]
    all_counts = np.array([count for _, _, count in occurrences], np.int64)
    found = []
    for same, (level, key) in occurrences.items():
        count = same[2]
        inside = np.diff(np.searchsorted(boundary_ns, times[same]))
        if float((inside > 0).mean()) >= MIN_BOUNDARY_SHARE:
            votes = int((np.abs(all_counts - count) <= _tolerance(count)).sum())
            found.append(_Candidate(level, key, count, int(window.levels[level].preference[key]), votes))
    return found


def _tolerance(count: int) -> float:
    return max(1.0, COUNT_TOLERANCE * count)


def _weight(candidate: _Candidate) -> float:
    """Calls explained as coming once a step. By votes alone, kernels of prefill steps would win."""
    return float(min(candidate.votes, ENOUGH_VOTES) * candidate.count)


def _positions(sequence: _Sequence, candidate: _Candidate) -> IntArray:
    return np.flatnonzero(sequence.levels[candidate.level].of_call == candidate.key)


def _words(sequence: _Sequence, candidate: _Candidate) -> str:
    return sequence.levels[candidate.level].words[candidate.key]


def _consistency(sequence: _Sequence, positions: IntArray) -> tuple[FloatArray, FloatArray]:
    """How much of each stretch (from the second on) is in the one before, and in the best of a few before."""
    kinds = len(sequence.structure.words)
    keep = max(MIN_STEPS, MAX_MATRIX // max(kinds, 1))
    positions = positions[-keep - 1 :]
    first, last = int(positions[0]), int(positions[-1])
    stretch = np.searchsorted(positions, np.arange(first, last), side="right") - 1
    stretches = len(positions) - 1
    cells = np.bincount(stretch * kinds + sequence.structure.of_call[first:last], minlength=stretches * kinds)
    counts = cells.reshape(stretches, kinds)
    size = counts.sum(axis=1)
    previous = np.zeros(stretches, np.float64)
    best = np.zeros(stretches, np.float64)
    for lag in range(1, min(MAX_LAG, stretches - 1) + 1):
        common = np.minimum(counts[lag:], counts[:-lag]).sum(axis=1)
        alike = common / np.maximum(np.maximum(size[lag:], size[:-lag]), 1)
        best[lag:] = np.maximum(best[lag:], alike)
        if lag == 1:
            previous[1:] = alike
    return previous[1:], best[1:]


def _anchor(thread: Calls, sequence: _Sequence, candidate: _Candidate) -> Anchor:
    positions = _positions(sequence, candidate)
    consistency = _consistency(sequence, positions)[1]
    return Anchor(
        start_ns=_occurrences_ns(thread, sequence, candidate),
        description=_words(sequence, candidate),
        confidence=float((consistency >= SIMILAR).mean()) if len(consistency) else 0.0,
        votes=candidate.votes,
        self_shift=_self_shift(sequence.structure.of_call, int(np.median(np.diff(positions)))),
    )


def _occurrences_ns(thread: Calls, sequence: _Sequence, candidate: _Candidate) -> IntArray:
    """Begin of every call of the whole thread that equals the candidate."""
    example = int(sequence.rows[_positions(sequence, candidate)[0]])
    forms, form = thread.forms, thread.form[example]
    of_forms = np.ones(len(forms), np.bool_)
    for one in (forms.operation, forms.kind, _raw_keys(forms)[candidate.level]):
        of_forms &= one == one[form]
    begin: IntArray = thread.start_ns[np.flatnonzero(thread.each(of_forms))]
    return begin


def _self_shift(keys: IntArray, period: int) -> float:
    """Part of the calls equal to the call one period earlier, the period off by at most one call."""
    matches: list[float] = []
    for shift in range(max(1, period - 1), period + 2):
        if shift < len(keys):
            equal: BoolArray = keys[shift:] == keys[:-shift]
            matches.append(float(equal.mean()))
    return max(matches, default=0.0)
