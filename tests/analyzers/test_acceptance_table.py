"""The acceptance table of one arm and of two: every field, its meaning, and whether a difference matters."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cctrace.analyzers.acceptance_table import (
    DIFFERS,
    MAX_CHARACTERS,
    MAX_FIELDS,
    NEAR,
    PARTLY,
    SAME,
    UNKNOWN,
    AcceptanceTable,
    Field,
    acceptance_table,
    differing,
    text_of,
)
from cctrace.trace import Acceptance, Emulation, Metadata, open_trace, settable_fields
from cctrace.trace.documents import hints

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def known(**values: Any) -> Metadata:
    """Metadata with fields set, as `record --set` does."""
    about = Metadata()
    for name, value in values.items():
        about = about.with_value(name.replace("__", "."), value)
    return about


def pair(off: Metadata | Sequence[Metadata], on: Metadata | Sequence[Metadata]) -> AcceptanceTable:
    arms = {"off": off, "on": on}
    several = {arm: [runs] if isinstance(runs, Metadata) else list(runs) for arm, runs in arms.items()}
    return acceptance_table(
        {arm: [(f"{arm}{n}.parquet", one) for n, one in enumerate(runs)] for arm, runs in several.items()}
    )


def field(table: AcceptanceTable, name: str) -> Field:
    return next(one for one in table.fields if one.name == name)


def test_every_field_that_can_be_set_is_there_with_its_meaning() -> None:
    table = acceptance_table({"one": [("a", Metadata())]})

    listed = {one.name: one for one in table.fields}
    settable = {name: about for name, about in settable_fields().items() if name != "label"}
    for name, about in settable.items():
        assert listed[name].meaning == about.meaning
        assert listed[name].unit == about.unit
    assert [area.name for area in table.areas] == list(hints(Acceptance))
    assert {one.state for area in table.areas for one in area.fields} == {UNKNOWN}
    assert all(one.said[0].texts == (None,) for area in table.areas for one in area.fields)


@pytest.mark.parametrize(
    ("name", "off", "on", "state", "severity"),
    [
        ("software.driver", "580.1", "580.1", SAME, None),
        ("software.driver", "580.1", "595.2", DIFFERS, "warns"),
        ("load.concurrency", "16", "32", DIFFERS, "forbids"),
        ("security.cc_mode", "off", "on", DIFFERS, "expected"),
        ("software.os", "a", "b", DIFFERS, "informs"),
        ("results.tpot_ms", "5.0", "7.5", DIFFERS, "ignored"),
        ("hardware.memory_bytes", "1000", "1010", NEAR, None),
        ("load.concurrency", "16", None, PARTLY, "warns"),
        ("load.concurrency", None, None, UNKNOWN, "informs"),
        ("results.goodput", None, None, UNKNOWN, None),
    ],
)
def test_a_difference_is_as_grave_as_in_a_comparison(
    name: str, off: str | None, on: str | None, state: str, severity: str | None
) -> None:
    arms = [known() if value is None else known(**{name.replace(".", "__"): value}) for value in (off, on)]

    found = field(pair(*arms), name)

    assert (found.state, found.severity) == (state, severity)
    assert bool(found.messages) == (severity is not None)
    assert found.differs == (state in (DIFFERS, PARTLY))


def test_values_are_given_for_each_arm_in_full_and_with_units() -> None:
    off = known(load__input_len="128", hardware__memory_bytes=str(252 << 30), security__devtools="no")
    on = known(load__input_len="lognormal", hardware__memory_bytes=str(252 << 30))

    table = pair(off, on)

    assert [one.texts for one in field(table, "load.input_len").said] == [("128 tokens",), ("lognormal",)]
    assert field(table, "hardware.memory_bytes").said[0].texts == ("252 GiB",)
    assert [one.texts for one in field(table, "security.devtools").said] == [("no",), (None,)]


def test_values_of_repeats_are_listed_with_their_runs() -> None:
    on = [known(software__driver=version) for version in ("1", "2", "1")]

    found = field(pair(known(software__driver="1"), on), "software.driver")

    assert found.said[1].texts == ("1", "2")
    assert found.said[1].runs == ((1, 3), (2,))
    assert found.severity == "warns"
    assert any("between runs of the on arm" in message for message in found.messages)


def test_repeats_of_one_arm_are_compared_without_another() -> None:
    runs = [("a", known(security__cc_mode="on")), ("b", known(security__cc_mode="off"))]

    table = acceptance_table({"one": runs})

    found = field(table, "security.cc_mode")
    assert (found.state, found.severity) == (DIFFERS, "forbids")
    assert table.observed == ()


def test_the_list_of_differences_has_the_gravest_first_and_no_outcomes() -> None:
    off = known(software__driver="1", load__batch="1", security__cc_mode="off", results__tpot_ms="1")
    on = known(software__driver="2", load__batch="2", security__cc_mode="on", results__tpot_ms="2")

    found = differing(pair(off, on))

    assert [one.name for one in found] == ["load.batch", "software.driver", "security.cc_mode"]


def test_parts_of_parts_are_fields_of_their_own() -> None:
    off = known(
        software__frameworks="vllm=1,torch=2", hardware__gpu_details='[{"uuid":"a","memory_bytes":2048}]'
    )
    on = known(software__frameworks="vllm=2", hardware__gpu_details='[{"uuid":"b","memory_bytes":2048}]')

    table = pair(off, on)

    engine, torch = field(table, "software.frameworks.vllm"), field(table, "software.frameworks.torch")
    assert (engine.label, engine.severity) == ("frameworks.vllm", "warns")
    assert torch.said[1].texts == ("not set",)
    assert field(table, "hardware.gpu_details.0.uuid").severity == "informs"
    assert field(table, "hardware.gpu_details.0.memory_bytes").said[0].texts == ("2.0 KiB",)
    assert field(table, "hardware.gpu_details.0.uuid").meaning == "one object a GPU, as NVML describes it"


def test_what_was_charged_is_no_field_but_observed() -> None:
    on = Metadata(emulation=Emulation(profile="b200-tdx", causes=("launch",)))

    table = pair(Metadata(), on)

    assert not any(one.name.startswith("emulation") for one in table.fields)
    assert {one.name for one in table.observed} >= {"emulation"}


def test_unknown_keys_are_kept_as_text_within_bounds() -> None:
    document = Metadata().to_document()
    document["acceptance"]["hardware"]["later"] = {"a": ["<b>", {"c": None}]}
    document["acceptance"]["load"] |= {f"key{number}": "x" * 10_000 for number in range(MAX_FIELDS + 7)}
    document["invented"] = {"deep": {"deeper": 1}}

    table = acceptance_table({"one": [("a", Metadata.from_document(document))]})

    later = field(table, "hardware.later")
    assert (later.meaning, later.said[0].texts) == ("", ('{"a": ["<b>", {"c": null}]}',))
    load = next(area for area in table.areas if area.name == "load")
    own = len(fields(Acceptance().load)) - 1
    assert len(load.fields) == MAX_FIELDS
    assert load.left_out == own + 7
    assert len(load.fields[-1].said[0].texts[0] or "") == MAX_CHARACTERS
    assert table.others[-1].name == "document"
    assert "invented.deep" in {one.name for one in table.others[-1].fields}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "", None),
        (True, "", "yes"),
        (1.23456789, "ms", "1.23457 ms"),
        (127133803128, "ns, CLOCK_MONOTONIC", "127133803128"),
        (12, "bytes", "12 B"),
        (["a", "b"], "", "a b"),
        ([], "", "none"),
        ([[0, 1]], "", "[[0, 1]]"),
    ],
)
def test_values_read_well(value: Any, unit: str, text: str | None) -> None:
    assert text_of(value, unit) == text


def test_the_shipped_pair_differs_in_what_was_meant_and_in_outcomes_only() -> None:
    files = {
        arm: SAMPLES / f"vllm-8b-full-{name}.parquet" for arm, name in (("off", "off"), ("on", "emulated"))
    }

    table = acceptance_table({arm: [(str(path), open_trace(path).metadata)] for arm, path in files.items()})

    assert differing(table) == []
    assert field(table, "results.tpot_ms").said[0].texts == ("5.07486 ms",)
    command = field(table, "recording.command").said[0].texts[0]
    assert command is not None
    assert command.endswith(".vllm-8b-full-off.json")
    assert {one.severity for one in table.observed} == {"informs"}
