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

FORBIDS, WARNS, INFORMS, EXPECTED, IGNORED = "forbids", "warns", "informs", "expected", "ignored"

SAME_LOOP: Final = 0.02
"""Reference loops and clocks under load that differ by less show the same GPU state: 2 % is the spread of single
runs in the published tests. CC leaves matrix products at 0.998 of their speed."""
SAME_MEMORY_SIZE: Final = 0.05
"""Main memory of a guest and a host, or of a guest with and without encryption, differs by what firmware takes."""
SAME_MEMORY_IN_USE_BYTES: Final = 256 << 20
"""Device memory in use before a run that differs by more is another program's: a CUDA context alone takes 300 MB."""

Near = Callable[[Any, Any], bool]


def within(share: float) -> Near:
    """Numbers are near if they differ by at most this share of the larger one."""

    def near(first: Any, second: Any) -> bool:
        return _are_numbers(first, second) and abs(first - second) <= share * max(abs(first), abs(second))

    return near


def _near_in_bytes(first: Any, second: Any) -> bool:
    return _are_numbers(first, second) and abs(first - second) <= SAME_MEMORY_IN_USE_BYTES


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


_OTHER_STEP: Final = "a step does other work"
_OTHER_SCHEDULE: Final = "steps are formed or run in another way"
_OTHER_NCCL: Final = "NCCL may choose other algorithms or paths: a difference of collectives is then not encryption alone"
_OTHER_ENGINE: Final = "an engine of another version makes other calls; regressions exist that show under CC only"
_OTHER_SETTING: Final = "a setting of the engine or its libraries"
_OUTCOME: Final = "an outcome of the run, not a condition"
_CC: Final = "what the comparison is about"
_NAME: Final = "a name or a time, which differs between any two recordings"
_MOMENT: Final = "a reading of one moment"
_STATE: Final = "the GPUs were not in the same state before the runs, so part of the difference is not CC's"

RULES: Final = (
    # hardware
    Rule("hardware.cpu_model", WARNS, "host code, launches and AES run at another speed"),
    Rule("hardware.cpus", WARNS, "the host's threads may have less room in one arm"),
    Rule("hardware.sockets", INFORMS, "more sockets mean remote memory"),
    Rule("hardware.memory_bytes", INFORMS, "another machine, or another size of guest", within(SAME_MEMORY_SIZE)),
    Rule("hardware.virtual_machine", WARNS, "a bare host against a guest: the difference holds what virtualization costs"),
    Rule("hardware.gpu_model", FORBIDS, "another GPU"),
    Rule("hardware.gpus", WARNS, "another number of visible GPUs"),
    Rule("hardware.gpu_memory_bytes", INFORMS, "less memory for the KV cache", within(SAME_MEMORY_SIZE)),
    Rule("hardware.gpu_details.*.compute_capability", FORBIDS, "another GPU"),
    Rule("hardware.gpu_details.*.mig", FORBIDS, "a part of a GPU against a whole one"),
    Rule("hardware.gpu_details.*.name", FORBIDS, "another GPU"),
    Rule("hardware.gpu_details.*.uuid", INFORMS, "another board of the same model: boards differ by a percent or two"),
    Rule("hardware.gpu_details.*.serial", INFORMS, "another board"),
    Rule("hardware.gpu_details.*.pci_bus", IGNORED, _NAME),
    Rule("hardware.gpu_details.*.protected_memory_bytes", EXPECTED, _CC),
    Rule("hardware.gpu_details.*.memory_bytes", INFORMS, "less memory for the KV cache", within(SAME_MEMORY_SIZE)),
    Rule("hardware.gpu_details.*.persistence_mode", INFORMS, "without it the driver is loaded anew for each program"),
    Rule("hardware.gpu_details.*.pcie_max_*", INFORMS, "what the slot could do"),
    Rule("hardware.gpu_details.*.pcie_*", WARNS, "copies run at another speed"),
    Rule("hardware.gpu_details.*.nvlinks_active", WARNS, "collectives run at another speed, or not over NVLink"),
    Rule("hardware.gpu_details.*.vbios", WARNS, "other firmware"),
    Rule("hardware.gpu_details.*.gsp_firmware", WARNS, "other firmware: submissions pass through the GSP"),
    Rule("hardware.gpu_details.*", WARNS, "clocks, power limit or memory protection of the GPU"),
    Rule("hardware.gpu_details", WARNS, "what NVML says about the GPUs"),
    Rule("hardware.numa", WARNS, "remote memory can double what a copy costs"),
    Rule("hardware.nvlink_topology", WARNS, "collectives take other paths"),
    Rule("hardware.pcie", WARNS, "copies run at another speed"),
    # security
    Rule("security.firmware", WARNS, "other firmware: submissions pass through the GSP"),
    Rule("security.*", EXPECTED, _CC),
    # software
    Rule("software.driver", WARNS, "launches and copies are the driver's work"),
    Rule("software.driver_kind", WARNS, "another kernel module"),
    Rule("software.cuda*", WARNS, "launches and copies are the driver's work"),
    Rule("software.nccl", WARNS, _OTHER_NCCL),
    Rule("software.python", WARNS, "host code runs at another speed"),
    Rule("software.frameworks.vllm*", WARNS, _OTHER_ENGINE),
    Rule("software.frameworks.sglang*", WARNS, _OTHER_ENGINE),
    Rule("software.frameworks.tensorrt*", WARNS, _OTHER_ENGINE),
    Rule("software.frameworks.transformers", WARNS, _OTHER_ENGINE),
    Rule("software.frameworks*", WARNS, "another library may choose other kernels"),
    Rule("software.cc_patches", WARNS, "the difference holds what the patches do"),
    Rule("software.os", INFORMS, "another distribution"),
    Rule("software.kernel", WARNS, "another scheduler, and another way through bounce buffers"),
    Rule("software.openssl", WARNS, "the driver encrypts copies with it"),
    Rule("software.*", WARNS, "other software"),
    # what ran
    Rule("model.name", FORBIDS, _OTHER_STEP, _same_last_part),
    Rule("model.weights_version", WARNS, "other weights"),
    Rule("model.*", FORBIDS, _OTHER_STEP),
    Rule("load.batch", FORBIDS, _OTHER_STEP),
    Rule("load.concurrency", FORBIDS, _OTHER_STEP),
    Rule("load.input_len", FORBIDS, _OTHER_STEP),
    Rule("load.output_len", FORBIDS, "another mix of prefill and decode, and another length of context"),
    Rule("load.requests", INFORMS, "one run is longer than the other"),
    Rule("load.*", WARNS, "other requests"),
    Rule("parallelism.*", FORBIDS, _OTHER_STEP),
    Rule("scheduling.cuda_graphs", WARNS, "another number of submissions, and with it another toll"),
    Rule("scheduling.overlap", WARNS, "overlap that one arm does not have cannot be lost in it"),
    Rule("scheduling.readback", WARNS, "the tokens come back in another way: a remedy is part of the difference"),
    Rule("scheduling.speculative", FORBIDS, _OTHER_STEP),
    Rule("scheduling.*", WARNS, _OTHER_SCHEDULE),
    Rule("memory.kv_precision", FORBIDS, _OTHER_STEP),
    Rule("memory.*", WARNS, "other bytes cross PCIe"),
    Rule("results.errors", WARNS, "failed requests are load that one arm did not have"),
    Rule("results.*", IGNORED, _OUTCOME),
    Rule("life_cycle.*", IGNORED, _OUTCOME),
    Rule("scale.ranks", WARNS, "another number of processes handed work to GPUs"),
    Rule("scale.hosts", FORBIDS, _OTHER_STEP),
    Rule("scale.*", WARNS, "another path between hosts"),
    # environment variables
    Rule("environment_variables.CCTRACE_*", IGNORED, "the recorder's own"),
    Rule("environment_variables.CUDA_VISIBLE_DEVICES", INFORMS, "other boards"),
    Rule("environment_variables.CUDA_LAUNCH_BLOCKING", WARNS, "each launch waits for the GPU in one arm"),
    Rule("environment_variables.CUDA_VERSION", WARNS, "another container image"),
    Rule("environment_variables.CUDA_HOME", INFORMS, "another place of the toolkit"),
    Rule("environment_variables.CUDA_*", WARNS, "loading, queues or connections of the driver"),
    Rule("environment_variables.NCCL_NVLS_ENABLE", WARNS, "NVLS exists in one arm only: the arms compare algorithms, not encryption"),
    Rule("environment_variables.*SYMM*", WARNS, "symmetric memory in one arm only: the arms compare algorithms, not encryption"),
    Rule("environment_variables.*MULTICAST*", WARNS, "multicast in one arm only: the arms compare algorithms, not encryption"),
    Rule("environment_variables.NCCL_*", WARNS, _OTHER_NCCL),
    Rule("environment_variables.VLLM_USE_V2_MODEL_RUNNER", WARNS, "another model runner: other host code, and copies that no call shows"),
    Rule("environment_variables.*CONFIDENTIAL*", WARNS, "the engine is told whether CC is on, and takes other paths"),
    Rule("environment_variables.TLLM_PROFILING_TIMER", WARNS, "the autotuner times with another clock and may choose other kernels"),
    Rule("environment_variables.NVIDIA_*", INFORMS, "what a container was given"),
    Rule("environment_variables.LD_PRELOAD", WARNS, "another interposer or allocator"),
    Rule("environment_variables.LD_LIBRARY_PATH", INFORMS, "libraries may come from elsewhere"),
    Rule("environment_variables.*", WARNS, _OTHER_SETTING),
    Rule("environment_variables", INFORMS, "variables that matter"),
    # how it was recorded
    Rule("recording.command", WARNS, "the program was started in another way"),
    Rule("recording.symmetric_memory", WARNS, "symmetric memory was asked for in one arm only: the arms compare algorithms, not encryption"),
    Rule("recording.step_pattern", WARNS, "steps are cut in another way"),
    Rule("recording.window.*", INFORMS, "the recordings hold other parts of their runs"),
    Rule("recording.window", INFORMS, "the recordings hold other parts of their runs"),
    Rule("recording.exit_code", INFORMS, "one program ended in another way"),
    Rule("recording.exit_signal", INFORMS, "one program ended in another way"),
    Rule("recording.host", INFORMS, "another host name"),
    Rule("recording.*", IGNORED, _NAME),
    Rule("collector.version", WARNS, "recorded by another version of the collector"),
    Rule("collector.gpu_mode", WARNS, "recorded in another mode: what recording costs differs"),
    Rule("collector.timing", FORBIDS, "CUPTI distorts the host times of one arm"),
    Rule("collector.notes", IGNORED, "said with the recording"),
    Rule("collector.processes*", IGNORED, "losses and the recorder's tax are compared by their size"),
    Rule("collector.*", INFORMS, "a setting of the recorder"),
    Rule("emulation.injected*", EXPECTED, _CC),
    Rule("emulation*", EXPECTED, _CC),
    # state of the GPUs before
    Rule("state_check.version", WARNS, "the arms ran other reference loops, so the states cannot be compared"),
    Rule("state_check.gpus.*.compute.median_us", WARNS, _STATE, within(SAME_LOOP)),
    Rule("state_check.gpus.*.memory.median_us", WARNS, _STATE, within(SAME_LOOP)),
    Rule("state_check.gpus.*.launch.median_us", EXPECTED, "the launch toll, seen from outside"),
    Rule("state_check.gpus.*.sm_clock_load_mhz", WARNS, "kernels run at another clock", within(SAME_LOOP)),
    Rule("state_check.gpus.*.memory_clock_load_mhz", WARNS, "memory runs at another clock", within(SAME_LOOP)),
    Rule("state_check.gpus.*.throttle_reasons_load", WARNS, "something holds the clocks down in one arm"),
    Rule("state_check.gpus.*.memory_used_bytes", WARNS, "something else holds memory of the GPU", _near_in_bytes),
    Rule("state_check.gpus.*.other_processes", WARNS, "something else uses the GPU"),
    Rule("state_check.gpus.*.recovery_action", WARNS, "the driver asks for a reset in one arm"),
    Rule("state_check.findings", WARNS, "the check found something stale or busy in one arm"),
    Rule("state_check.missing", INFORMS, "the check is not complete in one arm"),
    Rule("state_check.*", IGNORED, _MOMENT),
    Rule("state_check", WARNS, "whether the GPUs were in the same state before the runs"),
    # the rest of the document
    Rule("environment.start.container", INFORMS, "another kind of container"),
    Rule("environment.start.gpus.*.other_processes", WARNS, "something else uses the GPU"),
    Rule("environment.start.confidential_computing.*", EXPECTED, _CC),
    Rule("environment*", IGNORED, _MOMENT),
    Rule("clock*", IGNORED, "how clocks were tied together"),
    Rule("lanes*", IGNORED, "threads and streams: compared by what they do"),
    Rule("labels", IGNORED, "said with every result"),
    Rule("format_version", IGNORED, "read the same"),
    Rule("created_by", INFORMS, "another program wrote the file"),
    Rule("label", IGNORED, _NAME),
    Rule("*", INFORMS, "this version does not know what the field means"),
)  # fmt: skip
"""Every field's rule."""
