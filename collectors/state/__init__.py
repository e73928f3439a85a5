"""The state of the GPUs before a measurement: reference loops, and what NVML says."""
