"""`cctrace info`: what a trace is, without analysing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cctrace.errors import UnusableInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cctrace.trace.acceptance import Hardware
    from cctrace.trace.metadata import Metadata, Process


_NOTHING: Final = (0, "left alone")
"""State that counts nothing: no capture was left alone. Early recorders stored the words without the 0."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("info")(info)


def info(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Trace.", show_default=False)] = None,
    *,
    fields: Annotated[bool, typer.Option("--fields", help="List what `record --set` accepts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show a trace's metadata, rows by kind, processes, losses and labels."""
    if fields:
        _print_fields(as_json)
        return
    if file is None:
        raise UnusableInputError("name a trace file, or ask for --fields")
    import json  # noqa: PLC0415

    from cctrace.trace.reader import open_trace  # noqa: PLC0415

    trace = open_trace(file)
    kinds = _rows_by_kind(trace)
    size = file.stat().st_size
    if as_json:
        document = {
            "path": str(file),
            "bytes": size,
            "rows": trace.num_rows,
            "rows_by_kind": kinds,
            "metadata": trace.metadata.to_document(),
        }
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _print(file, size, trace.num_rows, kinds, trace.metadata)


def _rows_by_kind(trace: Any) -> dict[str, int]:
    import pyarrow.compute as pc  # noqa: PLC0415

    counts: dict[str, int] = {}
    for batch in trace.batches(["kind"]):
        for entry in pc.value_counts(batch.column(0)).to_pylist():
            counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _print(file: Path, size: int, rows: int, kinds: dict[str, int], metadata: Metadata) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from cctrace.terminal import facts_table, printable  # noqa: PLC0415

    console = Console(highlight=False)
    for label in metadata.labels:
        console.print(Text(f"This recording is {printable(label)}.", style="bold yellow"))
    console.print(facts_table(str(file), _recording_facts(size, rows, metadata)))
    if metadata.emulation is not None and metadata.emulation.injected:
        from cctrace.app.recorder_view import injected_facts  # noqa: PLC0415

        console.print(facts_table("Injected by the emulator", injected_facts(metadata.emulation.injected)))
    counts = [(kind, f"{count:,}") for kind, count in kinds.items()]
    console.print(facts_table("Rows by kind", counts or [("none", "the trace holds no row")]))
    console.print(facts_table("Environment", _environment_facts(metadata)))
    if metadata.state_check is not None:
        from cctrace.app.state_view import check_facts  # noqa: PLC0415

        console.print(facts_table("State of the GPUs before", check_facts(metadata.state_check)))
    processes = [fact for process in metadata.collector.processes for fact in _process_facts(process)]
    console.print(facts_table("Processes", processes or [("none", "no process made a CUDA driver call")]))
    notes = [("note", note) for note in metadata.collector.notes]
    if notes:
        console.print(facts_table("Notes", notes))


def _recording_facts(size: int, rows: int, metadata: Metadata) -> list[tuple[str, str]]:
    recording, collector = metadata.recording, metadata.collector
    facts = [
        ("label", metadata.label),
        ("made by", metadata.created_by),
        ("format version", str(metadata.format_version)),
        ("size", f"{size:,} bytes, {rows:,} rows" + (f", {size / rows:.1f} bytes a row" if rows else "")),
        ("command", " ".join(recording.command) if recording.command else None),
        ("started", recording.started_at),
        ("duration", _duration(recording.start_ns, recording.stop_ns)),
        ("ended", _ending(recording.exit_code, recording.exit_signal)),
        ("window", _window(recording.window or {})),
        ("GPU times", collector.gpu_mode),
        ("host timing", collector.timing),
        ("emulation", _emulation(metadata)),
    ]
    return [(name, value) for name, value in facts if value is not None]


def _environment_facts(metadata: Metadata) -> list[tuple[str, str]]:
    acceptance = metadata.acceptance
    hardware, security, software = acceptance.hardware, acceptance.security, acceptance.software
    facts = [
        ("CC mode", security.cc_mode),
        ("NVLink encryption", security.nvlink_encryption),
        ("multi-GPU mode", security.multi_gpu_mode),
        ("TEE", security.tee),
        ("GPU", hardware.gpu_model and _gpus(hardware, metadata.environment_variables)),
        ("driver", software.driver and f"{software.driver}, CUDA {software.cuda or 'not known'}"),
        ("CPU", hardware.cpu_model and f"{hardware.cpu_model}, {hardware.cpus or '?'} logical CPUs"),
        ("host", metadata.recording.host),
    ]
    rows = [(name, value or "not known") for name, value in facts]
    versions = software.frameworks or {}
    rows.append(("packages", ", ".join(f"{k} {v}" for k, v in versions.items()) or "not known"))
    known, total = _known_fields(metadata)
    return [*rows, ("acceptance table", f"{known} of {total} fields known; fill the rest with record --set")]


def _gpus(hardware: Hardware, variables: Mapping[str, str]) -> str:
    """Returns the GPUs of the machine, and how many of them the program could use."""
    from cctrace.collectors.environment.variables import visible_gpus  # noqa: PLC0415

    text = f"{hardware.gpus or '?'} × {hardware.gpu_model}"
    visible = None if hardware.gpus is None else visible_gpus(variables, hardware.gpus)
    if visible is None or len(visible) == hardware.gpus:
        return text
    return f"{text} ({len(visible)} visible to the program)"


def _known_fields(metadata: Metadata) -> tuple[int, int]:
    from cctrace.trace.settable import settable_fields  # noqa: PLC0415

    names = [name.split(".") for name in settable_fields() if "." in name]
    values = [getattr(getattr(metadata.acceptance, area), field) for area, field in names]
    return sum(value is not None for value in values), len(values)


def _process_facts(process: Process) -> list[tuple[str, str]]:
    """Returns a line with the name and rows of a process, and one for each thing to know about it."""
    facts = [f"lost: {count:,} ({reason})" for reason, count in process.lost.items()]
    facts += [f"not joined: {count:,} ({what})" for what, count in process.unmatched.items()]
    if process.torn_bytes:
        facts.append(f"torn at the end: {process.torn_bytes} bytes")
    facts += [f"recording costs {cost:.0f} ns ({what})" for what, cost in process.tax_ns.items()]
    facts += [f"{key}: {value}" for key, value in process.state.items() if value not in _NOTHING]
    head = f"{process.name or 'name not known'}, {process.records:,} rows"
    return [(f"pid {process.pid}", head), *(("", fact) for fact in facts)]


def _duration(start_ns: int | None, stop_ns: int | None) -> str | None:
    if start_ns is None or stop_ns is None:
        return None
    return f"{(stop_ns - start_ns) / 1e9:.1f} s"


def _ending(code: int | None, signal: int | None) -> str:
    if signal is not None:
        return f"by signal {signal}"
    return (
        "not known: the recorder was killed, or the command still ran"
        if code is None
        else f"exit code {code}"
    )


def _window(window: Any) -> str | None:
    asked = [
        f"{name.removesuffix('_s')} {value:g}"
        for name, value in window.items()
        if isinstance(value, (int, float))
    ]
    if not asked:
        return None
    return ", ".join(asked) + f"; ended by {window.get('ended_by') or 'the end of the command'}"


def _emulation(metadata: Metadata) -> str | None:
    if metadata.emulation is None:
        return None
    values = ", ".join(f"{key}={value}" for key, value in metadata.emulation.values.items())
    if not values and metadata.emulation.profile is None:
        return "profile and values not known"
    return f"{metadata.emulation.profile}: {', '.join(metadata.emulation.causes)} ({values})"


def _print_fields(as_json: bool) -> None:
    import json  # noqa: PLC0415

    from cctrace.trace.settable import settable_fields  # noqa: PLC0415

    fields = settable_fields()
    if as_json:
        document = {name: {"meaning": item.meaning, "expects": item.expects} for name, item in fields.items()}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    from rich.console import Console  # noqa: PLC0415

    from cctrace.terminal import facts_table  # noqa: PLC0415

    rows = [(name, f"{item.meaning} ({item.expects})") for name, item in fields.items()]
    Console(highlight=False).print(facts_table("Fields that --set accepts", rows))
