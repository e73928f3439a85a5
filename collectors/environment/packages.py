"""Versions of the packages that the recorded program will import, asked of its own interpreter."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    "torch",
    "vllm",
    "sglang",
    "sgl-kernel",
    "tensorrt-llm",
    "transformers",
    "triton",
    "flashinfer-python",
    "flash-attn",
    "xformers",
    "cuda-python",
    "cuda-bindings",
    "nvtx",
    "nvidia-nccl-cu13",
    "nvidia-nccl-cu12",
    "nvidia-cuda-runtime",
    "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-cupti",
    "nvidia-cuda-cupti-cu12",
    "nvidia-cublas",
    "nvidia-cublas-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-cudnn-cu12",
)
"""Engines, and libraries whose version changes which kernels, copies or collectives a step has."""

_TIMEOUT_S: Final = 10.0
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*")
_MAX_WRAPPED: Final = 8
"""So many leading arguments may be wrappers such as `env`, `taskset -c 0-7` or `numactl`."""

_QUESTION: Final = """
import json, platform, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except Exception:
        pass
print(json.dumps({"python": platform.python_version(), "packages": found}))
"""


@dataclass(frozen=True)
class Packages:
    """Python of the recorded program and its packages, name → version; empty if it runs no Python."""

    python: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    def first(self, *names: str) -> str | None:
        """Returns the version of the first of `names` that is installed."""
        return next((self.versions[name] for name in names if name in self.versions), None)


def find_interpreter(command: Sequence[str]) -> str | None:
    """Returns the Python that a command line runs: named in it, or in the first line of its script."""
    for argument in command[:_MAX_WRAPPED]:
        if _PYTHON.fullmatch(Path(argument).name):
            return shutil.which(argument)
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        with Path(program).open("rb") as file:
            line = file.readline(4096)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode("utf-8", "replace").split()
    named = next((word for word in words[:3] if _PYTHON.fullmatch(Path(word).name)), None)
    return shutil.which(named) if named else None


def read_packages(command: Sequence[str], variables: Mapping[str, str]) -> Packages:
    """Asks the command's own interpreter for its packages; imports none of them.

    Args:
        command: the command to be recorded.
        variables: the environment it would have without being recorded.
    """
    interpreter = find_interpreter(command)
    if interpreter is None:
        return Packages()
    try:
        answer = subprocess.run(  # noqa: S603 - the interpreter that the user is about to run
            [interpreter, "-c", _QUESTION, *PACKAGES],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=True,
        )
        document = json.loads(answer.stdout.splitlines()[-1])
        return Packages(str(document["python"]), {str(k): str(v) for k, v in document["packages"].items()})
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError, AttributeError):
        return Packages()
