"""cctrace: what NVIDIA Confidential Computing costs your own LLM serving run, and why.

The command line is the main door (``cctrace --help``). In Python, `cctrace.trace` reads and writes traces,
`cctrace.analyzers` turns a trace into steps, summaries and differences, and `cctrace.collectors` records.
"""

__version__ = "0.1.0"
