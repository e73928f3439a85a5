import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cctrace.collectors import doctor
from cctrace.collectors.doctor import Check, diagnose
from cctrace.collectors.environment.confidential import ConfidentialState
from cctrace.collectors.environment.cupti import find_libcupti
from cctrace.collectors.environment.isolated import take_snapshot
from cctrace.collectors.environment.snapshot import Snapshot

OFF = ConfidentialState(
    cc_mode="off", environment="unavailable", multi_gpu_mode="none", devtools=False, asked="settings"
)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Diagnoses a machine with one H200, the collector, and the given state of confidential computing."""
    cupti = tmp_path / "libcupti.so.13"
    cupti.write_text("")

    def diagnosis(
        confidential: ConfidentialState,
        *,
        states: tuple[dict[str, Any], ...] = ({"other_processes": 0},),
        **environment: str,
    ) -> doctor.Diagnosis:
        plain = take_snapshot()
        snapshot: Snapshot = replace(
            plain,
            confidential=confidential,
            nvml_missing=None,
            gpus=({"name": "NVIDIA H200"},),
            gpu_states=states,
            driver="580.1",
            cuda="13.0",
        )
        monkeypatch.setattr(doctor, "take_snapshot", lambda: snapshot)
        monkeypatch.setattr(doctor, "_check_collector", lambda _: Check("native collector", "ok", ""))
        monkeypatch.setattr(doctor, "_check_driver", lambda _: Check("CUDA driver", "ok", ""))
        return diagnose(tmp_path, {"CCTRACE_LIBCUPTI": str(cupti), **environment})

    return diagnosis


def _works(diagnosis: doctor.Diagnosis) -> dict[str, str]:
    return {mode.name: mode.works for mode in diagnosis.modes}


def test_cc_off(machine: Any) -> None:
    found = machine(OFF)
    assert found.can_record
    assert _works(found) == {"none": "yes", "stamps": "yes", "graphs": "yes", "nodes": "yes"}


def test_production_cc_refuses_cupti_only(machine: Any) -> None:
    found = machine(replace(OFF, cc_mode="on", environment="production", ready_state="ready"))
    assert found.can_record
    assert _works(found) == {"none": "yes", "stamps": "yes", "graphs": "no", "nodes": "no"}
    assert "error 41" in found.modes[2].why


def test_devtools_is_no_production_state(machine: Any) -> None:
    found = machine(replace(OFF, cc_mode="devtools", devtools=True))
    (check,) = [check for check in found.checks if check.name == "confidential computing"]
    assert check.status == "warning"
    assert "not a production state" in check.detail
    assert _works(found)["nodes"] == "yes"


def test_gpus_that_are_not_ready(machine: Any) -> None:
    found = machine(replace(OFF, cc_mode="on", ready_state="not-ready"))
    assert not found.can_record


def test_unknown_state_is_not_guessed(machine: Any) -> None:
    found = machine(ConfidentialState())
    assert found.can_record
    assert _works(found)["nodes"] == "cannot tell"


def test_another_tool(machine: Any) -> None:
    assert _works(machine(OFF, CUDA_INJECTION64_PATH="/nsys.so")) == {
        "none": "yes",
        "stamps": "yes",
        "graphs": "no",
        "nodes": "no",
    }


@pytest.mark.parametrize(
    ("states", "status"),
    [(({"other_processes": 0},), "ok"), (({"other_processes": 2},), "warning"), (({},), "unknown")],
)
def test_other_programs_on_the_gpu(machine: Any, states: tuple[dict[str, Any], ...], status: str) -> None:
    (check,) = [check for check in machine(OFF, states=states).checks if check.name == "other programs"]
    assert check.status == status


def test_json_has_no_python_objects(machine: Any) -> None:
    assert json.loads(json.dumps(machine(OFF).to_json()))["gpus"] == [
        {"name": "NVIDIA H200", "state": {"other_processes": 0}}
    ]


def test_libcupti_beside_the_programs_interpreter(tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    library = tmp_path / "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcupti.so.13"
    for path in (python, library):
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert find_libcupti({}, str(python)) == library
    chosen = tmp_path / "chosen/libcupti.so.12"
    chosen.parent.mkdir()
    chosen.write_text("")
    assert find_libcupti({"LD_LIBRARY_PATH": f":{chosen.parent}"}, str(python)) == chosen
    assert find_libcupti({"CCTRACE_LIBCUPTI": str(tmp_path / "none")}, str(python)) is None
    assert find_libcupti({"CCTRACE_LIBCUPTI": str(python)}, None) == python
