"""Which differences between two recordings matter, and why: one table for every field of the metadata.

The first rule whose pattern fits a field's name is the field's rule. The last one fits all names, so a field
of a newer recorder is compared, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from cctrace.analyzers.state import CLOCK_DIFFERENCE, LOOP_DIFFERENCE, MEMORY_DIFFERENCE_BYTES

FORBIDS, WARNS, INFORMS, EXPECTED, IGNORED = "forbids", "warns", "informs", "expected", "ignored"

SAME_MEMORY_SIZE: Final = 0.05
"""Memory of a guest with and without encryption differs by what firmware and driver take of it."""

Near = Callable[[Any, Any], bool]


def within(share: float) -> Near:
    """Numbers are near if they differ by at most this share of the larger one."""

    def near(first: Any, second: Any) -> bool:
        return _are_numbers(first, second) and abs(first - second) <= share * max(abs(first), abs(second))

    return near


def _near_in_bytes(first: Any, second: Any) -> bool:
    return _are_numbers(first, second) and abs(first - second) <= MEMORY_DIFFERENCE_BYTES


def _same_last_part(first: Any, second: Any) -> bool:
    """Names of models are the same if only the folder or the owner in front of them differs."""
    return str(first).rstrip("/").rsplit("/", 1)[-1] == str(second).rstrip("/").rsplit("/", 1)[-1]


def _are_numbers(*items: Any) -> bool:
    return all(isinstance(item, int | float) and not isinstance(item, bool) for item in items)


@dataclass(frozen=True)
class Rule:
    """What a difference in some fields means.

    Attributes:
        pattern: name of a field as in the metadata document; `*` stands for any text.
        severity: forbids, warns, informs, expected (the comparison is about it) or ignored.
        why: what the difference means, to be read after the field's name.
        near: which different values count as the same.
    """

    pattern: str
    severity: str
    why: str
    near: Near | None = field(default=None, compare=False)

    @property
    def matters(self) -> bool:
        """Whether it is worth a word that nobody knows the field's value."""
        return self.severity in (FORBIDS, WARNS)


def rule_of(name: str) -> Rule:
    """The rule of a field, by its dotted name."""
    return next(rule for rule, expression in _compiled() if expression.fullmatch(name))


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[Rule, re.Pattern[str]], ...]:
    return tuple(
        (rule, re.compile(".*".join(re.escape(part) for part in rule.pattern.split("*")))) for rule in RULES
    )


_Entry = tuple[str, str, str] | tuple[str, str, str, Near]


def _area(prefix: str, *entries: _Entry) -> tuple[Rule, ...]:
    """Rules whose patterns share their beginning."""
    return tuple(Rule(prefix + pattern, *rest) for pattern, *rest in entries)


_OTHER_WORK: Final = "a step does other work"
_ALGORITHMS: Final = "the arms compare algorithms of collectives, not encryption"
_OTHER_NCCL: Final = "NCCL may choose other algorithms or paths, which is not encryption"
_OTHER_ENGINE: Final = "another version makes other calls; some regressions show under CC only"
_FIRMWARE: Final = "other firmware: submissions pass through it"
_DRIVER: Final = "launches and copies are the driver's work"
_KV_CACHE: Final = "less memory for the KV cache"
_COPY_SPEED: Final = "copies run at another speed"
_WINDOW: Final = "the recordings hold other parts of their runs"
_ENDED: Final = "one program ended in another way"
_BUSY: Final = "something else uses the GPU"
_STALE: Final = "the GPUs were not in the same state before the runs, so part of the difference is not CC's"
_CC: Final = "the comparison is about it"
_NAME: Final = "a name or a time, which differs between any two recordings"
_MOMENT: Final = "a reading of one moment"
_OUTCOME: Final = "an outcome of the run, not a condition"

_HARDWARE: Final = (
    *_area(
        "hardware.gpu_details.*.",
        ("name", FORBIDS, "another GPU"),
        ("compute_capability", FORBIDS, "another GPU"),
        ("mig", FORBIDS, "a part of a GPU against a whole one"),
        ("uuid", INFORMS, "another board: boards of one model differ by a percent or two"),
        ("serial", INFORMS, "another board"),
        ("pci_bus", IGNORED, _NAME),
        ("protected_memory_bytes", EXPECTED, _CC),
        ("memory_bytes", INFORMS, _KV_CACHE, within(SAME_MEMORY_SIZE)),
        ("persistence_mode", INFORMS, "without it the driver is loaded for each program"),
        ("pcie_max_*", INFORMS, "what the slot could do"),
        ("pcie_*", WARNS, _COPY_SPEED),
        ("nvlinks_active", WARNS, "collectives run at another speed, or not over NVLink"),
        ("vbios", WARNS, _FIRMWARE),
        ("gsp_firmware", WARNS, _FIRMWARE),
        ("*", WARNS, "clocks, power limit or memory protection of the GPU"),
    ),
    *_area(
        "hardware.",
        ("cpu_model", WARNS, "host code, launches and AES run at another speed"),
        ("cpus", WARNS, "the host's threads may have less room"),
        ("sockets", INFORMS, "more sockets mean remote memory"),
        ("memory_bytes", INFORMS, "another size of guest", within(SAME_MEMORY_SIZE)),
        ("virtual_machine", WARNS, "a bare host against a guest holds the cost of virtualization"),
        ("gpu_model", FORBIDS, "another GPU"),
        ("gpus", WARNS, "another number of visible GPUs"),
        ("gpu_memory_bytes", INFORMS, _KV_CACHE, within(SAME_MEMORY_SIZE)),
        ("gpu_details", WARNS, "what NVML says about the GPUs"),
        ("numa", WARNS, "remote memory can double what a copy costs"),
        ("nvlink_topology", WARNS, "collectives take other paths"),
        ("pcie", WARNS, _COPY_SPEED),
    ),
)
_SOFTWARE: Final = _area(
    "software.",
    ("driver", WARNS, _DRIVER),
    ("driver_kind", WARNS, "another kernel module"),
    ("cuda", WARNS, _DRIVER),
    ("cuda_runtime", WARNS, "the runtime makes the driver's calls"),
    ("nccl", WARNS, _OTHER_NCCL),
    ("python", WARNS, "host code runs at another speed"),
    ("frameworks.vllm*", WARNS, _OTHER_ENGINE),
    ("frameworks.sglang*", WARNS, _OTHER_ENGINE),
    ("frameworks.tensorrt*", WARNS, _OTHER_ENGINE),
    ("frameworks.transformers", WARNS, _OTHER_ENGINE),
    ("frameworks*", WARNS, "another library may choose other kernels"),
    ("cc_patches", WARNS, "the difference holds what the patches do"),
    ("os", INFORMS, "another distribution"),
    ("kernel", WARNS, "another scheduler, and another way through bounce buffers"),
    ("openssl", WARNS, "the driver encrypts copies with it"),
    ("*", WARNS, "other software"),
)
_WORKLOAD: Final = (
    *_area(
        "model.",
        ("name", FORBIDS, _OTHER_WORK, _same_last_part),
        ("weights_version", WARNS, "other weights"),
        ("*", FORBIDS, _OTHER_WORK),
    ),
    *_area(
        "load.",
        ("batch", FORBIDS, _OTHER_WORK),
        ("concurrency", FORBIDS, _OTHER_WORK),
        ("input_len", FORBIDS, _OTHER_WORK),
        ("output_len", FORBIDS, "another mix of prefill and decode, other lengths of context"),
        ("requests", INFORMS, "one run is longer than the other"),
        ("*", WARNS, "other requests"),
    ),
    *_area("parallelism.", ("*", FORBIDS, _OTHER_WORK)),
    *_area(
        "scheduling.",
        ("cuda_graphs", WARNS, "another number of submissions, and so another toll"),
        ("overlap", WARNS, "overlap that an arm does not have cannot be lost in it"),
        ("readback", WARNS, "tokens come back in another way: a remedy is part of the difference"),
        ("speculative", FORBIDS, _OTHER_WORK),
        ("*", WARNS, "steps are formed or run in another way"),
    ),
    *_area(
        "memory.",
        ("kv_precision", FORBIDS, _OTHER_WORK),
        ("*", WARNS, "other bytes cross PCIe"),
    ),
    *_area(
        "scale.",
        ("hosts", FORBIDS, _OTHER_WORK),
        ("ranks", WARNS, "another number of processes handed work to GPUs"),
        ("*", WARNS, "another path between hosts"),
    ),
)
_VARIABLES: Final = _area(
    "environment_variables",
    (".CCTRACE_*", IGNORED, "the recorder's own"),
    (".CUDA_VISIBLE_DEVICES", INFORMS, "other boards"),
    (".CUDA_LAUNCH_BLOCKING", WARNS, "each launch waits for the GPU in one arm"),
    (".CUDA_VERSION", WARNS, "another container image"),
    (".CUDA_HOME", INFORMS, "another place of the toolkit"),
    (".CUDA_*", WARNS, "loading, queues or connections of the driver"),
    (".NCCL_NVLS_ENABLE", WARNS, _ALGORITHMS),
    (".*SYMM*", WARNS, _ALGORITHMS),
    (".*MULTICAST*", WARNS, _ALGORITHMS),
    (".NCCL_*", WARNS, _OTHER_NCCL),
    (".VLLM_USE_V2_MODEL_RUNNER", WARNS, "another runner: other host code, copies that no call shows"),
    (".*CONFIDENTIAL*", WARNS, "the engine is told whether CC is on, and takes other paths"),
    (".TLLM_PROFILING_TIMER", WARNS, "the autotuner's clock decides which kernels run"),
    (".NVIDIA_*", INFORMS, "what a container was given"),
    (".LD_PRELOAD", WARNS, "another interposer or allocator"),
    (".LD_LIBRARY_PATH", INFORMS, "libraries may come from elsewhere"),
    (".*", WARNS, "a setting of the engine or its libraries"),
    ("", INFORMS, "settings of the engine and its libraries"),
)
_RECORDING: Final = (
    *_area(
        "recording.",
        ("command", WARNS, "the program was started in another way"),
        ("symmetric_memory", WARNS, _ALGORITHMS),
        ("step_pattern", WARNS, "steps are cut in another way"),
        ("window*", INFORMS, _WINDOW),
        ("exit_code", INFORMS, _ENDED),
        ("exit_signal", INFORMS, _ENDED),
        ("host", INFORMS, "another host name"),
        ("*", IGNORED, _NAME),
    ),
    *_area(
        "collector.",
        ("version", WARNS, "recorded by another version of the collector"),
        ("gpu_mode", WARNS, "recorded in another mode: what recording costs differs"),
        ("timing", FORBIDS, "CUPTI distorts the host times of one arm"),
        ("notes", IGNORED, "said with the recording"),
        ("processes*", IGNORED, "losses and the recorder's tax are compared by their size"),
        ("*", INFORMS, "a setting of the recorder"),
    ),
)
_STATE: Final = (
    *_area(
        "state_check.gpus.*.",
        ("compute.median_us", WARNS, _STALE, within(LOOP_DIFFERENCE)),
        ("memory.median_us", WARNS, _STALE, within(LOOP_DIFFERENCE)),
        ("launch.median_us", EXPECTED, "the launch toll, seen from outside"),
        ("sm_clock_load_mhz", WARNS, "kernels run at another clock", within(CLOCK_DIFFERENCE)),
        ("memory_clock_load_mhz", WARNS, "memory runs at another clock", within(CLOCK_DIFFERENCE)),
        ("throttle_reasons_load", WARNS, "something holds the clocks down"),
        ("memory_used_bytes", WARNS, _BUSY, _near_in_bytes),
        ("other_processes", WARNS, _BUSY),
        ("recovery_action", WARNS, "the driver asks for a reset in one arm"),
    ),
    *_area(
        "state_check",
        (".version", WARNS, "the arms ran other reference loops, which cannot be compared"),
        (".findings", WARNS, "the check found something stale or busy in one arm"),
        (".missing", INFORMS, "the check is not complete in one arm"),
        (".*", IGNORED, _MOMENT),
        ("", WARNS, "whether the GPUs were in the same state before the runs"),
    ),
    *_area(
        "environment",
        (".start.container", INFORMS, "another kind of container"),
        (".start.gpus.*.other_processes", WARNS, _BUSY),
        (".start.confidential_computing.*", EXPECTED, _CC),
        ("*", IGNORED, _MOMENT),
    ),
)
RULES: Final = (
    *_HARDWARE,
    *_area("security.", ("firmware", WARNS, _FIRMWARE), ("*", EXPECTED, _CC)),
    *_SOFTWARE,
    *_WORKLOAD,
    *_area(
        "results.",
        ("errors", WARNS, "failed requests are load that one arm did not have"),
        ("*", IGNORED, _OUTCOME),
    ),
    *_area("life_cycle.", ("*", IGNORED, _OUTCOME)),
    *_VARIABLES,
    *_RECORDING,
    *_area("emulation", ("", EXPECTED, _CC)),
    *_STATE,
    *_area(
        "",
        ("labels", IGNORED, "said with every result"),
        ("format_version", IGNORED, "read the same"),
        ("created_by", INFORMS, "another program wrote the file"),
        ("label", IGNORED, _NAME),
        ("*", INFORMS, "a field that this version does not know"),
    ),
)
"""Every field's rule."""
