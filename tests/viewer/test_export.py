"""`cctrace view --export`: one page with what the first page shows, which runs and loads nothing."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from command_line import run_main
from playwright.sync_api import Browser
from viewer_traces import HOSTILE, host_only, hostile

from cctrace.app.plots import Plot, Series, add_plot, nice_step
from cctrace.app.viewer.export import write
from cctrace.app.viewer.view import opened
from cctrace.errors import OutputExistsError, UnusableInputError

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ON, OFF = (SAMPLES / f"server-graph-overlap-{arm}.parquet" for arm in ("emulated", "off"))

Run = Callable[..., subprocess.CompletedProcess[str]]
LOADS = {"src", "href", "xlink:href", "action", "data", "srcset", "background"}
"""Attributes that make a browser ask for something."""


class Read(HTMLParser):
    """What a browser would read of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(run_main, monkeypatch, capsys, "view")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("export") / "pair.html"
    view = opened([ON], [OFF])
    write(view, target, force=False)
    view.close()
    return target


def exported(on: Path, off: Path | None, target: Path) -> Read:
    view = opened([on], [] if off is None else [off])
    write(view, target, force=True)
    view.close()
    return Read(target)


def test_the_command_writes_a_page_and_serves_nothing(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "overview.html"

    done = run(ON, OFF, "--export", target)

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"cctrace: wrote {target}\n"
    assert Read(target).words.startswith(f"cctrace: {ON.name} against {OFF.name}")


def test_an_existing_file_is_replaced_only_by_force(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "overview.html"
    target.write_text("mine")

    done = run(ON, OFF, "--export", target)

    assert (done.returncode, done.stderr) == (2, f"cctrace: {target} exists; --force overwrites it\n")
    assert target.read_text() == "mine"
    assert run(ON, "--export", target, "--force").returncode == 0
    assert "mine" not in target.read_text()[:100]


@pytest.mark.parametrize("place", ["", "nowhere/x.html"])
def test_a_file_that_cannot_be_written_ends_with_one_line(place: str, run: Run, tmp_path: Path) -> None:
    done = run(ON, "--export", tmp_path / place)

    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_a_recording_is_never_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "mine.parquet"
    mine.write_bytes(OFF.read_bytes())

    with pytest.raises(UnusableInputError, match="is one of the recordings; give --export another name"):
        write(opened([mine]), mine, force=True)
    with pytest.raises(OutputExistsError):
        write(opened([mine]), Path(__file__), force=False)
    assert mine.read_bytes() == OFF.read_bytes()


def test_the_page_runs_nothing_and_loads_nothing(pair: Path) -> None:
    page = Read(pair)

    assert not {"script", "link", "img", "iframe", "object", "a", "form"} & {tag for tag, _ in page.tags}
    assert [attributes for _, attributes in page.tags if LOADS & set(attributes)] == []
    policy = next(one["content"] for one in page.named("meta") if one.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "url(" not in pair.read_text()
    assert "@import" not in pair.read_text()


def test_the_page_says_what_the_first_page_says(pair: Path) -> None:
    view = opened([ON], [OFF])
    report = view.report(wait=True)
    words = Read(pair).words

    assert report.headline in words
    assert "This comparison is emulated." in words
    for part in ("all compared steps", "decode steps", "prefill steps"):
        assert f"From the off step to the on step, {part}" in words
    assert words.count("residual") >= 6  # in each waterfall, and in each table of causes
    assert re.search(r"TPOT, median, ms 1\.175 1\.689 \+43\.7 %", words)
    assert "of the off arm's step. Throughput loss 28.2 % = 1 − on ÷ off, of the off arm's tokens" in words
    assert report.findings[0].evidence[0].text in words
    assert f"Remedy: {report.findings[0].remedy}." in words
    assert "Looked for, and not found" in words
    assert "hardware.gpu_model NVIDIA H200 NVIDIA H200" in words
    assert "≠ results.tpot_ms" in words
    assert "2 recordings" in words
    view.close()


def test_drawings_say_in_words_what_they_show(pair: Path) -> None:
    labels = [str(one["aria-label"]) for one in Read(pair).named("svg")]

    assert sum(label.startswith("off 1.27 ms; launch ") for label in labels) == 1
    assert "Period of each step: off: median 1.17 ms; on: median 1.65 ms" in labels
    assert any(label.startswith("How periods are distributed: off: half of the steps") for label in labels)


def test_differences_between_the_arms_are_listed_by_gravity(tmp_path: Path) -> None:
    page = exported(SAMPLES / "server-graph-worker-emulated.parquet", OFF, tmp_path / "x.html")

    words = page.words.split("What else differs between the recordings", 1)[1]
    assert re.search(r"warns scheduling\.readback overlap worker", words)
    assert words.index("warns") < words.index("informs")


def test_a_comparison_without_shares_says_why_and_still_shows_the_steps(tmp_path: Path) -> None:
    page = exported(SAMPLES / "server-graph-overlap-nodes.parquet", OFF, tmp_path / "x.html")

    assert "cannot attribute it, because CUPTI distorted the host times" in page.words
    assert "launch +" not in page.words
    assert "Period of each step" in " ".join(str(one["aria-label"]) for one in page.named("svg"))


def test_a_single_recording_has_its_summary_steps_and_findings(tmp_path: Path) -> None:
    page = exported(OFF, None, tmp_path / "one.html")

    assert page.words.startswith(f"cctrace: {OFF.name}")
    assert "Host calls per step of: decode bs=16" in page.words
    assert "Costs with CC on: at most" in page.words
    assert "security.cc_mode off" in page.words
    assert len(page.named("svg")) == 2


def test_a_recording_without_steps_says_so(tmp_path: Path) -> None:
    source = SAMPLES / "launch-graph-off.parquet"
    short = tmp_path / "short.parquet"
    from cctrace.trace import TraceWriter, open_trace  # noqa: PLC0415

    trace = open_trace(source)
    with TraceWriter(short) as writer:
        writer.write(trace.table(kinds=["submit"]).slice(0, 3))
        writer.finish(trace.metadata)

    page = exported(short, None, tmp_path / "short.html")

    assert "Cannot tell the steps, because " in page.words
    assert "one: no steps to draw, because " in page.words
    assert page.named("svg") == []


def test_a_pair_without_gpu_times_keeps_its_residual(tmp_path: Path) -> None:
    on, off = host_only(tmp_path)

    page = exported(on, off, tmp_path / "x.html")

    assert "residual" in page.words
    assert "TPOT and throughput: not known" in page.words


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()

    page = exported(hostile(ON, folder), hostile(OFF, folder), tmp_path / "x.html")

    assert not {"script", "img", "b", "a"} & {tag for tag, _ in page.tags}
    assert "<script>window.pwned=1</script>" in page.words
    assert not {"\u202e", "\x00", "\x1b"} & set((tmp_path / "x.html").read_text())
    assert HOSTILE not in page.words


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
)
def test_the_page_fits_the_window_and_follows_the_system(
    pair: Path, browser: Browser, width: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    shown = context.new_page()
    problems: list[str] = []
    shown.on("console", lambda message: problems.append(message.text))
    shown.on("request", lambda request: problems.append(request.url))

    shown.goto(pair.as_uri())

    assert problems == [pair.as_uri()]
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    light = shown.evaluate("matchMedia('(prefers-color-scheme: light)').matches")
    assert light == (scheme == "light")
    context.close()


# ---- drawings


def drawn(plot: Plot) -> ET.Element:
    body = ET.Element("body")
    add_plot(body, plot)
    svg = body.find("svg")
    assert svg is not None
    return svg


def numbers(element: ET.Element) -> list[str]:
    return [text.text or "" for text in element.iter("text")]


def test_points_lie_where_their_values_are() -> None:
    values = Series("on", np.array([0.0, 50.0, 100.0]), np.array([0.0, 5.0, 10.0]), "#123456")

    svg = drawn(Plot("words", "step", "period [ms]", (values,)))

    path = next(one for one in svg.iter("path") if one.get("fill") == "#123456")
    begins = [tuple(map(float, place)) for place in re.findall(r"M([\d.]+) ([\d.]+)", path.get("d") or "")]
    (x0, y0), (x1, y1), (x2, y2) = begins
    assert (x1 - x0, y1 - y0) == pytest.approx((x2 - x1, y2 - y1), abs=0.2)
    assert x2 > x0
    assert y2 < y0  # upwards
    assert {"step", "period [ms]", "0", "50", "100", "10"} <= set(numbers(svg))


def test_arms_differ_by_more_than_colour_and_have_a_legend() -> None:
    x = np.arange(4.0)
    lines = tuple(Series(arm, x, x, "#111111", hollow=arm == "off", line=True) for arm in ("off", "on"))

    svg = drawn(Plot("words", "x", "y", lines))

    dashes = [one.get("stroke-dasharray") for one in svg.iter("path")]
    assert dashes == ["6 4", None, None, "6 4"]  # both lines, then their signs from right to left
    assert {"off", "on"} <= set(numbers(svg))


def test_equal_values_and_one_point_are_drawn() -> None:
    svg = drawn(Plot("words", "x", "y", (Series("on", np.array([3.0]), np.array([0.0]), "#111111"),)))

    assert all(re.fullmatch(r"[\d.]+", one.get("x") or "") for one in svg.iter("text"))
    assert len(numbers(svg)) > 2


@pytest.mark.parametrize(
    ("least", "step"), [(1.0, 1.0), (1.2, 2.0), (2.3, 2.5), (26.0, 50.0), (0.06, 0.1), (9.9e5, 1e6)]
)
def test_axes_have_round_numbers(least: float, step: float) -> None:
    assert nice_step(least) == pytest.approx(step)
