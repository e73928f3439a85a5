"""The JSON schemas that `docs/schemas` publishes, made from the result classes."""

from __future__ import annotations

from typing import Any, Final

from cctrace.analyzers.report.document import Report
from cctrace.analyzers.results import Result, result_schema
from cctrace.analyzers.step_list import StepList
from cctrace.analyzers.summary import Summary

RESULTS: Final[dict[str, type[Result]]] = {"summary": Summary, "steps": StepList, "diff": Report}
"""Command → class of the JSON that it prints."""


def published_schemas() -> dict[str, dict[str, Any]]:
    """Command → JSON schema of `cctrace COMMAND --json`."""
    return {name: result_schema(cls, f"cctrace {name} --json") for name, cls in RESULTS.items()}
