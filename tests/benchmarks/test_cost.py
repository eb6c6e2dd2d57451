"""The benchmarks of the optimiser and of fleets run on a few problems, and find what is wrong."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.cost import __main__ as every
from benchmarks.cost import fleet_problems, fleets, pareto_sets, random_markets, rival, scale
from benchmarks.cost.scale import Run
from perfgate.cost import pareto
from perfgate.errors import UsageError
from perfgate.records.cost import COST, DATA, FORMS, SINGLE, TIME, UTILISATION, Device
from perfgate.records.fleet import Load


@pytest.fixture
def alone(monkeypatch):
    """As on a machine without pymoo."""
    monkeypatch.setattr(pareto_sets, "missing", lambda *names: names)


def test_pareto_sets__quick_finds_all_equal_and_says_what_is_missing(alone, capsys):
    assert pareto_sets.main(["--quick"]) == 0
    out = capsys.readouterr().out
    (row,) = (line for line in out.splitlines() if line.startswith("| optimise = brute force"))
    assert row.split("|")[2].strip() == "20 of 20"
    (row,) = (line for line in out.splitlines() if line.startswith("| optimise = union"))
    assert row.split("|")[2].strip() == "3 of 3"
    assert out.splitlines()[-1].endswith("-m pip install pymoo")


def test_pareto_sets__a_front_that_lacks_a_point_is_found(alone, capsys, monkeypatch):
    real = pareto_sets.solved

    def shortened(given):
        answer = real(given)
        return replace(answer, front=answer.front[1:])

    monkeypatch.setattr(pareto_sets, "solved", shortened)
    assert pareto_sets.main(["--quick"]) == 1
    assert "20 of 20" not in capsys.readouterr().out


def test_same__is_about_digits_not_about_order():
    assert pareto_sets.same([(1.0, 2.0), (0.5, 3.0)], [(0.5, 3.0), (1.0, 2.0 + 1e-9)])
    assert not pareto_sets.same([(1.0, 2.0)], [(1.0, 2.1)])
    assert not pareto_sets.same([(1.0, 2.0)], [(1.0, 2.0), (1.0, 2.0)])


def test_non_dominated__by_hand():
    vectors = [(1.0, 3.0), (2.0, 2.0), (2.0, 2.0), (3.0, 1.0), (3.0, 2.0), (2.0, 3.0)]
    assert random_markets.non_dominated(vectors) == {(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)}


def test_values__by_hand():
    given = random_markets.problem(random.Random(3))
    offer = replace(given.market.offers[0], usd_per_hour=3.6, count=4, share=1.0)
    platform = replace(
        given.platforms[offer.platform], power_w=100.0, peak_flop_per_s={"float32": 1e12, "float16": 1e12}
    )
    way = random_markets.way(8, "float32", layers=1)
    (time,) = given.times(way, [Device(platform=platform)])
    assert time is not None
    time = replace(time, ns=2e9)
    # 16 items in a second: $0.001 / 16; F over two seconds; 400 W.
    cost, minus_use, seconds, energy = random_markets.values(offer, platform, way, 4, time)
    assert cost == pytest.approx(3.6 / 3600 / 16)
    assert minus_use == pytest.approx(-way.totals.flop / 2 / 1e12)
    assert seconds == 2.0
    assert energy == pytest.approx(400 / 16)


def test_problems__have_what_can_go_wrong():
    given = [random_markets.problem(random.Random(seed)) for seed in range(40)]
    found = [random_markets.feasible(one) for one in given]
    assert any(not one for one in found)
    assert any(len({tried.values[0] for tried in one}) < len(one) for one in found)  # equal costs
    assert {one.devices > 1 for every_one in found for one in every_one} == {False, True}
    training = [random_markets.problem(random.Random(seed), forms=FORMS, most_offers=8) for seed in range(20)]
    assert {way.mode for one in training for way in one.ways} == {"infer", "train"}


def test_task__scales_by_logarithms_and_knows_its_front():
    given = random_markets.problem(random.Random(11), forms=(SINGLE, DATA))
    market, platforms = random_markets.large(random.Random(2), offers=30, platforms=4)
    times = random_markets.PlainTimes(dict.fromkeys(platforms, 1.5))
    given = replace(given, market=market, platforms=platforms, times=times)
    names = (COST, UTILISATION, TIME)
    task = rival.Task.of(given, names)
    table = task.values[np.isfinite(task.values).all(axis=3)]
    assert len(table) == task.configurations
    assert table.min(axis=0) == pytest.approx([0.0, 0.0, 0.0])
    assert table.max(axis=0) == pytest.approx([1.0, 1.0, 1.0])
    assert task.front == set(map(tuple, table[pareto.front(table)].tolist()))


def test_scale__once_is_json_of_one_call(capsys):
    assert scale.main(["--once", "10000", "calibrated", scale.EVERY_FORM]) == 0
    run = Run(**json.loads(capsys.readouterr().out))
    assert run.candidates >= 10_000
    assert run.front > 0
    assert run.seconds > 0
    assert run.peak_bytes > 2**20


@pytest.mark.parametrize("machines", [scale.AS_RENTED, scale.ALL_DIFFERENT])
def test_scale__given_times_are_enough(machines):
    run = scale.once(10_000, scale.GIVEN, machines)
    assert 10_000 <= run.candidates < 20_000
    assert run.front > 0


def test_scale__judges_time_and_memory(capsys, monkeypatch):
    def fresh(size, times, machines):
        slow = times == scale.CALIBRATED
        return Run(candidates=size, ways=1, front=1, seconds=2.0 if slow else 0.5, cpu_s=0.1, peak_bytes=2**20)

    monkeypatch.setattr(scale, "fresh", fresh)
    assert scale.main([]) == 1
    rows = [line for line in capsys.readouterr().out.splitlines() if " times " in line and " 000 " in line]
    assert {("calibrated" in row, row.rstrip(" |").endswith("MISSED")) for row in rows} == {
        (True, True),
        (False, False),
    }


def test_exponents__of_linear_growth_is_one():
    runs = [
        Run(candidates=size, ways=1, front=1, seconds=seconds, cpu_s=0.0, peak_bytes=0)
        for size, seconds in ((10, 1.0), (100, 10.0), (1000, 1000.0))
    ]
    assert scale.exponents(runs) == ["", "1.00", "2.00"]


def test_fleets__quick_is_equal_and_proven(capsys, monkeypatch):
    monkeypatch.setattr(fleets, "GOAL_S", math.inf)
    assert fleets.main(["--quick"]) == 0
    out = capsys.readouterr().out
    assert {"rate", "rate with spare machines", "job with a deadline"} <= {
        line.split("|")[1].strip() for line in out.splitlines() if line.startswith("| ")
    }
    proven = [line.split("|")[4].strip() for line in out.splitlines() if "holds" in line or "no goal" in line]
    assert proven == ["1 of 1"] * len(fleets.LOADS)


def test_fleets__a_dearer_plan_is_found(capsys, monkeypatch):
    real = fleets.planned

    def dearer(given):
        found = real(given)
        return None if found is None else replace(found, usd_per_hour=found.usd_per_hour * 1.001)

    monkeypatch.setattr(fleets, "planned", dearer)
    assert not fleets.small(10)


def test_planned__lets_other_errors_through():
    given = fleet_problems.problem(random.Random(1))
    with pytest.raises(UsageError, match="items_per_s is -1"):
        fleets.planned(replace(given, load=Load(items_per_s=-1.0)))


def test_cheapest__by_hand():
    small, large = fleet_problems.point("small", 1.0, 10.0), fleet_problems.point("large", 3.5, 40.0)
    given = fleet_problems.Problem(points=(small, large), load=Load(items_per_s=50.0), egress={})
    assert fleet_problems.cheapest(given) == 4.5
    limited = replace(given, load=Load(items_per_s=50.0, maximum={"aws/small": 1, "aws/large": 0}))
    assert fleet_problems.cheapest(limited) is None
    job = replace(given, load=Load(items=36_000.0, deadline_s=900.0))
    assert fleet_problems.cheapest(job) == 3.5
    spare = replace(given, load=Load(items_per_s=40.0, spares=1))
    assert fleet_problems.cheapest(spare) == 5.0


def test_all__runs_what_is_not_left_out_and_is_red_where_one_is(capsys, monkeypatch):
    seen = {}

    def table(name, code):
        def main(options):
            seen[name] = options
            return code

        return main

    monkeypatch.setattr(every, "TABLES", {name: table(name, code) for name, code in (("a", 0), ("b", 1), ("c", 0))})
    monkeypatch.setattr(every, "NOT_QUICK", ("c",))
    assert every.main(["--quick"]) == 1
    assert seen == {"a": ["--quick"], "b": ["--quick"]}
    assert every.main(["--skip", "b"]) == 0
    assert seen["c"] == []
    assert "## c" in capsys.readouterr().out
