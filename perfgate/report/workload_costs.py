"""Floor 3, report. ``CostReport`` in; rows and facts of the section "Cost and roofline" as text out.

All texts are raw (not escaped).
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate import units
from perfgate.records.cost import Answer, CostReport, RooflineSummary, SideCost, WorkloadCost
from perfgate.records.hardware import Excluded, PriceTable
from perfgate.records.report import ModelResult, Report
from perfgate.report import costs, filters
from perfgate.report.costs import Line
from perfgate.report.rows import both, unbroken

_NAME = 60
# Ties beyond these are counted.
_TIED = 3
# Of hundreds of workloads each may have its own.
_WARNINGS = 12
# Reasons for leaving offers out may be as many as there are rules; the rest is counted.
_EXCLUDED = 12
# Price lists up to these are named one by one.
_FEW_LISTS = 4
_MONTHLY = "monthly_cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """One workload; ``base → head`` where they differ. ``position``: its place in the report, None: it is not there.

    ``steps``, ``items``: USD per 1 000 steps and per 1 M items on the runner; ``cheapest`` per 1 M items on ``where``.
    """

    model: str
    workload: str
    steps: str
    items: str
    cheapest: str
    where: str
    bound: str
    achieved: str
    position: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A workload's cost with what the report calls it; ``result`` None: the report does not have it."""

    entry: WorkloadCost
    label: str
    result: ModelResult | None = None
    position: int | None = None

    @property
    def name(self) -> str:
        """``resnet50 · train · b32``, short enough for a sentence."""
        return f"{self.entry.model[:_NAME]} · {self.label[:_NAME]}"

    @property
    def month(self) -> tuple[float | None, float | None]:
        """USD a month on the runner, of base and of head.

        The table's own numbers where it has the row: those of the pairs that decided, of which the verdict speaks.
        """
        for row in self.result.metrics if self.result else ():
            if row.metric == _MONTHLY and row.base is not None and row.head is not None:
                return row.base, row.head
        base, head = (side.usd_per_month if side else None for side in (self.entry.base, self.entry.head))
        return base, head

    @property
    def shown(self) -> SideCost | None:
        """Head; base for what head does not have."""
        return self.entry.head or self.entry.base


def priced(report: Report) -> list[Priced]:
    """The workloads about which something is known, what matters most first: moved, dearest, then the worst."""
    if report.cost is None:
        return []
    varying = filters.varying_parts(report)
    models = {m.key: (n, m) for n, m in reversed(list(enumerate(report.models))) if not m.informative}
    found = []
    for entry in report.cost.workloads:
        if not (_known(entry.base) or _known(entry.head)):
            continue
        position, result = models.get(entry.key, (None, None))
        label = filters.workload_label(result, varying) if result else entry.key
        found.append(Priced(entry=entry, label=label, result=result, position=position))
    return sorted(found, key=_first)


def rows(report: Report) -> list[CostRow]:
    """One row a workload, as in :func:`priced`."""
    return [_row(item) for item in priced(report)]


def facts(report: Report) -> list[Line]:
    """What a reader of a comment should know: whose prices, of which days, where times come from, what fell out."""
    found = report.cost
    if found is None or not priced(report):
        return []
    answers = _answers(report)
    lines = [
        Line(label="Runner", text=runner(found)),
        Line(label="Prices", text=_price_lists(found, answers)),
        Line(label="Times", text=sources(answers)),
        *(Line(label="Warning", text=text) for text in _warnings(found, answers)),
        *_excluded(_of_requirements(found, answers)),
    ]
    if left := sum(entry.count for entry in found.excluded):
        many = f"{units.quantity(left, 'count')} price{'' if left == 1 else 's'} held back or replaced"
        lines.append(Line(label="Left out", text=f"{many}; report.html says which and why"))
    return [fact for fact in lines if fact.text]


def details(report: Report) -> list[Line]:
    """What only the full report has room for: every price list with its date, and each price that was left out."""
    found = report.cost
    if found is None or not priced(report):
        return []
    return [
        *(Line(label="Price list", text=_price_list(table)) for table in _tables(found, _answers(report))),
        *_excluded(found.excluded),
    ]


def _answers(report: Report) -> list[Answer]:
    return [side.answer for item in priced(report) if (side := item.shown)]


def _warnings(found: CostReport, answers: list[Answer]) -> list[str]:
    texts = list(dict.fromkeys((*found.warnings, *(text for answer in answers for text in answer.warnings))))
    left = len(texts) - _WARNINGS
    return texts if left <= 0 else [*texts[:_WARNINGS], f"{left} more warnings stand in report.json"]


def _of_requirements(found: CostReport, answers: list[Answer]) -> tuple[Excluded, ...]:
    """What the answers left out; what every market leaves out is the report's own."""
    general = set(found.excluded)
    return tuple(entry for answer in answers for entry in answer.excluded if entry not in general)


def _tables(found: CostReport, answers: list[Answer]) -> tuple[PriceTable, ...]:
    return found.tables or next((answer.tables for answer in answers if answer.tables), ())


def runner(found: CostReport) -> str:
    """What this runner costs, whose price that is, and whether anybody said so."""
    if found.runner_usd_per_hour is None:
        return f"no price: {found.runner_price}" if found.runner_price else "its price is not known"
    assumed = " (assumed: set runner under [cost] to what you pay)" if found.runner_assumed else ""
    return f"{price(found)}{assumed}"


def price(found: CostReport) -> str:
    """The runner's price with whose it is: ``$0.805/h, aws/g6.xlarge of 2026-07-20``."""
    hourly, words = costs.hourly(found.runner_usd_per_hour), found.runner_price
    # The words may say the number themselves.
    return words if "$" in words else ", ".join(text for text in (hourly, words) if text)


def sources(answers: list[Answer]) -> str:
    """Where the times of all configurations come from."""
    counts: dict[str, int] = {}
    for answer in answers:
        for source, count in answer.sources.items():
            counts[source] = counts.get(source, 0) + count
    texts = (f"{units.quantity(n, 'count')} {costs.SOURCES.get(name, name)}" for name, n in counts.items() if n)
    return ", ".join(texts)


def considered(answer: Answer, requirements: tuple[str, ...]) -> str:
    """How many configurations there were, and how many are good enough."""
    count = units.quantity(answer.candidates, "count")
    if not requirements:
        return f"{units.quantity(answer.feasible, 'count')} of {count} configurations can run it"
    verb = "meets" if answer.feasible == 1 else "meet"
    return f"{units.quantity(answer.feasible, 'count')} of {count} configurations {verb} {costs.listed(requirements)}"


def tied(answer: Answer) -> tuple[str, ...]:
    """Other platforms that cannot be told from the cheapest."""
    if answer.cheapest is None:
        return ()
    own = costs.platform(answer.cheapest)
    return tuple(name for name in dict.fromkeys(costs.platform(point) for point in answer.tied) if name != own)


def tie(answer: Answer) -> str:
    """``L4, A10G and 4 more cannot be told apart``; empty where nothing ties with the cheapest."""
    if answer.cheapest is None or not tied(answer):
        return ""
    return f"{costs.listed((costs.platform(answer.cheapest), *_few(tied(answer))))} cannot be told apart"


def _few(names: tuple[str, ...]) -> tuple[str, ...]:
    """The first names; how many more there are stands for the others."""
    short = tuple(unbroken(name) for name in names[:_TIED])
    return short if len(names) <= _TIED else (*short, f"{len(names) - _TIED} more")


def infeasible(answer: Answer, requirements: tuple[str, ...]) -> str:
    """Why there is no cheapest configuration, and what comes nearest; empty where there is one."""
    if answer.cheapest is not None or not answer.candidates:
        return ""
    what = f"No platform meets {costs.listed(requirements)}" if requirements else "No platform can run it"
    if answer.nearest is None:
        return what
    missed = "; ".join(miss.text for miss in answer.missed)
    return f"{what}; nearest: {costs.named(answer.nearest)}{f', {missed}' if missed else ''}"


def _known(side: SideCost | None) -> bool:
    if side is None:
        return False
    answer = side.answer
    priced = side.runner_usd_per_1k_steps is not None or bool(side.usd_per_month)
    return priced or bool(side.roofline or answer.candidates or answer.warnings)


def _first(item: Priced) -> tuple[bool, float, int]:
    month = item.month[1] or 0.0
    severity = filters.severity(item.result.verdict) if item.result else 0
    return (not item.entry.moved, -month, severity)


def _row(item: Priced) -> CostRow:
    base, head = item.entry.base, item.entry.head
    sides = (base, head)
    return CostRow(
        model=item.entry.model,
        workload=unbroken(item.label),
        steps=both([_money(side.runner_usd_per_1k_steps) for side in sides if side]),
        items=both([_money(side.runner_usd_per_1m_items) for side in sides if side]),
        cheapest=both([_money(_per_item(side)) for side in sides if side]),
        where=both([_where(side) for side in sides if side]) + _ties(item.shown),
        bound=both(_bounds([side.roofline for side in sides if side])),
        achieved=both([_share(side) for side in sides if side]),
        position=item.position,
    )


def _money(usd: float | None) -> str:
    return filters.NOTHING if usd is None else units.money(usd)


def _per_item(side: SideCost) -> float | None:
    return side.answer.cheapest.usd_per_1m_items if side.answer.cheapest else None


def _where(side: SideCost) -> str:
    if side.answer.cheapest:
        return costs.device(side.answer.cheapest)
    return "none" if side.answer.candidates else filters.NOTHING


def _ties(side: SideCost | None) -> str:
    others = tied(side.answer) if side else ()
    return f" ≈ {costs.listed(_few(others))}" if others else ""


def _bounds(roofs: list[RooflineSummary | None]) -> list[str]:
    """What limits each side; only the last where it is the same, whatever the numbers."""
    alike = len({roof.bound if roof else "" for roof in roofs}) == 1
    return [costs.bound(roof) if roof else filters.NOTHING for roof in (roofs[-1:] if alike else roofs)]


def _share(side: SideCost) -> str:
    if side.roofline is None or side.roofline.share is None:
        return filters.NOTHING
    return costs.share(side.roofline.share)


def _price_lists(found: CostReport, answers: list[Answer]) -> str:
    tables = _tables(found, answers)
    if not tables:
        return ""
    if len(tables) <= _FEW_LISTS:
        return "; ".join(_price_list(table) for table in tables)
    dates = sorted(table.date for table in tables if table.date)
    count = sum(table.offers for table in tables)
    between = f" of {dates[0]} to {dates[-1]}" if dates else ""
    return f"{units.quantity(count, 'count')} offers from {len(tables)} price lists{between}"


def _price_list(table: PriceTable) -> str:
    origin = f", source: {table.source}" if table.source else ""
    offers = f"{units.quantity(table.offers, 'count')} offer{'' if table.offers == 1 else 's'}"
    return f"{table.provider} {table.date} ({offers}{origin})"


def _excluded(entries: tuple[Excluded, ...]) -> list[Line]:
    """What was left out, the most first; the same reason in several answers is one line."""
    counts: dict[tuple[str, str], int] = {}
    for entry in entries:
        key = (entry.what, entry.reason)
        counts[key] = max(counts.get(key, 0), entry.count)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    lines = [
        Line(label="Left out", text=costs.left_out(what, reason, count))
        for (what, reason), count in ordered[:_EXCLUDED]
    ]
    if len(ordered) > _EXCLUDED:
        rest = sum(count for _, count in ordered[_EXCLUDED:])
        lines.append(Line(label="Left out", text=f"{units.quantity(rest, 'count')} more, for other reasons"))
    return lines
