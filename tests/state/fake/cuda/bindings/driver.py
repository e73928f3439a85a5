"""Stands in for cuda-python: GPUs as $FAKE_GPUS describes them. What happened is appended to $FAKE_LOG."""

import contextlib
import ctypes
import enum
import json
import os
import signal
import threading
import time
from types import SimpleNamespace

import fake_clock

CONFIG = json.loads(os.environ["FAKE_GPUS"])
CUdevice_attribute = SimpleNamespace(
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="sms",
)
CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_SYSTEM_NOT_READY = 802


OK = CUresult.CUDA_SUCCESS
current = threading.local()
pending: dict[int, float] = {}
_allocated: dict[int, int] = {}


def _log(text):
    with open(os.environ["FAKE_LOG"], "a") as file:
        file.write(f"{os.getpid()} {text}\n")


def _visible():
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = CONFIG["gpus"]
    return gpus if names is None else [gpus[int(name)] for name in names.split(",") if name]


def cuInit(flags):
    _log("init " + " ".join(name for name in ("CUDA_INJECTION64_PATH", "LD_PRELOAD") if name in os.environ))
    how = CONFIG.get("init", 0)
    if how == "no library":
        raise RuntimeError("Failure finding libcuda.so.1")
    if how == "hang":
        time.sleep(1000)
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "garbage":
        for descriptor in range(3, 20):
            with contextlib.suppress(OSError):
                os.write(descriptor, b"\xff{]\n")
    return (CUresult(how if isinstance(how, int) else 0),)


def cuDeviceGetCount():
    return (OK, len(_visible()))


def cuDeviceGet(ordinal):
    return (OK, CONFIG["gpus"].index(_visible()[ordinal]))


def cuDeviceGetAttribute(name, device):
    return (OK, {"major": 9, "minor": 0, "sms": 132, **CONFIG["gpus"][device]}[name])


def _buffer(length, text):
    """As cuda-bindings 13 does: all of the buffer, with what lay there before behind the text."""
    return (text.encode() + b"\0").ljust(length, b"\xe5")


def cuDeviceGetPCIBusId(length, device):
    return (OK, _buffer(length, CONFIG["gpus"][device]["bus"]))


def cuDeviceGetName(length, device):
    return (OK, _buffer(length, "Fake H200"))


def cuDevicePrimaryCtxRetain(device):
    _log(f"retain {device}")
    return (CUresult(CONFIG["gpus"][device].get("retain", 0)), device)


def cuDevicePrimaryCtxRelease(device):
    _allocated.pop(device, None)
    _log(f"release {device}")
    return (OK,)


def cuCtxSetCurrent(context):
    current.device = context
    return (OK,)


def cuModuleLoadData(image):
    assert image.endswith(b"\0")
    return (OK, image.decode())


def cuModuleGetFunction(module, name):
    assert f".entry {name.decode()}(" in module
    return (OK, name.decode())


def cuStreamCreate(flags):
    return (OK, current.device)


def cuMemGetInfo():
    gpu = CONFIG["gpus"][current.device]
    free = gpu.get("free", 140 << 30) - _allocated.get(current.device, 0)
    return (OK, free, 141 << 30)


def cuMemAlloc(size):
    _allocated[current.device] = _allocated.get(current.device, 0) + size
    _log(f"alloc {size}")
    return (OK, 0x7000_0000 + size)


def cuLaunchKernel(*given):
    function, _, _, _, _, _, _, _, stream, arguments, _ = given
    fake_clock.advance(3.0)
    gpu = CONFIG["gpus"][stream]
    if function == "cctrace_fma":
        pointers = (ctypes.c_void_p * 4).from_address(arguments)
        assert ctypes.c_float.from_address(pointers[2]).value == -1.0
    us = {"cctrace_fma": gpu.get("compute_us", 2000), "cctrace_copy": gpu.get("memory_us", 3000)}
    runs = gpu.setdefault("runs", [0])
    runs[0] += 1
    jitter = gpu.get("jitter", 0.0) if runs[0] % 3 == 0 else 0.0
    pending[stream] = pending.get(stream, 0.0) + us.get(function, 0.5) * (1 + jitter)
    return (OK,)


def cuStreamSynchronize(stream):
    if CONFIG["gpus"][stream].get("hang"):
        time.sleep(1000)
    fake_clock.advance(pending.pop(stream, 0.0))
    return (OK,)
