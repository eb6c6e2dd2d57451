"""The forms that the cost part of a report can take, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from perfgate.records.cost import ITEMS, Requirements, Volume, WorkloadCost
from perfgate.records.evidence import Measurements
from perfgate.records.report import PASS, REGRESSION, ModelResult, Report
from tests.report.builders import measurements, model, report, usual
from tests.report.cost_builders import (
    answer,
    cost_report,
    front,
    infeasible,
    offer,
    point,
    roof,
    side,
    tied,
    unpriced,
    workload_cost,
)

Form = tuple[Report, Measurements]

MOVED = "this change moves the cheapest platform from L4 to L40S"


def _form(entries: tuple[ModelResult, ...], *costs: WorkloadCost, **fields: Any) -> Form:
    judged = report(*entries, cost=cost_report(*costs, **fields))
    return judged, measurements(judged)


def moved() -> Form:
    """The L4 does not meet the limit any more."""
    entry = model("resnet50", *usual(0.079, REGRESSION))
    head = side(answer(*front()[1:]), 15.02e6)
    return _form((entry,), workload_cost(entry, side(step_ns=13.92e6), head, moved=True, sentence=MOVED))


def volume() -> Form:
    """Two workloads at a declared volume and one without; the first recommends the same as before."""
    train = model("resnet50", *usual(0.079, REGRESSION))
    infer = model("bert", *usual(0.002), mode="infer", batch=8)
    plain = model("vit", *usual(0.0), mode="infer", batch=1)
    found = tuple(replace(place, source="anchored", low_ns=place.step_ns / 1.08) for place in front())
    head = answer(*found)
    wanted = Requirements(max_step_ns=20e6, percentile=0.99, min_utilisation=0.1, max_usd_per_month=12_000.0)
    costs = (
        workload_cost(plain, side(), side()),
        workload_cost(
            infer, side(usd_per_month=310.4), side(usd_per_month=311.2), volume=Volume(amount=3e9, unit=ITEMS)
        ),
        workload_cost(
            train,
            side(usd_per_month=9_400.0, step_ns=13.92e6),
            side(head, usd_per_month=10_580.0, cheapest_usd_per_month=8_210.0),
            volume=Volume(amount=40e6),
            requirements=wanted,
        ),
    )
    return _form((train, infer, plain), *costs, runner_assumed=True)


def tie() -> Form:
    """What cannot be told from the cheapest, on a published roof with other numbers than base's."""
    entry = model("resnet50", *usual(0.079, REGRESSION))
    sentence = "this change moves the cheapest platform from A10 to L4"
    before = replace(roof(13.92e6), flop_per_s=60.5e12, ridge=60.5e12 / 300e9, measured=False)
    return _form(
        (entry,),
        workload_cost(entry, replace(side(), roofline=before), side(tied()), moved=True, sentence=sentence),
    )


def nothing_meets() -> Form:
    """Base met the limit, head does not on any platform."""
    entry = model("resnet50", *usual(0.079, REGRESSION))
    sentence = "no platform meets the limits any more, L4 did"
    return _form((entry,), workload_cost(entry, side(), side(infeasible()), moved=True, sentence=sentence))


def runner_unknown() -> Form:
    """A runner that nobody knows: no roof, no price, but recommendations."""
    entry = model("resnet50", *usual(0.004, PASS))
    before, after = (unpriced(roofline=None, cheapest_usd_per_month=usd) for usd in (7_960.0, 8_210.0))
    return _form(
        (entry,),
        workload_cost(entry, before, after, volume=Volume(amount=40e6)),
        runner_usd_per_hour=None,
        runner_price="device 'Frobnicator 9' is not in the catalogue",
        warnings=("prices of aws are 140 days old",),
    )


def long_front() -> Form:
    """More configurations than a comment lists, own machines with long names, and a step that was not measured."""
    entry = model("resnet50", *usual(0.0))
    found = [
        point(
            offer("rtx-4090", 0.3 * 1.3**n, provider="own", instance=f"rack {n} of the laboratory downstairs"),
            20e6 / 1.1**n,
            batch=8 + n,
            utilisation=0.04 * 1.09**n,
            knee=n == 11,
        )
        for n in range(24)
    ]
    return _form((entry,), workload_cost(entry, None, unpriced(answer(*found), roofline=roof(None))))


COST_FORMS: dict[str, Callable[[], Form]] = {
    "cost_moved": moved,
    "cost_volume": volume,
    "cost_tie": tie,
    "cost_infeasible": nothing_meets,
    "cost_unpriced": runner_unknown,
    "cost_long": long_front,
}
