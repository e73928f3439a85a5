"""What differs between the arms of a comparison besides confidential computing, each with what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cctrace.analyzers.attribution.result import SEVERITIES, Comparability
from cctrace.analyzers.comparability.conditions import conditions, difference
from cctrace.analyzers.comparability.fields import VARIABLES, fields_of, place_of, sizes_of, text_of, value_in
from cctrace.analyzers.comparability.kernels import KernelDifferences, compared_kernels, kernels_differ
from cctrace.analyzers.comparability.outline import Outline, outline
from cctrace.analyzers.comparability.rules import EXPECTED, FORBIDS, IGNORED, INFORMS, WARNS, Rule, rule_of
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.results import Result, about, value

Fields = Mapping[str, Any]
MUST_REPEAT: Final = (
    "security.tee",
    "security.cc_mode",
    "security.multi_gpu_mode",
    "security.nvlink_encryption",
    "security.devtools",
    "emulation",
)
"""Fields that make an arm what it is: two runs that differ in them are not of one arm."""
NOT_KNOWN: Final = "not known in either arm: nothing says that it is the same"


@dataclass(frozen=True, kw_only=True)
class ArmsCompared(Result):
    """Two arms compared field by field."""

    items: tuple[Comparability, ...] = field(
        metadata=about("what differs, or is not known, the gravest first; what is equal is only counted")
    )
    equal_fields: int = value("fields that are known and the same in all recordings")
    unknown_fields: tuple[str, ...] = value(
        "fields that matter and are known in neither arm: nothing says that they are the same"
    )
    kernels: KernelDifferences = field(metadata=about("kernels that one arm alone runs"))

    @property
    def forbidden_because(self) -> tuple[str, ...]:
        """Why there must be no shares; empty if nothing forbids them."""
        return tuple(one.message for one in self.items if one.severity == FORBIDS)


def comparability_of(off: Sequence[Outline], on: Sequence[Outline]) -> ArmsCompared:
    """Compares every field of the metadata of two arms, and what their rows show.

    Args:
        off: outlines of the recordings without confidential computing, at least one.
        on: outlines of those with it, at least one.
    """
    kernels = compared_kernels([run.kernels for run in off], [run.kernels for run in on])
    fields = [fields_of(one.metadata) for one in (*off, *on)]
    names = _names(fields)
    return ArmsCompared(
        items=_items(off, on, tuple(kernels_differ(kernels))),
        equal_fields=sum(_is_equal(name, fields) for name in names),
        unknown_fields=tuple(name for name in names if _is_unknown(name, fields)),
        kernels=kernels,
    )


def metadata_comparability(off: Sequence[Outline], on: Sequence[Outline]) -> tuple[Comparability, ...]:
    """As `comparability_of`, the gravest first, but of the metadata alone: kernels are not compared."""
    return _items(off, on, ())


def _items(
    off: Sequence[Outline], on: Sequence[Outline], of_kernels: Sequence[Comparability]
) -> tuple[Comparability, ...]:
    """What differs, or is not known, the gravest first; of one gravity, what was observed before fields."""
    arms = (("off", off), ("on", on))
    fields = {arm: [fields_of(one.metadata) for one in runs] for arm, runs in arms}
    names = _names([*fields["off"], *fields["on"]])
    found = [*_uneven_lists(fields["off"], fields["on"]), *_differing(names, fields["off"], fields["on"])]
    for arm, runs in arms:
        found += _within(arm, names, fields[arm], [run.path for run in runs])
    met = list(conditions(off, on))
    # A condition that forbids names the recording; its field alone would say the same with less.
    said = {one.name for one in met if one.severity == FORBIDS}
    found = [one for one in found if one.severity != FORBIDS or one.name not in said]
    return tuple(sorted([*met, *of_kernels, *found], key=_gravity))


def _gravity(one: Comparability) -> tuple[int, bool]:
    return SEVERITIES.index(one.severity), one.message == NOT_KNOWN


def pair_comparability(off: Recording, on: Recording) -> tuple[Comparability, ...]:
    """What differs between the two recordings of one pair, the gravest first."""
    return comparability_of([outline(off)], [outline(on)]).items


def compared_fields(off: Recording, on: Recording) -> list[Comparability]:
    """The fields of the metadata in which two recordings differ, in the order of the document."""
    first, second = fields_of(off.metadata), fields_of(on.metadata)
    found = [*_uneven_lists([first], [second]), *_differing(_names([first, second]), [first], [second])]
    return [one for one in found if one.message != NOT_KNOWN]


def _differing(names: Sequence[str], off: Sequence[Fields], on: Sequence[Fields]) -> list[Comparability]:
    compared = [_between(name, off, on) for name in names]
    return [one for one in compared if one is not None]


def _names(runs: Sequence[Fields]) -> list[str]:
    """The fields to compare; of lists, such as GPUs, entries that all recordings have."""
    least = {name: min(sizes) for name, sizes in _sizes(runs).items()}

    def is_common(name: str) -> bool:
        place = place_of(name)
        return place is None or place[1] < least[place[0]]

    return [name for name in _leaves([name for run in runs for name in run]) if is_common(name)]


def _sizes(runs: Sequence[Fields]) -> dict[str, list[int]]:
    """List → its sizes in the recordings that have it, each once."""
    sizes: dict[str, list[int]] = {}
    for run in runs:
        for name, size in sizes_of(run).items():
            known = sizes.setdefault(name, [])
            if size not in known:
                known.append(size)
    return sizes


def _uneven_lists(off: Sequence[Fields], on: Sequence[Fields]) -> list[Comparability]:
    """Lists of different sizes, one line each; none if the number of GPUs says it already."""
    if len({run.get("hardware.gpus") for run in (*off, *on)} - {None}) > 1:
        return []
    found = []
    for name, sizes in _sizes([*off, *on]).items():
        severity = rule_of(name).severity
        if len(sizes) > 1 and severity != IGNORED:
            message = f"{name} has another number of entries: only the first {min(sizes)} are compared"
            first, second = (_texts(_sizes(arm).get(name, [None]), None) for arm in (off, on))
            found.append(difference(name, severity, first, second, message))
    return found


def _leaves(names: Sequence[str]) -> list[str]:
    """The names to compare: of a part that a recording lacks as a whole its own, not those in it."""
    unique = dict.fromkeys(names)
    lacking = [
        name for name in unique if name != VARIABLES and any(one.startswith(f"{name}.") for one in unique)
    ]
    entries = tuple(f"{name}." for name in lacking)
    return [name for name in unique if not name.startswith(entries) and name != VARIABLES]


def _values(name: str, runs: Sequence[Fields]) -> list[Any]:
    """What the runs say, each value once."""
    found: list[Any] = []
    for run in runs:
        item = value_in(run, name)
        if item not in found:
            found.append(item)
    return found


def _same(rule: Rule, first: Any, second: Any) -> bool:
    return bool(first == second) or (
        first is not None and second is not None and rule.near is not None and rule.near(first, second)
    )


def _all_same(rule: Rule, values: Sequence[Any]) -> bool:
    return all(_same(rule, values[0], other) for other in values[1:])


def _is_equal(name: str, runs: Sequence[Fields]) -> bool:
    rule, values = rule_of(name), _values(name, runs)
    return rule.severity != IGNORED and None not in values and _all_same(rule, values)


def _is_unknown(name: str, runs: Sequence[Fields]) -> bool:
    return rule_of(name).matters and _values(name, runs) == [None]


def _between(name: str, off: Sequence[Fields], on: Sequence[Fields]) -> Comparability | None:
    """One field of both arms; None if it is the same, or does not matter."""
    rule = rule_of(name)
    first, second = _values(name, off), _values(name, on)
    if rule.severity == IGNORED:
        return None
    if first == second == [None]:
        return difference(name, INFORMS, None, None, NOT_KNOWN) if rule.matters else None
    known = None not in (*first, *second)
    if known and all(_same(rule, one, other) for one in first for other in second):
        return None
    severity = rule.severity
    if not known:
        # What is not known cannot be called different, and not the same either.
        severity = {FORBIDS: WARNS}.get(severity, severity)
    message = (
        f"{name} differs: {rule.why}"
        if known
        else f"{name} is {_unknown_in(first, second)}; if it differs: {rule.why}"
    )
    return difference(name, severity, _texts(first, second[0]), _texts(second, first[0]), message)


def _unknown_in(off: Sequence[Any], on: Sequence[Any]) -> str:
    arms = [arm for arm, values in (("off", off), ("on", on)) if None in values]
    return f"not known in {'either arm' if len(arms) == 2 else f'the {arms[0]} arm'}"


def _within(
    arm: str, names: Sequence[str], runs: Sequence[Fields], paths: Sequence[str]
) -> list[Comparability]:
    """Fields in which the runs of one arm differ among themselves: repeats must repeat."""
    found = []
    for name in names:
        rule, values = rule_of(name), _values(name, runs)
        if rule.severity == IGNORED or len(values) < 2 or _all_same(rule, values):
            continue
        odd = next(path for run, path in zip(runs, paths, strict=True) if value_in(run, name) != values[0])
        text = _texts(values, None)
        off, on = (text, None) if arm == "off" else (None, text)
        message = f"{name} differs between runs of the {arm} arm ({odd} from {paths[0]}): {rule.why}"
        found.append(difference(name, severity_within(name, values), off, on, message))
    return found


def severity_within(name: str, values: Sequence[Any]) -> str:
    """Severity of values that differ between runs of one arm.

    Nothing is meant to differ there, what the comparison is about least of all.
    """
    severity = FORBIDS if name in MUST_REPEAT else rule_of(name).severity
    if severity == EXPECTED:
        return WARNS
    return WARNS if severity == FORBIDS and None in values else severity


def _texts(values: Sequence[Any], other: Any) -> str | None:
    texts = [text_of(item, other) for item in values]
    if texts == [None]:
        return None
    return " | ".join("not known" if text is None else text for text in texts)
