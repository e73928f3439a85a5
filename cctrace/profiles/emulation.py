"""What `record --emulate` charges: some causes of a profile, in the form that the collector reads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from cctrace.errors import UnusableInputError
from cctrace.profiles.loader import CAUSES, Profile, load_profile

EMULATED_CAUSES: Final = ("launch", "overlap")
"""The causes that the native emulator can charge to a run."""

LAUNCH_KEYS: Final = ("kernel_us", "graph_us", "copy_us", "memset_us", "event_us")
OVERLAP_KEY: Final = "pinned_copies_block"

MAX_COST_US: Final = 1e6
"""One second for one submission: beyond it a value is a slip of the unit, and a server would seem to hang."""


@dataclass(frozen=True)
class Emulation:
    """The costs that are charged to a recorded program.

    Attributes:
        profile: name of the platform profile.
        causes: the causes that are charged, in the order of `EMULATED_CAUSES`.
        values: what is charged: `*_us` in microseconds per submission; `overlap` is 1 if pinned copies block.
    """

    profile: str
    causes: tuple[str, ...]
    values: Mapping[str, float]

    def environment_value(self) -> str:
        """Returns the value of `CCTRACE_EMULATE`."""
        return ",".join(f"{key}={value:.10g}" for key, value in self.values.items())

    def to_json(self) -> dict[str, Any]:
        """Returns the metadata's `emulation`."""
        return {"profile": self.profile, "causes": list(self.causes), "values": dict(self.values)}


def parse_emulation(text: str, overrides: Sequence[str] = ()) -> Emulation:
    """Reads `PROFILE[:cause,…]` and the `key=value` overrides of `--emulate-set`.

    Without causes, every cause is charged that the profile has and the emulator knows.

    Raises:
        UnusableInputError: unknown profile, a cause that does not exist or cannot be emulated, a bad
            override.
    """
    name, colon, wanted = text.rpartition(":")
    if not colon or wanted.endswith(".toml"):
        name, wanted = text, ""
    profile = load_profile(name)
    causes = _causes(profile, wanted, explicit=bool(colon and name != text))
    values: dict[str, float] = {}
    if "launch" in causes:
        launch = profile.values("launch")
        values.update({key: launch.get(key, 0.0) for key in LAUNCH_KEYS})
    for override in overrides:
        key, value = _override(override, causes)
        values[key] = value
    if "overlap" in causes:
        values["overlap"] = profile.values("overlap").get(OVERLAP_KEY, 0.0)
    return Emulation(profile.name, causes, MappingProxyType(values))


def _causes(profile: Profile, wanted: str, *, explicit: bool) -> tuple[str, ...]:
    if not explicit:
        available = tuple(cause for cause in EMULATED_CAUSES if profile.values(cause))
        if not available:
            raise UnusableInputError(
                f"--emulate: the profile {profile.name} has nothing that can be emulated: "
                f"no values for {' or '.join(EMULATED_CAUSES)}"
            )
        return available
    names = [name.strip() for name in wanted.split(",")]
    for name in names:
        if name not in CAUSES:
            raise UnusableInputError(f"--emulate: there is no cause {name!r}; causes are {', '.join(CAUSES)}")
        if name not in EMULATED_CAUSES:
            raise UnusableInputError(
                f"--emulate: the cause {name} cannot be emulated; "
                f"the emulator knows {', '.join(EMULATED_CAUSES)}"
            )
        if not profile.values(name):
            raise UnusableInputError(
                f"--emulate: the profile {profile.name} has no values for the cause {name}"
            )
    return tuple(cause for cause in EMULATED_CAUSES if cause in names)


def _override(text: str, causes: tuple[str, ...]) -> tuple[str, float]:
    key, equals, number = text.partition("=")
    key = key.strip()
    if not equals or key not in LAUNCH_KEYS:
        raise UnusableInputError(
            f"--emulate-set {text!r}: give one of {', '.join(LAUNCH_KEYS)} as key=microseconds"
        )
    if "launch" not in causes:
        raise UnusableInputError(f"--emulate-set {key}: the cause launch is not among those emulated")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= MAX_COST_US:
        raise UnusableInputError(
            f"--emulate-set {text!r}: microseconds must be a number from 0 to {MAX_COST_US:g}"
        )
    return key, value
