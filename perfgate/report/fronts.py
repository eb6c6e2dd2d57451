"""Floor 3, report. ``Report`` in; the Pareto front of each workload as a chart of letters out, for a code block.

All texts are raw (not escaped); every letter takes one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfgate import units
from perfgate.records.cost import Answer, Point, SideCost
from perfgate.records.report import Report
from perfgate.report import costs, escape
from perfgate.report.axes import columns
from perfgate.report.workload_costs import Priced, considered, infeasible, priced, tie

_ROWS = 10
_NAME = 34
_BAR = 20
_FULL, _EIGHTHS = "█", " ▏▎▍▌▋▊▉"
_RUNNER = "this runner now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """One workload's chart. ``caption``: what was asked for, and how many configurations meet it; ``note``: ties."""

    where: str
    caption: str
    lines: tuple[str, ...]
    note: str


def fronts(report: Report, most: int | None = None) -> tuple[list[Front], int]:
    """A chart for each of the first ``most`` workloads that have a front or a nearest miss, and how many have one.

    In the order of ``workload_costs.priced``.
    """
    found = [(item, side) for item in priced(report) if (side := item.shown) and _has_chart(item, side)]
    return [_front(item, side) for item, side in found[:most]], len(found)


def chosen(points: Sequence[Point], answer: Answer, most: int) -> tuple[Point, ...]:
    """At most ``most`` (at least 4) of ``points``: the cheapest, the knee, the last, and others evenly between."""
    if len(points) <= most:
        return tuple(points)
    kept = {0, len(points) - 1}
    kept |= {n for n, point in enumerate(points) if point.knee or costs.CHEAPEST in costs.marks(point, answer)}
    others = [n for n in range(len(points)) if n not in kept]
    room = most - len(kept)
    kept |= {others[(2 * n + 1) * len(others) // (2 * room)] for n in range(room)} if room > 0 else set()
    return tuple(points[n] for n in sorted(kept))


def bar(share: float, width: int = _BAR) -> str:
    """``share`` of ``width`` columns, to an eighth; something for everything above 0, blanks up to the end."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    eighths = max(eighths, 1) if share > 0 else 0
    whole, part = divmod(eighths, 8)
    return (_FULL * whole + (_EIGHTHS[part] if part else "")).ljust(width)


def _has_chart(item: Priced, side: SideCost) -> bool:
    return bool(side.answer.front or infeasible(side.answer, costs.limits(item.entry.requirements)))


def _front(item: Priced, side: SideCost) -> Front:
    answer, wanted = side.answer, costs.limits(item.entry.requirements)
    missed = infeasible(answer, wanted)
    return Front(
        where=item.name,
        caption=considered(answer, wanted),
        lines=_lines(side) if answer.front else (),
        note=missed or tie(answer),
    )


def _lines(side: SideCost) -> tuple[str, ...]:
    answer = side.answer
    listed = costs.points(answer)
    shown = chosen(listed, answer, _ROWS)
    rows = [
        (_name(point), units.money(point.usd_per_1m_items), point.utilisation, ", ".join(costs.marks(point, answer)))
        for point in shown
    ]
    roof, usd = side.roofline, side.runner_usd_per_1m_items
    if roof and usd is not None and roof.achieved_flop_per_s is not None and roof.flop_per_s > 0:
        rows.append((_RUNNER, units.money(usd), roof.achieved_flop_per_s / roof.flop_per_s, ""))
    most = max((used for _, _, used, _ in rows), default=0.0) or 1.0
    name = max(columns(text) for text, *_ in rows)
    price = max(*(columns(text) for _, text, *_ in rows), len("USD per 1 M items"))
    lines = [f"{'':{name}}  {'USD per 1 M items':>{price}}  utilisation"]
    for text, usd_text, used, marks in rows:
        cells = (_pad(text, name), usd_text.rjust(price), bar(used / most), costs.share(used).rjust(7), marks)
        lines.append("  ".join(cells).rstrip())
    if len(shown) < len(listed):
        lines.append(f"… and {len(listed) - len(shown)} more between them")
    return tuple(lines)


def _name(point: Point) -> str:
    """Platform, batch and whatever is not usual."""
    unusual = [point.dtype, "" if point.compile == "eager" else point.compile]
    text = " · ".join(part for part in (costs.device(point), f"b{point.batch}", *unusual) if part)
    return escape.clean(text, _NAME)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - columns(text))
