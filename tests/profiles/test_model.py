"""Documents: what is read, and what is refused with one line."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from cctrace.errors import UnusableInputError
from cctrace.profiles.files import MAX_FILE_BYTES, load_profile, read_profile, write_profile
from cctrace.profiles.model import Entry, Head, Launch, Pcie, Profile, SizeTable
from cctrace.profiles.shipped import FOLDER

HEAD = '[profile]\nname = "x"\nkind = "tolls"\ngpu = "g"\ntee = "none"\nsources = ["me: myself"]\n'
MEASURED = HEAD.replace("tolls", "measured") + 'cc = "off"\n'
COST = '{ value = 3.0, low = 2.0, high = 4.0, source = "me" }'


def launch(entry: str) -> str:
    return f"{HEAD}[launch]\nkernel_us = {entry}\n"


def table(**changed: str) -> str:
    keys = {
        "bytes": "[64, 128]",
        "value": "[1.0, 2]",
        "low": "[0, 1]",
        "high": "[2, 3]",
        "source": '"me"',
    } | changed
    return f"{HEAD}[pcie.h2d_us]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


def test_a_small_profile(path: Path) -> None:
    path.write_text(launch(COST))
    profile = load_profile(str(path))
    assert profile.name == profile.profile.title == "x"
    assert profile.launch.kernel_us == Entry(value=3, low=2, high=4, source="me")
    assert [(cause, key) for cause, key, _ in profile.all_entries()] == [("launch", "kernel_us")]
    assert profile.entries("pcie") == {}


def test_a_date_of_toml_is_its_text(path: Path) -> None:
    path.write_text(MEASURED + "date = 2026-11-30\n")
    assert read_profile(path).profile.date == "2026-11-30"


BROKEN = {
    "empty": ("", r"\[profile\] is missing"),
    "no TOML": ("[profile", "not valid TOML"),
    "no text": ("\udcff", "not valid TOML"),
    "no name": (HEAD.replace('name = "x"\n', ""), r"\[profile\] name is missing"),
    "a name that is a path": (HEAD.replace('"x"', '"../x"'), r"\[profile\] name '../x'"),
    "no kind": (HEAD.replace('kind = "tolls"\n', ""), r"\[profile\] kind is missing"),
    "another kind": (
        HEAD.replace("tolls", "guesses"),
        r"\[profile\] kind 'guesses': .*'tolls' or 'measured'",
    ),
    "no sources": (HEAD.replace('"me: myself"', ""), r"\[profile\] sources"),
    "measured without a state": (HEAD.replace("tolls", "measured"), r"\[profile\] .*needs cc"),
    "tolls with a state": (HEAD + 'cc = "on"\n', r"\[profile\] .*no cc"),
    "unknown table": (HEAD + "[lunch]\n", r"\[lunch\] is not a key .*launch, pcie, overlap, nvlink"),
    "unknown key": (HEAD + f"[launch]\nkernels_us = {COST}\n", r"\[launch.kernels_us\] is not a key"),
    "unknown field": (launch(COST[:-1] + ", unit = 3 }"), r"\[launch.kernel_us\] unit is not a key"),
    "a number for a table": (launch("3"), r"\[launch.kernel_us\] is no table: 3"),
    "no range": (launch("{ value = 3 }"), r"\[launch.kernel_us\] low is missing \(and 2 more\)"),
    "no source": (launch("{ value = 3, low = 2, high = 5 }"), r"\[launch.kernel_us\] source is missing"),
    "an empty source": (launch(COST.replace("me", "")), r"\[launch.kernel_us\] source ''"),
    "infinite": (launch(COST.replace("3.0", "inf")), r"\[launch.kernel_us\] value inf: .*finite"),
    "negative": (launch(COST.replace("2.0", "-1")), r"\[launch.kernel_us\] low -1: .*greater"),
    "seconds": (launch(COST.replace("4.0", "1e12")), r"\[launch.kernel_us\] high 1000000000000.0: .*less"),
    "a text": (launch(COST.replace("3.0", '"3"')), r"\[launch.kernel_us\] value '3': .*number"),
    "a truth value": (launch(COST.replace("3.0", "true")), r"\[launch.kernel_us\] value True: .*number"),
    "outside its range": (launch(COST.replace("3.0", "1.0")), r"\[launch.kernel_us\] low ≤ value ≤ high"),
    "not on − off": (
        launch(COST.replace("source", "on = 9.0, off = 5.0, source")),
        r"launch.kernel_us: 3 is not on − off \(9 − 5\)",
    ),
    "not a rule": (
        f"{HEAD}[overlap]\npinned_copies_block = {{ value = 0.5, low = 0, high = 1, source = 'me' }}\n",
        r"\[overlap.pinned_copies_block\] value 0.5",
    ),
    "faster than without": (
        f"{HEAD}[nvlink]\ncollective_factor = {{ value = 1, low = 0.9, high = 1, source = 'me' }}\n",
        r"\[nvlink.collective_factor\] low 0.9: .*greater",
    ),
    "not off ÷ on": (
        f"{HEAD}[nvlink]\n"
        "peer_copy_factor = { value = 1.5, low = 1, high = 2, on = 1, off = 2, source = 'me' }\n",
        r"nvlink.peer_copy_factor: 1.5 is not off ÷ on \(2 ÷ 1\)",
    ),
    "a factor that was measured": (
        f"{MEASURED}[nvlink]\npeer_copy_factor = {{ value = 1.5, low = 1, high = 2, source = 'me' }}\n",
        r"nvlink.peer_copy_factor compares on with off",
    ),
    "an absolute that was measured": (
        f"{MEASURED}[launch]\nkernel_us = {COST[:-1]}, on = 4 }}\n",
        r"launch.kernel_us: on and off belong",
    ),
    "descending sizes": (table(bytes="[128, 64]"), r"\[pcie.h2d_us\] the sizes in bytes do not ascend"),
    "a size twice": (table(bytes="[64, 64]"), r"\[pcie.h2d_us\] the sizes in bytes do not ascend"),
    "a fraction of a byte": (table(bytes="[64.5, 128]"), r"\[pcie.h2d_us\] bytes number 1 64.5: .*integer"),
    "no bytes": (table(bytes="[0, 128]"), r"\[pcie.h2d_us\] bytes number 1 0"),
    "lists of two lengths": (table(low="[0]"), r"\[pcie.h2d_us\] low has 1 numbers for 2 sizes"),
    "a bad node": (table(high="[2, 'x']"), r"\[pcie.h2d_us\] high number 2 'x': .*number"),
    "a node outside its range": (
        table(high="[0.5, 3]"),
        r"\[pcie.h2d_us\] low ≤ value ≤ high .* at 64 bytes",
    ),
    "no nodes": (table(bytes="[]"), r"\[pcie.h2d_us\] bytes"),
    "too many nodes": (table(bytes=str(list(range(1, 40)))), r"\[pcie.h2d_us\] bytes .*at most 32"),
    "not on − off − launch": (
        table(on="[9.0, 9.0]", off="[5.0, 5.0]") + f"[launch]\ncopy_us = {COST}\n",
        r"pcie.h2d_us at 128 bytes: 2 is not on − off − launch.copy_us \(3\) \(9 − 5\)",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_document_is_one_line(path: Path, case: str) -> None:
    text, said = BROKEN[case]
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UnusableInputError, match=said) as caught:
        read_profile(path)
    message = str(caught.value)
    assert "mine.toml" in message
    assert "\n" not in message.replace("not valid TOML", "") or "TOML" in message
    assert len(message) < 300 + len(str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "[" * 100_000, "recursion"),
        ("a" + ".a" * 100_000 + " = 1", "a line with more than 200 dots"),
        ("a = " + "9" * 100_000, "not valid TOML"),
    ],
    ids=["lists", "parts of a key", "digits"],
)
def test_a_document_that_is_too_much_is_refused_at_once(path: Path, text: str, said: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnusableInputError, match=said):
        read_profile(path)


def test_a_byte_order_mark_is_no_part_of_the_document(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + (FOLDER / "zero.toml").read_bytes())
    assert read_profile(path) == load_profile("zero")


def test_a_file_that_is_no_document(path: Path) -> None:
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(UnusableInputError, match="larger than"):
        read_profile(path)
    with pytest.raises(UnusableInputError, match=r"cannot read .*Is a directory"):
        read_profile(path.parent)
    with pytest.raises(UnusableInputError, match=r"cannot read .*No such file"):
        load_profile(str(path.with_name("other.toml")))
    with pytest.raises(UnusableInputError, match=r"known: b200-tdx, .*h20"):
        load_profile("h100")
    with pytest.raises(UnusableInputError, match=r"no platform profile .\.\./profiles/h20."):
        load_profile("../profiles/h20")


def test_nesting_does_not_end_the_program(path: Path) -> None:
    path.write_text(f"{HEAD}[launch]\nkernel_us = {'[' * 5000}{']' * 5000}\n")
    with pytest.raises(UnusableInputError):
        read_profile(path)


def test_what_is_written_is_for_people_too(path: Path) -> None:
    head = Head(name="mine", kind="measured", gpu="H200", tee="none", sources=("here: µ",), cc="off", gpus=2)
    sizes = SizeTable(
        bytes=(64, 1024), value=(4.3, 4.4), low=(4, 4), high=(5, 5), source="here", note='a "note"'
    )
    profile = Profile(profile=head, launch=Launch(), pcie=Pcie(d2d_us=sizes))
    write_profile(profile, path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert "bytes = [64, 1024]" in lines
    assert 'sources = ["here: µ"]' in lines
    assert not any(line.startswith("[launch") for line in lines), "what is not there is not written"
    assert read_profile(path) == profile
    with pytest.raises(UnusableInputError, match="cannot write"):
        write_profile(profile, path / "x.toml")


def test_a_profile_cannot_be_changed() -> None:
    profile = load_profile("b200-tdx")
    assert profile.launch.kernel_us is not None
    with pytest.raises(ValidationError):
        profile.launch.kernel_us.value = 1.0
