"""`cctrace doctor`: what can be recorded on this machine, and why not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from cctrace.collectors.doctor import Diagnosis
    from cctrace.trace.state_check import StateCheck


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("doctor")(doctor)


def doctor(
    *,
    folder: Annotated[
        Path, typer.Option("--output-dir", metavar="DIR", help="Where traces would be written.")
    ] = Path(),
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Run reference loops on the GPUs, and say what looks stale or busy (seconds)."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show the state of confidential computing here, and what can be recorded.

    Exit code: 0 if a program can be recorded, 1 if not.
    """
    import json  # noqa: PLC0415
    import os  # noqa: PLC0415

    from cctrace.collectors.doctor import diagnose  # noqa: PLC0415
    from cctrace.errors import EXIT_GATE_FAILED, EXIT_OK  # noqa: PLC0415

    diagnosis = diagnose(folder.resolve(), os.environ, measure=measure)
    if as_json:
        typer.echo(json.dumps(diagnosis.to_json(), indent=2, ensure_ascii=False))
    else:
        _print(diagnosis)
    raise typer.Exit(EXIT_OK if diagnosis.can_record else EXIT_GATE_FAILED)


def _print(diagnosis: Diagnosis) -> None:
    from rich.console import Console  # noqa: PLC0415

    from cctrace.terminal import facts_table  # noqa: PLC0415

    console = Console(highlight=False)
    console.print(facts_table("Confidential computing", _confidential_facts(diagnosis)))
    console.print(facts_table("GPUs", _gpu_facts(diagnosis)))
    checks = [(check.name, f"{check.status}: {check.detail}") for check in diagnosis.checks]
    console.print(facts_table("Checks", checks))
    modes = [(f"--gpu {mode.name}", f"{mode.works}: {mode.why}") for mode in diagnosis.modes]
    console.print(facts_table("GPU times", modes))
    if diagnosis.state is not None:
        _print_state(console, diagnosis.state)
    verdict = "can be recorded" if diagnosis.can_record else "cannot be recorded; see the failed checks"
    console.print(f"Programs {verdict}. Neither root, ptrace nor container privileges are needed.")


def _print_state(console: Console, check: StateCheck) -> None:
    from cctrace.app.state_view import gpu_facts, verdict_facts  # noqa: PLC0415
    from cctrace.collectors.state.findings import unknown_of  # noqa: PLC0415
    from cctrace.terminal import facts_table  # noqa: PLC0415

    for gpu in check.gpus:
        console.print(facts_table(f"State of GPU {gpu.index}", gpu_facts(gpu)))
    console.print(facts_table("State of the GPUs", verdict_facts(check, unknown_of(check))))


def _confidential_facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    state, machine = diagnosis.snapshot.confidential, diagnosis.snapshot.machine
    capable = {True: "yes", False: "no", None: None}[state.gpu_capable]
    devtools = {True: "on", False: "off", None: None}[state.devtools]
    facts = [
        ("CC mode", state.cc_mode),
        ("environment", state.environment),
        ("multi-GPU mode", state.multi_gpu_mode),
        ("devtools", devtools),
        ("ready state", "not applicable with CC off" if state.cc_mode == "off" else state.ready_state),
        ("NVLink encryption", state.nvlink_encryption),
        ("GPU is capable", capable),
        ("CPU capability (driver)", state.cpu_capability),
    ]
    rows = [(name, value or "not known") for name, value in facts]
    return [*rows, ("TEE of this guest", f"{machine.tee or 'not known'} ({machine.tee_evidence})")]


def _gpu_facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    snapshot = diagnosis.snapshot
    driver = f"{snapshot.driver or 'not known'}, CUDA {snapshot.cuda or 'not known'}"
    rows = [("driver", f"{driver} ({snapshot.machine.driver_kind or 'kind not known'})")]
    if snapshot.nvml_missing:
        rows.append(("NVML", snapshot.nvml_missing))
    for index, gpu in enumerate(snapshot.gpus):
        memory = gpu.get("memory_bytes")
        size = f", {memory / 2**30:.0f} GiB" if memory else ""
        rows.append((f"GPU {index}", f"{gpu.get('name', 'not known')}{size}, {gpu.get('uuid', '')}"))
    return rows
