from __future__ import annotations

from dataclasses import replace

from perfgate.records.cost import Answer, CostReport, SideCost, Volume
from perfgate.records.hardware import Excluded, PriceTable
from perfgate.records.report import REGRESSION
from perfgate.report.workload_costs import considered, details, facts, infeasible, priced, rows, runner, tied
from tests.report.builders import model, report, usual
from tests.report.cost_builders import answer, cost_report, front, roof, side, unpriced, workload_cost
from tests.report.cost_builders import infeasible as nothing
from tests.report.cost_builders import tied as ties

SLOWER = model("resnet50", *usual(0.079, REGRESSION))
EMPTY = Answer(candidates=0, feasible=0)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")


def test_rows__base_and_head_where_they_differ():
    head = side(answer(*front()[1:]))
    (row,) = rows(report(SLOWER, cost=cost_report(workload_cost(SLOWER, side(step_ns=13.92e6), head))))
    assert (row.model, plain(row.workload), row.position) == ("resnet50", "train · b32", 0)
    assert (row.steps, row.items) == ("$0.00311 → $0.00336", "$0.0973 → $0.105")
    assert (row.cheapest, row.where) == ("$0.126 → $0.145", "L4 → L40S")
    assert plain(row.bound) == "memory bound at I = 19.1 < 403 FLOP/B"
    assert plain(row.achieved) == "62.7 % → 58.1 %"


def test_rows__unknown_things_are_dashes_and_none_is_said():
    (row,) = rows(report(SLOWER, cost=cost_report(workload_cost(SLOWER, None, unpriced(nothing(), roofline=None)))))
    assert (row.steps, row.items, row.cheapest, row.where, row.bound, row.achieved) == ("–", "–", "–", "none", "–", "–")


def test_rows__ties_stand_behind_the_cheapest():
    (row,) = rows(report(SLOWER, cost=cost_report(workload_cost(SLOWER, side(), side(ties())))))
    assert plain(row.where) == "L4 ≈ A10G and 50 % of one A10"


def test_rows__a_bound_is_told_twice_only_where_it_is_another():
    other_roof = side(roofline=replace(roof(), flop_per_s=60.5e12, ridge=60.5e12 / 300e9))
    (row,) = rows(report(SLOWER, cost=cost_report(workload_cost(SLOWER, other_roof, side()))))
    assert plain(row.bound) == "memory bound at I = 19.1 < 403 FLOP/B"
    launches = side(roofline=replace(roof(), bound="launch"))
    (row,) = rows(report(SLOWER, cost=cost_report(workload_cost(SLOWER, launches, side()))))
    assert plain(row.bound) == "launch bound → memory bound at I = 19.1 < 403 FLOP/B"


def test_priced__only_what_is_known():
    unknown = unpriced(EMPTY, roofline=None)
    judged = report(SLOWER, cost=cost_report(workload_cost(SLOWER, unknown, unknown)))
    assert priced(judged) == []
    assert facts(judged) == []
    recognised = unpriced(EMPTY, roofline=roof(None))
    assert len(priced(report(SLOWER, cost=cost_report(workload_cost(SLOWER, None, recognised))))) == 1
    assert priced(report(SLOWER)) == []


def test_priced__what_matters_most_comes_first():
    models = [model(name, *usual(0.0)) for name in "abcd"]
    a, b, c, d = models
    judged = report(
        *models,
        cost=cost_report(
            workload_cost(a, side(), side()),
            workload_cost(b, side(), side(usd_per_month=10.0), volume=Volume(amount=1.0)),
            workload_cost(c, side(), side(usd_per_month=20.0), volume=Volume(amount=1.0)),
            workload_cost(d, side(), side(), moved=True),
        ),
    )
    assert [item.entry.model for item in priced(judged)] == ["d", "c", "b", "a"]


def test_priced__a_second_look_is_not_what_the_cost_belongs_to():
    judged = report(replace(SLOWER, informative=True), SLOWER, cost=cost_report(workload_cost(SLOWER, side(), side())))
    assert [item.position for item in priced(judged)] == [1]


def test_priced__a_workload_that_the_report_lacks_has_its_key():
    judged = report(cost=cost_report(workload_cost(SLOWER, side(), side())))
    assert [(item.label, item.position) for item in priced(judged)] == [(SLOWER.key, None)]


AWS, GCP = "aws 2026-07-20 (812", "gcp 2026-08-03 (640"


def test_facts__prices_dates_warnings_and_what_was_left_out():
    found = answer(warnings=("old",), excluded=(Excluded(what="l4 offers", reason="no memory", count=9),))
    cost = cost_report(workload_cost(SLOWER, side(found), side(found)), warnings=("old", "new"))
    lines = [(fact.label, plain(fact.text)) for fact in facts(report(SLOWER, cost=cost))]
    lists = [
        f"{name} offers, source: shipped with perfgate)" for name in ("aws 2026-07-20 (812", "gcp 2026-08-03 (640")
    ]
    assert lines == [
        ("Runner", "$0.805/h, aws/g6.xlarge in us-east-1 of 2026-07-20"),
        ("Prices", "; ".join(lists)),
        ("Times", "3 120 by the calibrated roofline"),
        ("Warning", "old"),
        ("Warning", "new"),
        ("Left out", "9 × l4 offers: no memory"),
        ("Left out", "614 prices held back or replaced; report.html says which and why"),
    ]
    assert [(fact.label, plain(fact.text)) for fact in details(report(SLOWER, cost=cost))] == [
        *(("Price list", name) for name in lists),
        ("Left out", "611 × spot offers: terms are on-demand and own"),
        ("Left out", "3 offers: price outside of 0.2 to 5 times the median of its platform"),
    ]


def test_facts__many_price_lists_are_summed_up():
    tables = tuple(PriceTable(provider=f"p{n}", date=f"2026-0{n}-01", source="", offers=10) for n in range(1, 7))
    cost = replace(cost_report(workload_cost(SLOWER, None, side())), tables=tables)
    found = {fact.label: fact.text for fact in facts(report(SLOWER, cost=cost))}
    assert found["Prices"] == "60 offers from 6 price lists of 2026-01-01 to 2026-06-01"
    assert len([fact for fact in details(report(SLOWER, cost=cost)) if fact.label == "Price list"]) == 6


def test_details__many_reasons_are_counted():
    excluded = tuple(Excluded(what=f"w{n:02d}", reason="r", count=2) for n in range(20))
    lines = details(report(SLOWER, cost=cost_report(workload_cost(SLOWER, None, side()), excluded=excluded)))
    assert [fact.text for fact in lines if fact.label == "Left out"][-1] == "16 more, for other reasons"


def test_runner__known_assumed_or_not():
    assert runner(CostReport()) == "its price is not known"
    assert runner(CostReport(runner_price="no such device")) == "no price: no such device"
    text = runner(CostReport(runner_usd_per_hour=1.5, runner_price="p", runner_assumed=True))
    assert text == "$1.50/h, p (assumed: set runner under [cost] to what you pay)"


def test_considered__with_and_without_limits():
    assert (
        plain(considered(answer(), ("20 ms", "500 items/s")))
        == "412 of 3 120 configurations meet 20 ms and 500 items/s"
    )
    assert considered(answer(feasible=1), ("20 ms",)).endswith("configurations meets 20 ms")
    assert considered(answer(), ()).endswith("configurations can run it")


def test_infeasible__only_where_there_were_candidates():
    assert infeasible(answer(), ("20 ms",)) == ""
    assert infeasible(EMPTY, ("20 ms",)) == ""
    assert infeasible(replace(nothing(), nearest=None), ()) == "No platform can run it"
    assert tied(nothing()) == ()


def test_facts__hundreds_of_warnings_are_counted():
    warned = answer(warnings=tuple(f"warning {n}" for n in range(300)))
    cost = cost_report(workload_cost(SLOWER, None, side(warned)))
    texts = [fact.text for fact in facts(report(SLOWER, cost=cost)) if fact.label == "Warning"]
    assert len(texts) == 13
    assert texts[-1].endswith("more warnings stand in report.json")


def test_priced__a_workload_that_nothing_is_known_of_shows_why():
    blind = SideCost(answer=Answer(candidates=0, feasible=0, warnings=("no platform was looked for: prices",)))
    cost = CostReport(workloads=(workload_cost(SLOWER, blind, blind),))
    found = facts(report(SLOWER, cost=cost))
    assert ("Warning", "no platform was looked for: prices") in [(fact.label, fact.text) for fact in found]
