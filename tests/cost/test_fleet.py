"""A fleet serves its load at the least cost that any fleet could, keeps the limits, and says what it cannot do."""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.cost.fleet_problems import GIB, cheapest, markets, point, problem
from perfgate.cost import fleet, fleet_solver
from perfgate.cost.fleet import plan
from perfgate.cost.fleet_covering import undominated
from perfgate.errors import PerfgateError, UsageError
from perfgate.records.fleet import FleetPlan, Load

SMALL = point("small", 1.0, 10.0)
LARGE = point("large", 3.5, 40.0)


def _counts(found: FleetPlan) -> dict[str, int]:
    return {part.point.offer.name: part.machines for part in found.parts}


def _cost(found: FleetPlan) -> float:
    return found.usd_per_hour if found.usd_total is None else found.usd_total


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_plan__is_as_cheap_as_the_best_of_all_fleets(start):
    for seed in range(start, start + 20):
        drawn = problem(random.Random(seed))
        least = cheapest(drawn)
        if least is None:
            with pytest.raises(UsageError, match="maximum"):
                plan(drawn.points, drawn.load, egress_usd_per_gib=drawn.egress)
            continue
        found = plan(drawn.points, drawn.load, egress_usd_per_gib=drawn.egress)
        assert _cost(found) == pytest.approx(least, rel=1e-9), seed
        assert found.optimal
        assert found.gap == 0.0


def test_plan__mixes_machines_where_whole_ones_of_one_kind_do_not_fit():
    # 50/s: 2 large cost 7.0, 5 small 5.0; one of each 4.5.
    found = plan([SMALL, LARGE], Load(items_per_s=50.0))
    assert _counts(found) == {"aws/large": 1, "aws/small": 1}
    assert (found.usd_per_hour, found.items_per_s) == (4.5, 50.0)
    assert (found.usd_total, found.hours, found.egress_usd_per_hour) == (None, None, 0.0)
    assert found.bound_usd_per_hour == 4.5
    assert [part.point.offer.instance for part in found.parts] == ["large", "small"]  # the dearest first
    assert [part.usd_per_hour for part in found.parts] == [3.5, 1.0]


def test_plan__serves_a_rate_that_is_met_exactly():
    third = point("third", 1.0, 100.0 / 3.0)
    assert _counts(plan([third], Load(items_per_s=100.0))) == {"aws/third": 3}
    assert _counts(plan([third], Load(items_per_s=100.001))) == {"aws/third": 4}


@pytest.mark.parametrize(("rate", "machines"), [(1e-9, 1), (1e-3, 1), (9e6, 1), (9e9, 1000)])
def test_plan__tolerances_do_not_swallow_a_machine(rate, machines):
    assert _counts(plan([point("fast", 2.0, 9e6)], Load(items_per_s=rate))) == {"aws/fast": machines}


def test_plan__pays_for_egress_where_the_item_was_served():
    # 1 MiB an item: 10 items/s are 36 000/1024 GiB an hour.
    ours, theirs = point("a", 1.0, 10.0, provider="aws"), point("b", 2.0, 10.0, provider="lambda")
    load = Load(items_per_s=10.0, egress_bytes_per_item=2.0**20)
    dear = plan([ours, theirs], load, egress_usd_per_gib={"aws": 0.09, "lambda": 0.0})
    assert _counts(dear) == {"lambda/b": 1}
    cheap = plan([ours, theirs], load, egress_usd_per_gib={"aws": 0.02, "lambda": 0.0})
    assert _counts(cheap) == {"aws/a": 1}
    assert cheap.egress_usd_per_hour == pytest.approx(36_000 / 1024 * 0.02)
    assert cheap.usd_per_hour == pytest.approx(1.0 + 36_000 / 1024 * 0.02)


def test_plan__egress_is_on_what_is_served_not_on_what_could_be():
    found = plan([LARGE], Load(items_per_s=1.0, egress_bytes_per_item=GIB), egress_usd_per_gib={"aws": 1.0})
    assert found.egress_usd_per_hour == pytest.approx(3600.0)


def test_plan__egress_goes_first_by_the_cheapest_network():
    machines = [point("a", 1.0, 10.0, provider="aws"), point("b", 1.0, 10.0, provider="lambda")]
    load = Load(items_per_s=15.0, egress_bytes_per_item=GIB, maximum={"lambda/b": 1})
    found = plan(machines, load, egress_usd_per_gib={"aws": 1.0, "lambda": 0.01})
    assert _counts(found) == {"aws/a": 1, "lambda/b": 1}
    assert found.egress_usd_per_hour == pytest.approx(3600 * (10 * 0.01 + 5 * 1.0))


def test_plan__says_whose_egress_has_no_price():
    load = Load(items_per_s=1.0, egress_bytes_per_item=1e6)
    (warning,) = plan([point("a", 1.0, 10.0, provider="gcp"), SMALL], load, egress_usd_per_gib={"aws": 0.1}).warnings
    assert warning.startswith("no price of egress known for gcp:")
    assert plan([SMALL], Load(items_per_s=1.0)).warnings == ()


def test_plan__keeps_minimum_and_maximum():
    load = Load(items_per_s=50.0, minimum={"aws/small": 3})
    assert _counts(plan([SMALL, LARGE], load)) == {"aws/small": 5}  # 5.0, one large more would be 6.5
    load = Load(items_per_s=50.0, maximum={"aws/small": 0})
    assert _counts(plan([SMALL, LARGE], load)) == {"aws/large": 2}
    load = Load(items_per_s=30.0, minimum={"aws/large": 1})
    assert _counts(plan([SMALL, LARGE], load)) == {"aws/large": 1}


def test_plan__limits_are_of_a_name_over_all_its_configurations():
    twice = replace(SMALL, offer=replace(SMALL.offer, region="r2", usd_per_hour=1.1), items_per_s=12.0)
    load = Load(items_per_s=60.0, maximum={"aws/small": 3})
    found = plan([SMALL, twice, LARGE], load)
    assert sum(part.machines for part in found.parts if part.point.offer.name == "aws/small") <= 3
    assert _cost(found) == pytest.approx(3.5 + 2.0)
    with pytest.raises(UsageError, match="reach 36 items/s, and 60 items/s are needed"):
        plan([SMALL, twice], load)


def test_plan__takes_the_fastest_of_equally_priced_configurations_of_one_machine():
    slow, fast = replace(SMALL, batch=1), replace(SMALL, batch=8, items_per_s=25.0)
    found = plan([slow, fast], Load(items_per_s=50.0))
    assert [(part.point.batch, part.machines) for part in found.parts] == [(8, 2)]


def test_plan__spares_may_be_any_machines():
    # Without one large, 40/s must remain: a second large, or four small.
    assert plan([SMALL, LARGE], Load(items_per_s=40.0)).usd_per_hour == 3.5
    spare = plan([SMALL, LARGE], Load(items_per_s=40.0, spares=1))
    assert _counts(spare) == {"aws/small": 5}
    two = plan([LARGE], Load(items_per_s=41.0, spares=2))
    assert _counts(two) == {"aws/large": 4}
    with pytest.raises(UsageError, match="needed with 1 spare: raise a maximum"):
        plan([LARGE], Load(items_per_s=40.0, spares=1, maximum={"aws/large": 1}))


def test_plan__a_job_pays_whole_hours_and_takes_the_cheapest_hours():
    # 10 items/s are 36 000 an hour; 100 000 items are 2.8 hours of small, 0.7 hours of large.
    job = Load(items=100_000.0, deadline_s=4 * 3600.0)
    slow = plan([SMALL], job)
    assert [(part.machines, part.paid_hours) for part in slow.parts] == [(1, 3)]
    assert (slow.usd_total, slow.hours, slow.usd_per_hour) == (3.0, 3.0, 1.0)
    # An hour of large does 144 000 items for 3.5; per hour of its run small is cheaper, for the job too.
    assert plan([SMALL, LARGE], job).usd_total == 3.0
    fast = plan([SMALL, replace(LARGE, offer=replace(LARGE.offer, usd_per_hour=2.9))], job)
    assert (_counts(fast), fast.usd_total, fast.hours) == ({"aws/large": 1}, 2.9, 1.0)


def test_plan__a_job_takes_as_many_machines_as_end_in_time():
    found = plan([SMALL], Load(items=360_000.0, deadline_s=4 * 3600.0))
    assert [(part.machines, part.paid_hours) for part in found.parts] == [(3, 10)]
    assert (found.usd_total, found.hours) == (10.0, 4.0)
    soon = plan([SMALL], Load(items=36_000.0, deadline_s=900.0))
    assert [(part.machines, part.paid_hours) for part in soon.parts] == [(4, 4)]
    assert (soon.usd_total, soon.hours, soon.items_per_s) == (4.0, 0.25, 40.0)


def test_plan__a_job_uses_the_cut_last_hour_only_where_machines_are_few():
    job = Load(items=54_000.0, deadline_s=1.5 * 3600.0)
    assert _counts(plan([SMALL], job)) == {"aws/small": 2}
    alone = plan([SMALL], replace(job, maximum={"aws/small": 1}))
    assert [(part.machines, part.paid_hours) for part in alone.parts] == [(1, 2)]
    assert (alone.usd_total, alone.hours) == (2.0, 1.5)
    with pytest.raises(UsageError, match=r"reach 10 items/s, and 11\.1111 items/s are needed"):
        plan([SMALL], Load(items=60_000.0, deadline_s=1.5 * 3600.0, maximum={"aws/small": 1}))


def test_plan__a_jobs_minimum_is_machines_that_take_part():
    found = plan([SMALL, LARGE], Load(items=10_000.0, deadline_s=7200.0, minimum={"aws/small": 3}))
    assert [(part.machines, part.paid_hours) for part in found.parts] == [(3, 3)]
    assert found.hours == 1.0


def test_plan__does_not_depend_on_the_order_of_points():
    rng = random.Random(7)
    points = [*markets(60, rng), SMALL, replace(SMALL, offer=replace(SMALL.offer, region="r0"))]
    load = Load(items_per_s=777.0, egress_bytes_per_item=1e5)
    first = plan(points, load, egress_usd_per_gib={"aws": 0.09})
    for _ in range(3):
        rng.shuffle(points)
        assert plan(points, load, egress_usd_per_gib={"aws": 0.09}) == first


def test_plan__of_three_thousand_offers_is_proven():
    points = markets(3000, random.Random(1))
    found = plan(points, Load(items_per_s=5000.0))
    assert found.optimal
    assert found.items_per_s >= 5000.0
    best = min(one.offer.usd_per_hour / one.items_per_s for one in points)
    assert found.usd_per_hour >= 5000.0 * best
    assert found.usd_per_hour <= min(
        math.ceil(5000.0 / one.items_per_s) * one.offer.usd_per_hour for one in points
    )  # no dearer than the best fleet of one kind


def test_plan__free_machines_cost_nothing():
    found = plan([SMALL, point("ours", 0.0, 1.0, provider="own")], Load(items_per_s=5.0))
    assert (_counts(found), found.usd_per_hour, found.optimal, found.gap) == ({"own/ours": 5}, 0.0, True, 0.0)


def test_plan__leaves_out_what_has_no_throughput_and_says_so():
    broken = [replace(SMALL, items_per_s=bad) for bad in (0.0, math.nan, math.inf)]
    found = plan([*broken, SMALL], Load(items_per_s=1.0))
    assert found.warnings == ("3 configurations without a price or a throughput were left out",)
    with pytest.raises(UsageError, match="no configuration is left"):
        plan(broken, Load(items_per_s=1.0))


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (Load(), "either items_per_s, or items together with deadline_s"),
        (Load(items=5.0), "either items_per_s, or items together with deadline_s"),
        (Load(items_per_s=1.0, deadline_s=5.0), "either items_per_s, or items together with deadline_s"),
        (Load(items_per_s=1.0, items=1.0, deadline_s=5.0), "either items_per_s, or items together with deadline_s"),
        (Load(items_per_s=0.0), "items_per_s is 0, but must be a positive number"),
        (Load(items_per_s=-3.0), "items_per_s is -3"),
        (Load(items_per_s=math.nan), "items_per_s is nan"),
        (Load(items=math.inf, deadline_s=1.0), "items is inf"),
        (Load(items=1.0, deadline_s=0.0), "deadline_s is 0"),
        (Load(items=1.0, deadline_s=60.0, spares=1), "spares are for items_per_s"),
        (Load(items_per_s=1.0, spares=-1), "spares is -1, but must be 0 or more"),
        (Load(items_per_s=1.0, egress_bytes_per_item=-1.0), "egress_bytes_per_item is -1"),
        (Load(items_per_s=1.0, minimum={"aws/small": -1}), "minimum of aws/small is -1"),
        (Load(items_per_s=1.0, minimum={"aws/small": 3}, maximum={"aws/small": 2}), "lower the minimum"),
        (Load(items_per_s=1.0, minimum={"aws/smal": 1}), "minimum of aws/smal: .* did you mean aws/small?"),
        (Load(items_per_s=1.0, maximum={"aws/small": 0}), "no configuration is left"),
    ],
)
def test_plan__refuses_a_load_that_makes_no_sense(load, text):
    with pytest.raises(UsageError, match=text):
        plan([SMALL], load)


def test_plan__refuses_other_nonsense():
    with pytest.raises(UsageError, match="no configuration meets the requirements"):
        plan([], Load(items_per_s=1.0))
    with pytest.raises(UsageError, match=r"egress price of aws is -0\.1"):
        plan([SMALL], Load(items_per_s=1.0), egress_usd_per_gib={"aws": -0.1})
    with pytest.raises(UsageError, match="time limit of the fleet plan is 0 s"):
        plan([SMALL], Load(items_per_s=1.0), time_limit_s=0.0)


class _Stopped:
    """What the solver gives when its time is over."""

    status, message, mip_dual_bound = 1, "time limit", None
    x: np.ndarray | None = None


def _stopping(monkeypatch, units, share):
    def milp(cost, **_):
        result = _Stopped()
        if units is not None:
            result.x = np.array(units)
            result.mip_dual_bound = share * float(cost @ result.x)
        return result

    monkeypatch.setattr(fleet_solver, "milp", milp)


def test_plan__states_the_gap_where_time_was_over(monkeypatch):
    _stopping(monkeypatch, [5.0, 0.0], 0.96)
    found = plan([SMALL, LARGE], Load(items_per_s=50.0))
    assert not found.optimal
    assert found.gap == pytest.approx(0.04)
    assert found.bound_usd_per_hour == pytest.approx(0.96 * found.usd_per_hour)
    assert found.warnings == ("the fleet is not proven optimal: the least cost may be up to 4.0 % lower",)


def test_plan__bound_is_never_below_what_fractions_of_machines_cost(monkeypatch):
    _stopping(monkeypatch, [5.0, 0.0], 0.1)
    found = plan([SMALL, LARGE], Load(items_per_s=50.0))
    assert found.bound_usd_per_hour == pytest.approx(50.0 * 3.5 / 40.0)


def test_plan__without_any_fleet_in_time_says_what_to_do(monkeypatch):
    _stopping(monkeypatch, None, 0.0)
    with pytest.raises(UsageError, match="no fleet was found within 10 s: allow more time"):
        plan([SMALL, LARGE], Load(items_per_s=50.0))


def test_plan__a_failed_solver_is_an_error(monkeypatch):
    class _Failed(_Stopped):
        status, message = 4, "numerical trouble"

    monkeypatch.setattr(fleet_solver, "milp", lambda cost, **_: _Failed())
    with pytest.raises(PerfgateError, match="numerical trouble"):
        plan([SMALL, LARGE], Load(items_per_s=50.0))


def test_solve__keeps_standard_output_clean(monkeypatch, capfd):
    real: Any = vars(fleet_solver)["milp"]

    def chatty(*arguments, **options):
        os.write(1, b"HighsMipSolverData::...\n")
        return real(*arguments, **options)

    monkeypatch.setattr(fleet_solver, "milp", chatty)
    os.write(1, b"before\n")
    plan([SMALL, LARGE], Load(items_per_s=50.0))
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "before\nafter\n"


def test_undominated__keeps_a_worse_ratio_that_fits_better():
    _, covering = fleet._covering([SMALL, LARGE], Load(items_per_s=45.0), fleet._Demand(amount=45.0), {})
    assert len(undominated(covering)) == 2
    worse = point("worse", 1.0, 9.0)
    ordered, covering = fleet._covering([SMALL, LARGE, worse], Load(items_per_s=45.0), fleet._Demand(amount=45.0), {})
    assert [ordered[index].offer.instance for index in undominated(covering)] == ["small", "large"]
