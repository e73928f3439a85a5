"""What an acceptance test must record: the areas and fields of the metadata's `acceptance`.

`None` is "not known". Fields are filled by the recorder as far as the machine can tell; all can be set by
hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cctrace.trace.documents import described, unknown_keys


@dataclass(frozen=True)
class Hardware:
    """The machine, as the recorded program sees it."""

    cpu_model: str | None = described("model of the CPU")
    cpus: int | None = described("logical CPUs that the program may use")
    sockets: int | None = described("CPU sockets")
    memory_bytes: int | None = described("main memory", unit="bytes")
    virtual_machine: str | None = described("hypervisor, or 'none' on bare metal")
    gpu_model: str | None = described("model of the GPUs")
    gpus: int | None = described("number of GPUs")
    gpu_memory_bytes: int | None = described("memory of one GPU", unit="bytes")
    gpu_details: tuple[Mapping[str, Any], ...] | None = described("one object a GPU, as NVML describes it")
    numa: int | str | Mapping[str, Any] | None = described(
        "NUMA nodes, and which CPUs and GPUs belong to each"
    )
    nvlink_topology: str | Mapping[str, Any] | None = described("NVLink connections between the GPUs")
    pcie: str | Mapping[str, Any] | None = described("PCIe generation and width of the GPUs")
    extra: Mapping[str, Any] = unknown_keys()


CC_ON: Final = ("on", "devtools")
"""CC modes in which copies are encrypted and submissions protected."""


@dataclass(frozen=True)
class Security:
    """Confidential computing: what is on, and how it was proved."""

    tee: str | None = described(
        "trusted execution environment of the CPU", choices=("none", "tdx", "sev-snp", "sev", "cca")
    )
    cc_mode: str | None = described(
        "confidential-computing mode of the GPUs", choices=("off", "on", "devtools")
    )
    cc_environment: str | None = described(
        "NVML's CC environment", choices=("unavailable", "simulation", "production")
    )
    multi_gpu_mode: str | None = described("CC mode between GPUs", choices=("none", "protected-pcie", "nvle"))
    devtools: bool | None = described("devtools mode: profilers work, security does not")
    ready_state: str | None = described("whether the GPUs accept work", choices=("ready", "not-ready"))
    nvlink_encryption: str | None = described("NVLink encryption", choices=("off", "on"))
    firmware: str | None = described("GPU firmware (VBIOS, GSP)")
    attestation: str | None = described("how the GPUs and the CPU were attested")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Software:
    """Versions of what ran."""

    driver: str | None = described("NVIDIA driver")
    driver_kind: str | None = described("kernel module", choices=("open", "proprietary"))
    cuda: str | None = described("CUDA version of the driver")
    cuda_runtime: str | None = described("CUDA runtime of the program")
    nccl: str | None = described("NCCL")
    python: str | None = described("Python of the recorded program")
    frameworks: Mapping[str, str] | None = described(
        "package -> version: engine, torch, attention and all-reduce libraries"
    )
    cc_patches: tuple[str, ...] | None = described(
        "patches for confidential computing that the engine carries"
    )
    os: str | None = described("distribution")
    kernel: str | None = described("Linux kernel")
    openssl: str | None = described("OpenSSL: the driver encrypts PCIe copies with it")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Model:
    """The served model."""

    name: str | None = described("name of the model")
    weights_version: str | None = described("revision or checksum of the weights")
    precision: str | None = described("precision of the weights, for example bf16, fp8, nvfp4, awq")
    architecture: str | None = described("dense or mixture of experts", choices=("dense", "moe"))
    parameters: int | None = described("parameters")
    active_parameters: int | None = described("parameters that one token uses")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Load:
    """What the clients asked for."""

    input_len: int | str | None = described(
        "input length: a number, or the distribution in words", unit="tokens"
    )
    output_len: int | str | None = described(
        "output length: a number, or the distribution in words", unit="tokens"
    )
    batch: int | None = described("largest batch")
    concurrency: int | None = described("requests in flight")
    arrival_rate: float | str | None = described("requests per second, or the arrival process in words")
    requests: int | None = described("requests in all")
    dataset: str | None = described("where the prompts come from")
    seed: int | None = described("seed of the load")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Parallelism:
    """Size of each group."""

    tp: int | None = described("tensor parallel")
    pp: int | None = described("pipeline parallel")
    dp: int | None = described("data parallel")
    ep: int | None = described("expert parallel")
    cp: int | None = described("context parallel")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Scheduling:
    """How steps are formed and run."""

    cuda_graphs: str | None = described("CUDA graphs", choices=("none", "full", "piecewise"))
    overlap: bool | None = described("the host prepares a step while the GPU runs the one before")
    chunked_prefill: bool | None = described("long prompts are processed in pieces")
    readback: str | None = described("how sampled tokens come back", choices=("sync", "overlap", "worker"))
    speculative: str | None = described("speculative decoding method")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Memory:
    """Where things live."""

    weights: str | None = described("place of the weights", choices=("gpu", "host", "mixed"))
    kv_cache: str | None = described("place of the KV cache", choices=("gpu", "host", "mixed"))
    kv_precision: str | None = described("precision of the KV cache")
    offload: str | None = described("what is offloaded, and where to")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Results:
    """What the load client measured."""

    ttft_ms: float | None = described("time to first token, median", unit="ms")
    tpot_ms: float | None = described("time per output token, median", unit="ms")
    output_throughput: float | None = described("output tokens per second", unit="tokens/s")
    request_throughput: float | None = described("requests per second", unit="requests/s")
    goodput: float | None = described("requests per second within their latency goals", unit="requests/s")
    errors: int | None = described("failed requests")
    utilization: float | None = described("mean GPU utilization", unit="%")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class LifeCycle:
    """Times outside of steady state."""

    startup_s: float | None = described("from start to the first request served", unit="s")
    model_load_s: float | None = described("loading the weights", unit="s")
    attestation_s: float | None = described("attestation", unit="s")
    key_delivery_s: float | None = described("delivery of the model's key", unit="s")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Scale:
    """How far the service is spread."""

    hosts: int | None = described("hosts")
    ranks: int | None = described("ranks (GPU processes)")
    network: str | None = described("communication path between hosts")
    extra: Mapping[str, Any] = unknown_keys()


@dataclass(frozen=True)
class Acceptance:
    """The acceptance table."""

    hardware: Hardware = field(default_factory=Hardware)
    security: Security = field(default_factory=Security)
    software: Software = field(default_factory=Software)
    model: Model = field(default_factory=Model)
    load: Load = field(default_factory=Load)
    parallelism: Parallelism = field(default_factory=Parallelism)
    scheduling: Scheduling = field(default_factory=Scheduling)
    memory: Memory = field(default_factory=Memory)
    results: Results = field(default_factory=Results)
    life_cycle: LifeCycle = field(default_factory=LifeCycle)
    scale: Scale = field(default_factory=Scale)
    extra: Mapping[str, Any] = unknown_keys()
