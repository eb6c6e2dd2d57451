"""Floor 3, report. Two ``RooflineSummary`` in; the roofline of a step as a log-log SVG drawing out.

The roof is P = min(pi, beta I) (Williams, Waterman and Patterson, Roofline, 2009). A step stands at its I and at the P
that was measured. A circle is an operator (equal kernels together) at its I and at the P of its least time; the larger
its share of the step's least time, the larger it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from perfgate import units
from perfgate.records.cost import RooflineOperator, RooflineSummary
from perfgate.report import costs, svg
from perfgate.report.axes import Box, LogAxis, along, around, log_axis, place, positive, text_width

WIDTH, HEIGHT = 640.0, 380.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 624.0, 30.0, 336.0
_LETTERS = 12.0
# What is further than this below the ridge or the roof would squeeze all else into a corner.
_DECADES = 6
_MOST_OPERATORS = 80
_NAMED_OPERATORS = 4
_LONGEST_NAME = 26
_SMALLEST, _GROWTH = 2.5, 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The picture, empty where nothing has a place in it; ``undrawn``: how many operators have none."""

    picture: Markup
    undrawn: int = 0


NO_DRAWING = Drawing(picture=svg.NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    x: LogAxis
    y: LogAxis

    def at(self, intensity: float, rate: float) -> tuple[float, float]:
        return self.x.at(intensity), self.y.at(rate)

    def holds(self, intensity: float | None, rate: float | None) -> bool:
        return (
            positive(intensity)
            and positive(rate)
            and intensity is not None
            and rate is not None
            and self.x.low <= intensity <= self.x.high
            and self.y.low <= rate <= self.y.high
        )


def roofline(base: RooflineSummary | None, head: RooflineSummary | None, name: str) -> Drawing:
    """The roofs and steps of both sides and the operators of head (of base where there is no head)."""
    base, head = (side if side and _sound(side) else None for side in (base, head))
    shown = head or base
    plot = _plot([side for side in (base, head) if side is not None])
    if shown is None or plot is None:
        return Drawing(picture=svg.NOTHING, undrawn=len(shown.operators) if shown else 0)
    drawn = [operator for operator in shown.operators if plot.holds(operator.intensity, _rate(operator))]
    # Large circles first, so that small ones lie on top of them.
    drawn = sorted(drawn, key=lambda operator: -operator.share)[:_MOST_OPERATORS]
    roofs = [_roof(plot, shown, "roof")]
    lines = along([plot.at(x, y) for x, y in _corner(plot, shown)])
    if base and head and not _same_roof(base, head):
        roofs = [*_base_roof(plot, base), *roofs]
        lines += along([plot.at(x, y) for x, y in _corner(plot, base)])
    taken = [*_roof_label_boxes(plot, shown), *_ridge_box(plot, shown)]
    parts = [
        *_axes(plot),
        *roofs,
        *_ridge(plot, shown),
        *(_circle(plot, operator) for operator in drawn),
        *_steps(plot, base, head),
        *_labels(plot, base, head, drawn, taken, lines),
        *_roof_labels(plot, shown),
    ]
    picture = svg.drawing(WIDTH, HEIGHT, _said(shown, name), parts)
    return Drawing(picture=picture, undrawn=len(shown.operators) - len(drawn))


def _plot(sides: list[RooflineSummary]) -> _Plot | None:
    if not sides:
        return None
    ridges = [_ridge_of(side) for side in sides]
    tops = [side.flop_per_s for side in sides]
    operators = [operator for side in sides for operator in side.operators]
    intensities = [side.intensity for side in sides] + [operator.intensity for operator in operators]
    rates = [side.achieved_flop_per_s or side.attainable_flop_per_s for side in sides]
    rates += [rate for operator in operators if (rate := _rate(operator)) is not None]
    # The roof's corner stands free on both sides, wherever the operators are.
    x = log_axis([*_above(intensities, min(ridges)), min(ridges) / 8, max(ridges) * 8], _LEFT, _RIGHT, room=1.5)
    y = log_axis([*_above(rates, min(tops)), *tops, min(tops) / 60], _BOTTOM, _TOP, room=2.0)
    return _Plot(x=x, y=y) if x and y else None


def _sound(side: RooflineSummary) -> bool:
    """True if it has a roof that can be drawn."""
    both = positive(side.flop_per_s) and positive(side.bandwidth_bytes_per_s)
    return both and positive(_ridge_of(side))


def _ridge_of(side: RooflineSummary) -> float:
    return side.flop_per_s / side.bandwidth_bytes_per_s


def _above(values: Iterable[float], reference: float) -> list[float]:
    return [value for value in values if positive(value) and value > reference / 10.0**_DECADES]


def _rate(operator: RooflineOperator) -> float | None:
    """P of an operator in FLOP/s, if it takes its least time."""
    return operator.flop / operator.bound_ns * 1e9 if operator.bound_ns > 0 else None


def _same_roof(one: RooflineSummary, other: RooflineSummary) -> bool:
    """True if nobody could tell them apart: pi of a step is a quotient of sums, which differ in their last digits."""
    pairs = ((one.flop_per_s, other.flop_per_s), (one.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s))
    return all(math.isclose(a, b, rel_tol=1e-6) for a, b in pairs)


def _axes(plot: _Plot) -> list[Markup]:
    names = ("I, FLOP per byte of memory traffic", "P, FLOP/s")
    return svg.axes(plot.x, plot.y, HEIGHT, names=names, texts=(_plain, _prefixed))


def _plain(value: float) -> str:
    return _prefixed(value) if value >= 1e3 else f"{value:.3g}"


def _prefixed(value: float) -> str:
    return costs.short(units.decimal(value, ""))


def _corner(plot: _Plot, side: RooflineSummary) -> list[tuple[float, float]]:
    """The roof from where it enters the picture on the left."""
    rise = side.bandwidth_bytes_per_s
    start = max(plot.x.low, plot.y.low / rise)
    ridge = _ridge_of(side)
    return [(start, rise * start), (ridge, side.flop_per_s), (plot.x.high, side.flop_per_s)]


def _roof(plot: _Plot, side: RooflineSummary, kind: str) -> Markup:
    return svg.path(kind, [plot.at(x, y) for x, y in _corner(plot, side)])


def _base_roof(plot: _Plot, side: RooflineSummary) -> list[Markup]:
    """Base's other roof, with the number that differs from head's below it."""
    y = plot.y.at(side.flop_per_s)
    return [_roof(plot, side, "roof base"), svg.text("end", _RIGHT - 4, y + 15, f"base: {_roof_texts(side)[0]}")]


def _roof_texts(side: RooflineSummary) -> tuple[str, str]:
    origin = "measured" if side.measured else "published"
    pi = f"π = {units.decimal(side.flop_per_s, 'FLOP/s')}, {origin}"
    return pi, f"β = {units.decimal(side.bandwidth_bytes_per_s, 'B/s')}, {origin}"


def _roof_labels(plot: _Plot, side: RooflineSummary) -> list[Markup]:
    flat, slope = _roof_texts(side)
    x, y, turn = _slope(plot, side)
    top = plot.y.at(side.flop_per_s)
    return [svg.text("said end", _RIGHT - 4, top - 10, flat), svg.text("said", x, y, slope, turn=turn)]


def _slope(plot: _Plot, side: RooflineSummary) -> tuple[float, float, float]:
    """Middle of the slope's label, above the line, and by how many degrees it is turned."""
    (x1, y1), (x2, y2), _ = [plot.at(x, y) for x, y in _corner(plot, side)]
    turn = math.atan2(y2 - y1, x2 - x1)
    # Perpendicular to the line, away from the operators below it.
    return (x1 + x2) / 2 + 7 * math.sin(turn), (y1 + y2) / 2 - 7 * math.cos(turn), math.degrees(turn)


def _roof_label_boxes(plot: _Plot, side: RooflineSummary) -> list[Box]:
    """What the labels of the roof take; the turned one as small squares along its line."""
    flat, slope = _roof_texts(side)
    top = plot.y.at(side.flop_per_s)
    width = text_width(flat, _LETTERS)
    boxes = [Box(left=_RIGHT - 4 - width, top=top - 22, right=_RIGHT - 4, bottom=top - 6)]
    x, y, turn = _slope(plot, side)
    half, angle = text_width(slope, _LETTERS) / 2, math.radians(turn)
    for step in range(-5, 6):
        middle = x + half * step / 5 * math.cos(angle), y + half * step / 5 * math.sin(angle)
        boxes.append(Box(left=middle[0] - 8, top=middle[1] - 8, right=middle[0] + 8, bottom=middle[1] + 8))
    return boxes


def _ridge(plot: _Plot, side: RooflineSummary) -> list[Markup]:
    x, y = plot.at(_ridge_of(side), side.flop_per_s)
    return [svg.line("ridge", x, y, x, _BOTTOM), svg.text("said start", x + 5, _BOTTOM - 6, _ridge_text(side))]


def _ridge_text(side: RooflineSummary) -> str:
    return f"I_max = {units.significant(_ridge_of(side))}"


def _ridge_box(plot: _Plot, side: RooflineSummary) -> list[Box]:
    x = plot.x.at(_ridge_of(side))
    width = text_width(_ridge_text(side), _LETTERS)
    return [Box(left=x + 3, top=_BOTTOM - 18, right=x + 7 + width, bottom=_BOTTOM - 2)]


def _radius(operator: RooflineOperator) -> float:
    return _SMALLEST + _GROWTH * math.sqrt(min(1.0, max(0.0, operator.share)))


def _circle(plot: _Plot, operator: RooflineOperator) -> Markup:
    rate = _rate(operator) or 0.0
    x, y = plot.at(operator.intensity, rate)
    calls = f", {operator.calls} calls" if operator.calls != 1 else ""
    title = (
        f"{operator.name} ({operator.kind}, {operator.dtype}{calls}): {costs.words(operator.bound)} at "
        f"I = {costs.ratio(operator.intensity)}, at least {units.duration(operator.bound_ns)}, "
        f"{costs.share(operator.share)} of the least time"
    )
    return svg.circle("operator", x, y, _radius(operator), title)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    side: RooflineSummary
    name: str
    rate: float
    measured: bool

    @property
    def text(self) -> str:
        reached = units.decimal(self.rate, "FLOP/s")
        return f"{self.name} {reached}" if self.measured else f"{self.name}, attainable {reached}"


def _known_steps(plot: _Plot, base: RooflineSummary | None, head: RooflineSummary | None) -> list[_Step]:
    found = []
    for name, side in (("base", base), ("head", head)):
        if side is None:
            continue
        measured = positive(side.achieved_flop_per_s)
        rate = side.achieved_flop_per_s if measured else side.attainable_flop_per_s
        if rate is not None and plot.holds(side.intensity, rate):
            found.append(_Step(side=side, name=name, rate=rate, measured=measured))
    return found


def _steps(plot: _Plot, base: RooflineSummary | None, head: RooflineSummary | None) -> list[Markup]:
    parts = []
    for step in _known_steps(plot, base, head):
        x, y = plot.at(step.side.intensity, step.rate)
        if step.measured and positive(step.side.attainable_flop_per_s):
            parts.append(svg.line(f"gap {step.name}", x, y, x, plot.y.at(step.side.attainable_flop_per_s)))
        share = f", {costs.share(step.side.share)} of the bound" if step.side.share is not None else ""
        title = f"{step.text} at I = {costs.ratio(step.side.intensity)}{share}"
        draw = svg.square if step.name == "base" else svg.diamond
        kind = f"step {step.name}{'' if step.measured else ' unmeasured'}"
        parts.append(draw(kind, x, y, 5 if step.name == "base" else 7, title))
    return parts


def _labels(
    plot: _Plot,
    base: RooflineSummary | None,
    head: RooflineSummary | None,
    drawn: list[RooflineOperator],
    taken: list[Box],
    lines: list[Box],
) -> list[Markup]:
    wanted: list[tuple[float, float, str, float]] = []
    taken = [*taken, *(around(*plot.at(o.intensity, _rate(o) or 0.0), 0.7 * _radius(o)) for o in drawn)]
    kinds: list[str] = []
    for step in reversed(_known_steps(plot, base, head)):
        x, y = plot.at(step.side.intensity, step.rate)
        wanted.append((x, y, step.text, 11.0))
        kinds.append("mark")
        taken.append(around(x, y, 7))
    for operator in drawn[:_NAMED_OPERATORS]:
        x, y = plot.at(operator.intensity, _rate(operator) or 0.0)
        wanted.append((x, y, _clipped(operator.name), _radius(operator) + 4))
        kinds.append("")
    within = Box(left=_LEFT + 2, top=_TOP - 14, right=WIDTH - 4, bottom=_BOTTOM - 2)
    placed = place(wanted, taken, within, letters=_LETTERS, lines=lines)
    return [svg.label(kind, at) for kind, at in zip(kinds, placed, strict=True) if at is not None]


def _clipped(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"


def _said(side: RooflineSummary, name: str) -> str:
    achieved = side.achieved_flop_per_s
    reached = "not measured" if achieved is None else f"achieved {units.decimal(achieved, 'FLOP/s')}"
    attainable = units.decimal(side.attainable_flop_per_s, "FLOP/s")
    return f"Roofline of {name}: {costs.bound(side) or 'bound unknown'}, {reached}, attainable {attainable}"
