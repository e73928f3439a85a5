"""What `cctrace diff` shows, in the terminal and as a page, of attributions made by hand."""

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from attributions import SITE, arms, attribution, breakdown, differs, pair, refused, report
from rich.console import Console

from cctrace.analyzers.attribution.result import Attribution, Phases
from cctrace.analyzers.report.assembly import assembled, measured
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.statistics import split_by_tee
from cctrace.app.blocks import Bar
from cctrace.app.diff_view import diff_blocks, show_diff
from cctrace.app.html_report import page
from cctrace.app.palette import CAUSE_COLOURS
from cctrace.app.waterfall import bar_text, waterfall_of

VOID = {"meta", "br", "hr", "img", "link", "input", "rect"}


def shown(document: Report, width: int = 80, by: str = "phase", encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    out = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    show_diff(out, document, by)
    file.flush()
    return file.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]


def two_phases() -> Attribution:
    decode = breakdown(name="decode", off_weight=0.9, on_weight=0.9)
    prefill = breakdown(name="prefill", launch=900.0, off_us=50_000.0, off_weight=0.1, on_weight=0.1)
    prefill = replace(prefill, **refused(prefill, "it has only 3 steps"))
    return attribution(phases=Phases(decode=decode, prefill=prefill, mixed=None, other=None, unknown=None))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("by", ["phase", "class", "thread"])
def test_nothing_is_cut_off_at_any_width(width: int, by: str) -> None:
    document = report(two_phases(), two_phases(), two_phases(), fail_over_pct=5.0)

    text = shown(document, width, by)

    assert max(map(len, text.splitlines())) <= width
    words = "".join(text.split())
    for number in ("+31.0µs", "+79.0µs", "+2.02ms", "−9.00µs", "2.04ms", "+49.2%", "33.0%"):
        assert number in words
    assert "…" not in words.replace("%…+", "")


def test_the_sentence_is_first_and_doubts_are_before_numbers() -> None:
    found = (differs("warns"), differs("informs", "x"), differs("expected", "security.cc_mode"))

    lines = shown(report(attribution(labels=("emulated",)), differences=found), 200).splitlines()

    assert lines[0].startswith("CC costs 2.05 ms")
    assert lines[1] == "This comparison is emulated."
    assert lines[2] == "! the loads differ (off: 16; on: 32)"
    assert "As meant: security.cc_mode 16 → 32." in lines
    first_bar = next(number for number, text in enumerate(lines) if text.startswith("off "))
    assert first_bar > lines.index("As meant: security.cc_mode 16 → 32.")
    assert any(text.startswith("x ") and text.endswith("the loads differ") for text in map(str.strip, lines))


def test_the_waterfall_starts_each_cause_where_the_last_one_ends() -> None:
    bars = waterfall_of(breakdown()).bars

    assert [bar.name for bar in bars] == ["off", "launch", "pcie", "overlap", "nvlink", "residual", "on"]
    for before, after in pairwise(bars[:-1]):
        assert after.begin_us == pytest.approx(before.end_us)
    assert bars[-2].end_us == pytest.approx(bars[-1].end_us)
    assert all(bar.cause in CAUSE_COLOURS for bar in bars[1:-1])


def test_bars_are_as_long_as_what_they_stand_for() -> None:
    assert bar_text(Bar("x", "", 0.0, 50.0, ""), 100.0, 40) == "█" * 20
    assert bar_text(Bar("x", "", 50.0, 25.0, ""), 100.0, 40) == " " * 10 + "█" * 10
    assert bar_text(Bar("x", "", 0.0, 51.25, ""), 100.0, 40) == "█" * 20 + "▌"
    assert bar_text(Bar("x", "", 0.0, 50.0, ""), 100.0, 40, plain=True) == "#" * 20
    assert bar_text(Bar("x", "", 100.0, 100.01, ""), 100.0, 40) == " " * 39 + "▏"
    assert bar_text(Bar("x", "", 5.0, 5.0, ""), 100.0, 40) == ""


def test_a_terminal_without_block_elements_gets_plain_bars() -> None:
    text = shown(report(attribution()), encoding="ascii")

    assert "###" in text
    assert re.search(r"^off +4\.17 ms +#+$", text, re.MULTILINE)


def test_shares_alone_saved_hidden_and_residual_are_in_the_table() -> None:
    text = shown(report(attribution()))

    assert re.search(r"launch +\+31\.0 µs +\+0\.7 % +\+27\.9 µs +34\.1 µs +\+79\.0 µs", text)
    assert re.search(r"residual +−6\.00 µs +−0\.1 %", text)
    assert re.search(r"  host +−9\.00 µs", text)
    assert re.search(r"  model error +0 µs", text)
    assert re.search(r"on − off +\+2\.05 ms +\+49\.2 %", text)
    assert "95 %" not in text.split("By phase")[0].replace("95 % of the", "")


def test_several_pairs_show_intervals_and_runs() -> None:
    several = [attribution(breakdown(overlap=value)) for value in (2000.0, 2010.0, 2020.0)]

    text = shown(report(*several), 120)

    assert re.search(r"overlap +\+2\.01 ms .*±24\.8 µs", text)
    assert "Intervals: paired t" in text
    assert re.search(r"3: on3\.parquet, off3\.parquet +4\.17 ms", text)


def test_a_refusal_shows_no_share_and_still_shows_tolls() -> None:
    one = attribution(replace(breakdown(), **refused(breakdown(), "the replay misses the on arm by 7 %")))

    text = shown(report(one), 200)

    assert "cannot attribute it, because the replay misses the on arm by 7 %" in text
    assert not re.search(r"^(launch|pcie|overlap|nvlink|residual) ", text, re.MULTILINE)
    assert "+31.0 µs" not in text
    assert "raw toll" in text
    assert "Launch toll: " in text


def test_nvlink_that_cannot_be_told_is_no_zero() -> None:
    text = shown(report(attribution(breakdown(nvlink=None))))

    assert re.search(r"nvlink +– +–", text)
    assert "  gpu, nvlink" in text
    assert "NVLink: cannot tell, because no arm has GPU rows" in text


def test_phases_stand_beside_all_steps_together() -> None:
    text = shown(report(two_phases()), 100)

    assert re.search(r"per step +together +decode +prefill", text)
    assert re.search(r"launch +\+31\.0 µs +\+31\.0 µs +–", text)
    assert "prefill: cannot attribute, because it has only 3 steps." in text


def test_what_forbids_shares_in_all_steps_is_not_repeated_for_each_phase() -> None:
    because = "it has only 3 steps"
    whole = replace(breakdown(), **refused(breakdown(), because))

    text = shown(report(attribution(whole, phases=two_phases().phases)), 100)

    assert " ".join(text.split()).count(because) == 1


def test_tolls_beside_shares_say_that_they_are_none() -> None:
    assert "raw toll: what the calls cost more by themselves." in shown(report(attribution()), 200)


def test_views_go_into_classes_or_threads() -> None:
    document = report(attribution())

    assert "Class decode bs=16 (decode; 100 steps off, 98 on)" in shown(document, by="class")
    assert "Thread scheduler 4200, steps of class decode bs=16" in shown(document, by="thread")
    assert "Calls that cost most, steps of class decode bs=16" in shown(document)


def test_a_total_within_noise_says_what_can_be_read_all_the_same() -> None:
    text = shown(report(attribution(breakdown(overlap=3.0))), 200)

    assert "Verdict: within noise" in text
    assert "Shares of launch and pcie differ far less between runs than the total" in text


def test_a_third_arm_is_split() -> None:
    vm = measured(attribution(breakdown(overlap=0.0, host=100.0)))
    gpu = measured(attribution(breakdown(host=0.0)))

    text = shown(assembled([pair(1, attribution())], arms(), tee=split_by_tee([vm], [gpu])))

    assert re.search(r"overlap +0 µs +\+2\.02 ms +\+2\.02 ms", text)
    assert re.search(r"residual .*\n  host +\+100 µs +0 µs +\+100 µs", text)
    assert "schedule_mix" not in text


def test_what_to_change_is_said_with_what_it_saves() -> None:
    text = shown(report(attribution()), 120)

    assert re.search(r"The read-back blocks the scheduler +decode +2\.04 ms", text)
    assert "- The read-back blocks the scheduler: copy tokens on a thread of their own." in text


class Page(HTMLParser):
    """What a browser would read: tags with attributes, and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def test_the_page_loads_nothing_and_is_well_formed() -> None:
    read = Page(page("cctrace diff", diff_blocks(report(attribution(), attribution()))))

    assert read.open == []
    names = {tag for tag, _ in read.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a"}
    attributes = [(name, text) for _, several in read.tags for name, text in several.items()]
    assert not {"src", "href", "srcset", "xlink:href", "onload"} & {name for name, _ in attributes}
    assert not any("url(" in (text or "") or "//" in (text or "") for _, text in attributes)
    policy = next(
        several["content"]
        for tag, several in read.tags
        if tag == "meta" and several.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_the_page_draws_what_is_not_zero_in_the_colours_of_the_causes() -> None:
    read = Page(page("cctrace diff", diff_blocks(report(attribution()))))

    bars = [several for tag, several in read.tags if tag == "rect"]
    drawn = ("launch", "pcie", "overlap", "residual")
    assert [bar["fill"] for bar in bars[1:-1]] == [CAUSE_COLOURS[cause] for cause in drawn]
    widths = [float(bar["width"] or 0) for bar in bars]
    assert widths[0] / widths[-1] == pytest.approx(4169 / 6219, rel=0.01)
    assert widths[3] / widths[-1] == pytest.approx(2019 / 6219, rel=0.01)


def test_the_page_says_what_the_terminal_says() -> None:
    document = report(attribution())

    texts = " ".join(Page(page("cctrace diff", diff_blocks(document))).texts)

    assert document.headline in texts
    for number in ("+31.0 µs", "+2.02 ms", "+79.0 µs", "2.04 ms"):
        assert number in texts


def test_texts_of_a_trace_are_text_in_the_page() -> None:
    evil = "<script>alert(1)</script> & \x1b[2J\x00 ]]> \" '"
    one = attribution(labels=(evil,))
    one = replace(
        one,
        classes=(
            replace(one.classes[0], off_class=evil, sites=(replace(SITE, thread=evil, category=evil),)),
        ),
    )

    warning = replace(differs("warns", evil), message=evil, off=evil)
    text = page(evil, diff_blocks(report(one, differences=(warning,)), "class"))
    read = Page(text)

    assert "script" not in {tag for tag, _ in read.tags}
    assert "\x1b" not in text
    assert "\x00" not in text
    assert any("<script>alert(1)</script> & " in data for data in read.texts)


def test_texts_of_a_trace_do_not_steer_the_terminal() -> None:
    one = attribution(labels=("\x1b[2J[bold]x[/bold]",))

    text = shown(report(one))

    assert "\x1b" not in text
    assert "[bold]x[/bold]" in text
