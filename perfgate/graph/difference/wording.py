"""Floor 3, graph. Findings as sentences for people.

In: causes, most important first. Out: plain text without markup and without full stop, one sentence a cause. Names
come from the pull request; whoever renders escapes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfgate import units
from perfgate.graph.difference.causes import RECOMPUTED
from perfgate.graph.difference.describing import IN_PLACE, OUT_OF_PLACE
from perfgate.graph.difference.grouping import Cause
from perfgate.graph.difference.opnames import is_passing
from perfgate.graph.difference.repeats import ONCE_MORE, THE_SAME_AS
from perfgate.graph.difference.rewiring import REWIRED
from perfgate.graph.difference.tensors import ARROW
from perfgate.graph.difference.ties import OWN
from perfgate.records.graph import BACKWARD, FORWARD, OperatorChange

PYTHON = "python"

_SENTENCES = 5
_NAME = 120
_PHASES = {FORWARD: "", BACKWARD: " in the backward pass"}
# One value of an argument: ``stride 1``, ``kernel 3×3``, ``output features 256``; not ``bmm + mul`` or ``8 × mm``.
_VALUE = re.compile(r"([A-Za-z_][\w ]*?) (\S+)")
# The shape of a model input: ``inputs[0] [1,3,64,64]``.
_GIVEN = re.compile(r"(inputs\S*) (\[\S*)")
# Shapes follow from what else is told.
_SHAPES = re.compile(r"((?:weight|input) )?\[")
_WIDTH = re.compile(r"output (?:features|channels)")


def sentences(causes: Sequence[Cause], whole: float | None) -> tuple[str, ...]:
    """At most five sentences. ``whole``: change of the step in ns, None where that is not known."""
    return tuple(sentence(cause, whole) for cause in causes[:_SENTENCES])


def sentence(cause: Cause, whole: float | None) -> str:
    """``layer3.*.conv2 (6 operators) went from bfloat16 to float32: +1.02 ms of the +1.10 ms``."""
    change = cause.findings[0].change
    own, behind = cause.findings[: cause.own], cause.findings[cause.own :]
    count = sum(finding.change.count for finding in own)
    alike = sum(finding.change.count for finding in behind if _alike(change, finding.change))
    several = count + alike > 1 and change.op != PYTHON
    subject = _subject(change, [finding.change.name for finding in own[1:]], count)
    subject += f" and {_operators(alike)} after it" if alike else ""
    when = _PHASES.get(change.phase, f" in the {change.phase}")
    text = f"{subject} {_predicate(change, several=several)}{when}"
    rest = cause.following - alike
    if rest:
        text += f", and {_operators(rest)} after it follow{'s' if rest == 1 else ''}"
    price = _time(cause, whole) or _work(cause)
    return f"{text}: {price}" if price else text


def _alike(change: OperatorChange, other: OperatorChange) -> bool:
    """Whether what follows turned from one dtype or layout to another as its cause did."""
    return other.what == change.what == "changed" and other.phase == change.phase and other.how[:1] == change.how[:1]


def _subject(change: OperatorChange, also: list[str], count: int) -> str:
    if change.op == PYTHON:
        return _python(change)
    name = _tidy(", ".join([change.name, *also]))
    return name if count == 1 else f"{name} ({_operators(count)})"


def _python(change: OperatorChange) -> str:
    place = _tidy(change.name.removesuffix(f"/{PYTHON}"))
    if not place:
        return "Python code of the model itself or around it"
    return f"Python code in {place}"


def _tidy(name: str) -> str:
    """A name on one line and of a length that leaves room for the sentence."""
    line = " ".join(name.split())
    return line if len(line) <= _NAME else f"{line[: _NAME - 1]}…"


def _operators(count: int) -> str:
    return f"{count} operator{'' if count == 1 else 's'}"


def _predicate(change: OperatorChange, *, several: bool) -> str:
    told = change.how[0] if change.how else ""
    if is_passing(change.op):
        told = ", ".join(change.how)
    match change.what:
        case "added" | "removed":
            return _put(change, told, several=several)
        case "changed":
            return _changed(change.how, several=several)
        case _:
            return f"got {change.what} without a change of its operators"


def _put(change: OperatorChange, told: str, *, several: bool) -> str:
    if told == RECOMPUTED:
        return f"{'are' if several else 'is'} computed again"
    if told == ONCE_MORE:
        return f"run{'' if several else 's'} once more"
    were = f"{'were' if several else 'was'} {change.what}"
    if told.startswith(THE_SAME_AS):
        return f"{were}, {_tidy(told)}"
    return f"{were} ({_tidy(told)})" if told else were


def _changed(how: Sequence[str], *, several: bool) -> str:
    """The first lines in words; shapes only where nothing else is told."""
    have = "have" if several else "has"
    if how and how[0] == REWIRED:
        before, _, after = how[-1].partition(ARROW)
        told = f" {_tidy(after)} instead of {_tidy(before)}" if after else " other operators"
        return f"read{'' if several else 's'} from{told}"
    lines = [line for line in how if not _SHAPES.match(line)] or list(how)
    if not lines:
        return "changed"
    values = [told for told in map(_value, lines) if told]
    if _value(lines[0]):
        return f"{have} {' and '.join(values[:2])}"
    return _turned(lines[0], several=several)


def _value(line: str) -> str:
    """``stride 2 instead of 1`` of ``stride 1 → 2``; empty for a line of another kind."""
    before, arrow, after = line.partition(ARROW)
    value = _VALUE.fullmatch(before) or _GIVEN.fullmatch(before)
    if value is None or not arrow or OWN in (before, after) or line in (IN_PLACE, OUT_OF_PLACE) or " " in after:
        return ""
    if _WIDTH.fullmatch(value[1]):
        return f"{_tidy(after)} {value[1]} instead of {_tidy(value[2])}"
    return f"{_tidy(value[1])} {_tidy(after)} instead of {_tidy(value[2])}"


def _turned(line: str, *, several: bool) -> str:
    before, arrow, after = line.partition(ARROW)
    if not arrow:
        return f"{'have' if several else 'has'} {_tidy(line)}"
    if after == OWN:
        return f"no longer share{'' if several else 's'} {_tidy(before)}"
    if before == OWN:
        return f"now share{'' if several else 's'} {_tidy(after)}"
    return f"went from {_tidy(before)} to {_tidy(after)}"


def _time(cause: Cause, whole: float | None) -> str:
    """Its time, and what of: only where it stands out from noise."""
    time = cause.time_ns
    if time is None or not cause.certain:
        return ""
    told = signed(units.duration(abs(time)), time)
    if whole is None or time * whole <= 0:
        return told
    return f"{told} of the {signed(units.duration(abs(whole)), whole)}"


def _work(cause: Cause) -> str:
    flop = sum(finding.change.flop for finding in cause.findings)
    moved = sum(finding.change.bytes for finding in cause.findings)
    calls = sum(finding.change.calls for finding in cause.findings)
    parts = []
    if flop:
        parts.append(f"F {signed(units.decimal(abs(flop), 'FLOP'), flop)}")
    if moved:
        parts.append(f"M {signed(units.size(abs(moved)), moved)}")
    if calls:
        parts.append(f"{signed(str(abs(calls)), calls)} kernel call{'' if abs(calls) == 1 else 's'}")
    return ", ".join(parts)


def signed(text: str, value: float) -> str:
    """A number's text with its sign, U+2212 for minus."""
    sign = "\u2212" if value < 0 else "+"
    return f"{sign}{text}"
