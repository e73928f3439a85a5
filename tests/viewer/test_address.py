"""The address of a page is all its state; it comes from anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctrace.app.viewer.address import MAX_PARAMETERS, MAX_VALUE_CHARACTERS, Address


def test_reads_what_it_writes() -> None:
    state = Address("/steps", {"arm": "on", "class": "decode bs=16 & more", "x0": "-1.5"})
    assert Address.parse(state.path, state.search) == state
    assert state.number("x0") == -1.5
    assert state.get("missing", "default") == "default"


def test_changes_leave_the_rest() -> None:
    state = Address("/steps", {"arm": "on", "step": "3"})
    assert str(state.with_(step=4, x0=None)) == "/steps?arm=on&step=4"
    assert str(state.with_(arm=None, step=None)) == "/steps"
    assert state.with_(step=0).integer("step") == 0


@pytest.mark.parametrize("text", ["", "nan", "inf", "-inf", "1e999", "x", "0x10", "1" * 5000])
def test_what_is_no_number_is_none(text: str) -> None:
    state = Address("/", {"value": text})
    assert state.number("value") is None
    assert state.integer("value") is None


def test_too_much_is_left_out() -> None:
    many = "&".join(f"k{number}=1" for number in range(MAX_PARAMETERS + 1))
    assert Address.parse("/", "?" + many).parameters == {}
    long = Address.parse("/", f"?a=1&b={'x' * (MAX_VALUE_CHARACTERS + 1)}")
    assert long.parameters == {"a": "1"}
    assert Address.parse(None, None) == Address("/", {})


def test_choice_falls_back_to_the_first() -> None:
    assert Address("/", {"phase": "<script>"}).choice("phase", ("all", "decode")) == "all"
    assert Address("/", {"phase": "decode"}).choice("phase", ("all", "decode")) == "decode"


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_makes_it_fail(path: str, search: str) -> None:
    state = Address.parse(path, search)
    for key in state.parameters:
        state.number(key)
        state.integer(key)
    assert Address.parse(state.path, state.search).parameters == {
        key: value for key, value in state.parameters.items() if value
    }
