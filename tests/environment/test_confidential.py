import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from cctrace.collectors.environment.confidential import read_confidential_state
from cctrace.collectors.environment.nvml import Nvml


class NvmlError(Exception):
    pass


class Settings(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint)
        for name in ("version", "environment", "ccFeature", "devToolsMode", "multiGpuMode")
    ]


class NvLinkInfo(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("isNvleEnabled", ctypes.c_uint)]


def _not_supported(*_: Any) -> Any:
    raise NvmlError("Function Not Found")


def fake(
    *,
    settings: tuple[int, int, int, int] | None = None,
    state: tuple[int, int, int] | None = None,
    ready: int | None = None,
    capabilities: tuple[int, int] | None = None,
    nvle: int | None = None,
) -> Nvml:
    """NVML that answers only what is given; the others raise, as a library that lacks the function does."""

    def get_settings(pointer: Any) -> int:
        assert settings is not None
        target = pointer._obj
        target.environment, target.ccFeature, target.devToolsMode, target.multiGpuMode = settings
        return 0

    def get_link_info(_device: object, pointer: Any) -> int:
        pointer._obj.isNvleEnabled = nvle
        return 0

    module = SimpleNamespace(
        NVMLError=NvmlError,
        c_nvmlSystemConfComputeSettings_v1_t=Settings,
        c_nvmlNvLinkInfo_v1_t=NvLinkInfo,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlSystemGetConfComputeSettings=get_settings if settings else _not_supported,
        nvmlSystemGetConfComputeState=(
            (lambda: SimpleNamespace(environment=state[0], ccFeature=state[1], devToolsMode=state[2]))
            if state
            else _not_supported
        ),
        nvmlSystemGetConfComputeGpusReadyState=(lambda: ready) if ready is not None else _not_supported,
        nvmlSystemGetConfComputeCapabilities=(
            (lambda: SimpleNamespace(cpuCaps=capabilities[0], gpusCaps=capabilities[1]))
            if capabilities
            else _not_supported
        ),
        nvmlDeviceGetNvLinkInfo=get_link_info if nvle is not None else _not_supported,
    )
    return Nvml(module, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "mode", "multi_gpu", "environment", "devtools"),
    [
        ((0, 0, 0, 0), "off", "none", "unavailable", False),
        ((2, 1, 0, 0), "on", "none", "production", False),
        ((2, 1, 0, 2), "on", "nvle", "production", False),
        ((2, 1, 1, 0), "devtools", "none", "production", True),  # the feature is on in devtools mode as well
        (
            (2, 0, 0, 1),
            "on",
            "protected-pcie",
            "production",
            False,
        ),  # protected PCIe may leave the feature at 0
        ((0, 0, 0, 2), "off", "nvle", "unavailable", False),  # NVLink encryption alone is not CC
        ((1, 1, 0, 9), "on", "unknown (9)", "simulation", False),
    ],
)
def test_settings(
    settings: tuple[int, int, int, int], mode: str, multi_gpu: str, environment: str, devtools: bool
) -> None:
    found = read_confidential_state(fake(settings=settings))
    assert (found.cc_mode, found.multi_gpu_mode, found.environment, found.devtools) == (
        mode,
        multi_gpu,
        environment,
        devtools,
    )
    assert found.asked == "settings"


def test_state_is_asked_where_settings_are_too_new() -> None:
    found = read_confidential_state(fake(state=(2, 1, 0)))
    assert (found.cc_mode, found.environment, found.multi_gpu_mode, found.asked) == (
        "on",
        "production",
        None,
        "state",
    )


def test_nothing_answers() -> None:
    found = read_confidential_state(fake())
    assert set(found.to_json().values()) == {None}


def test_no_nvml_at_all() -> None:
    assert set(read_confidential_state(Nvml(None, "missing")).to_json().values()) == {None}


@pytest.mark.parametrize(("ready", "expected"), [(1, "ready"), (0, "not-ready"), (None, None)])
def test_ready_state(ready: int | None, expected: str | None) -> None:
    assert read_confidential_state(fake(settings=(2, 1, 0, 0), ready=ready)).ready_state == expected


@pytest.mark.parametrize(
    ("nvle", "multi_gpu", "expected"),
    [(1, 0, "on"), (0, 0, "off"), (None, 0, None), (None, 2, "on"), (0, 2, "on")],
)
def test_nvlink_encryption_is_a_field_of_its_own(
    nvle: int | None, multi_gpu: int, expected: str | None
) -> None:
    found = read_confidential_state(fake(settings=(0, 0, 0, multi_gpu), nvle=nvle))
    assert found.nvlink_encryption == expected
    assert found.cc_mode == "off"


def test_capabilities() -> None:
    found = read_confidential_state(fake(settings=(0, 0, 0, 0), capabilities=(2, 1)))
    assert (found.cpu_capability, found.gpu_capable) == ("tdx", True)


def test_ready_state_means_nothing_with_cc_off() -> None:
    found = read_confidential_state(fake(settings=(0, 0, 0, 0), ready=0))
    assert (found.cc_mode, found.ready_state, found.refuses_work) == ("off", None, False)
    assert read_confidential_state(fake(settings=(2, 1, 1, 0), ready=0)).refuses_work
    assert not read_confidential_state(fake(ready=0)).refuses_work, "nobody knows whether CC is on"
