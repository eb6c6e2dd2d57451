"""Floor 3, report. ``Answer`` of both sides in; cost against utilisation as a log-log SVG drawing out.

To the left is cheaper, to the top is better used. Only configurations that nothing beats are drawn, and what they are
compared with.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from perfgate import units
from perfgate.records import cost
from perfgate.records.cost import Answer, Point, SideCost, WorkloadCost
from perfgate.report import costs, svg
from perfgate.report.axes import Box, LogAxis, along, around, log_axis, place, positive, text_width

WIDTH, HEIGHT = 640.0, 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 624.0, 30.0, 316.0
_LETTERS = 12.0
_MOST_POINTS = 80
_LONGEST_NAME = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    x: LogAxis
    y: LogAxis

    def at(self, point: Point) -> tuple[float, float]:
        return self.x.at(point.usd_per_1m_items), self.y.at(point.utilisation)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runner:
    usd: float
    utilisation: float


def pareto(entry: WorkloadCost, name: str) -> Markup:
    """The front of head (of base where there is no head) over that of base; empty where nothing has a place."""
    shown = entry.head or entry.base
    if shown is None:
        return svg.NOTHING
    front = [point for point in costs.points(shown.answer)[:_MOST_POINTS] if _drawable(point)]
    if not front:
        return svg.NOTHING
    before = [point for point in entry.base.answer.front[:_MOST_POINTS] if _drawable(point)] if entry.base else []
    if entry.head is None or [_place(point) for point in before] == [_place(point) for point in front]:
        before = []
    ties = [point for point in shown.answer.tied if _drawable(point)]
    ties = [point for point in ties if not any(costs.same(point, other) for other in front)]
    runner = _runner(shown)
    plot = _plot([*front, *before, *ties], runner, entry)
    bars = [Box(left=x1, top=y - 4, right=x2, bottom=y + 4) for x1, x2, y in _intervals(plot, shown.answer)]
    taken = [*_limit_boxes(plot, entry), *bars]
    parts = [
        *_axes(plot),
        *_limits(plot, entry),
        *_front(plot, before, "front base"),
        *_front(plot, front, "front"),
        *_bars(plot, shown.answer),
        *(svg.circle("config tied", *plot.at(point), 4.5, _title(point, shown.answer)) for point in ties),
        *(_dot(plot, point, shown.answer) for point in front),
        *_runner_mark(plot, runner),
        *_labels(plot, front, ties, shown.answer, runner, taken),
    ]
    return svg.drawing(WIDTH, HEIGHT, _said(shown.answer, name), parts)


def _drawable(point: Point) -> bool:
    return positive(point.usd_per_1m_items) and positive(point.utilisation)


def _place(point: Point) -> tuple[float, float]:
    return point.usd_per_1m_items, point.utilisation


def _runner(side: SideCost) -> _Runner | None:
    """Where this runner stands, if its price and what it reached are known."""
    roof, usd = side.roofline, side.runner_usd_per_1m_items
    if roof is None or usd is None or roof.achieved_flop_per_s is None or not positive(roof.flop_per_s):
        return None
    used = roof.achieved_flop_per_s / roof.flop_per_s
    return _Runner(usd=usd, utilisation=used) if positive(usd) and positive(used) else None


def _plot(points: list[Point], runner: _Runner | None, entry: WorkloadCost) -> _Plot:
    usd = [point.usd_per_1m_items for point in points] + ([runner.usd] if runner else [])
    used = [point.utilisation for point in points] + ([runner.utilisation] if runner else [])
    # A limit far away from all points would leave them no room.
    used += [least for least in [_least(entry)] if least is not None and least > min(used) / 20]
    usd += [most for most in [_most(entry)] if most is not None and most < 20 * max(usd)]
    # Positive values are there: never None.
    x = log_axis(usd, _LEFT, _RIGHT, room=1.5) or LogAxis(low=1, high=10, start=_LEFT, end=_RIGHT)
    y = log_axis(used, _BOTTOM, _TOP, room=1.4) or LogAxis(low=0.1, high=1, start=_BOTTOM, end=_TOP)
    return _Plot(x=x, y=y)


def _least(entry: WorkloadCost) -> float | None:
    least = entry.requirements.min_utilisation
    return least if positive(least) else None


def _most(entry: WorkloadCost) -> float | None:
    """The dearest 1 M items that the money a month allows, where the volume is in items."""
    month, volume = entry.requirements.max_usd_per_month, entry.volume
    if month is None or volume is None or volume.unit != cost.ITEMS or not positive(volume.amount):
        return None
    most = 1e6 * month / volume.amount
    return most if positive(most) else None


def _axes(plot: _Plot) -> list[Markup]:
    names = ("USD per 1 M items", "utilisation, P / π")
    return svg.axes(plot.x, plot.y, HEIGHT, names=names, texts=(units.money, units.share))


def _limit_texts(plot: _Plot, entry: WorkloadCost) -> list[tuple[str, float]]:
    """Which limits lie in the picture: ``least`` (a utilisation) or ``most`` (money), and where."""
    least, most = _least(entry), _most(entry)
    found = [("least", least)] if least is not None and plot.y.low < least < plot.y.high else []
    return found + ([("most", most)] if most is not None and plot.x.low < most < plot.x.high else [])


def _limits(plot: _Plot, entry: WorkloadCost) -> list[Markup]:
    parts = []
    for kind, value in _limit_texts(plot, entry):
        if kind == "least":
            y = plot.y.at(value)
            parts.append(svg.line("limit", _LEFT, y, _RIGHT, y))
            parts.append(svg.text("limit end", _RIGHT - 4, y - 5, _limit_label(kind, value)))
        else:
            x = plot.x.at(value)
            parts.append(svg.line("limit", x, _TOP, x, _BOTTOM))
            parts.append(svg.text("limit end", x - 4, _TOP + 10, _limit_label(kind, value)))
    return parts


def _limit_label(kind: str, value: float) -> str:
    return f"at least {units.share(value)}" if kind == "least" else f"at most {units.money(value)}"


def _limit_boxes(plot: _Plot, entry: WorkloadCost) -> list[Box]:
    boxes = []
    for kind, value in _limit_texts(plot, entry):
        width = text_width(_limit_label(kind, value), _LETTERS)
        right, bottom = (_RIGHT - 4, plot.y.at(value) - 2) if kind == "least" else (plot.x.at(value) - 4, _TOP + 13)
        boxes.append(Box(left=right - width, top=bottom - 16, right=right, bottom=bottom))
    return boxes


def _front(plot: _Plot, points: list[Point], kind: str) -> list[Markup]:
    """The points and what joins them."""
    best = _steps(plot, points)
    joined = [svg.path(f"joined {kind}", best)] if len(best) > 1 else []
    if kind == "front":
        return joined
    return [*joined, *(svg.circle("config base", *plot.at(point), 3, f"base: {_plain(point)}") for point in points)]


def _steps(plot: _Plot, points: list[Point]) -> list[tuple[float, float]]:
    """What nothing beats in these two, joined by steps: between two points nothing is better than the left one."""
    best: list[tuple[float, float]] = []
    used = 0.0
    for point in sorted(points, key=lambda point: (point.usd_per_1m_items, -point.utilisation)):
        if point.utilisation <= used:
            continue
        used = point.utilisation
        x, y = plot.at(point)
        best += [(x, best[-1][1]), (x, y)] if best else [(x, y)]
    return best


def _bars(plot: _Plot, answer: Answer) -> list[Markup]:
    """The interval of the cost of the cheapest configuration and of its ties."""
    parts = []
    for left, right, y in _intervals(plot, answer):
        parts.append(svg.line("bar", left, y, right, y))
        parts += [svg.line("bar", x, y - 4, x, y + 4) for x in (left, right)]
    return parts


def _intervals(plot: _Plot, answer: Answer) -> list[tuple[float, float, float]]:
    """Left end, right end and height of each."""
    found = []
    for point in [answer.cheapest, *answer.tied] if answer.cheapest else []:
        if point is None or not _drawable(point) or not 0 < point.low_ns < point.high_ns or point.step_ns <= 0:
            continue
        _, y = plot.at(point)
        ends = [point.usd_per_1m_items * ns / point.step_ns for ns in (point.low_ns, point.high_ns)]
        if not all(positive(end) for end in ends):
            continue
        left, right = (min(max(plot.x.at(end), _LEFT), _RIGHT) for end in ends)
        found.append((left, right, y))
    return found


def _dot(plot: _Plot, point: Point, answer: Answer) -> Markup:
    x, y = plot.at(point)
    title = _title(point, answer)
    found = costs.marks(point, answer)
    mark = svg.diamond("config knee", x, y, 6.5, title) if point.knee else svg.circle("config", x, y, 4, title)
    return svg.circle("ring", x, y, 9, title) + mark if costs.CHEAPEST in found else mark


def _runner_mark(plot: _Plot, runner: _Runner | None) -> list[Markup]:
    if runner is None:
        return []
    title = f"this runner: {units.money(runner.usd)} per 1 M items, utilisation {costs.share(runner.utilisation)}"
    return [svg.square("step", plot.x.at(runner.usd), plot.y.at(runner.utilisation), 5, title)]


def _labels(
    plot: _Plot, front: list[Point], ties: list[Point], answer: Answer, runner: _Runner | None, taken: list[Box]
) -> list[Markup]:
    """Names: the cheapest, the knee, this runner, ties and both ends first; each name once."""
    ranked = sorted(front, key=lambda point: _rank(point, answer, front))
    wanted = [(*plot.at(point), _name(point, answer)) for point in ranked]
    if runner is not None:
        at = (plot.x.at(runner.usd), plot.y.at(runner.utilisation))
        wanted.insert(min(2, len(wanted)), (*at, "this runner"))
    wanted += [(*plot.at(point), _name(point, answer)) for point in ties]
    seen: set[str] = set()
    once = []
    for x, y, text in wanted:
        once.append((x, y, "" if text in seen else text, 12.0))
        seen.add(text)
    dots = [around(x, y, 5) for x, y, _ in wanted]
    within = Box(left=_LEFT + 2, top=_TOP - 14, right=WIDTH - 4, bottom=_BOTTOM - 2)
    placed = place(once, [*taken, *dots], within, letters=_LETTERS, lines=along(_steps(plot, front)))
    return [
        svg.label("mark" if " · " in at.text or at.text == "this runner" else "", at) for at in placed if at is not None
    ]


def _rank(point: Point, answer: Answer, front: list[Point]) -> tuple[bool, bool, bool, bool]:
    special = costs.CHEAPEST in costs.marks(point, answer)
    return (not special, not point.knee, not point.tie, point is not front[0] and point is not front[-1])


def _name(point: Point, answer: Answer) -> str:
    name = costs.device(point)
    clipped = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return " · ".join([clipped, *costs.marks(point, answer)])


def _plain(point: Point) -> str:
    per_item, used = units.money(point.usd_per_1m_items), costs.share(point.utilisation)
    return f"{costs.named(point)}, batch {point.batch}: {per_item} per 1 M items, utilisation {used}"


def _title(point: Point, answer: Answer) -> str:
    found = costs.marks(point, answer)
    return f"{_plain(point)} ({', '.join(found)})" if found else _plain(point)


def _said(answer: Answer, name: str) -> str:
    best = answer.cheapest
    what = f"Cost against utilisation of {name}: {len(answer.front)} configurations that nothing beats"
    return what if best is None else f"{what}; cheapest {_plain(best)}"
