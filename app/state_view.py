"""A state check in the terminal: all of one GPU, or a line for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cctrace.analyzers.sentences import bytes_text, percent, time_text
from cctrace.trace import GpuState, ReferenceLoop, StateCheck

Facts = list[tuple[str, str]]
_NOT_KNOWN: Final = "not known"


def gpu_facts(gpu: GpuState) -> Facts:
    """Everything that a check knows about one GPU, as names and values."""
    return [
        ("model", gpu.name or _NOT_KNOWN),
        ("compute loop", _compute(gpu.compute)),
        ("memory loop", _memory(gpu.memory)),
        ("launch loop", _launch(gpu.launch)),
        ("SM clock", _clock("sm", gpu)),
        ("memory clock", _clock("memory", gpu)),
        ("throttled before", _reasons(gpu.throttle_reasons)),
        ("throttled under load", _reasons(gpu.throttle_reasons_load)),
        ("in use before", _use(gpu)),
        ("temperature, power", f"{_known(gpu.temperature_c, ' °C')}, {_known(gpu.power_w, ' W')}"),
        (
            "performance state",
            "P" + str(gpu.performance_state) if gpu.performance_state is not None else _NOT_KNOWN,
        ),
        (
            "memory errors",
            f"{_known(gpu.ecc_corrected)} corrected, {_known(gpu.ecc_uncorrected)} uncorrected",
        ),
        (
            "driver asks for",
            {"none": "nothing", None: _NOT_KNOWN}.get(gpu.recovery_action, f"{gpu.recovery_action}"),
        ),
        ("MIG", _switch(gpu.mig)),
        ("persistence mode", _switch(gpu.persistence_mode)),
        ("compute mode", gpu.compute_mode or _NOT_KNOWN),
    ]


def check_facts(check: StateCheck) -> Facts:
    """A line for each GPU, and what was found."""
    return [*((f"GPU {gpu.index}", _line(gpu)) for gpu in check.gpus), *verdict_facts(check)]


def verdict_facts(check: StateCheck, unknown: Iterable[str] = ()) -> Facts:
    """What was found, what could not be told, and the verdict if there is neither."""
    facts = [("look at", finding) for finding in check.findings]
    facts += [("cannot tell", text) for text in unknown]
    failed = [f"GPU {gpu.index}: {gpu.missing}" for gpu in check.gpus if gpu.missing is not None]
    failed += [check.missing] if check.missing is not None else []
    facts += [("not complete", text) for text in failed]
    if not failed and not check.findings:
        facts.append(("verdict", "nothing looks stale or busy"))
    return facts


def _line(gpu: GpuState) -> str:
    loops = {"compute": gpu.compute, "memory": gpu.memory, "launch": gpu.launch}
    parts = [f"{name} {time_text(loop.median_us)}" for name, loop in loops.items() if loop is not None]
    if gpu.sm_clock_load_mhz is not None:
        parts.append(f"{gpu.sm_clock_load_mhz} of {_known(gpu.sm_clock_max_mhz)} MHz under load")
    return ", ".join([*(parts or ["no loop was measured"]), _use(gpu)])


def _compute(loop: ReferenceLoop | None) -> str:
    if loop is None or not loop.median_us:
        return "not measured"
    return f"{_time(loop)}: {loop.work / loop.median_us / 1e6:.1f} × 10¹² multiply-adds a second"


def _memory(loop: ReferenceLoop | None) -> str:
    if loop is None or not loop.median_us:
        return "not measured"
    return f"{_time(loop)}: {loop.work / loop.median_us / 1e3:.0f} GB/s read and written"


def _launch(loop: ReferenceLoop | None) -> str:
    if loop is None:
        return "not measured"
    return f"{time_text(loop.median_us)} a launch, with the time of the Python bindings"


def _time(loop: ReferenceLoop) -> str:
    return f"{time_text(loop.median_us)} (spread {percent(loop.spread)}, {loop.repeats} repeats)"


def _clock(name: str, gpu: GpuState) -> str:
    before, load, largest, application = (
        getattr(gpu, f"{name}_clock{suffix}_mhz") for suffix in ("", "_load", "_max", "_application")
    )
    text = f"{_known(before)} MHz before, {_known(load)} under load, at most {_known(largest)}"
    return text if application is None else f"{text}, application clock {application}"


def _use(gpu: GpuState) -> str:
    used = _NOT_KNOWN if gpu.memory_used_bytes is None else bytes_text(gpu.memory_used_bytes)
    processes = _known(gpu.other_processes)
    held = "" if not gpu.other_processes_bytes else f" holding {bytes_text(gpu.other_processes_bytes)}"
    busy = "" if gpu.utilization_percent is None else f", {gpu.utilization_percent} % busy"
    return f"memory in use {used}, other processes {processes}{held}{busy}"


def _reasons(reasons: tuple[str, ...] | None) -> str:
    return _NOT_KNOWN if reasons is None else ", ".join(reasons) or "no"


def _switch(on: bool | None) -> str:
    return {True: "on", False: "off", None: _NOT_KNOWN}[on]


def _known(value: float | None, unit: str = "") -> str:
    return _NOT_KNOWN if value is None else f"{value}{unit}"
