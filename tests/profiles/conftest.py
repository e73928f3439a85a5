import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from cctrace.cli import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def cctrace(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs the command line in this process."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["cctrace", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Done(int(ended.value.code or 0), captured.out, captured.err)

    return run
