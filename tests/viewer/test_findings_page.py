"""The page of findings: what a card says, where it leads, and what is said if there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from attributions import attribution, finding, report
from components import all_of, words
from playwright.sync_api import Page, expect
from viewer_pages import PATIENCE_MS, complete
from viewer_process import Viewer

from cctrace.analyzers.findings import Checked, Evidence, Example, Finding, Saving
from cctrace.analyzers.report.document import Report
from cctrace.app.viewer.address import Address
from cctrace.app.viewer.pages import findings as page
from cctrace.app.viewer.view import View, opened

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ON, OFF = (SAMPLES / f"server-graph-overlap-{arm}.parquet" for arm in ("emulated", "off"))
QUIET = SAMPLES / "launch-graph-off.parquet"
PLACE = Evidence(
    text="copy d2h keeps the scheduler waiting",
    thread="scheduler 4200",
    call="copy d2h",
    position=9,
    offset_us=310.0,
    per_step=1.0,
    count=118,
    bytes=64,
    us_per_step=2006.0,
    example=Example(step=42, begin_us=300.0, duration_us=2000.0),
)


@pytest.fixture(scope="module")
def pair() -> Iterator[View]:
    view = opened([ON], [OFF])
    view.report(wait=True)
    yield view
    view.close()


def with_findings(*found: Finding, checked: tuple[Checked, ...] = ()) -> Report:
    return replace(report(attribution()), findings=found, checked=checked)


def cards(*found: Finding, limit: int = 9) -> list[str]:
    made = page.findings_cards(with_findings(*found), limit)
    return [words(one) for one in made if type(one).__name__ == "Article"]


def test_a_saving_is_given_of_the_off_step_and_of_the_on_step() -> None:
    (text,) = cards(finding(evidence=(PLACE,)))

    assert "Saves per step: 2.04 ms" in text
    assert "48.9 % of the off decode step of 4.17 ms" in text
    assert "32.8 % of the on decode step of 6.22 ms" in text
    assert "lost overlap" in text
    assert "Remedy: copy tokens on a thread of their own." in text


def test_evidence_has_its_thread_place_count_size_and_time() -> None:
    (text,) = cards(finding(evidence=(PLACE,)))

    assert "Copy d2h keeps the scheduler waiting." in text
    assert "scheduler 4200 · call 10 of the step, 310 µs after its begin" in text
    assert "1 a step, 118 calls looked at · 64 B · 2.01 ms a step" in text


def test_a_saving_that_cannot_be_told_has_its_reason_and_no_number() -> None:
    unknown = Saving(kind="cannot tell", low_us=None, high_us=None, pct_of_step=None, basis="nobody knows")

    (text,) = cards(finding(saving=unknown))

    assert "Saving: cannot tell; nobody knows." in text
    assert "%" not in text


def test_a_range_is_called_so_and_expected_costs_are_no_savings() -> None:
    between = Saving(kind="bound", low_us=0.0, high_us=500.0, pct_of_step=8.0, basis="bounds")

    (text,) = cards(finding(saving=between, state="expected"))

    assert "Costs with CC on, on top of a step: at most 500 µs (at most 12.0 % of" in text
    assert "expected with CC on" in text


def test_the_way_to_one_call_shows_it_with_room_on_both_sides() -> None:
    link = page.timeline_link(PLACE, {"arm": "on", "run_on": "2"})

    assert link is not None
    state = Address.parse(*link.split("?"))
    assert state.path == "/timeline"
    assert (state.get("arm"), state.get("run_on"), state.integer("step")) == ("on", "2", 42)
    assert (state.number("from_us"), state.number("to_us")) == (0.0, 3300.0)
    assert state.get("range_us") == "300.000,2300.000"


def test_the_way_to_many_calls_shows_their_step() -> None:
    link = page.timeline_link(replace(PLACE, position=None), {"arm": "one"})

    assert link == "/timeline?arm=one&step=42"
    assert page.timeline_link(replace(PLACE, example=None), {"arm": "one"}) is None


def test_few_cards_lead_to_the_others() -> None:
    made = page.findings_cards(with_findings(*[finding(title=f"finding {n}") for n in range(5)]), 3)

    assert [words(one.children[1]) for one in made[:3]] == ["finding 0", "finding 1", "finding 2"]
    (link,) = all_of(made[3], "Link")
    assert (link.href, link.children) == ("/findings", "2 more findings, and what was looked for")


def test_findings_are_chosen_by_cause_and_sorted_by_what_a_step_saves(pair: View) -> None:
    def titles(address: str) -> list[str]:
        content = page.layout(pair, Address.parse("/findings", address))
        return [words(one) for one in all_of(content, "H3")]

    everything = titles("")
    assert titles("?cause=overlap") == [everything[0]] == ["The token read-back blocks the scheduler"]
    assert set(titles("?cause=launch")) == {
        "Many small copies to the GPU a step",
        "Many host submissions a step",
    }
    assert titles("?cause=nvlink") == titles("?cause=<b>") == everything
    assert titles("?sort=step")[0] == "Many host submissions a step"  # of long prefill steps, which are few
    assert sorted(titles("?sort=step")) == sorted(everything)


def test_what_was_looked_for_and_not_found_is_said(pair: View) -> None:
    text = words(page.layout(pair, Address("/findings")))

    assert "Looked for, and not found" in text
    assert "graphs that are cut into many pieces" in text
    assert "Savings do not add up" in text


def test_a_recording_without_findings_says_what_was_looked_for() -> None:
    view = opened([QUIET])
    view.of_run(page.find_in_file, view.arms[0].runs[0], wait=True)

    content = page.layout(view, Address("/findings"))

    text = words(content)
    assert "Nothing was found that could be changed; 15 things were looked for." in text
    assert all_of(content, "Article") == []
    assert len(all_of(content, "Li")) == 15
    view.close()


def test_the_run_that_holds_the_evidence_is_named_in_links(tmp_path: Path) -> None:
    for number, source in enumerate((QUIET, ON)):
        (tmp_path / f"{number}.parquet").write_bytes(source.read_bytes())
    view = opened([tmp_path], [OFF])
    document = with_findings(finding(evidence=(PLACE,)))
    document = replace(document, runs=(replace(document.runs[0], on=str(tmp_path / "1.parquet")),))

    (link, *_) = all_of(page.findings_cards(document, 1, view)[0], "Link", "jump")

    assert "run_on=1" in link.href
    view.close()


def test_evidence_leads_to_the_call_in_the_timeline(
    graph_pair: Viewer, open_page: Callable[..., Page]
) -> None:
    shown = open_page(graph_pair, "/findings?cause=overlap")
    link = shown.locator("article.finding a.jump").first
    step = re.search(r"step=(\d+)", link.get_attribute("href") or "")
    assert step is not None

    link.click()

    number = shown.locator("#timeline").get_by_role("spinbutton").first
    expect(number).to_have_value(step[1], timeout=PATIENCE_MS)
    assert f"step={step[1]}" in shown.url


def test_choices_are_reached_by_keyboard(graph_pair: Viewer, open_page: Callable[..., Page]) -> None:
    shown = open_page(graph_pair, "/findings")
    count = shown.locator("article.finding").count()
    choice = shown.locator("a.choice", has_text="overlap")

    choice.focus()
    shown.keyboard.press("Enter")
    shown.wait_for_url("**cause=overlap*")
    complete(shown)

    assert 0 < shown.locator("article.finding").count() < count
