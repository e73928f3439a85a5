"""Which copies the page of copies shows: what there is to choose from, and what an address asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.columns import BoolArray
from cctrace.analyzers.copy_points import SCOPES, CopyGroup, CopyPoints
from cctrace.analyzers.copy_rows import GPU, LAYERS
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.view import ONE, Run
from cctrace.profiles.shipped import profile_names
from cctrace.trace.schema import COPY_KINDS, MEMORY_KINDS

ALL: Final = "all"
NONE: Final = "none"
CALLS, ON_GPU = LAYERS
STEADY, WHOLE = SCOPES
DIRECTIONS: Final = {
    "h2d": "host to device",
    "d2h": "device to host",
    "d2d": "within the device",
    "p2p": "between GPUs",
    "h2h": "within the host",
    "other": "other",
    "unknown": "unknown direction",
}
"""Directions in the order in which they are shown."""
NO_MEMORY: Final = "no host memory"
_Option = tuple[str, str]


@dataclass(frozen=True, eq=False)
class ArmCopies:
    """The copies of one arm."""

    arm: str
    run: Run
    points: CopyPoints

    @property
    def prefix(self) -> str:
        """What names of the arm's lines begin with: nothing if there is one arm."""
        return "" if self.arm == ONE else f"{self.arm}: "

    @property
    def thread_keys(self) -> list[str]:
        """Names of the threads that mean the same in another recording: role, and which of several."""
        keys: list[str] = []
        for thread in self.points.threads:
            before = sum(one.role == thread.role for one in self.points.threads[: len(keys)])
            keys.append(f"{thread.role} {before + 1}" if before else thread.role)
        return keys


@dataclass(frozen=True)
class Choice:
    """What an address asks for.

    Attributes:
        layer: CALLS or ON_GPU.
        scope: STEADY or WHOLE.
        direction: a key of DIRECTIONS, or ALL.
        memory: host memory, or ALL.
        thread: a key of a thread, or ALL.
        profile: name of a platform profile, or NONE.
    """

    layer: str
    scope: str
    direction: str
    memory: str
    thread: str
    profile: str

    def mask(self, one: ArmCopies, direction: str) -> BoolArray:
        """Which points of an arm are drawn in the chart of a direction."""
        points = one.points
        mask = (points.layer == LAYERS.index(self.layer)) & (points.direction == _code(direction))
        if self.scope == STEADY:
            mask &= points.steady
        if self.memory != ALL:
            mask &= points.memory == _memory_code(self.memory)
        if self.thread != ALL and self.layer == CALLS:
            keys = one.thread_keys
            mask &= points.thread == (keys.index(self.thread) if self.thread in keys else len(keys))
        chosen: BoolArray = mask
        return chosen

    def groups(self, one: ArmCopies) -> list[CopyGroup]:
        """The tables of an arm that are shown; they hold all threads."""
        return [
            group
            for group in one.points.groups
            if (group.layer, group.scope) == (self.layer, self.scope)
            and self.direction in (ALL, group.direction)
            and self.memory in (ALL, group.host_memory or NO_MEMORY)
        ]


@dataclass(frozen=True)
class Options:
    """What there is to choose from: (value, text) of each, the usual one first."""

    layers: tuple[_Option, ...]
    scopes: tuple[_Option, ...]
    directions: tuple[_Option, ...]
    memories: tuple[_Option, ...]
    threads: tuple[_Option, ...]
    profiles: tuple[_Option, ...]


def options_of(arms: Sequence[ArmCopies]) -> Options:
    """What there is to choose from in these arms."""
    return Options(
        layers=_layers(arms),
        scopes=_scopes(arms),
        directions=_directions(arms),
        memories=_memories(arms),
        threads=_threads(arms),
        profiles=((NONE, NONE), *((name, name) for name in profile_names() if name != "zero")),
    )


def choice_of(state: Address, options: Options) -> Choice:
    """What an address asks for, of what there is; what makes no sense is as if it were not there."""

    def chosen(key: str, of: tuple[_Option, ...]) -> str:
        return state.choice(key, tuple(value for value, _ in of))

    return Choice(
        layer=chosen("time", options.layers),
        scope=chosen("scope", options.scopes),
        direction=chosen("direction", options.directions),
        memory=chosen("memory", options.memories),
        thread=chosen("thread", options.threads),
        profile=chosen("profile", options.profiles),
    )


def shown_directions(arms: Sequence[ArmCopies], choice: Choice) -> list[str]:
    """Directions that have a chart."""
    wanted = DIRECTIONS if choice.direction == ALL else (choice.direction,)
    return [one for one in wanted if any(choice.mask(arm, one).any() for arm in arms)]


def kind_text(direction: str, host_memory: str) -> str:
    """`host to device, pinned`."""
    words = DIRECTIONS.get(direction, direction)
    return f"{words}, {host_memory}" if host_memory else words


def groups_by_kind(arms: Sequence[ArmCopies], choice: Choice) -> list[list[tuple[ArmCopies, CopyGroup]]]:
    """The groups of all arms, those of one direction and memory together."""
    found: dict[tuple[int, str], list[tuple[ArmCopies, CopyGroup]]] = {}
    order = list(DIRECTIONS)
    for one in arms:
        for group in choice.groups(one):
            found.setdefault((order.index(group.direction), group.host_memory), []).append((one, group))
    return [found[key] for key in sorted(found)]


def memory_name(code: int) -> str:
    """Name of the host memory of a point."""
    return MEMORY_KINDS[code] if code >= 0 else NO_MEMORY


def _code(direction: str) -> int:
    return COPY_KINDS.index(direction) if direction in COPY_KINDS else -1


def _memory_code(name: str) -> int:
    return MEMORY_KINDS.index(name) if name in MEMORY_KINDS else -1


def _layers(arms: Sequence[ArmCopies]) -> tuple[_Option, ...]:
    calls, on_gpu = (CALLS, "the host call"), (ON_GPU, "the copy on the GPU")
    seen = [bool((one.points.layer == GPU).any()) for one in arms]
    if not any(seen):
        return (calls,)
    # Host times that CUPTI has lengthened are what nobody asks for first.
    gpu_first = all(seen) and all(one.points.distorted for one in arms)
    return (on_gpu, calls) if gpu_first else (calls, on_gpu)


def _scopes(arms: Sequence[ArmCopies]) -> tuple[_Option, ...]:
    everything = (WHOLE, "the whole recording")
    if any(one.points.steady.any() for one in arms):
        return ((STEADY, "steady steps"), everything)
    return (everything,)


def _directions(arms: Sequence[ArmCopies]) -> tuple[_Option, ...]:
    codes = {int(code) for one in arms for code in np.unique(one.points.direction)}
    found = [(key, text) for key, text in DIRECTIONS.items() if _code(key) in codes]
    return ((ALL, ALL), *found) if len(found) != 1 else tuple(found)


def _memories(arms: Sequence[ArmCopies]) -> tuple[_Option, ...]:
    codes = sorted({int(code) for one in arms for code in np.unique(one.points.memory)}, reverse=True)
    names = [memory_name(code) for code in codes]
    return ((ALL, ALL), *((name, name) for name in names)) if len(names) != 1 else ((ALL, names[0]),)


def _threads(arms: Sequence[ArmCopies]) -> tuple[_Option, ...]:
    found: dict[str, dict[str, str]] = {}
    for one in arms:
        for key, thread in zip(one.thread_keys, one.points.threads, strict=True):
            found.setdefault(key, {})[one.arm] = str(thread.tid)
    options = [(key, _thread_text(key, tids)) for key, tids in found.items()]
    return ((ALL, ALL), *options) if len(options) != 1 else ((ALL, options[0][1]),)


def _thread_text(key: str, tids: Mapping[str, str]) -> str:
    names = [tid if arm == ONE else f"{arm} {tid}" for arm, tid in tids.items()]
    return f"{key} ({', '.join(names)})"
