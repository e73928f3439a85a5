"""Who may ask, and what a recording may not do: its texts and its bytes come from anywhere."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page
from viewer_pages import PAGES, complete, show, walk, wrong_pages
from viewer_process import Viewer, command, start
from viewer_traces import HOSTILE, damaged, hostile

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ON, OFF = (SAMPLES / f"server-graph-overlap-{arm}.parquet" for arm in ("emulated", "off"))
EVERY_KIND = (
    "/",
    "/steps",
    "/_dash-layout",
    "/colours.css",
    "/assets/viewer.css",
    "/api/timeline/lanes?arm=on",
)
"""Addresses that different parts of the server answer."""
NUMBERS = ("run_on", "run_off", "step", "row", "at", "from", "to", "from_us", "to_us", "class", "ordinal")
"""Parameters of addresses that hold one."""

OpenPage = Callable[..., Page]
ViewerOf = Callable[..., Viewer]


# ---- texts of a recording


@pytest.fixture(scope="session")
def hostile_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("hostile")
    return hostile(ON, folder), hostile(OFF, folder)


@pytest.fixture(scope="session")
def hostile_pair(viewer_of: ViewerOf, hostile_files: tuple[Path, Path]) -> Viewer:
    return viewer_of(*hostile_files)


def harm(page: Page) -> list[str]:
    """What markup in a text has become: a script that ran, elements, links, bold words of a chart."""
    found: list[str] = page.evaluate(
        """() => {
          const elements = document.querySelectorAll(".pwned, img[src=x], a[href^='javascript:']");
          const drawn = [...document.querySelectorAll("svg tspan, svg a")].filter(
            one => ["bold", "link"].includes(one.textContent));
          return [
            ...(window.pwned ? ["a script ran"] : []),
            ...[...elements, ...drawn].map(one => one.outerHTML.slice(0, 200)),
          ];
        }"""
    )
    return found


def touch_charts(page: Page) -> None:
    """Moves the mouse across the first charts, and clicks: for what shows only then."""
    boxes = page.evaluate(
        """() => [...document.querySelectorAll("#page .js-plotly-plot, #page canvas")].map(one => {
          const { x, y, width, height } = one.getBoundingClientRect();
          return [x, y, width, height];
        })"""
    )
    for x, y, width, height in boxes[:4]:
        for part in (0.25, 0.5, 0.75):
            page.mouse.move(x + width * part, y + height * 0.5)
        page.mouse.down()
        page.mouse.up()
    complete(page)


def test_texts_of_a_recording_never_become_html(hostile_pair: Viewer, open_page: OpenPage) -> None:
    page = open_page(hostile_pair)

    def look(_: str) -> list[str]:
        text = page.inner_text("body")
        assert "<b class=" in page.inner_text("header")  # the file's name, as it is
        found = ["acts on the words around it"] if "\u202e" in text else []
        found += page.locator("#page [role=alert]").all_inner_texts()
        touch_charts(page)
        return found + harm(page)

    assert wrong_pages(page, look) == {}
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<b class=pwned>bold</b>')")
    assert len(harm(page)) == 1


@pytest.mark.parametrize("path", PAGES)
def test_parameters_of_an_address_never_become_html(
    graph_pair: Viewer, open_page: OpenPage, path: str
) -> None:
    names = (*NUMBERS, "arm", "text", "search", "phase", "view", "sort")

    page = open_page(graph_pair, f"{path}?{urlencode(dict.fromkeys(names, HOSTILE[:300]))}", complaints=True)

    assert harm(page) == []
    assert "This page failed" not in page.inner_text("#page")


ODD_NUMBERS = ("-1", "1e308", "99999999999999999999", "NaN", "", "0x10", "٣", "on", "1e3", "-0", "2147483648")


@pytest.mark.parametrize(("path", "turn"), [("/steps", 0), ("/timeline", 3), ("/copies", 6)])
def test_numbers_of_an_address_may_be_anything(
    graph_pair: Viewer, open_page: OpenPage, path: str, turn: int
) -> None:
    values = ODD_NUMBERS[turn:] + ODD_NUMBERS[:turn]
    odd = urlencode(dict(zip(NUMBERS, values, strict=True)))

    page = open_page(graph_pair, f"{path}?arm=on&{odd}", complaints=True)

    assert "This page failed" not in page.inner_text("#page")
    assert page.locator("#page h2").count() > 0


def test_the_exported_page_is_as_safe(
    hostile_files: tuple[Path, Path], browser: Browser, tmp_path: Path
) -> None:
    target = tmp_path / "overview.html"
    done = subprocess.run(
        [*command(*hostile_files), "--export", str(target)],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    context = browser.new_context()
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    page.goto(target.as_uri())

    assert harm(page) == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert len(page.inner_text("body")) > 500
    context.close()


# ---- who may ask


@pytest.mark.parametrize("address", EVERY_KIND)
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "10.0.0.7:8050", "evil@127.0.0.1", ""]
)
def test_a_name_that_another_can_point_here_is_refused(graph_pair: Viewer, address: str, host: str) -> None:
    status, text = graph_pair.get(address, Host=host)

    assert status in (400, 403)
    assert "cctrace" not in text.lower()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:80", "[::1]:8050", "127.0.0.1:1"])
def test_loopback_has_several_names(graph_pair: Viewer, host: str) -> None:
    assert graph_pair.get("/", Host=host)[0] == 200


def test_other_addresses_of_this_machine_do_not_listen(graph_pair: Viewer) -> None:
    port = int(graph_pair.host.rpartition(":")[2])

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=30)


@pytest.mark.parametrize("address", EVERY_KIND)
def test_every_answer_says_what_a_page_may_load(graph_pair: Viewer, address: str) -> None:
    _, _, headers = graph_pair.answer(address)
    policy = dict(rule.strip().partition(" ")[::2] for rule in headers["Content-Security-Policy"].split(";"))

    assert policy["default-src"] == "'self'"
    assert policy["script-src"].startswith("'self'")
    assert "unsafe" not in policy["script-src"]
    assert "*" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.fixture(scope="module")
def open_viewer(viewer_of: ViewerOf) -> Viewer:
    """A viewer that other machines can reach."""
    return viewer_of(ON, OFF, "--host", "0.0.0.0")


def test_a_viewer_for_other_machines_prints_a_token(open_viewer: Viewer, graph_pair: Viewer) -> None:
    assert len(open_viewer.token) >= 22  # 128 bits
    assert graph_pair.token == ""


@pytest.mark.parametrize("address", EVERY_KIND)
@pytest.mark.parametrize("shown", ["", "token=", "token=wrong", "token=%00", "token=ä"])
def test_without_the_token_nothing_is_answered(open_viewer: Viewer, address: str, shown: str) -> None:
    joint = "&" if "?" in address else "?"

    status, text = open_viewer.get(address + (joint + shown.replace("ä", "%C3%A4") if shown else ""))

    assert status == 401
    assert "server-graph" not in text
    assert open_viewer.token not in text


def test_a_wrong_cookie_is_no_token(open_viewer: Viewer) -> None:
    assert open_viewer.get("/", Cookie="token=x; cctrace-0=y")[0] == 401


def test_the_token_is_shown_once_and_leaves_the_address(open_viewer: Viewer, open_page: OpenPage) -> None:
    page = open_page(open_viewer, f"/environment?token={open_viewer.token}&run_on=0", alone=True)

    assert page.url == f"{open_viewer.url}/environment?run_on=0"
    show(page, open_viewer, "/steps")
    assert page.locator("#page h2").count() > 0
    assert page.evaluate("document.cookie") == ""  # scripts cannot read it


@pytest.mark.parametrize(
    "address",
    [
        "/assets/../server.py",
        "/assets/%2e%2e/server.py",
        "/assets/..%2fserver.py",
        "/assets/etc/passwd",
        "/_dash-component-suites/dash/../../../../../etc/passwd",
        "/_dash-component-suites/os/path.py",
        "/api/timeline/view?arm=../../etc/passwd&from=0&to=1&pixels=100",
        "/api/timeline/row?arm=on&row=-1",
        "/api/timeline/row?arm=on&row=9999999999999999999999",
        "/api/timeline/view?arm=on&from=5&to=1&pixels=0",
        "/api/timeline/view?arm=on&from=nan&to=inf&pixels=1e9",
    ],
)
def test_an_address_that_makes_no_sense_is_refused(graph_pair: Viewer, address: str) -> None:
    status, text = graph_pair.get(address)

    assert 400 <= status < 500
    assert "root:" not in text
    assert "Traceback" not in text
    assert len(text.splitlines()) <= 6


# ---- bytes of a recording


def ended(*arguments: str | Path, port: int = 0) -> subprocess.CompletedProcess[str]:
    """`cctrace view` that is not expected to serve."""
    words = command(*arguments, port=port)
    return subprocess.run(words, cwd="/", capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a recording\n" * 100, OFF.read_bytes()[:9000]])
def test_a_file_that_cannot_be_used_ends_with_one_line(tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(content)

    done = ended(ON, bad) if content else ended(bad)

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "bad.parquet" in done.stderr


def test_what_is_no_recording_at_all_ends_with_one_line(tmp_path: Path) -> None:
    for arguments in ((tmp_path / "missing.parquet",), (tmp_path,), (ON, ON), (ON, tmp_path)):
        done = ended(*arguments)

        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_a_port_that_is_taken_ends_with_one_line(graph_pair: Viewer) -> None:
    port = graph_pair.host.rpartition(":")[2]

    done = ended(ON, port=int(port))

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert port in done.stderr


def test_a_folder_with_one_bad_file_shows_the_others_and_says_so(
    viewer_of: ViewerOf, open_page: OpenPage, tmp_path: Path
) -> None:
    for arm, source in (("on", ON), ("off", OFF)):
        (tmp_path / arm).mkdir()
        shutil.copy(source, tmp_path / arm / "good.parquet")
    (tmp_path / "on" / "spoiled.parquet").write_bytes(b"PAR1 no PAR1")

    page = open_page(viewer_of(tmp_path / "on", tmp_path / "off"))

    assert "spoiled.parquet" in page.inner_text("body")
    assert page.locator("#page h2").count() > 1


@pytest.fixture(scope="module")
def spoiled_later(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Any:
    """Viewers whose files are changed once they run: `spoiled_later(change) -> Viewer`."""
    folder = tmp_path_factory.mktemp("later")
    started: list[Viewer] = []

    def viewer(change: Callable[[Path], object]) -> Viewer:
        number = len(started)
        files = [Path(shutil.copy(source, folder / f"{number}-{source.name}")) for source in (ON, OFF)]
        started.append(start(folder / f"{number}.log", command(*files)))
        for file in files:
            change(file)
        return started[-1]

    yield viewer
    try:
        assert [one.stop() for one in started] == [0] * len(started)  # which also fails for a traceback
    finally:
        for one in started:
            one.process.kill()


CHANGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda file: file.unlink(),
    "other bytes inside": lambda file: damaged(OFF, file),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_is_damaged_while_it_is_shown(
    spoiled_later: Callable[..., Viewer], open_page: OpenPage, change: str
) -> None:
    viewer = spoiled_later(CHANGES[change])

    page = open_page(viewer, complaints=True)
    texts = walk(page, lambda _: page.inner_text("#page"))

    assert [text for text in texts.values() if "This page failed" in text] == []
    silent = {path for path, text in texts.items() if ".parquet" not in text}
    assert silent <= {"/environment"}  # which shows what was read at the start


def test_a_recording_that_is_damaged_inside_says_so(
    viewer_of: ViewerOf, open_page: OpenPage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bad = damaged(OFF, tmp_path_factory.mktemp("inside") / "inside.parquet")

    page = open_page(viewer_of(bad), "/steps", complaints=True)

    assert "inside.parquet" in page.inner_text("#page")
    assert "damaged" in page.inner_text("#page")
