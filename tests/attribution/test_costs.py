"""Which player switches what."""

import numpy as np

from cctrace.analyzers.attribution.costs import GPU, NVLINK, PCIE, player_of_work


def test_only_copies_between_host_and_gpu_go_over_pcie() -> None:
    over_pcie, between_gpus = np.array([True, False, False]), np.array([False, False, True])
    # A copy of tokens; a kernel, or a copy within the GPU; a collective.
    assert player_of_work(over_pcie, between_gpus).tolist() == [PCIE, GPU, NVLINK]
