"""The pairs of one metric in; the distribution of their changes out, as a small SVG drawing.

One dot is one pair of processes. Colours come from the page's style sheet by class, so that the drawing follows
its light and dark schemes; nothing but numbers and texts of :mod:`perfgate.units` is put into the markup.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from perfgate import units
from perfgate.records.evidence import Pair
from perfgate.records.report import MetricResult
from perfgate.report import filters
from perfgate.stats.pairs import side_value

_WIDTH = 640.0
_MARGIN = 34.0
_TOP, _BOTTOM = 22.0, 96.0
_LANES = 5
_MOST_TICKS = 7
_SMALLEST_STEP = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One pair: values in the metric's unit, ``change`` = head / base - 1 or None, ``void`` as in the evidence.

    ``later``: measured for another metric's sake, after this one was decided.
    """

    index: int
    round: int
    order: str
    base: float | None
    head: float | None
    change: float | None
    void: str
    later: bool = False


def points(pairs: Sequence[Pair], metric: str, decided_after: int | None = None) -> tuple[Point, ...]:
    """What each pair says about ``metric``, those that do not count included.

    ``decided_after``: how many pairs that count the verdict rests on; None: all.
    """
    found = []
    counted = 0
    for pair in pairs:
        counted += not pair.void
        base, head = side_value(pair.base, metric), side_value(pair.head, metric)
        change = head / base - 1 if base and head is not None else None
        found.append(
            Point(
                index=pair.index,
                round=pair.round,
                order=pair.order,
                base=base,
                head=head,
                change=change,
                void=pair.void,
                later=not pair.void and decided_after is not None and counted > decided_after,
            )
        )
    return tuple(found)


def strip(shown: Sequence[Point], result: MetricResult) -> Markup:
    """A strip plot: dots for pairs, a band for the 95 % interval, lines for "equal", the estimate and the limit.

    Empty if no pair has a finite change. Pairs that do not count are hollow, and only drawn where they fall in
    the range of the others.
    """
    drawn = [(point, point.change) for point in shown if point.change is not None and math.isfinite(point.change)]
    if not drawn:
        return Markup("")
    threshold = _threshold(result)
    bounds = [bound - 1 for bound in (result.ci_low, result.ci_high, result.ratio) if bound is not None]
    # A pair that does not count may lie anywhere: it must not squeeze those that do.
    counted = [change for point, change in drawn if not point.void]
    values = [0.0, *counted, *bounds, *([] if threshold is None else [threshold])]
    scale = _Scale(low=min(values), high=max(values))
    drawn = [(point, change) for point, change in drawn if scale.low <= change <= scale.high]
    parts = [_band(result, scale), _axis(scale), _line(scale.x(0.0), "equal", "equal", _TOP - 8)]
    if threshold is not None and scale.apart(threshold, 0.0):
        parts.append(_line(scale.x(threshold), "limit", f"limit {units.share(abs(threshold))}", _TOP - 8))
    elif threshold is not None:
        parts.append(_line(scale.x(threshold), "limit", "", _TOP))
    parts.extend(_dot(point, change, scale) for point, change in drawn)
    if result.ratio is not None:
        parts.append(_line(scale.x(result.ratio - 1), "estimate", "", _TOP))
    label = escape(f"{filters.metric_label(result.metric)}: change of head against base in {len(drawn)} pairs")
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _number(_WIDTH), _number(_BOTTOM + 24), label, Markup("").join(parts)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    low: float
    high: float

    def x(self, value: float) -> float:
        return _MARGIN + (value - self.low) / self._span * (_WIDTH - 2 * _MARGIN)

    def apart(self, one: float, other: float) -> bool:
        """True if labels at both places do not run into each other."""
        return abs(self.x(one) - self.x(other)) > 62

    def ticks(self) -> tuple[float, ...]:
        rough = self._span / (_MOST_TICKS - 1)
        magnitude = 10.0 ** math.floor(math.log10(rough))
        step = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= rough * (1 - 1e-9))
        step = max(step, _SMALLEST_STEP)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return tuple(number * step for number in range(first, last + 1))

    @property
    def _span(self) -> float:
        # All values equal: any width does, as long as it is not zero.
        return max(self.high - self.low, 1e-6)


def _threshold(result: MetricResult) -> float | None:
    if result.limit is None:
        return None
    known = filters.definition(result.metric)
    return -result.limit if known and known.larger_is_better else result.limit


def _axis(scale: _Scale) -> Markup:
    base = Markup('<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>').format(
        _number(_MARGIN), _number(_WIDTH - _MARGIN), _number(_BOTTOM)
    )
    ticks = (
        Markup('<line class="axis" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/><text x="{0}" y="{3}">{4}</text>').format(
            _number(scale.x(tick)),
            _number(_BOTTOM),
            _number(_BOTTOM + 4),
            _number(_BOTTOM + 18),
            units.percent(tick, sign=True),
        )
        for tick in scale.ticks()
    )
    return base + Markup("").join(ticks)


def _line(x: float, name: str, text: str, y: float) -> Markup:
    line = Markup('<line class="{0}" x1="{1}" x2="{1}" y1="{2}" y2="{3}"/>').format(
        name, _number(x), _number(_TOP - 4), _number(_BOTTOM)
    )
    if not text:
        return line
    return line + Markup('<text class="{}" x="{}" y="{}">{}</text>').format(name, _number(x), _number(y), text)


def _band(result: MetricResult, scale: _Scale) -> Markup:
    if result.ci_low is None or result.ci_high is None:
        return Markup("")
    left, right = scale.x(result.ci_low - 1), scale.x(result.ci_high - 1)
    return Markup('<rect class="interval" x="{}" y="{}" width="{}" height="{}"/>').format(
        _number(left), _number(_TOP), _number(max(1.0, right - left)), _number(_BOTTOM - _TOP)
    )


def _dot(point: Point, change: float, scale: _Scale) -> Markup:
    # Lanes by index keep equal values apart and the drawing the same on every run.
    lane = (point.index * 2) % _LANES
    y = _TOP + 8 + (_BOTTOM - _TOP - 16) * lane / (_LANES - 1)
    return Markup('<circle class="{}" cx="{}" cy="{}" r="4"><title>pair {}: {}{}</title></circle>').format(
        "void" if point.void else "later" if point.later else "pair",
        _number(scale.x(change)),
        _number(y),
        point.index + 1,
        units.percent(change, sign=True),
        ", does not count" if point.void else ", after the decision" if point.later else "",
    )


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
