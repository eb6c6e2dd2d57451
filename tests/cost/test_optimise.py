"""The optimum: against a slow second opinion, and case by case."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest

from perfgate.cost import optimise as module
from perfgate.cost.optimise import machines, optimise
from perfgate.errors import UsageError
from perfgate.records.cost import (
    COST,
    ENERGY,
    TIME,
    UTILISATION,
    Requirements,
)
from perfgate.records.hardware import Excluded, Market, PriceTable
from tests.cost.problems import (
    GIB,
    MARKET,
    PLATFORMS,
    TIMES,
    FakeTimes,
    brute,
    make_offer,
    make_platform,
    make_way,
    non_dominated,
    random_problem,
    solve,
)


def rounded(value: float | None) -> int:
    """Eleven digits of a logarithm apart, so that equal figures from another order of factors are equal."""
    assert value
    return round(math.log(abs(value)) * 1e8)


@pytest.mark.parametrize("seed", range(250))
def test_optimise__equals_brute_force(seed):
    ways, market, requirements, times, platforms = random_problem(seed)

    answer = optimise(ways, market, requirements, times, platforms=platforms)

    feasible = [one for one in brute(ways, market, requirements, times, platforms) if one.feasible]
    signs = {UTILISATION: -1}
    expected = non_dominated(
        [tuple(signs.get(name, 1) * rounded(one.values[name]) for name in requirements.objectives) for one in feasible]
    )
    found = [
        tuple(
            signs.get(name, 1)
            * rounded(
                {
                    COST: point.usd_per_1m_items / 1e6,
                    UTILISATION: point.utilisation,
                    TIME: point.step_ns,
                    ENERGY: point.energy_j_per_item,
                }[name]
            )
            for name in requirements.objectives
        )
        for point in answer.front
    ]
    assert sorted(found) == sorted(expected)
    assert answer.feasible == len(feasible)
    left_out = sum(one.count for one in answer.excluded if one.what == "configurations")
    assert answer.candidates == answer.feasible + left_out
    if feasible:
        assert answer.cheapest is not None
        least = min(one.values[COST] for one in feasible)
        assert answer.cheapest.usd_per_1m_items == pytest.approx(1e6 * least)
        assert sum(point.knee for point in answer.front) == 1
    else:
        assert answer.cheapest is None
        assert answer.front == ()


def test_optimise__money_and_utilisation_by_hand():
    answer = solve()

    best = answer.cheapest
    assert best is not None
    assert best.offer.platform == "b"
    # $0.4 an hour, 2 ms an item: 500 items a second.
    assert best.items_per_s == pytest.approx(500)
    assert best.usd_per_1m_items == pytest.approx(0.4 / 3600 / 500 * 1e6)
    assert best.usd_per_1k_steps == pytest.approx(0.4 / 3600 / 500 * 1e3)
    # 10 GFLOP in 2 ms of 100 TFLOP/s.
    assert best.utilisation == pytest.approx(0.05)
    assert best.energy_j_per_item == pytest.approx(100 / 500)
    assert [point.offer.platform for point in answer.front] == ["b", "a"]
    assert answer.front[0] == best


def test_optimise__a_step_has_the_batch_of_its_way():
    best = solve(ways=[make_way(8)]).cheapest

    assert best is not None
    assert best.usd_per_1k_steps == pytest.approx(8 * best.usd_per_1m_items / 1e3)
    assert best.items_per_s == pytest.approx(500)


def test_optimise__idle_devices_are_paid_for():
    market = Market(offers=(make_offer("a", 4.0, count=4),))

    alone = solve(market=market, forms=("single",)).cheapest
    every = solve(market=market, forms=("data",)).cheapest

    assert alone is not None
    assert every is not None
    assert (alone.devices, every.devices) == (1, 4)
    assert alone.utilisation == pytest.approx(0.1 / 4)
    assert every.utilisation == pytest.approx(0.1)
    assert alone.usd_per_1m_items == pytest.approx(4 * every.usd_per_1m_items)
    assert "3 of 4 devices idle" in alone.why


def test_optimise__a_share_of_a_device_is_slower_and_smaller():
    market = Market(offers=(make_offer("a", 0.5, share=0.5, memory_bytes=4 * GIB),))

    best = solve(market=market).cheapest

    assert best is not None
    assert best.step_ns == pytest.approx(2e6)
    assert best.free_bytes == int(4 * GIB * 0.9)
    # P / pi of what is paid for: half of the device at half of the speed.
    assert best.utilisation == pytest.approx(0.1)


def test_optimise__step_time_without_a_floor_of_throughput_is_trivial():
    # E31 as well: "lowest latency" always picked concurrency 1.
    ways = [make_way(1), make_way(8)]

    def trivial(**requirements) -> bool:
        answer = solve(ways=ways, objectives=(COST, TIME), **requirements)
        return any("smallest batch (1) wins it" in text for text in answer.warnings)

    assert trivial()
    assert not trivial(min_throughput=100.0)
    assert not any("smallest batch" in text for text in solve(objectives=(COST, TIME)).warnings)


@pytest.mark.parametrize(("price", "wins"), [(0.0, False), (math.nan, False), (0.004, True)])
def test_optimise__a_small_price_wins_and_none_does_not(price, wins):
    # https://github.com/skypilot-org/skypilot/issues/2496 (E25)
    best = solve(market=Market(offers=(*MARKET.offers, make_offer("a", price, instance="odd")))).cheapest

    assert best is not None
    assert (best.offer.instance == "odd") is wins
    assert best.usd_per_1m_items > 0


def test_optimise__an_empty_market_is_an_answer():
    answer = solve(market=Market(offers=(), warnings=("prices are old",)))

    assert (answer.candidates, answer.feasible, answer.cheapest, answer.nearest) == (0, 0, None, None)
    assert "prices are old" in answer.warnings
    assert any("no offers at all" in text for text in answer.warnings)


def test_optimise__no_way_is_an_error():
    with pytest.raises(UsageError, match="at least one counted way"):
        optimise([], MARKET, Requirements(), FakeTimes(TIMES), platforms=PLATFORMS)


def test_optimise__one_call_for_each_way_and_device_and_no_more():
    offers = tuple(make_offer("a", 1.0 + n / 100, instance=f"i{n}", region=f"r{n}") for n in range(50))
    times = FakeTimes(TIMES)

    solve(market=Market(offers=(*offers, make_offer("b", 1.0))), ways=[make_way(1), make_way(2)], times=times)

    assert [names for _, names in times.calls] == [("a", "b"), ("a", "b")]


def test_optimise__equal_offers_are_one_recommendation_whatever_their_order():
    offers = [make_offer("a", 1.0, region=region, provider=provider) for region in "xyz" for provider in "pq"]

    answers = [solve(market=Market(offers=tuple(order))) for order in (offers, offers[::-1])]

    assert answers[0] == answers[1]
    assert answers[0].cheapest is not None
    assert (answers[0].cheapest.offer.provider, answers[0].cheapest.offer.region) == ("p", "x")
    assert len(answers[0].front) == 1
    assert answers[0].tied == ()


def test_optimise__a_long_front_is_thinned_out_and_said(monkeypatch):
    monkeypatch.setattr(module, "MOST_POINTS", 5)
    names = [f"p{number:02}" for number in range(20)]
    platforms = {name: make_platform(name) for name in names}
    # Ever slower and cheaper.
    times = FakeTimes({name: 1e6 * 1.1**number for number, name in enumerate(names)})
    market = Market(offers=tuple(make_offer(name, 0.8**number) for number, name in enumerate(names)))

    answer = solve(market=market, platforms=platforms, times=times, objectives=(COST, TIME))

    assert len(answer.front) <= 5
    assert "the front has 20 points, of which 5 are shown" in answer.warnings
    assert answer.front[0] == answer.cheapest
    assert answer.front[-1].offer.platform == "p00"
    assert sum(point.knee for point in answer.front) == 1


def test_optimise__passes_on_what_the_market_says():
    table = PriceTable(provider="cloud", date="2026-01-01", source="list", offers=2)
    note = Excluded(what="offers", reason="implausible", count=3)

    answer = solve(market=replace(MARKET, tables=(table,), excluded=(note,), warnings=("old",)))

    assert answer.tables == (table,)
    assert note in answer.excluded
    assert answer.warnings[0] == "old"


def test_optimise__no_number_is_not_one():
    ways = [replace(make_way(), totals=replace(make_way().totals, flop=0, eager_kernels=()))]
    answer = solve(ways=ways, objectives=(COST, UTILISATION, TIME, ENERGY))

    assert answer.front
    for point in answer.front:
        numbers = [value for value in asdict(point).values() if isinstance(value, float)]
        assert all(math.isfinite(value) for value in numbers)


# What a fleet can be made of.


def fleet_of(offers, *, ways=(1, 8), **requirements):
    return machines(
        [make_way(batch) for batch in ways],
        Market(offers=tuple(offers)),
        Requirements(**requirements),
        FakeTimes(TIMES, 0.1),
        platforms=PLATFORMS,
    )


def test_machines__every_offer_with_its_fastest_configuration():
    offers = [
        make_offer("a", 1.0),
        make_offer("a", 0.9, region="r2"),
        make_offer("a", 4.0, count=4),
        make_offer("b", 1.0),
    ]

    found = fleet_of(offers)

    assert {point.offer for point in found} == set(offers)
    by_offer = {point.offer: point for point in found}
    assert by_offer[offers[2]].form == "data"
    assert by_offer[offers[2]].items_per_s == pytest.approx(4000)
    assert by_offer[offers[0]].items_per_s == by_offer[offers[1]].items_per_s == pytest.approx(1000)
    assert by_offer[offers[0]].usd_per_1m_items == pytest.approx(1.0 / 3600 / 1000 * 1e6)
    costs = [point.usd_per_1m_items for point in found]
    assert costs == sorted(costs)


def test_machines__each_meets_the_requirements_by_itself():
    offers = [make_offer("a", 1.0), make_offer("a", 3.0, region="r2"), make_offer("b", 0.5)]

    # A batch of 8 is too slow, and so is b; the upper end of the interval counts.
    found = fleet_of(offers, max_step_ns=1.5e6, max_usd_per_hour=2.0)

    assert [(point.offer, point.batch) for point in found] == [(offers[0], 1)]


def test_machines__of_nothing_are_none():
    assert fleet_of([]) == ()
    assert fleet_of([make_offer("a", 1.0)], max_step_ns=1.0) == ()


def test_optimise__numbers_that_overflow_are_left_out_without_a_warning_of_numpy():
    # pytest turns a RuntimeWarning into an error. Prices and times of a few hundred orders of magnitude.
    offers = (make_offer("a", 1e308), make_offer("b", 1e308, count=8), make_offer("c", 1.0))
    times = FakeTimes({"a": 1e-305, "b": 1e290, "c": 1e6})
    platforms = {"a": make_platform("a"), "b": make_platform("b", link_bytes_per_s=1e9), "c": make_platform("c")}
    answer = optimise((make_way(1, mode="train"),), Market(offers=offers), Requirements(), times, platforms=platforms)
    assert answer.candidates == answer.feasible + sum(item.count for item in answer.excluded)
    for point in answer.front:
        assert math.isfinite(point.usd_per_1m_items)
        assert math.isfinite(point.utilisation)
