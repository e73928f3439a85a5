"""Who may ask the viewer: programs of this machine, or whoever has the token.

A page of another site can make a browser send requests to a server on this machine. It cannot read the
answers unless its own name leads here (DNS rebinding), so the name that was asked for is checked.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit

from flask import Flask, Response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

_NAMES_OF_LOOPBACK: Final = ("localhost",)
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TOKEN: Final = "token"  # noqa: S105 - the name of a parameter


@dataclass(frozen=True)
class Guard:
    """The rules of one server.

    Attributes:
        token: what a browser must show once; None: only programs of this machine may ask, without one.
    """

    token: str | None = None

    @property
    def cookie(self) -> str:
        """Name of the cookie that holds the token; servers on other ports have others."""
        return "cctrace-" + hashlib.sha256((self.token or "").encode()).hexdigest()[:12]

    def install(self, server: Flask, script_hashes: list[str]) -> None:
        """Makes a server follow the rules.

        Args:
            server: the server.
            script_hashes: hashes of the scripts that pages hold themselves, for the content security policy.
        """
        policy = content_policy(script_hashes)

        @server.before_request
        def _check() -> BaseResponse | None:
            return self._refusal()

        @server.after_request
        def _protect(response: Response) -> Response:
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            response.headers.setdefault("Content-Security-Policy", policy)
            return response

    def _refusal(self) -> BaseResponse | None:
        if self.token is None:
            if is_loopback(request.host):
                return None
            return _refused(403, "This viewer answers only under a loopback name, such as 127.0.0.1.")
        shown = request.cookies.get(self.cookie, "")
        if hmac.compare_digest(shown.encode(), self.token.encode()):
            return None
        if request.method == "GET" and hmac.compare_digest(
            request.args.get(TOKEN, "").encode(), self.token.encode()
        ):
            return self._welcome()
        return _refused(401, "This viewer asks for its token: open the address that `cctrace view` printed.")

    def _welcome(self) -> BaseResponse:
        """Puts the token in a cookie, and takes it out of the address, which may be shared."""
        rest = [(key, value) for key, value in request.args.items(multi=True) if key != TOKEN]
        # Only the path: an address that names a host would lead elsewhere.
        path = "/" + urlsplit(request.path).path.lstrip("/")
        answer = redirect(path + (f"?{urlencode(rest)}" if rest else ""), 303)
        answer.set_cookie(self.cookie, self.token or "", httponly=True, samesite="Strict")
        return answer


def content_policy(script_hashes: list[str]) -> str:
    """What pages may load: only what this server sends. Styles in pages are needed by their libraries."""
    scripts = " ".join(["'self'", *script_hashes])
    return (
        f"default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def is_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine by its name alone."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in _NAMES_OF_LOOPBACK or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _refused(status: int, text: str) -> Response:
    return Response(text + "\n", status, mimetype="text/plain")
