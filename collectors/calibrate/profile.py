"""Turns a calibration into a profile document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Any, Final

from cctrace import __version__
from cctrace.collectors.calibrate.result import Calibration, Measured
from cctrace.collectors.calibrate.sampling import Quantity
from cctrace.collectors.environment.snapshot import Snapshot
from cctrace.profiles.model import Entry, Head, Profile, Rule, SizeTable, name_from

SOURCE: Final = "here"
DEFAULT_NAME: Final = "this-machine"
_HOSTS: Final = MappingProxyType({"none": "bare metal", "unknown": "virtual machine"})
"""What the environment calls a hypervisor that does not exist, or does not give its name."""
_DIGITS: Final = 4
"""Digits after the point of a microsecond: the clock ticks in nanoseconds, a burst divides them."""


def to_profile(found: Calibration, name: str, day: date) -> Profile:
    """Returns a profile of kind `measured`.

    Args:
        found: what was measured.
        name: anything, such as the stem of a file; what a profile's name may not have becomes `-`.
        day: today.
    """
    parts: dict[str, dict[str, Any]] = {"launch": {}, "pcie": {}, "overlap": {}, "nvlink": {}}
    tables: defaultdict[tuple[str, str], dict[int, Measured]] = defaultdict(dict)
    for quantity, measured in found.measured().items():
        if quantity.bytes is None:
            parts[quantity.cause][quantity.key] = _entry(quantity, measured)
        else:
            tables[quantity.cause, quantity.key][quantity.bytes] = measured
    for (cause, key), nodes in tables.items():
        parts[cause][key] = _table(nodes)
    _add_rules(parts, found)
    return Profile.model_validate({"profile": _head(found, name, day), **parts})


def _head(found: Calibration, name: str, day: date) -> Head:
    snapshot = found.snapshot
    emulation = (f"charged by the recorder: {found.emulated}",) if found.emulated else ()
    models = sorted({gpu.name for gpu in found.gpus})
    return Head(
        name=name_from(name, DEFAULT_NAME),
        title=_short(f"{' and '.join(models)}, CC {found.cc}, measured {day.isoformat()}"),
        kind="measured",
        gpu=_short(" and ".join(models)),
        tee=snapshot.machine.tee or "unknown",
        sources=(
            f"{SOURCE}: cctrace calibrate, {found.rounds} rounds; median, 10th and 90th percentile of all "
            "repeats, by the host's clock",
            *(_short(note) for note in (*found.notes, *emulation)),
        ),
        cc=found.cc,
        date=day.isoformat(),
        driver=_driver(snapshot),
        cuda=found.cuda,
        nccl=found.nccl,
        gpus=max(len(found.gpus), found.linked),
        machine=_machine(snapshot),
        created_by=f"cctrace {__version__}",
    )


def _driver(snapshot: Snapshot) -> str | None:
    if snapshot.driver is None:
        return None
    kind = snapshot.machine.driver_kind
    return f"{snapshot.driver} ({kind})" if kind else snapshot.driver


def _machine(snapshot: Snapshot) -> str:
    machine = snapshot.machine
    parts = [
        machine.cpu_model or "CPU not known",
        f"{machine.cpus} CPUs",
        _HOSTS.get(machine.virtual_machine or "", machine.virtual_machine),
        f"{len(machine.numa)} NUMA nodes" if len(machine.numa) > 1 else None,
        f"kernel {machine.kernel}",
    ]
    return _short(", ".join(part for part in parts if part))


def _entry(quantity: Quantity, measured: Measured) -> Entry:
    return Entry(**_numbers(measured), source=SOURCE, note=f"{_manner(quantity)}{_taken_off(measured)}")


def _manner(quantity: Quantity) -> str:
    if quantity.key.endswith("_isolated_us"):
        return "the call, the GPU idle"
    if quantity.key == "sync_us":
        return "nothing submitted"
    if quantity.key == "peer_latency_us":
        return "64 bytes to another GPU, one after the other within a graph, without the launch"
    return "the call, back to back"


def _table(nodes: Mapping[int, Measured]) -> SizeTable:
    order = sorted(nodes)
    numbers = [_numbers(nodes[size]) for size in order]
    return SizeTable(
        bytes=tuple(order),
        value=tuple(number["value"] for number in numbers),
        low=tuple(number["low"] for number in numbers),
        high=tuple(number["high"] for number in numbers),
        source=SOURCE,
        note=f"{nodes[order[0]].repeats} repeats of the smallest size{_taken_off(nodes[order[0]])}",
    )


def _numbers(measured: Measured) -> dict[str, float]:
    us = measured.us
    return {key: round(getattr(us, key), _DIGITS) for key in ("value", "low", "high")}


def _taken_off(measured: Measured) -> str:
    if measured.bare is None:
        return ""
    text = f"; {measured.bare.value:.2f} µs of Python taken off"
    return text if measured.us.low else f"{text}: what is left cannot be told from nothing"


def _add_rules(parts: dict[str, dict[str, Any]], found: Calibration) -> None:
    blocks = found.blocks()
    both = [blocks[path] for path in ("h2d", "d2h") if path in blocks]
    if both:
        waiting = ", ".join(path for path, waits in blocks.items() if waits) or "none"
        parts["overlap"]["pinned_copies_block"] = Rule(
            value=float(any(both)),
            low=float(all(both)),
            high=float(any(both)),
            source=SOURCE,
            note=f"small copies that wait for earlier work of their stream: {waiting}",
        )
    gpus = found.gpus
    register = sorted({gpu.host_register_error for gpu in gpus})
    note = "" if register == [0] else f"error {', '.join(str(code) for code in register if code)}"
    parts["overlap"]["pinned_reported_pinned"] = _rule([gpu.pinned_reported_pinned for gpu in gpus])
    parts["overlap"]["host_register_works"] = _rule([gpu.host_register_error == 0 for gpu in gpus], note)
    parts["nvlink"]["multicast"] = _rule([gpu.multicast for gpu in gpus], "what the device says of itself")
    encryption = found.snapshot.confidential.nvlink_encryption
    if encryption in ("on", "off"):
        parts["nvlink"]["encrypted"] = _rule([encryption == "on"], "as NVML says")


def _rule(holds: list[bool], note: str = "") -> Rule:
    every, some = float(all(holds)), float(any(holds))
    return Rule(value=every, low=every, high=some, source=SOURCE, note=note)


def _short(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:499]}…"
