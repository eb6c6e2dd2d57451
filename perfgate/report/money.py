"""Floor 3, report. ``CostReport`` in; the comment's line "Money" out.

All texts are raw (not escaped).
"""

from __future__ import annotations

from perfgate import units
from perfgate.records import cost
from perfgate.records.cost import CostReport, Point, Volume
from perfgate.records.report import ModelResult, Report
from perfgate.report import costs
from perfgate.report.workload_costs import Priced, infeasible, price, priced, tie

# Below this a price per 1 000 steps has more zeros than digits.
_SMALL = 0.001
_STEPS = {"train": "training steps", "infer": "inference steps"}


def line(report: Report) -> str:
    """What stands behind "Money."; empty unless a recommendation moved or a volume is declared."""
    told = [item for item in priced(report) if item.entry.head and (item.entry.moved or item.entry.volume)]
    if report.cost is None or not told:
        return ""
    first, *others = told
    several, found = len(report.cost.workloads) > 1, first.entry.sentence
    sentences = [
        f"{first.name}: {found}" if several and first.entry.moved else costs.capital(found),
        _monthly(first, report.cost, named=several and not first.entry.moved),
        *_best(first),
        _others(others),
    ]
    return " ".join(_stop(sentence) for sentence in sentences if sentence)


def _monthly(item: Priced, found: CostReport, *, named: bool) -> str:
    """Dollars a month at the declared volume, on the runner; on the cheapest where the runner has no price."""
    volume, base, head = item.entry.volume, item.entry.base, item.entry.head
    if volume is None or head is None:
        return ""
    at = f"At the declared {amount(volume, item.result)} a month{f' of {item.name}' if named else ''}: "
    before, now = item.month
    if now is None:
        if head.cheapest_usd_per_month is None:
            return ""
        why = f" ({found.runner_price})" if found.runner_price else ""
        change, _ = _change(base.cheapest_usd_per_month if base else None, head.cheapest_usd_per_month)
        return f"{at}{change} a month on the cheapest platform; no price for this runner{why}"
    assumed = f", whose price is assumed: {price(found)}" if found.runner_assumed else ""
    change, step = _change(before, now)
    if step and not _certain(item.result):
        return f"{at}{change} a month on this runner, no certain change{assumed}"
    if step:
        return f"{at}{step} a month on this runner ({change}){assumed}"
    return f"{at}{change} a month on this runner{', as before' if before is not None else ''}{assumed}"


def _change(before: float | None, after: float) -> tuple[str, str]:
    """``$9 400 → $10 580`` and ``+$1 180``; the second is empty where nothing changed or there is no base."""
    said = units.money(after)
    if before is None or before == after:
        return said, ""
    return f"{units.money(before)} → {said}", units.money(after - before, sign=True)


def amount(volume: Volume, result: ModelResult | None) -> str:
    """``40 M training steps``."""
    number = costs.short(units.decimal(volume.amount, ""))
    if volume.unit != cost.STEPS:
        return f"{number} {volume.unit}"
    return f"{number} {_STEPS.get(result.workload.mode if result else '', 'steps')}"


def _certain(result: ModelResult | None) -> bool:
    """False if the measured change of the step time may as well be none."""
    times = [metric for metric in result.metrics if metric.metric == "latency"] if result else []
    bounds = [(metric.ci_low, metric.ci_high) for metric in times]
    return not any(low is not None and high is not None and low <= 1 <= high for low, high in bounds)


def _best(item: Priced) -> tuple[str, ...]:
    head, volume = item.entry.head, item.entry.volume
    if head is None:
        return ()
    answer, wanted = head.answer, costs.limits(item.entry.requirements)
    best = answer.cheapest
    if best is None:
        missed = infeasible(answer, wanted)
        # What moved has been said: that nothing is good enough any more.
        return (costs.capital(missed.partition("; ")[2]) if item.entry.sentence else missed,)
    # A unit that leaves a number that people can read.
    if best.usd_per_1k_steps < _SMALL or (volume is not None and volume.unit == cost.ITEMS):
        price, now, unit = best.usd_per_1m_items, head.runner_usd_per_1m_items, "1 M items"
    else:
        price, now, unit = best.usd_per_1k_steps, head.runner_usd_per_1k_steps, "1\u202f000 steps"
    compared = "" if now is None else f" (on this runner now {units.money(now)})"
    what = f"Cheapest that still meets {costs.listed(wanted)}" if wanted else "Cheapest"
    asked = f"{units.money(price)} per {unit}{compared}"
    return (f"{what}: {costs.named(best)}, {asked}{_modelled(best)}", tie(answer))


def _modelled(point: Point) -> str:
    if point.source == cost.MEASURED:
        return ""
    factor = costs.factor(point)
    within = "" if factor is None else f", within a factor of {factor:.2g}" if factor < 10 else ", very roughly"
    return f"; the time is {costs.SOURCES.get(point.source, point.source)}{within}"


def _others(others: list[Priced]) -> str:
    if not others:
        return ""
    months = [item.month for item in others if item.entry.volume and _certain(item.result)]
    steps = [head - base for base, head in months if base is not None and head is not None]
    together = f", together {units.money(sum(steps), sign=True)} a month" if any(steps) else ""
    return f"And {len(others)} more workload{'' if len(others) == 1 else 's'}{together}: see below"


def _stop(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
