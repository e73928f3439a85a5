"""The overrides of `record --emulate-set`: `cause.key=value`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from cctrace.errors import UnusableInputError
from cctrace.profiles.charges import (
    FACTOR_KEYS,
    LATENCY_KEY,
    LAUNCH_KEYS,
    OVERLAP_KEY,
    TABLE_KEYS,
    Charge,
    Table,
)
from cctrace.profiles.model import MAX_BYTES, MAX_FACTOR, MAX_NODES, MAX_US

MAX_COST_US: Final = 1e6
"""One second for one submission: beyond it a value is a slip of the unit, and a server would seem to hang."""

TOLL_KEY: Final = "toll_us"
TOLL_MEANS: Final = ("kernel_us", "graph_us", "copy_us", "memset_us")
"""What `launch.toll_us` sets: every kind that is a submission. Events are none (docs/profiles.md)."""
SCALE_KEY: Final = "scale"
BLOCK_KEY: Final = "pinned_copies_block"

KEYS: Final = {
    "launch": (TOLL_KEY, *LAUNCH_KEYS),
    "pcie": (*TABLE_KEYS, SCALE_KEY),
    "overlap": (BLOCK_KEY,),
    "nvlink": (*FACTOR_KEYS, LATENCY_KEY),
}
"""What can be set, by cause. No key belongs to two causes, so that the cause may be left out."""

_SIZE: Final = re.compile(r"[0-9]{1,15}")
_CAUSE_OF: Final = {key: cause for cause, keys in KEYS.items() for key in keys}


@dataclass(frozen=True)
class Override:
    """One value in place of the profile's.

    Attributes:
        text: as the user wrote it.
    """

    text: str
    cause: str
    key: str
    value: Charge


def parse_override(text: str) -> Override:
    """Reads `cause.key=value`, or `key=value`.

    Raises:
        UnusableInputError: an unknown cause or key, or a value that does not fit it.
    """
    name, equals, value = text.partition("=")
    cause, dot, key = name.strip().rpartition(".")
    if dot and cause not in KEYS:
        raise UnusableInputError(
            f"--emulate-set {text!r}: there is no cause {cause!r}; causes are {', '.join(KEYS)}"
        )
    cause = cause or _CAUSE_OF.get(key, "")
    if key not in KEYS.get(cause, ()):
        known = KEYS[cause] if dot else tuple(_CAUSE_OF)
        raise UnusableInputError(
            f"--emulate-set {text!r}: there is no key {key!r}{f' of {cause}' if dot else ''}; "
            f"keys are {', '.join(known)}"
        )
    if not equals:
        raise UnusableInputError(f"--emulate-set {text!r}: give it as {cause}.{key}=VALUE")
    return Override(text, cause, key, _value(text, key, value.strip()))


def apply(change: Override, charges: dict[str, Charge]) -> None:
    """Puts an override into what is charged.

    Raises:
        UnusableInputError: there is no table that could be scaled, or it would cost too much.
    """
    if change.key == TOLL_KEY:
        charges.update(dict.fromkeys(TOLL_MEANS, change.value))
    elif change.key == BLOCK_KEY:
        charges[OVERLAP_KEY] = change.value
    elif change.key == SCALE_KEY and isinstance(change.value, float):
        tables = {key: charge for key, charge in charges.items() if isinstance(charge, Table)}
        if not tables:
            raise UnusableInputError(f"--emulate-set {change.text!r}: the profile has no table to scale")
        for key, table in tables.items():
            scaled = tuple(us * change.value for us in table.us)
            if max(scaled) > MAX_US:
                raise UnusableInputError(
                    f"--emulate-set {change.text!r}: {key} would cost more than {MAX_US:g} µs"
                )
            charges[key] = Table(table.bytes, scaled)
    else:
        charges[change.key] = change.value


def _value(text: str, key: str, value: str) -> Charge:
    if key in TABLE_KEYS:
        return _table(text, value)
    if key == BLOCK_KEY:
        number = _number(value, 0.0, 1.0)
        if number not in (0.0, 1.0):
            raise UnusableInputError(f"--emulate-set {text!r}: {key} is a rule, give 0 or 1")
        return number
    if key in FACTOR_KEYS or key == SCALE_KEY:
        low = 0.0 if key == SCALE_KEY else 1.0
        number = _number(value, low, MAX_FACTOR)
        if number is None:
            raise UnusableInputError(
                f"--emulate-set {text!r}: {key} must be a number from {low:g} to {MAX_FACTOR:g}"
            )
        return number
    number = _number(value, 0.0, MAX_COST_US)
    if number is None:
        raise UnusableInputError(
            f"--emulate-set {text!r}: microseconds must be a number from 0 to {MAX_COST_US:g}"
        )
    return number


def _table(text: str, value: str) -> Table:
    """Reads `64:4.5/1048576:140`."""
    nodes = [node.partition(":") for node in value.split("/")]
    sizes = tuple(int(size) for size, _, _ in nodes if _SIZE.fullmatch(size))
    costs = tuple(cost for _, _, text in nodes if (cost := _number(text, 0.0, MAX_US)) is not None)
    if not len(nodes) == len(sizes) == len(costs):
        raise UnusableInputError(
            f"--emulate-set {text!r}: give a table as BYTES:µs/BYTES:µs/…, such as 64:4.5/1048576:140"
        )
    if len(nodes) > MAX_NODES:
        raise UnusableInputError(f"--emulate-set {text[:40]!r}…: a table has at most {MAX_NODES} sizes")
    if any(later <= size for size, later in pairwise(sizes)) or not 1 <= sizes[0] <= sizes[-1] <= MAX_BYTES:
        raise UnusableInputError(f"--emulate-set {text!r}: sizes must ascend, from 1 to {MAX_BYTES} bytes")
    return Table(sizes, costs)


def _number(text: str, low: float, high: float) -> float | None:
    """Returns the number if it lies in the range."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if low <= number <= high else None
