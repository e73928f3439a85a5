import json
from pathlib import Path

import numpy as np
import pytest
from converted import Convert, Converted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spool_builder import SpoolBuilder, decode_loop, write_counters, write_recording

from cctrace.collectors.spool import convert
from cctrace.collectors.spool.layout import RECORD, RECORD_BYTES, Kind, Operation
from cctrace.errors import OutputExistsError, UnusableInputError

T = 10**12


def one_call(pid: int = 1000) -> SpoolBuilder:
    spool = SpoolBuilder(pid=pid)
    spool.call(Operation.KERNEL, T + 1000, symbol="k")
    return spool


def refused(folder: Path, tmp_path: Path) -> str:
    with pytest.raises(UnusableInputError) as caught:
        convert(folder, tmp_path / "t.parquet")
    line = str(caught.value)
    assert "\n" not in line
    assert not (tmp_path / "t.parquet").exists()
    return line


def test_metadata_tells_what_the_recorder_and_the_processes_knew(to_trace: Convert) -> None:
    spool = SpoolBuilder(pid=77, parent=70)
    spool.named(Kind.STATE, "process.name", text="first name")
    spool.named(Kind.STATE, "process.name", text="EngineCore")
    spool.named(Kind.STATE, "cupti.state", text="refused", number=41)
    spool.named(Kind.STATE, "stamps.captures", number=3)
    spool.named(Kind.LOSS, "ring full", number=5)
    spool.named(Kind.LOSS, "ring full", number=2)
    spool.named(Kind.TAX, "call", number=101_500)
    spool.add(Kind.CLOCK, start_ns=T + 5, end_ns=T + 10**18 + 6)
    spool.call(Operation.KERNEL, T + 100, 50)
    recording = {
        "label": "my run",
        "recording": {"command": ["python", "serve.py"], "exit_code": 3},
        "clock": {"pairs": [[T + 1, T + 10**18]]},
        "collector": {"gpu_mode": "stamps", "notes": ["a note"]},
        "made by a later version": {"x": 1},
    }
    metadata = to_trace(spool, recording=recording).metadata
    assert (metadata.label, metadata.recording.command, metadata.recording.exit_code) == (
        "my run",
        ("python", "serve.py"),
        3,
    )
    assert metadata.extra == {"made by a later version": {"x": 1}}
    assert metadata.created_by is not None
    assert metadata.created_by.startswith("cctrace ")
    (process,) = metadata.collector.processes
    assert (process.pid, process.parent_pid, process.name) == (77, 70, "EngineCore")
    assert (process.image_start_ns, process.first_record_ns, process.last_record_ns) == (
        T - 10**6,
        T + 100,
        T + 150,
    )
    assert (process.records, process.torn_bytes) == (1, 0)
    assert process.lost == {"ring full": 7}
    assert process.tax_ns == {"call": 101.5}
    assert process.state == {"cupti.state": "refused (41)", "stamps.captures": 3}
    assert metadata.clock.pairs == ((T, T + 10**18), (T + 1, T + 10**18), (T + 5, T + 10**18 + 6))
    assert metadata.collector.notes == ("a note",)
    assert (metadata.labels, metadata.collector.timing) == ((), "undisturbed")


@pytest.mark.parametrize(
    ("recording", "labels"),
    [
        ({"emulation": {"profile": "b200-tdx"}}, ("emulated",)),
        ({"collector": {"gpu_mode": "graphs"}}, ()),
        ({"collector": {"gpu_mode": "nodes"}, "emulation": {}}, ("emulated",)),
        ({"acceptance": {"security": {"devtools": True}}}, ("devtools",)),
        (
            {"acceptance": {"security": {"cc_mode": "devtools"}}, "labels": ["mine", "devtools"]},
            ("mine", "devtools"),
        ),
        ({"acceptance": {"security": {"cc_mode": "on"}}}, ()),
    ],
)
def test_labels_follow_from_what_was_recorded(
    to_trace: Convert, recording: dict, labels: tuple[str, ...]
) -> None:
    assert to_trace(one_call(), recording=recording).metadata.labels == labels


@pytest.mark.parametrize(
    ("states", "timing"),
    [
        ([("refused: confidential computing (error 41)", 41)], "undisturbed"),
        ([None, ("refused: no libcupti found", 999)], "undisturbed"),
        ([None, None], "undisturbed"),
        ([("recording nodes", 0)], "distorted"),
        ([("refused: busy (error 39)", 39), ("recording nodes", 0)], "distorted"),
        ([("stopped: fatal (error 41)", 41)], "distorted"),
    ],
)
def test_host_times_are_distorted_where_cupti_worked(
    to_trace: Convert, states: list[tuple[str, int] | None], timing: str
) -> None:
    spools = []
    for pid, state in enumerate(states, start=1000):
        spool = one_call(pid)
        if state is not None:
            spool.named(Kind.STATE, "gpu.state", text=state[0], number=state[1])
        spools.append(spool)
    metadata = to_trace(*spools, recording={"collector": {"gpu_mode": "nodes"}}).metadata
    assert metadata.collector.timing == timing
    assert metadata.labels == (("distorted",) if timing == "distorted" else ())


def test_the_number_of_an_error_is_shown_once(to_trace: Convert) -> None:
    spool = one_call()
    spool.named(Kind.STATE, "gpu.state", text="refused: no libcupti (error 999); see the manual", number=999)
    spool.named(Kind.STATE, "gpu.without.rotation", text="INVALID_KIND", number=21)
    (process,) = to_trace(spool).metadata.collector.processes
    assert process.state == {
        "gpu.state": "refused: no libcupti (error 999); see the manual",
        "gpu.without.rotation": "INVALID_KIND (21)",
    }


def test_counters(to_trace: Convert, folder: Path) -> None:
    write_counters(
        folder,
        [
            (T + 5, 1, {"power_w": 300.5}),
            (T + 1, 0, {"power_w": 200, "sm_clock_mhz": 1980}),
            (T + 2, 0, {"power_w": 201}),
        ],
    )
    with (folder / "counters.jsonl").open("a") as file:
        file.write(
            '{"monotonic_ns": 5, "device": 0, "values": {"x": "a", "y": true, "z": 1e999}}\nnonsense\n[]\n'
        )
        file.write('{"monotonic_ns": -1, "device": 0, "values": {}}\n{"monotonic_ns": 7, "devi')
    converted = to_trace(one_call())
    counters = converted.kind("counter")
    assert counters.name.tolist() == ["power_w", "sm_clock_mhz", "power_w", "power_w"]
    assert counters.value.tolist() == [200.0, 1980.0, 201.0, 300.5]
    assert counters.device.tolist() == [0, 0, 0, 1]
    assert counters.lane.tolist() == [0, 0, 0, 1]
    assert counters.pid.tolist() == [0] * 4
    assert [lane.kind for lane in converted.trace.lanes] == ["counter", "counter", "thread"]
    assert "4 lines of counters.jsonl could not be read" in converted.metadata.collector.notes


def test_a_recording_without_cuda_is_a_valid_trace(to_trace: Convert) -> None:
    converted = to_trace()
    assert converted.trace.num_rows == 0
    assert "no recorded process used CUDA" in str(converted.conversion)


def test_without_recording_json(folder: Path, tmp_path: Path) -> None:
    one_call().write(folder)
    converted = Converted(convert(folder, tmp_path / "t.parquet"))
    assert len(converted.frame) == 1
    assert "recording.json is missing" in converted.metadata.collector.notes[0]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[]", b'{"format_version": 1, "lanes": 3}', b"[" * 10**5]
)
def test_a_damaged_recording_json_does_not_cost_the_rows(
    folder: Path, tmp_path: Path, content: bytes
) -> None:
    one_call().write(folder)
    (folder / "recording.json").write_bytes(content)
    converted = Converted(convert(folder, tmp_path / "t.parquet"))
    assert len(converted.frame) == 1
    assert "damaged" in converted.metadata.collector.notes[0]


def test_newer_parts_are_refused(folder: Path, tmp_path: Path) -> None:
    write_recording(folder, {"format_version": 99})
    assert "recording.json: made by a newer cctrace" in refused(folder, tmp_path)
    write_recording(folder)
    SpoolBuilder(version=2).write(folder)
    assert ".spool: made by a newer cctrace (spool version 2): upgrade" in refused(folder, tmp_path)


def test_folders_that_are_no_recording(folder: Path, tmp_path: Path) -> None:
    assert "is not the spool folder of a recording" in refused(folder, tmp_path)
    (folder / "readme.txt").write_text("hello")
    assert "is not the spool folder of a recording" in refused(folder, tmp_path)
    assert "no such folder" in refused(folder / "no", tmp_path)
    assert "is a file" in refused(folder / "readme.txt", tmp_path)
    (folder / "1-2.spool").write_bytes(b"x" * 1000)
    assert "holds no usable spool: 1-2.spool is not a spool of cctrace" in refused(folder, tmp_path)


def test_foreign_files_are_skipped_and_named(to_trace: Convert, folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "empty.spool").write_bytes(b"")
    (folder / "short.spool").write_bytes(b"x" * 63)
    (folder / "foreign.spool").write_bytes(b"x" * 6400)
    (folder / "folder.spool").mkdir()
    (folder / "dangling.spool").symlink_to(folder / "nothing")
    header = bytearray(SpoolBuilder().data())
    header[4:8] = b"\0" * 4  # no process id
    (folder / "header.spool").write_bytes(header)
    converted = to_trace(one_call())
    assert len(converted.frame) == 1
    skipped = dict(note.split(" ", 1) for note in converted.conversion.skipped)
    assert skipped == {
        "dangling.spool": "holds no record",
        "empty.spool": "holds no record",
        "folder.spool": "holds no record",
        "foreign.spool": "is not a spool of cctrace",
        "header.spool": "has a damaged header",
        "short.spool": "holds no record",
    }
    assert set(converted.conversion.skipped) <= set(converted.metadata.collector.notes)


def test_nothing_is_overwritten_without_force(folder: Path, tmp_path: Path) -> None:
    one_call().write(folder)
    (tmp_path / "t.parquet").write_text("precious")
    with pytest.raises(OutputExistsError):
        convert(folder, tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").read_text() == "precious"
    assert convert(folder, tmp_path / "t.parquet", force=True).rows == 1


def test_progress_reaches_the_end(folder: Path, tmp_path: Path) -> None:
    spool = SpoolBuilder()
    decode_loop(spool, steps=100)
    spool.write(folder)
    seen: list[tuple[int, int]] = []
    convert(folder, tmp_path / "t.parquet", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_every_prefix_of_a_spool_is_usable(folder: Path, tmp_path: Path) -> None:
    """A killed process leaves any prefix of its file: whole records come out, the rest is counted."""
    spool = SpoolBuilder()
    for i in range(6):
        spool.mark(f"label {i} " + "x" * 100 * i, T + i, T + i + 1)
        spool.call(Operation.KERNEL, T + i * 1000, symbol=f"symbol {i}")
    data = spool.data()
    path = folder / "1000-1.spool"
    rows = []
    for size in (*range(64, len(data), 23), len(data)):
        path.write_bytes(data[:size])
        conversion = convert(folder, tmp_path / "t.parquet", force=True)
        rows.append(conversion.rows)
        assert conversion.processes[0].torn_bytes == size % 64
    assert rows == sorted(rows)
    assert rows[-1] == 12


def test_a_text_cut_off_at_the_end_is_counted(folder: Path, tmp_path: Path) -> None:
    spool = one_call()
    spool.text("a label of more than sixty-four bytes, so that it takes two blocks of text in the spool")
    (folder / "1-1.spool").write_bytes(spool.data()[:-64])
    (process,) = convert(folder, tmp_path / "t.parquet").processes
    assert process.lost == {"damaged texts": 1}


def test_text_blocks_are_never_taken_for_records(to_trace: Convert) -> None:
    """Text of one byte repeated looks like records of every kind."""
    spool = SpoolBuilder()
    for byte in range(1, 128):
        spool.text(chr(byte) * 200)
    spool.text("Ā" * 2000)  # 0xc4 0x80 …
    spool.raw(b"")
    spool.mark("end", T, T + 1)
    converted = to_trace(spool)
    assert converted.frame.name.tolist() == ["end"]
    assert converted.metadata.collector.processes[0].lost == {}


def test_unknown_kinds_and_operations_are_counted(to_trace: Convert) -> None:
    spool = one_call()
    spool.add(17)
    spool.add(250)
    spool.add(Kind.CALL, operation=0, start_ns=T)
    spool.add(Kind.CALL, operation=200, start_ns=T)
    converted = to_trace(spool)
    assert len(converted.frame) == 1
    assert converted.metadata.collector.processes[0].lost == {
        "calls of an unknown operation": 2,
        "records of an unknown kind": 2,
    }


def test_a_text_id_far_above_the_others_costs_nothing(to_trace: Convert) -> None:
    spool = one_call()
    spool.add(Kind.STRING, name=2**32 - 1, bytes=3)
    spool.raw(b"abc".ljust(RECORD_BYTES, b"\0"))
    spool.call(Operation.KERNEL, T + 9000)
    assert to_trace(spool).frame.name.tolist() == ["cuLaunchKernel"] * 2


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_records_never_end_in_an_error(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Nothing in a spool is trusted: any bytes behind a good header give a trace."""
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    records = np.frombuffer(rng.bytes(64 * 300), dtype=RECORD).copy()
    kinds = np.array([int(k) for k in Kind] + [0, 99], dtype=np.uint8)
    records["kind"] = rng.choice(kinds, len(records))
    if data.draw(st.booleans()):  # small values, so that records refer to each other
        for name in ("tid", "stream", "bytes", "object", "link", "name", "device"):
            records[name] %= 5
        records["operation"] = rng.choice([int(o) for o in Operation], len(records))
        for name in ("start_ns", "end_ns"):
            records[name] = T + rng.integers(0, 10**6, len(records))
    spool = SpoolBuilder()
    spool.extend(records)
    path = folder / "1-1.spool"
    path.write_bytes(spool.data())
    Converted(convert(folder, tmp_path / "t.parquet", force=True))


def test_recording_json_is_in_the_trace_as_it_was(to_trace: Convert, folder: Path) -> None:
    to_trace(one_call(), recording={"acceptance": {"model": {"precision": "fp8", "extra_note": "x"}}})
    document = json.loads((folder / "recording.json").read_text())
    metadata = to_trace(recording=document).metadata
    assert metadata.acceptance.model.precision == "fp8"
    assert metadata.acceptance.model.extra == {"extra_note": "x"}
