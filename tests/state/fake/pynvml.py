"""Stands in for nvidia-ml-py: the same GPUs as the `cuda` beside it."""

import json
import os
import sys
import types

CONFIG = json.loads(os.environ["FAKE_GPUS"])
NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
NVML_VOLATILE_ECC, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 0, 1
NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
nvmlMemory_v2 = 2


class NVMLError(Exception):
    pass


def nvmlInit():
    if CONFIG.get("nvml") == "missing":
        raise NVMLError("Driver Not Loaded")


def nvmlShutdown():
    pass


def nvmlDeviceGetCount():
    return len(CONFIG["gpus"])


def nvmlDeviceGetHandleByIndex(index):
    return index


def _of(index, name, default):
    return CONFIG["gpus"][index].get(name, default)


def _is_busy(index):
    driver = sys.modules.get("cuda.bindings.driver")
    return driver is not None and driver.pending.get(index, 0.0) > 0


def nvmlDeviceGetPciInfo(index):
    return types.SimpleNamespace(busId=b"0000" + CONFIG["gpus"][index]["bus"].upper().encode())


def nvmlDeviceGetUUID(index):
    return f"GPU-{index}abc"


def nvmlDeviceGetName(index):
    return "Fake H200"


def nvmlDeviceGetClockInfo(index, kind):
    if kind == NVML_CLOCK_MEM:
        return 3201
    return _of(index, "sm_load", 1980) if _is_busy(index) else 345


def nvmlDeviceGetMaxClockInfo(index, kind):
    return 1980 if kind == NVML_CLOCK_SM else 3201


def nvmlDeviceGetCurrentClocksEventReasons(index):
    return _of(index, "reasons_load", 0) if _is_busy(index) else 1


def nvmlDeviceGetUtilizationRates(index):
    return types.SimpleNamespace(gpu=_of(index, "utilization", 0), memory=0)


def nvmlDeviceGetMemoryInfo(index, version=None):
    if version is None:
        raise NVMLError("only the newer one")
    return types.SimpleNamespace(total=141 << 30, used=_of(index, "used", 4 << 20), reserved=600 << 20)


def nvmlDeviceGetComputeRunningProcesses(index):
    return [
        types.SimpleNamespace(pid=1 + n, usedGpuMemory=1 << 30) for n in range(_of(index, "processes", 0))
    ]


def nvmlDeviceGetTotalEccErrors(index, kind, counter):
    return _of(index, "uncorrected", 0) if kind else 3


def nvmlDeviceGetFieldValues(index, fields):
    assert fields == [230]
    value = types.SimpleNamespace(uiVal=_of(index, "recovery", 0))
    return [types.SimpleNamespace(nvmlReturn=0, value=value)]
