import json
from dataclasses import fields, is_dataclass, replace
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cctrace.errors import UnusableInputError
from cctrace.trace import Clock, Collector, Emulation, Lane, Metadata, Process, settable_fields
from cctrace.trace.documents import hints, to_document
from cctrace.trace.metadata import MAX_DOCUMENT_BYTES, SCHEMA_FILE, published_schema

FULL = replace(
    Metadata().with_value("model.precision", "nvfp4").with_value("security.nvlink_encryption", "off"),
    label="a run",
    collector=Collector(
        version="0.1.0",
        gpu_mode="stamps",
        timing="undisturbed",
        processes=(
            Process(pid=7, lost={"ring full": 3}, tax_ns={"call": 101.5}, state={"cupti": "absent", "n": 2}),
        ),
    ),
    clock=Clock(pairs=((1, 10), (2, 11))),
    emulation=Emulation(profile="b200-tdx", causes=("launch",), values={"kernel_us": 12.25}),
    lanes=(Lane(lane=0, pid=7, kind="thread", tid=7, name="thread 7"),),
    labels=("emulated",),
)


def test_a_document_survives_being_written_and_read() -> None:
    assert Metadata.from_json(FULL.to_json()) == FULL


def test_the_published_schema_is_that_of_the_classes() -> None:
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8")) == published_schema()


def test_the_published_schema_accepts_a_document_and_is_valid_itself() -> None:
    jsonschema.Draft202012Validator.check_schema(published_schema())
    jsonschema.validate(FULL.to_document(), published_schema())


def test_every_field_has_a_meaning() -> None:
    def missing(cls: type, path: str) -> list[str]:
        found = []
        for item in fields(cls):
            kind = hints(cls).get(item.name)
            if is_dataclass(kind):
                found += missing(kind, f"{path}.{item.name}")
            elif item.name != "extra" and not item.metadata.get("meaning"):
                found.append(f"{path}.{item.name}")
        return found

    assert missing(Metadata, "") == []


def test_unknown_keys_of_the_same_version_are_kept() -> None:
    document = FULL.to_document()
    document["new_top"] = {"a": [1]}
    document["acceptance"]["security"]["new_field"] = "x"
    document["collector"]["processes"][0]["new_field"] = 1.5
    read = Metadata.from_document(document)
    assert read.extra == {"new_top": {"a": [1]}}
    assert read.acceptance.security.extra == {"new_field": "x"}
    assert read.to_document() == document
    assert Metadata.from_json(read.to_json()) == read


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[1]", "no valid format_version"),
        ("{}", "no valid format_version"),
        ('{"format_version": true}', "no valid format_version"),
        ('{"format_version": "1"}', "no valid format_version"),
        ('{"format_version": 0}', "no valid format_version"),
        ('{"format_version": 2}', "newer cctrace (format 2; this one reads up to 1)"),
        ('{"format_version": 1, "label": 3}', "label"),
        (
            '{"format_version": 1, "acceptance": {"parallelism": {"tp": "eight"}}}',
            "acceptance.parallelism.tp",
        ),
        ('{"format_version": 1, "lanes": [{"lane": 99999999999999999999}]}', "lanes.0.lane"),
        ('{"format_version": 1, "clock": {"pairs": [["a"]]}}', "clock.pairs.0.0"),
        ('{"format_version": 1, "label": "\\ud800"}', "not valid JSON"),
        ('{"format_version": 1, "x": NaN}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        (b'{"format_version": 1, "label": "\xff"}', "not valid JSON"),
    ],
)
def test_a_broken_document_gives_one_clear_line(text: str | bytes, says: str) -> None:
    with pytest.raises(UnusableInputError) as caught:
        Metadata.from_json(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_huge_document_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(UnusableInputError, match="larger than 16 MiB"):
        Metadata.from_json(b" " * (MAX_DOCUMENT_BYTES + 1))


def test_control_characters_do_not_reach_the_message() -> None:
    with pytest.raises(UnusableInputError) as caught:
        Metadata.from_json(json.dumps({"format_version": 1, "label": ["\x1b[31m\n"]}))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("model.precision", "nvfp4", "nvfp4"),
        ("parallelism.tp", "8", 8),
        ("parallelism.tp", 8, 8),
        ("load.input_len", "1024", 1024),
        ("load.input_len", "uniform 100–2000", "uniform 100–2000"),
        ("load.arrival_rate", "12.5", 12.5),
        ("scheduling.overlap", "yes", True),
        ("scheduling.overlap", "off", False),
        ("security.cc_mode", "on", "on"),
        ("results.ttft_ms", "259", 259.0),
        ("software.frameworks", "vllm=0.26.0,torch=2.11", {"vllm": "0.26.0", "torch": "2.11"}),
        ("software.frameworks", '{"sglang": "0.5.13"}', {"sglang": "0.5.13"}),
        ("software.cc_patches", "PR 11573, PR 11657", ("PR 11573", "PR 11657")),
        ("hardware.numa", "2", 2),
        ("hardware.numa", '{"0": [0, 1]}', {"0": [0, 1]}),
        ("model.precision", "", None),
        ("model.precision", "null", None),
        ("security.tee", "none", "none"),
    ],
)
def test_a_set_value_gets_the_type_of_its_field(name: str, value: Any, expected: Any) -> None:
    area, key = name.split(".")
    changed = Metadata().with_value(name, value)
    found = getattr(getattr(changed.acceptance, area), key)
    assert found == expected
    assert type(found) is type(expected)
    assert Metadata.from_json(changed.to_json()) == changed


def test_the_label_can_be_set() -> None:
    assert Metadata().with_value("label", "off, run 3").label == "off, run 3"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("precision", "x", "did you mean model.precision or memory.kv_precision?"),
        ("model.precison", "x", "did you mean model.precision"),
        ("zzz", "x", "`cctrace info --fields`"),
        ("parallelism.tp", "eight", "'eight' does not fit parallelism.tp: expected whole number"),
        ("parallelism.tp", "1.5", "whole number"),
        ("parallelism.tp", str(2**63), "whole number"),
        ("model.architecture", "cnn", "dense | moe"),
        ("results.ttft_ms", "nan", "number [ms]"),
        ("scheduling.overlap", "maybe", "yes | no"),
        ("software.frameworks", "vllm", "a=1,b=2"),
    ],
)
def test_a_wrong_setting_says_what_fits(name: str, value: str, says: str) -> None:
    with pytest.raises(UnusableInputError) as caught:
        Metadata().with_value(name, value)
    assert says in str(caught.value)


def test_the_acceptance_table_is_settable_as_a_whole() -> None:
    areas = {name.split(".")[0] for name in settable_fields()} - {"label"}
    assert areas == {
        *(
            "hardware",
            "security",
            "software",
            "model",
            "load",
            "parallelism",
            "scheduling",
            "memory",
            "results",
        ),
        *("life_cycle", "scale"),
    }
    assert all(settable.meaning and settable.expects for settable in settable_fields().values())


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=10,
)


def _near(value: Any) -> st.SearchStrategy[Any]:
    """Documents like a valid one, with some values replaced by others."""
    if isinstance(value, dict):
        kept = st.fixed_dictionaries({}, optional={key: _near(item) for key, item in value.items()})
        return kept | _JSON
    if isinstance(value, list):
        return st.lists(_near(value[0]), max_size=2) | _JSON if value else st.lists(_JSON, max_size=2)
    return st.just(value) | _JSON


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_near(FULL.to_document()))
def test_reading_and_the_schema_accept_the_same(document: Any) -> None:
    if not isinstance(document, dict):
        return
    document["format_version"] = 1
    valid = jsonschema.Draft202012Validator(published_schema()).is_valid(document)
    try:
        read = Metadata.from_document(document)
    except UnusableInputError:
        assert not valid
    else:
        assert valid
        assert Metadata.from_json(read.to_json()) == read


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*(f.name for f in fields(Metadata)), "other"]), _JSON, max_size=4))
def test_any_document_is_read_or_refused(document: dict[str, Any]) -> None:
    document["format_version"] = 1
    valid = jsonschema.Draft202012Validator(published_schema()).is_valid(document)
    try:
        read = Metadata.from_document(document)
    except UnusableInputError:
        assert not valid
    else:
        assert valid
        assert Metadata.from_json(read.to_json()) == read
        assert to_document(read).items() >= {k: v for k, v in document.items() if k == "other"}.items()
