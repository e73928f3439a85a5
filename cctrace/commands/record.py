"""`cctrace record`: run a command and write the trace of what it submitted to the GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from cctrace.errors import UnusableInputError
from cctrace.profiles.shipped import profile_names

if TYPE_CHECKING:
    from cctrace.collectors.record.settings import EmulatedCosts, RecordSettings

_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(i?B?)", re.IGNORECASE)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_TIME: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|)")
_SECONDS: Final = {"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "h": 3600.0}


def parse_size(text: str) -> int:
    """Returns the bytes of `512M`, `2GiB`, `1000000`; the letters are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    size = 0 if match is None else int(float(match[1]) * 1024 ** _POWERS[match[2].upper()])
    if size <= 0:
        raise UnusableInputError(f"--max-bytes {text!r}: give a size such as 500M or 2G")
    return size


def parse_seconds(text: str, option: str, *, zero: bool = False) -> float:
    """Returns the seconds of `30`, `30s`, `2.5m`, `1h`, `200ms`."""
    match = _TIME.fullmatch(text.strip())
    seconds = -1.0 if match is None else float(match[1]) * _SECONDS[match[2]]
    if seconds < 0 or (seconds == 0 and not zero):
        raise UnusableInputError(f"{option} {text!r}: give a time such as 30, 30s or 2m")
    return seconds


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "record",
        # From the first word that is no option of ours on, all belongs to the command, with or without `--`.
        context_settings={"allow_interspersed_args": False},
    )(record)


def record(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="CMD", help="Command to run, with its arguments; put -- before it.", show_default=False
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Trace file; default: cctrace-COMMAND-TIME.parquet here.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the trace file if it exists.")] = False,
    gpu: Annotated[
        str,
        typer.Option(
            "--gpu",
            metavar="none|stamps|graphs|nodes",
            help="GPU times: stamps inside graphs (works in production CC), or CUPTI by graph or by node "
            "(distorts host times; refused in production CC).",
        ),
    ] = "stamps",
    delay: Annotated[
        str | None,
        typer.Option("--delay", metavar="TIME", help="Record from so long after the start on (30s, 2m)."),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--duration", metavar="TIME", help="Record for so long; the command runs on."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Record until so many marked steps were seen.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option("--max-bytes", metavar="SIZE", help="Record until the spool holds so much (500M, 2G)."),
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(
            "--step", metavar="PATTERN", help="NVTX labels that mark steps, with * and ?; repeatable."
        ),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="Name of the recording.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Metadata that no machine can know, such as model.precision=nvfp4; repeatable. "
            "`cctrace info --fields` lists the fields.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results", metavar="FILE", help="JSON of `vllm bench serve`, read when the command has ended."
        ),
    ] = None,
    emulate: Annotated[
        str | None,
        typer.Option(
            "--emulate",
            metavar="PROFILE[:CAUSE,…]",
            help="Charge the costs of a platform to the command, such as b200-tdx:launch,overlap; causes are "
            "launch, pcie, overlap, nvlink. The trace is labelled. "
            f"Platforms: {', '.join(profile_names())}, or a file that ends in .toml.",
        ),
    ] = None,
    emulate_set: Annotated[
        list[str] | None,
        typer.Option(
            "--emulate-set",
            metavar="CAUSE.KEY=VALUE",
            help="Another cost, such as launch.toll_us=20 or pcie.scale=0.5; repeatable.",
        ),
    ] = None,
    counters_hz: Annotated[
        float,
        typer.Option("--counters-hz", min=0.0, help="Samples of GPU counters a second, 1 to 10; 0: none."),
    ] = 1.0,
    state_check: Annotated[
        bool,
        typer.Option(
            "--state-check/--no-state-check",
            help="Check the state of the GPUs before the command starts (1 to 2 s, at most 5).",
        ),
    ] = True,
    spool_dir: Annotated[
        Path | None,
        typer.Option(
            "--spool-dir",
            metavar="DIR",
            help="Where to keep the data while recording; default: beside the trace.",
        ),
    ] = None,
) -> None:
    """Run a command and record what it submits to the GPU.

    Exit code, signals and terminal are those of the command.
    Ctrl-C ends the command and still writes the trace.
    If the recorder is killed, `cctrace recover` makes the trace.
    """
    from cctrace.collectors.record import signals  # noqa: PLC0415

    # First of all: the libraries below start threads, which would otherwise receive the signals instead.
    mask = signals.block_signals()
    from cctrace.collectors.record import settings  # noqa: PLC0415
    from cctrace.collectors.record.control import Window  # noqa: PLC0415

    _check_choices(gpu, counters_hz)
    wanted = settings.RecordSettings(
        command=tuple(command),
        output=output if output is not None else settings.default_output(command),
        force=force,
        spool_parent=spool_dir,
        window=Window(
            delay_s=None if delay is None else parse_seconds(delay, "--delay", zero=True),
            duration_s=None if duration is None else parse_seconds(duration, "--duration"),
            steps=steps,
            max_bytes=None if max_bytes is None else parse_size(max_bytes),
        ),
        gpu_mode=gpu,
        step_patterns=tuple(step or ()),
        emulation=_emulation(emulate, emulate_set or []),
        known=settings.known_metadata(label, assignments or ()),
        counters_hz=counters_hz,
        results=results,
        state_check=state_check,
    )
    _run(wanted, mask)


def _check_choices(gpu: str, counters_hz: float) -> None:
    from cctrace.collectors.environment.sampler import MAX_HZ, MIN_HZ  # noqa: PLC0415
    from cctrace.collectors.record.variables import GPU_MODES  # noqa: PLC0415

    if gpu not in GPU_MODES:
        raise UnusableInputError(f"--gpu {gpu!r}: choose one of {', '.join(GPU_MODES)}")
    if counters_hz != 0 and not MIN_HZ <= counters_hz <= MAX_HZ:
        raise UnusableInputError(f"--counters-hz {counters_hz:g}: give 0, or {MIN_HZ:g} to {MAX_HZ:g}")


def _emulation(profile: str | None, costs: list[str]) -> EmulatedCosts | None:
    from cctrace.profiles.emulation import parse_emulation  # noqa: PLC0415

    if profile is not None:
        return parse_emulation(profile, costs)
    if costs:
        raise UnusableInputError("--emulate-set needs --emulate PROFILE")
    return None


def _run(wanted: RecordSettings, mask: set[int]) -> NoReturn:
    """Records, and ends as the command has ended."""
    from cctrace.collectors.record import session, signals  # noqa: PLC0415
    from cctrace.terminal import progress, say  # noqa: PLC0415

    try:
        outcome = session.record(wanted, mask=mask, say=say, progress=lambda: progress("writing the trace"))
    except signals.Interrupted as interrupted:
        signals.end_by_signal(interrupted.signum)
    if outcome.exit_signal is not None:
        signals.end_by_signal(outcome.exit_signal)
    raise typer.Exit(outcome.exit_code)
