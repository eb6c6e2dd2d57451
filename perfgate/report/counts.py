"""Floor 3, report. ``Totals`` of both sides in; F, M, I and what else was counted as text out.

All texts are raw (not escaped).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perfgate import units
from perfgate.records.graph import NotCounted, Totals
from perfgate.records.report import ModelResult, Report
from perfgate.report import filters
from perfgate.report.rows import unbroken

CONVENTION = (
    "1 MAC = 2 FLOP. F counts matrix products only (linear and convolution layers, attention, recurrent layers), for "
    "one step and its whole batch. M is a model of the memory traffic of one step, no measurement: eager takes every "
    "kernel for itself, fused joins chains of kernels, min moves weights, inputs and outputs once. I = F / M."
)

_FINGERPRINT_DIGITS = 12
_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CountLine:
    """One count. ``same``: both sides have it, or only one was counted; then ``head`` is empty."""

    label: str
    base: str
    head: str
    change: str
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRow:
    """One workload's most important counts; ``base → head`` where they differ."""

    model: str
    workload: str
    flop: str
    traffic: str
    intensity: str
    params: str
    kernels: str
    peak: str


def lines(base: Totals | None, head: Totals | None) -> tuple[CountLine, ...]:
    """Every count of a workload; () where no side was counted."""
    return tuple(_line(label, get, base, head) for label, get in _ALL) if base or head else ()


def rows(report: Report) -> list[CountRow]:
    """One row for every workload that was counted, the worst first; a second, informative look is left out."""
    varying = filters.varying_parts(report)
    judged = [model for model in report.models if not model.informative and (model.base_totals or model.head_totals)]
    judged.sort(key=lambda model: filters.severity(model.verdict))
    return [_row(model, filters.workload_label(model, varying)) for model in judged]


def intensity(flop: int, traffic: int) -> float | None:
    """I = F / M in FLOP per byte; None where nothing is moved."""
    return flop / traffic if traffic else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Count:
    """A count's exact ``value``, by which sides are compared, and its text; ``show`` makes the text of a number."""

    value: object
    text: str
    show: Callable[[float | None], str] | None = None


def _number(get: Callable[[Totals], float | None], show: Callable[[float | None], str]) -> Callable[[Totals], _Count]:
    def read(totals: Totals) -> _Count:
        value = get(totals)
        return _Count(value=value, text=show(value), show=show)

    return read


def _whole(value: float | None) -> str:
    return units.quantity(value, "count")


def _ratio(value: float | None) -> str:
    return units.NOT_AVAILABLE if value is None else f"{units.significant(value)} FLOP/B"


def _uncounted(totals: Totals) -> _Count:
    names = "; ".join(_place(item) for item in totals.not_counted[:_LISTED])
    more = len(totals.not_counted) - _LISTED
    text = f"{names} and {more} more" if more > 0 else names or "nothing"
    return _Count(value=tuple((item.op, item.calls) for item in totals.not_counted), text=text)


def _place(item: NotCounted) -> str:
    calls = f"{item.calls} call{'' if item.calls == 1 else 's'}"
    return f"{item.op} ({calls}, first at {item.first})" if item.first else f"{item.op} ({calls})"


def _text(get: Callable[[Totals], str]) -> Callable[[Totals], _Count]:
    def read(totals: Totals) -> _Count:
        value = get(totals)
        return _Count(value=value, text=value or units.NOT_AVAILABLE)

    return read


def _traced(totals: Totals) -> str:
    ways = {"meta": "without contents", "real": "on real tensors", "onnx": "from its file"}
    parts = (ways.get(totals.source, totals.source), totals.software)
    return ", ".join(part for part in parts if part)


_FLOP = _number(lambda totals: totals.flop, units.flop)
_EAGER = _number(lambda totals: totals.traffic.eager, units.size)
_I_EAGER = _number(lambda totals: intensity(totals.flop, totals.traffic.eager), _ratio)
_PARAMS = _number(lambda totals: totals.params, _whole)
_KERNELS = _number(lambda totals: totals.kernels, _whole)
_PEAK = _number(lambda totals: totals.peak_activation_bytes, units.size)

_ALL: tuple[tuple[str, Callable[[Totals], _Count]], ...] = (
    ("F", _FLOP),
    ("Parameters", _PARAMS),
    ("Weights", _number(lambda totals: totals.weight_bytes, units.size)),
    ("M eager", _EAGER),
    ("M fused", _number(lambda totals: totals.traffic.fused, units.size)),
    ("M min", _number(lambda totals: totals.traffic.min, units.size)),
    ("I eager", _I_EAGER),
    ("I max", _number(lambda totals: intensity(totals.flop, totals.traffic.min), _ratio)),
    ("Kernels", _KERNELS),
    ("Peak activation", _PEAK),
    ("Not in F", _uncounted),
    ("Fingerprint", _text(lambda totals: totals.fingerprint[:_FINGERPRINT_DIGITS])),
    ("Batch", _number(lambda totals: totals.batch, _whole)),
    ("Traced", _text(_traced)),
)


def _line(label: str, get: Callable[[Totals], _Count], base: Totals | None, head: Totals | None) -> CountLine:
    sides = [get(side) for side in (base, head) if side is not None]
    first, last = sides[0], sides[-1]
    if first.value == last.value:
        return CountLine(label=label, base=unbroken(last.text), head="", change="", same=True)
    return CountLine(
        label=label, base=unbroken(first.text), head=unbroken(last.text), change=_change(first, last), same=False
    )


def _change(base: _Count, head: _Count) -> str:
    if head.show is None or not isinstance(base.value, (int, float)) or not isinstance(head.value, (int, float)):
        return ""
    if base.value == 0:
        return "from 0"
    text = units.percent(head.value / base.value - 1, sign=True)
    if text == units.percent(0.0):
        # One parameter more out of millions is a change, and "0.0 %" would deny it.
        step = head.value - base.value
        text = f"{'+' if step > 0 else '−'}{head.show(abs(step))}"
    return unbroken(text)


def _row(model: ModelResult, label: str) -> CountRow:
    def both(get: Callable[[Totals], _Count]) -> str:
        line = _line("", get, model.base_totals, model.head_totals)
        return line.base if line.same else f"{line.base} → {line.head}"

    return CountRow(
        model=model.model,
        workload=unbroken(label),
        flop=both(_FLOP),
        traffic=both(_EAGER),
        intensity=both(_I_EAGER),
        params=both(_PARAMS),
        kernels=both(_KERNELS),
        peak=both(_PEAK),
    )
