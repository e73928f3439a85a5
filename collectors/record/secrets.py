"""Takes secrets out of a command line and out of values before they are stored.

A trace is handed to other people, so it must not carry what opens a door. Names are judged word by word:
`--api-key` and `HF_TOKEN` are secrets, `--max-tokens` and `--tokenizer` are settings of the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

REDACTED: Final = "<redacted>"

_SECRET_WORDS: Final = frozenset(
    [
        "key",
        "keys",
        "apikey",
        "token",
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "pwd",
        "credential",
        "credentials",
        "auth",
        "authorization",
        "bearer",
        "cookie",
    ]
)
_SECRET_ENDINGS: Final = ("password", "passwd", "passphrase", "passcode", "apikey", "secret")
"""Ends of names that are written in one word, such as PGPASSWORD."""
_SECRET_LAST_WORD: Final = "pass"  # noqa: S105
"""A secret at the end of a name (`--pass`, `DB_PASS`), but not before: `--pass-manager`."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_VALUE: Final = re.compile(r"""[^\S\n]*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',}]+)""")
_REST_OF_LINE: Final = re.compile(r"""[^"'\n]+""")
_NAMES: Final = (
    (re.compile(r"([A-Za-z_][\w.-]*)="), _VALUE),  # HF_TOKEN=…, --api-key=…
    (re.compile(r"""["']([\w.-]+)["']\s*:"""), _VALUE),  # {"api_key": …}
    (re.compile(r"(?<![\w-])(--?[A-Za-z][\w.-]*)(?=\s+[^\s-])"), _VALUE),  # sh -c "… --api-key …"
    (re.compile(r"(?<![\w-])([A-Za-z][\w-]*):\s"), _REST_OF_LINE),  # Authorization: Bearer …
)
"""How a name is followed by its value: the pattern of the name, and that of the value after it."""

_JSON: Final = json.JSONDecoder()
_JSON_BEGIN: Final = re.compile(r"""[{\[](?=\s*["{\[])""")
_JSON_CHARACTERS: Final = 4096
"""JSON that begins behind this many characters is hidden value by value: each begin is a try to parse."""

_URL_LOGIN: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s@]+@", re.IGNORECASE)
_KNOWN_TOKEN: Final = re.compile(
    r"\b(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|nvapi-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}"
    r"|github_pat_\w{16,}|AKIA[A-Z0-9]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
)
"""Tokens that are known by their form: Hugging Face, OpenAI style, NVIDIA, GitHub, AWS, JSON web tokens."""


def is_secret_name(name: str) -> bool:
    """Returns True if a value of this name (option, variable, JSON field) must not be stored."""
    words = [word.lower() for word in _WORD.findall(name)]
    return words[-1:] == [_SECRET_LAST_WORD] or any(
        word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words
    )


def redact_text(text: str) -> str:
    """Returns `text` without the values of secret names, logins in URLs and tokens known by their form."""
    text = _hide_in_json(text)
    for name, value in _NAMES:
        text = _hide_values(text, name, value)
    text = _URL_LOGIN.sub(rf"\1{REDACTED}@", text)
    return _KNOWN_TOKEN.sub(REDACTED, text)


def _hide_in_json(text: str) -> str:
    """Hides secrets in JSON objects and arrays within a text, which stay valid JSON."""
    pieces: list[str] = []
    kept = 0
    for begin in _JSON_BEGIN.finditer(text[:_JSON_CHARACTERS]):
        if begin.start() < kept:
            continue
        try:
            document, end = _JSON.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            continue
        hidden = _without_secrets(document)
        if hidden != document:
            separators = (", ", ": ") if '": ' in text else (",", ":")
            pieces += [
                text[kept : begin.start()],
                json.dumps(hidden, ensure_ascii=False, separators=separators),
            ]
            kept = end
    return "".join(pieces) + text[kept:]


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: REDACTED if is_secret_name(name) else _without_secrets(item) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value


def _hide_values(text: str, name: re.Pattern[str], value: re.Pattern[str]) -> str:
    pieces: list[str] = []
    kept = 0
    for found in name.finditer(text):
        if found.end() < kept or not is_secret_name(found.group(1)):
            continue
        secret = value.match(text, found.end())
        if secret is not None:
            begin = secret.start(secret.re.groups)  # the value without the space before it
            quote = text[begin] if text[begin] in "\"'" else ""
            pieces += [text[kept:begin], quote, REDACTED, quote]
            kept = secret.end()
    return "".join(pieces) + text[kept:]


def redact_command(command: Sequence[str]) -> list[str]:
    """Returns the command line as it may be stored: `--api-key X`, `K=V` and so on without the values."""
    stored: list[str] = []
    hide_next = False
    for argument in command:
        if hide_next and not argument.startswith("--"):
            stored.append(REDACTED)
            hide_next = False
            continue
        stored.append(redact_text(argument))
        hide_next = argument.startswith("-") and "=" not in argument and is_secret_name(argument)
    return stored
