"""Two measured profiles side by side, and one beside a platform."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from fake_gpu import OFF, ON, measured_profile

from cctrace.analyzers.calibration import Line, Published, blocking, compare, nearest, published
from cctrace.app.calibrate_view import show_calibration, show_comparison
from cctrace.app.terminal import console
from cctrace.errors import UnusableInputError
from cctrace.profiles.files import load_profile
from cctrace.profiles.model import Profile
from cctrace.profiles.shipped import profile_names


@pytest.fixture(scope="module")
def on() -> Profile:
    return measured_profile(ON, "on", 2, "on")


@pytest.fixture(scope="module")
def off() -> Profile:
    return measured_profile(OFF, "off", 2)


@contextmanager
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "80")
    yield


def with_head(profile: Profile, **changes: object) -> Profile:
    return profile.model_copy(update={"profile": profile.profile.model_copy(update=changes)})


def line_of(lines: tuple[Line, ...], name: str, size: int | None = None) -> Line:
    return next(one for one in lines if one.name == name and size in (None, one.bytes))


def test_the_published_tables_come_out(on: Profile, off: Profile) -> None:
    found = compare(on, off)
    kernel = line_of(found.lines, "submit one kernel")
    assert (kernel.off.value, kernel.on.value) == pytest.approx((3.45, 15.7), abs=0.01)
    assert kernel.difference == pytest.approx(12.25, abs=0.01)
    assert kernel.ratio == pytest.approx(15.7 / 3.45, rel=0.02)
    assert not kernel.within_spread
    assert line_of(found.lines, "record an event").within_spread
    copy = line_of(found.lines, "H2D pinned", 64 << 20)
    assert copy.bytes is not None
    assert copy.bytes / copy.on.value / 1e3 == pytest.approx(1 / (1 / 54.6 + 1 / 9.5), rel=0.01)
    reduce = line_of(found.lines, "NCCL all-reduce (bus)")
    assert reduce.unit == "GB/s"
    assert 1 - (reduce.ratio or 0) == pytest.approx(1 - 260 / 300, abs=0.001)
    assert line_of(found.lines, "small P2P write").difference == pytest.approx(10.8, abs=0.01)
    rules = {one.name: (one.off.value, one.on.value) for one in found.of("rules")}
    assert rules["pinned copies wait for earlier work"] == (0.0, 1.0)
    assert not found.null_test
    assert not found.warnings


def test_off_with_off_is_a_null_test(off: Profile) -> None:
    found = compare(off, with_head(off, name="again"))
    assert found.null_test
    assert all(one.within_spread for one in found.lines)


def test_what_else_differs_is_said(on: Profile, off: Profile) -> None:
    other = with_head(off, gpu="NVIDIA Other", driver="570.1", machine="Other CPU", cc="unknown")
    warnings = compare(on, other).warnings
    assert [warning.split()[0] for warning in warnings] == ["off:", "gpu", "driver", "machine"]


def test_swapped_profiles_are_refused(on: Profile, off: Profile) -> None:
    with pytest.raises(UnusableInputError, match="the one with CC on first"):
        compare(off, on)


def test_a_profile_of_tolls_is_no_measurement(on: Profile) -> None:
    with pytest.raises(UnusableInputError, match="b200-tdx holds tolls"):
        compare(on, load_profile("b200-tdx"))


def test_profiles_with_nothing_in_common_leave_empty_tables(on: Profile, off: Profile) -> None:
    bare = Profile(profile=off.profile)
    assert compare(on, bare).lines == ()


def test_which_copies_block(on: Profile, off: Profile) -> None:
    assert not any(blocking(off, "d2h").values())
    assert all(blocking(on, "d2h").values())
    assert all(blocking(off, "d2h_pageable").values())
    assert blocking(off, "no_such_path") == {}


@pytest.mark.parametrize(
    ("gpu", "tee", "name"),
    [
        ("NVIDIA B200", "tdx", "b200-tdx"),
        ("NVIDIA B300 SXM6 AC", "sev-snp", "b300-sev-snp"),
        ("NVIDIA H100 80GB HBM3", "sev-snp", "h100-sev-snp"),
        ("NVIDIA H200", "unknown", "h100-tdx"),
        ("NVIDIA H20", "none", "h20"),
        ("NVIDIA RTX PRO 6000", "none", "b200-tdx"),
        ("Tesla T4", "tdx", "b200-tdx"),
    ],
)
def test_the_platform_most_like_a_machine(gpu: str, tee: str, name: str) -> None:
    platforms = [load_profile(one) for one in profile_names()]
    assert nearest(gpu, tee, platforms).name == name


def test_what_a_platform_says(off: Profile) -> None:
    kernel = published(load_profile("b200-tdx"), "launch", "kernel_us")
    assert (kernel.off, kernel.on, kernel.toll) == (3.45, 15.7, 12.25)
    measured = published(off, "launch", "kernel_us")
    assert measured.off == pytest.approx(3.45, abs=0.01)
    assert (measured.on, measured.toll) == (None, None)
    assert published(off, "launch", "no_such_us") == Published()
    assert published(load_profile("b200-tdx"), "overlap", "pinned_copies_block") == Published()


def test_a_table_is_read_between_its_sizes() -> None:
    platform = load_profile("h100-tdx")
    small, middle, large = (
        published(platform, "pcie", "h2d_us", size).toll for size in (64 << 10, 100_000, 256 << 10)
    )
    assert small is not None
    assert middle is not None
    assert large is not None
    assert small < middle < large


@pytest.mark.parametrize("platform", ["b200-tdx", "h20", "zero"])
def test_calibration_fits_eighty_columns(
    platform: str, on: Profile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with eighty_columns(monkeypatch):
        show_calibration(console(), on, load_profile(platform), ["a remark"])
    text = capsys.readouterr().out
    assert max(len(one) for one in text.splitlines()) <= 80
    words = " ".join(text.split())
    assert "submit one kernel 15.70" in words
    assert "pinned copies wait for earlier work yes" in words
    assert "error 801" in words
    assert "- a remark" in words
    assert f"Beside it: {platform}" in words


def test_comparison_names_its_denominators(
    on: Profile, off: Profile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with eighty_columns(monkeypatch):
        show_comparison(console(), compare(on, off))
    text = capsys.readouterr().out
    assert max(len(one) for one in text.splitlines()) <= 80
    words = " ".join(text.split())
    assert "on ÷ off" in words
    assert "1 − on ÷ off" in words
    assert "(+10.80 µs)" in words
    assert "Null test" not in words


def test_what_cannot_be_told_from_nothing_is_not_printed_as_zero(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = measured_profile(replace(OFF, event=0.0), "quick")
    with eighty_columns(monkeypatch):
        show_calibration(console(), profile, load_profile("b200-tdx"), [])
        show_comparison(console(), compare(profile, profile))
    words = " ".join(capsys.readouterr().out.split())
    assert words.count("record an event ≤ 0.01") == 3
    assert "0.00–0.00" not in words


def test_the_mark_of_blocking_copies_is_explained_where_it_is_used(
    off: Profile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with eighty_columns(monkeypatch):
        show_calibration(console(), off, load_profile("b200-tdx"), [])
    pinned, pageable = capsys.readouterr().out.split("Copies of pageable memory")
    assert "the call blocks" not in pinned
    assert "the call blocks" in pageable


def test_a_null_test_is_labelled(
    off: Profile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with eighty_columns(monkeypatch):
        show_comparison(console(), compare(off, off))
    words = " ".join(capsys.readouterr().out.split())
    assert "Null test: both were measured with CC off" in words
    assert words.count("≈") > 20
    assert "0 of " in words


def test_a_faster_gpu_is_no_negative_toll(off: Profile, on: Profile) -> None:
    slower = measured_profile(replace(OFF, kernel=20.0), "slow")
    assert line_of(compare(on, slower).lines, "submit one kernel").difference < 0
