"""A report in which every text that a pull request can choose is the same, and numbers are odd or too large."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfgate.records import report as verdicts
from perfgate.records.cost import CostReport, Missed, Volume
from perfgate.records.estimate import EstimatorReport
from perfgate.records.evidence import Revision, Skipped
from perfgate.records.hardware import Excluded, PriceTable
from perfgate.records.placement import PlacementReport
from perfgate.records.report import ModelResult, Report
from tests.report.builders import difference, model, noisy, not_counted, operator, report, totals, usual
from tests.report.cost_builders import answer, cost_report, infeasible, offer, point, side, workload_cost
from tests.report.cost_builders import operator as roof_operator
from tests.report.cost_builders import roof as roof_of
from tests.report.estimate_builders import accuracy, device, estimator_report, side_estimate, workload_estimate
from tests.report.placement_builders import piece, placed, plan


def hostile_counts(text: str) -> dict[str, Any]:
    """Totals and difference in which every text is ``text``, and every number the largest that a file can hold."""
    most = 2**63 - 1
    numbers: dict[str, Any] = {
        "flop": -most,
        "bytes": most,
        "calls": most,
        "count": -most,
        "time_ns": 1e308,
        "share": -1e308,
    }
    finding = operator(text, text, op=text, kind=text, phase=text, how=(text, text), base=text, head=text, **numbers)
    sums: dict[str, Any] = {"flop": most, "bytes": -most, "kernels": -most, "more": most}
    head = totals(
        source=text,
        software=text,
        fingerprint=text,
        flop=most,
        eager=-most,
        min=0,
        params=-1,
        batch=most,
        not_counted=(replace(not_counted(text, most), first=text, reason=text),) * 30,
        notes=(text,),
    )
    found = difference(*[finding] * 20, **sums, notes=(text,), sentences=(text,))
    return {"base_totals": totals(flop=0), "head_totals": head, "difference": found}


def hostile_cost(text: str, *entries: ModelResult) -> CostReport:
    """A cost in which every text is ``text``, and numbers are as large or as odd as they can be."""
    rented = offer(text, provider=text, instance=text, region=text, terms=text, date=text, source=text)
    strange = point(rented, dtype=text, compile=text, form=text, source=text, bound=text, why=text)
    huge = point(rented, utilisation=1e308, usd_per_1m_items=1e308, usd_per_1k_steps=-1e308, tie=2**63, low_ns=-1e308)
    found = answer(
        strange,
        huge,
        *[strange] * 12,
        tied=(huge, strange),
        warnings=(text,) * 3,
        excluded=(Excluded(what=text, reason=text, count=2**63),),
        sources={text: 2**63},
    )
    missed = replace(infeasible(strange), missed=(Missed(constraint=text, value=1e308, limit=-1e308, text=text),) * 3)
    named = roof_operator(text, kind=text, dtype=text, bound=text, flop=2**63, share=-1e308, bound_ns=1e308)
    under = roof_of(device=text, bound=text, share=1e308, operators=(named,) * 90, bound_ns=-1.0)
    before = side(missed, roofline=under, usd_per_month=-1e308)
    after = side(found, roofline=under, usd_per_month=1e308)
    costs = (
        workload_cost(entry, *sides, moved=True, sentence=text, volume=Volume(amount=1e308, unit=text))
        for entry, sides in zip(entries, ((before, after), (after, before), (None, after)), strict=False)
    )
    table = PriceTable(provider=text, date=text, source=text, offers=2**63)
    return cost_report(*costs, runner_price=text, runner_assumed=True, tables=(table,) * 3, warnings=(text,))


def hostile(text: str) -> Report:
    """A report in which every text that a pull request can choose is ``text``."""
    revision = Revision(sha=text[:40], name=text)
    entry = model(text, noisy("latency", 0.08, verdicts.REGRESSION, note=text), reasons=(text,))
    entry = replace(entry, **hostile_counts(text))
    entry = replace(entry, workload=replace(entry.workload, dtype=text, device=text, compile=text, mode=text))
    named = replace(entry.metrics[0], metric=text, unit=text, verdict=verdicts.INCONCLUSIVE)
    gone = replace(entry, metrics=(), verdict=verdicts.MISSING)
    judged = report(entry, replace(entry, metrics=(named,)), gone, model("plain", *usual()))
    return replace(
        judged,
        title=text,
        why=text,
        cost=hostile_cost(text, entry, replace(entry, key=text), model("plain", *usual())),
        estimator=hostile_estimates(text, entry, model("plain", *usual())),
        placement=hostile_placement(text, entry),
        banners=(text,),
        notes=(text,),
        skipped=(Skipped(model=text, reason=text),),
        base=revision,
        head=revision,
        software={text: text},
        environment=replace(judged.environment, hardware={text: text}, conditions={text: text}),
        policy=replace(judged.policy, source=text, mode=text),
    )


def hostile_placement(text: str, entry: ModelResult) -> PlacementReport:
    """A placement in which every text is ``text``."""
    strange = plan(
        replace(piece("a b", text, text, text), target=text),
        replace(piece("a b", text), target="b"),
        model=text,
        best_single=text,
        predicted_s=1e290,
        measured_s=-1e290,
        faster=(-1e300, 1e300),
    )
    return PlacementReport(workloads=(placed(entry, strange, reason=text), placed(entry, None, reason=text)))


def hostile_estimates(text: str, *entries: ModelResult) -> EstimatorReport:
    """Estimates in which every text is ``text``, and numbers are as large or as odd as they can be."""
    strange = [
        device(text, 1e307, -1e307, fits=fits, novel=(text,) * 3, low=-1e308, high=1e308)
        for fits in (True, False, None)
    ]
    side_ = side_estimate(-1e307, 1e308, *strange, device("l4", 0.0), surprise=text)
    unusual = accuracy(text, n=2**63, median_ape=1e308, mean_ape=-1e308, coverage=1e308)
    return estimator_report(
        *(workload_estimate(entry, None if n % 2 else side_, side_) for n, entry in enumerate(entries)),
        examples=2**63,
        seconds=1e290,
        accuracy=(unusual,) * 4,
        notes=(text,) * 3,
    )
