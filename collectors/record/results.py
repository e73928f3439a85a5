"""The results of a load client (`vllm bench serve` and those that use its field names) as metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cctrace.errors import UnusableInputError
from cctrace.trace.acceptance import Acceptance

_RESULTS: Final = {
    "ttft_ms": "median_ttft_ms",
    "tpot_ms": "median_tpot_ms",
    "output_throughput": "output_throughput",
    "request_throughput": "request_throughput",
    "goodput": "request_goodput",
}
_EXTRA: Final = (
    "duration",
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "total_token_throughput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "median_itl_ms",
    "p99_itl_ms",
)
"""Kept as they are: whoever reads the trace later knows these names."""

_MAX_BYTES: Final = 256 << 20
"""A detailed result file lists every request; above this size it is something else."""


def read_results(path: Path) -> dict[str, Any]:
    """Returns the JSON object of a load client; of several lines, the last one.

    Raises:
        UnusableInputError: the file is missing, too large, or holds no JSON object.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UnusableInputError(f"the results {path} are larger than {_MAX_BYTES >> 20} MiB")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableInputError(f"cannot read the results {path}: {error}") from error
    for candidate in (text, next((line for line in reversed(text.splitlines()) if line.strip()), "")):
        try:
            document = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(document, dict):
            return document
    raise UnusableInputError(f"the results {path} hold no JSON object")


def fill_results(known: Acceptance, document: Mapping[str, Any]) -> Acceptance:
    """Returns `known` with the client's results, and with the load where the user has not set it by hand."""
    numbers: dict[str, Any] = {field: _number(document.get(key)) for field, key in _RESULTS.items()}
    extra = {key: document[key] for key in _EXTRA if _number(document.get(key)) is not None}
    results = replace(
        known.results,
        **{field: value for field, value in numbers.items() if value is not None},
        errors=_errors(document),
        extra={**known.results.extra, **extra},
    )
    rate = document.get("request_rate")
    load: dict[str, Any] = {
        "concurrency": _whole(document.get("max_concurrency")),
        "requests": _whole(document.get("num_prompts")),
        "arrival_rate": rate if isinstance(rate, str) else _number(rate),
    }
    model = document.get("model_id")
    return replace(
        known,
        results=results,
        load=replace(known.load, **{k: v for k, v in load.items() if getattr(known.load, k) is None}),
        model=known.model
        if known.model.name or not isinstance(model, str)
        else replace(known.model, name=model),
    )


def _errors(document: Mapping[str, Any]) -> int | None:
    failed = _whole(document.get("failed"))
    if failed is not None:
        return failed
    asked, completed = _whole(document.get("num_prompts")), _whole(document.get("completed"))
    return None if asked is None or completed is None else max(0, asked - completed)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
