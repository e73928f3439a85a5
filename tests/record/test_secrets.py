import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctrace.collectors.environment.variables import is_stored, stored_variables
from cctrace.collectors.record.secrets import REDACTED, is_secret_name, redact_command, redact_text

SECRET = "s3cr3t-Zx"


@pytest.mark.parametrize(
    "command",
    [
        ["python", "serve.py", "--api-key", SECRET],
        ["python", "serve.py", f"--api-key={SECRET}"],
        ["python", "serve.py", "--apiKey", SECRET],
        ["python", "serve.py", "--hf_token", SECRET, "--port", "8000"],
        ["env", f"HF_TOKEN={SECRET}", "python", "serve.py"],
        ["bash", "-c", f"OPENAI_API_KEY={SECRET} python serve.py --port 1"],
        ["bash", "-c", f"python serve.py --api-key '{SECRET}' --port 1"],
        ["bash", "-c", f'export DB_PASSWORD="{SECRET} with spaces"; python x.py'],
        ["curl", "-H", f"Authorization: Bearer {SECRET}"],
        ["curl", f"https://user:{SECRET}@host/models"],
        ["python", "x.py", "--config", f'{{"api_key": "{SECRET}", "port": 1}}'],
        ["python", "x.py", "--secret", SECRET],
        ["python", "x.py", "-token", SECRET],
        ["python", "x.py", "--pass", SECRET],
        ["python", "x.py", f"--db-pass={SECRET}"],
        ["python", "x.py", "--passcode", SECRET],
        ["python", "x.py", "--ssl-keyfile-passphrase", SECRET],
        ["env", f"PGPASSWORD={SECRET}", "python", "x.py"],
        ["python", "x.py", "--config", f'{{"keys": ["a", "{SECRET}"]}}'],
        ["python", "x.py", "--config", f'{{"auth": {{"user": "me", "it": "{SECRET}"}}}}'],
        ["python", "x.py", "--config", f'{{"password": "a\\"{SECRET}"}}'],
        ["python", "x.py", "hf_abcdefghijklmnopqrstu" + SECRET.replace("-", "")],
    ],
)
def test_secrets_do_not_survive(command: list[str]) -> None:
    stored = redact_command(command)
    assert SECRET not in " ".join(stored)
    assert SECRET.replace("-", "") not in " ".join(stored)
    assert REDACTED in " ".join(stored)
    assert len(stored) == len(command)


@pytest.mark.parametrize(
    "command",
    [
        ["vllm", "serve", "Qwen/Qwen3-8B", "--max-tokens", "128", "--tokenizer", "Qwen/Qwen3-8B"],
        ["python", "serve.py", "--max-num-batched-tokens=8192", "--keyboard", "x", "--monkey", "y"],
        ["python", "-m", "sglang.launch_server", "--model-path", "/models/x", "--tp", "8"],
        ["bash", "-c", "CUDA_VISIBLE_DEVICES=0 python serve.py --port 8000"],
        ["python", "x.py", "--url", "http://127.0.0.1:8000/v1"],
        ["python", "x.py", "--pass-manager", "fuse", "--passes", "3", "--bypass", "x"],
        ["vllm", "serve", "--compilation-config", '{"level":3, "cudagraph_capture_sizes": [1, 2]}'],
    ],
)
def test_settings_of_the_run_stay(command: list[str]) -> None:
    assert redact_command(command) == command


def test_a_flag_after_a_secret_name_is_not_its_value() -> None:
    assert redact_command(["x", "--no-auth", "--port", "1"]) == ["x", "--no-auth", "--port", "1"]


@pytest.mark.parametrize(
    ("argument", "stored"),
    [
        ('{"api_key":"x","port":1}', '{"api_key":"<redacted>","port":1}'),
        ('{"port": 1, "api_key": 17}', '{"port": 1, "api_key": "<redacted>"}'),
        (
            '--config={"a": [{"token": ["x", "y"]}], "é": 1.5}',
            '--config={"a": [{"token": "<redacted>"}], "é": 1.5}',
        ),
        ('{"env": "HF_TOKEN=x y", "key": null}', '{"env": "HF_TOKEN=<redacted> y", "key": "<redacted>"}'),
        ("{'api_key': 'x'}", "{'api_key': '<redacted>'}"),
        ('sh -c \'{"secret":"x"}\'', 'sh -c \'{"secret":"<redacted>"}\''),
    ],
)
def test_redacted_json_stays_json(argument: str, stored: str) -> None:
    assert redact_text(argument) == stored
    assert redact_text(stored) == stored


@given(st.text(max_size=200))
def test_any_text_can_be_redacted(text: str) -> None:
    assert isinstance(redact_text(text), str)


@given(
    name=st.sampled_from(["API_KEY", "HF_TOKEN", "db.password", "x-secret", "clientSecret"]),
    value=st.text(st.characters(categories=("L", "N")), min_size=1, max_size=30),
)
def test_assignments_of_secret_names_lose_any_value(name: str, value: str) -> None:
    assert is_secret_name(name)
    assert redact_text(f"{name}={value}") == f"{name}={REDACTED}"


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("CUDA_VISIBLE_DEVICES", True),
        ("NCCL_ALGO", True),
        ("VLLM_ATTENTION_BACKEND", True),
        ("PYTORCH_CUDA_ALLOC_CONF", True),
        ("LD_PRELOAD", True),
        ("VLLM_API_KEY", False),
        ("SGLANG_TOKEN", False),
        ("TORCH_HUB_PASSWORD", False),
        ("NCCL_SECRET_THING", False),
        ("HF_TOKEN", False),
        ("VLLM_PROXY_PASS", False),
        ("SGLANG_PASSCODE", False),
        ("VLLM_SSL_PASSPHRASE", False),
        ("HOME", False),
        ("LD_PRELOAD_OTHER", False),
    ],
)
def test_environment_variables_are_an_allow_list(name: str, stored: bool) -> None:
    assert is_stored(name) is stored
    assert (name in stored_variables({name: "x"})) is stored


def test_long_values_are_cut() -> None:
    assert len(stored_variables({"VLLM_X": "y" * 5000})["VLLM_X"]) == 1000
