#!/usr/bin/env python3
"""Replays a graph of 50 kernels some 3,000 times a second, and keeps count in a file that survives `kill -9`.

    cctrace record -o loop.parquet -- python3 bench/replay_loop.py COUNT-FILE SECONDS

The eight bytes of COUNT-FILE are the number of replays launched so far, with which a killed recording is
compared.
"""

from __future__ import annotations

import argparse
import mmap
import struct
import time
from pathlib import Path
from typing import Final

import torch

KERNELS: Final = 50
SYNCHRONIZE_EVERY: Final = 20
PAUSE_S: Final = 0.0003


def main(count_file: Path, seconds: float) -> None:
    """Replays until the time is up."""
    count_file.write_bytes(bytes(8))
    x = torch.zeros(4096, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(KERNELS):
            x.add_(1)
    launched, end = 0, time.monotonic() + seconds
    with count_file.open("r+b") as file, mmap.mmap(file.fileno(), 8) as counted:
        while time.monotonic() < end:
            graph.replay()
            launched += 1
            counted[:] = struct.pack("q", launched)
            if launched % SYNCHRONIZE_EVERY == 0:
                torch.cuda.synchronize()
            time.sleep(PAUSE_S)
    torch.cuda.synchronize()
    print("done", launched)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count_file", type=Path, metavar="COUNT-FILE")
    parser.add_argument("seconds", type=float, metavar="SECONDS")
    options = parser.parse_args()
    main(options.count_file, options.seconds)
