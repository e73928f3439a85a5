from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("numpy")

import serve_vllm
from server.configs import model_config

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
TINY = ["serve.py", "--bench", "--device", "cpu", "--model", "tiny", "--execution", "eager"]


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=SAMPLES,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str) -> tuple[int, str, str]:
    with start(*arguments) as process:
        output, errors = process.communicate(timeout=120)
        return process.returncode, output, errors


def test_bench_prints_one_object_and_writes_it_once(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "result.json"
    load = ["--num-prompts", "3", "--concurrency", "2", "--input-len", "4", "--output-len", "5"]
    code, output, errors = run(*TINY, *load, "--result-filename", str(file), "--save-detailed")
    assert code == 0, errors
    result = json.loads(output)
    assert json.loads(file.read_text()) == result
    assert (result["completed"], result["total_output_tokens"]) == (3, 15)
    assert result["output_lens"] == [5, 5, 5]
    code, _, errors = run(*TINY, *load, "--result-filename", str(file))
    assert code == 2
    assert "exists" in errors


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) >> (number - 1) & 1)


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used, itself and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_bench_that_is_stopped_still_prints_what_it_has(number: signal.Signals) -> None:
    pytest.importorskip("torch")
    load = ["--num-prompts", "100000", "--concurrency", "1", "--input-len", "2", "--output-len", "2"]
    with start(*TINY, *load, "--readback", "worker") as process:
        while not handles(process.pid, signal.SIGTERM):  # it is not before the load begins
            assert process.poll() is None
            time.sleep(0.05)
        began = cpu_seconds(process.pid)
        while cpu_seconds(process.pid) < began + 2.0:  # time for many requests, however busy the machine is
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    result = json.loads(output)
    assert result["completed"] > 0
    assert result["failed"] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input-len", "2000"], "exceed --max-len"),
        (["--execution", "graph"], "needs a GPU"),
        (["--device", "tpu"], "give cuda, cuda:N or cpu"),
        (["--device", "meta"], "give cuda, cuda:N or cpu"),
        (["--device", "cuda:63"], "torch sees"),
        (["--temperature", "-1"], "must not be negative"),
        (["--port", "70000"], "between 0 and 65535"),
        (["--concurrency", "0"], "at least 1"),
        (["--result-filename", "/nowhere/at/all"], "there is no folder"),
    ],
)
def test_options_that_cannot_be_used_end_in_one_line(arguments: list[str], message: str) -> None:
    pytest.importorskip("torch")
    code, output, errors = run(*TINY, *arguments)
    assert code == 2
    assert message in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert output == ""


def test_port_in_use_ends_in_one_line() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("aiohttp")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, errors = run(*[word for word in TINY if word != "--bench"], "--port", port)
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in errors
    assert "Traceback" not in errors


def test_client_without_a_server_ends_in_one_line() -> None:
    pytest.importorskip("aiohttp")
    code, _, errors = run("client.py", "http://127.0.0.1:9", "--num-prompts", "1")
    assert code == 2
    assert errors.startswith("client: cannot use http://127.0.0.1:9")
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("pin", "message"),
    [("0-3", "a colon between"), ("0-3:x", "invalid literal"), ("3-1:0", "names no CPU")],
)
def test_vllm_driver_refuses_broken_cpu_lists(pin: str, message: str) -> None:
    code, _, errors = run("serve_vllm.py", "--pin", pin)
    assert code == 2
    assert message in errors


def test_vllm_driver_configures_the_published_shapes() -> None:
    small, large = (serve_vllm.hf_config(model_config(name)) for name in ("0.6b", "8b"))
    assert (small["hidden_size"], small["num_hidden_layers"], small["num_attention_heads"]) == (1024, 28, 16)
    assert (large["hidden_size"], large["num_hidden_layers"], large["intermediate_size"]) == (4096, 36, 12288)
    assert small["tie_word_embeddings"]
    assert not large["tie_word_embeddings"]
    assert serve_vllm.parse_pin("8-10,12:0-1") == ({8, 9, 10, 12}, {0, 1})


@pytest.mark.parametrize(
    ("concurrency", "sizes"), [(1, [1]), (16, [1, 2, 4, 8, 16]), (20, [1, 2, 4, 8, 16, 20])]
)
def test_vllm_graph_sizes_cover_the_load(
    monkeypatch: pytest.MonkeyPatch, concurrency: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "--concurrency", str(concurrency), "--execution", "piecewise"])
    options = serve_vllm.engine_options(serve_vllm.arguments(), "folder")
    assert options["compilation_config"] == {
        "cudagraph_mode": "PIECEWISE",
        "cudagraph_capture_sizes": sizes,
    }
    monkeypatch.setattr(sys, "argv", ["x", "--execution", "eager"])
    options = serve_vllm.engine_options(serve_vllm.arguments(), "folder")
    assert options["enforce_eager"] is True
    assert "compilation_config" not in options
