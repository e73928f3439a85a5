"""Who may ask the viewer, held against a server with nothing else in it."""

from __future__ import annotations

import pytest
from flask import Flask
from flask.testing import FlaskClient

from cctrace.app.viewer.security import Guard, is_loopback
from cctrace.app.viewer.serve import needs_token


def client(token: str | None) -> FlaskClient:
    server = Flask("guarded")
    server.add_url_rule("/", "root", lambda: "content")
    server.add_url_rule("/steps", "steps", lambda: "steps")
    Guard(token).install(server, ["'sha256-known'"])
    return server.test_client()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8050", "localhost:1", "[::1]:8050", "127.1.2.3", "LOCALHOST"]
)
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert is_loopback(host)
    assert client(None).get("/", headers={"Host": host}).data == b"content"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8050", "localhost.evil.example", "10.0.0.1", "[::2]", ""]
)
def test_other_names_are_refused(host: str) -> None:
    assert not is_loopback(host)
    answer = client(None).get("/", headers={"Host": host})
    assert answer.status_code in (400, 403)
    assert b"content" not in answer.data


def test_a_broken_host_is_refused() -> None:
    assert not is_loopback("[::1")


def test_a_token_opens_once_and_leaves_the_address() -> None:
    browser = client("secret-token")
    there = {"Host": "gpu7:8050"}
    refused = browser.get("/steps", headers=there)
    assert (refused.status_code, b"steps" in refused.data) == (401, False)
    welcome = browser.get("/steps?token=secret-token&arm=on", headers=there)
    assert (welcome.status_code, welcome.location) == (303, "/steps?arm=on")
    cookie = welcome.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert browser.get("/steps", headers=there).data == b"steps"


@pytest.mark.parametrize("shown", ["?token=wrong", "?token=", "?token=%C3%A9", ""])
def test_a_wrong_token_opens_nothing(shown: str) -> None:
    assert client("secret-token").get("/" + shown).status_code == 401


def test_a_path_cannot_lead_to_another_host() -> None:
    answer = client("secret-token").get("//evil.example/?token=secret-token")
    assert answer.status_code in (303, 308, 404)
    location = answer.headers.get("Location", "/")
    assert location.startswith("/")
    assert not location.startswith("//")


def test_answers_forbid_scripts_of_others_and_frames() -> None:
    headers = client(None).get("/", headers={"Host": "127.0.0.1"}).headers
    policy = headers["Content-Security-Policy"]
    assert "script-src 'self' 'sha256-known';" in policy
    assert "'unsafe-eval'" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("host", "asked"),
    [("127.0.0.1", False), ("localhost", False), ("::1", False), ("0.0.0.0", True), ("::", True)],
)
def test_only_this_machine_needs_no_token(host: str, asked: bool) -> None:
    assert needs_token(host) == asked
