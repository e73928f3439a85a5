import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

STAND_IN = """
#include <stdio.h>
#include <stdlib.h>
static void note(const char *what, const char *label) {
  FILE *file = fopen(getenv("NOTES"), "a");
  fprintf(file, "%s%s\\n", what, label);
  fclose(file);
}
void cctrace_step_begin(const char *label) { note("begin ", label); }
void cctrace_step_end(void) { note("end", ""); }
void cctrace_flush(void) { note("flush", ""); }
"""


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stand-in that writes down which marks it gets."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("hook")
    source, library = folder / "stand_in.c", folder / "libcctrace.so"
    source.write_text(STAND_IN)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


def _run(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


PROGRAM = """
import os, threading
from cctrace.collectors.hooks import flush, recording, step, step_begin, step_end
print(recording())
with step("decode bs=16"):
    pass
try:
    with step("raises"):
        raise RuntimeError
except RuntimeError:
    pass
step_begin("nul \\0 inside, not a surrogate \\ud800")
step_end()
flush()
import atexit
atexit.register(lambda: (step_begin("at exit"), step_end()))
"""


def test_marks_reach_the_collector(collector: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    notes = tmp_path / "notes.txt"
    done = _run(
        PROGRAM,
        {**environment, "CCTRACE_LIBRARY": str(collector), "CCTRACE_SPOOL": "/s", "NOTES": str(notes)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert notes.read_text().splitlines() == [
        "begin decode bs=16", "end", "begin raises", "end",
        "begin nul   inside, not a surrogate ?", "end", "flush", "begin at exit", "end",
    ]  # fmt: skip


@pytest.mark.parametrize("case", ["no recorder", "no library", "foreign library", "no file"])
def test_nothing_happens_without_a_recorder(
    case: str, tmp_path: Path, environment: dict[str, str], any_library: Path
) -> None:
    text = tmp_path / "text.so"
    text.write_text("not ELF")
    settings = {
        "no recorder": {"CCTRACE_LIBRARY": str(any_library)},
        "no library": {"CCTRACE_SPOOL": "/s", "CCTRACE_LIBRARY": ""},
        "foreign library": {"CCTRACE_SPOOL": "/s", "CCTRACE_LIBRARY": str(any_library)},
        "no file": {"CCTRACE_SPOOL": "/s", "CCTRACE_LIBRARY": str(text)},
    }[case]
    done = _run(PROGRAM, {**environment, **settings})
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_the_hook_loads_nothing_heavy(environment: dict[str, str]) -> None:
    heavy = "{'numpy', 'pyarrow', 'pandas', 'typer'}"
    code = f"import sys, cctrace.collectors.hooks; print(sorted({heavy} & set(sys.modules)))"
    assert _run(code, environment).stdout == "[]\n"


def test_labels_that_never_repeat_do_not_fill_the_memory(
    collector: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    code = """
    from cctrace.collectors.hooks import marks
    marks._begin, marks._end = lambda text: None, lambda: None
    for number in range(10000):
        with marks.step(f"step {number}"):
            pass
    print(len(marks._encoded))
    """
    notes = str(tmp_path / "notes.txt")
    done = _run(
        code, {**environment, "CCTRACE_LIBRARY": str(collector), "CCTRACE_SPOOL": "/s", "NOTES": notes}
    )
    assert done.stdout == "4096\n", done.stderr
