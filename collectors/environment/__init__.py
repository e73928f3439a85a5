"""The environment of a recording: confidential computing, GPUs, machine, software, counters."""
