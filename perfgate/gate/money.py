"""Floor 3, gate. Pairs and the runner's price in; rows in US dollars, and findings on money in words, out.

Ratios of cost are those of the step time and need no price. What needs one (a row in dollars, a ceiling) is never
green and never red without it: the row then says how to declare it. A finding is never a verdict.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace

from perfgate.gate.limits import Limit, Rules, definition
from perfgate.gate.noisy import blank_row, noisy_row
from perfgate.records.cost import STEPS, CostReport, Volume, WorkloadCost
from perfgate.records.evidence import WorkloadEvidence
from perfgate.records.policy import Policy
from perfgate.records.report import INCONCLUSIVE, INVALID, MISSING, NO_BASELINE, REGRESSION, SHOWN, MetricResult
from perfgate.records.workload import Workload
from perfgate.stats.pairs import valid_pairs
from perfgate.units import money

COST = "cost"
MONTHLY = "monthly_cost"
METRICS = (COST, MONTHLY)

NO_PRICE = "no price for this runner: set [cost] runner"
ASSUMED_PRICE = "a ceiling needs a declared price, and this runner's is assumed: set [cost] runner"
_NS_PER_HOUR = 3600e9


def declared(policy: Policy, model: str, metric_name: str) -> bool:
    """Whether the policy lets ``model`` have this metric of money: ``[cost]`` is on, and a month has a volume."""
    return policy.cost.enabled and (metric_name == COST or _volume(policy, model) is not None)


def rows(evidence: WorkloadEvidence, rules: Rules, *, invalid: str = "") -> tuple[MetricResult, ...]:
    """Rows of ``cost`` and ``monthly_cost`` of a workload that both sides run; ``invalid`` as in ``noisy_rows``.

    A row is there where the runner's price is known, or where the policy gates it.
    """
    model = evidence.workload.model
    found = (_row(name, evidence, rules, invalid) for name in METRICS if declared(rules.policy, model, name))
    return tuple(row for row in found if row is not None)


def head_rows(evidence: WorkloadEvidence, rules: Rules, why: str) -> tuple[MetricResult, ...]:
    """What head costs by its probes, where there is no base to compare with, and the price is known."""
    hours = [
        probe.step_ns / probe.items * 1e6 / _NS_PER_HOUR
        for probe in evidence.head.probes
        if probe.step_ns > 0 and probe.items > 0
    ]
    found = []
    for name in METRICS if hours else ():
        scale = _usd(name, evidence, rules)
        if scale is not None and declared(rules.policy, evidence.workload.model, name):
            limit = rules.limit(evidence.workload.model, name)
            blank = blank_row(name, limit, NO_BASELINE if limit.gated else SHOWN, why)
            found.append(replace(blank, head=scale * statistics.median(hours)))
    return tuple(found)


def sentences(workload: Workload, rows: Iterable[MetricResult], cost: CostReport | None) -> tuple[str, ...]:
    """What this change does to the money of one workload: the recommendation that moves, the budget that it breaks."""
    found = _of(workload, cost)
    if found is None:
        return ()
    told = [found.sentence] if found.moved and found.sentence else []
    return (*told, *_over_budget(found, rows))


def label_of_change(metric_name: str) -> str:
    """``per 1 M items`` or ``per month``: what follows ``costs 5.0 % more``."""
    return definition(metric_name).label.removeprefix("cost ")


def _of(workload: Workload, cost: CostReport | None) -> WorkloadCost | None:
    known = () if cost is None else cost.workloads
    return next((item for item in known if (item.model, item.key) == (workload.model, workload.key)), None)


def _over_budget(found: WorkloadCost, rows: Iterable[MetricResult]) -> list[str]:
    """Head is past ``max_usd_per_month`` on this runner and base was not, and the step time certainly grew."""
    budget = found.requirements.max_usd_per_month
    if budget is None or found.base is None or found.head is None:
        return []
    before, now = found.base.usd_per_month, found.head.usd_per_month
    grew = any(row.metric == "latency" and row.ci_low is not None and row.ci_low > 1 for row in rows)
    if before is None or now is None or not before <= budget < now or not grew:
        return []
    past = f"past max_usd_per_month of {money(budget)}; it was {money(before)}"
    return [f"a month at the declared volume costs {money(now)} on this runner, {past}"]


def _row(name: str, evidence: WorkloadEvidence, rules: Rules, invalid: str) -> MetricResult | None:
    limit = rules.limit(evidence.workload.model, name)
    scale = _usd(name, evidence, rules)
    if scale is None:
        return _without_price(name, limit, invalid, rules) if limit.gated and not evidence.informative else None
    assumed = rules.cost is not None and rules.cost.runner_assumed
    row = noisy_row(name, evidence, rules, invalid=invalid, scale=scale, judge_ceiling=not assumed)
    if not limit.gated and row.base is None and row.head is None:
        return None
    open_ceiling = assumed and limit.ceiling is not None and row.verdict not in (REGRESSION, MISSING, INVALID)
    return replace(row, verdict=INCONCLUSIVE, note=ASSUMED_PRICE) if open_ceiling else row


def _without_price(name: str, limit: Limit, invalid: str, rules: Rules) -> MetricResult:
    if invalid:
        return blank_row(name, limit, INVALID, invalid)
    # Whoever has set it wants to know what is wrong with it.
    wrong = rules.cost.runner_price if rules.cost is not None and rules.policy.cost.runner else ""
    note = f"no price for this runner: {wrong.removeprefix('unknown: ')}" if wrong else NO_PRICE
    return blank_row(name, limit, INCONCLUSIVE, note)


def _usd(name: str, evidence: WorkloadEvidence, rules: Rules) -> float | None:
    """US dollars in the metric's unit for each hour of the machine per 1 M items; None: the price is not known."""
    price = None if rules.cost is None else rules.cost.runner_usd_per_hour
    if price is None or not 0 < price < math.inf:
        return None
    if name == COST:
        return price
    volume = _volume(rules.policy, evidence.workload.model)
    return None if volume is None else price * _items_a_month(volume, evidence) / 1e6


def _items_a_month(volume: Volume, evidence: WorkloadEvidence) -> float:
    """Items of the declared volume; steps count base's items, since a month has to do the same work on both sides."""
    if volume.unit != STEPS:
        return volume.amount
    counts = [pair.base.items for pair in valid_pairs(evidence.pairs)]
    probes = evidence.base.probes or evidence.head.probes
    return volume.amount * statistics.median(counts or [probe.items for probe in probes] or [1])


def _volume(policy: Policy, model: str) -> Volume | None:
    own = policy.cost.models.get(model)
    return None if own is None else own.volume
