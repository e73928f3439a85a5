"""Recordings that a viewer must stand: with markup in every text, without GPU rows, large, damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from trace_builder import Load, Tolls, build

from cctrace.trace import SCHEMA, Acceptance, Metadata, Recording, TraceWriter, open_trace
from cctrace.trace.acceptance import Security

HOSTILE: Final = (
    "</title></script><script>window.pwned=1</script><img src=x class=pwned onerror='window.pwned=1'>"
    '"><b class="pwned">bold</b><a class=pwned href="javascript:window.pwned=1">link</a><br>'
    "{{pwned}}';window.pwned=1;//\u202etxet\u0000\u001b[31m"
)
"""Would run, or show as something else, wherever it is taken for HTML, a pseudo-HTML, a script or a
template."""
HOSTILE_FILE: Final = "<img src=x class=pwned onerror='window.pwned=1'><b class=pwned>&amp;\u202e"
"""What a file name may hold of it: no slash, no NUL, few bytes."""

_MARKED_COLUMNS: Final = ("name", "kernel", "step_class", "role")
_LAUNCH: Final = Tolls(kernel=12.25, graph=12.25, copy=12.25, memset=12.25, event=12.25)
_HOST_ONLY: Final = Load(execution="piecewise", readback="overlap", steps=80, marks="decode bs=16")


def marked(table: pa.Table, text: str) -> pa.Table:
    """The rows with a text after every word of the columns that hold words of the recorded program."""
    for name in _MARKED_COLUMNS:
        column = table[name].combine_chunks()
        words = pa.array([word + text for word in column.dictionary.to_pylist()], pa.string())
        changed = pa.DictionaryArray.from_arrays(column.indices, words)
        table = table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), changed)
    return table


def hostile(source: Path, folder: Path) -> Path:
    """A recording as another one, with HOSTILE in every text that a file may choose."""
    trace = open_trace(source)
    metadata = trace.metadata
    for field in ("security.attestation", "hardware.gpu_model", "software.driver"):
        metadata = metadata.with_value(field, HOSTILE)
    processes = tuple(
        replace(known, name=HOSTILE, state={**known.state, HOSTILE: HOSTILE})
        for known in metadata.collector.processes
    )
    return written(
        folder / f"{source.stem}{HOSTILE_FILE}.parquet",
        marked(trace.table(), HOSTILE),
        replace(
            metadata,
            created_by=HOSTILE,
            label=HOSTILE,
            recording=replace(metadata.recording, command=("python", HOSTILE), host=HOSTILE),
            environment_variables={HOSTILE: HOSTILE, "CUDA_VISIBLE_DEVICES": HOSTILE},
            collector=replace(metadata.collector, notes=(HOSTILE,), processes=processes),
            lanes=tuple(replace(lane, name=HOSTILE) for lane in metadata.lanes),
            labels=(*metadata.labels, HOSTILE),
        ),
    )


def written(path: Path, table: pa.Table, metadata: Metadata) -> Path:
    """The file with these rows."""
    with TraceWriter(path) as writer:
        writer.write(table)
        writer.finish(metadata)
    return path


def host_only(folder: Path) -> tuple[Path, Path]:
    """A pair, on and off, that was recorded without GPU times: calls and marks only."""
    slow, quick = replace(_HOST_ONLY, tolls=_LAUNCH, seed=2), _HOST_ONLY
    pair = {"on": slow, "off": quick}
    on, off = (
        written(
            folder / f"host-{mode}.parquet",
            build(load).table,
            Metadata(
                acceptance=Acceptance(security=Security(cc_mode=mode)),
                recording=Recording(command=("python", "serve.py")),
            ),
        )
        for mode, load in pair.items()
    )
    return on, off


def damaged(source: Path, target: Path) -> Path:
    """A file that begins and ends as a recording, with other bytes between them."""
    content = bytearray(source.read_bytes())
    end = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    for place in range(8, end, 3):
        content[place] ^= 0x5A
    target.write_bytes(content)
    return target
