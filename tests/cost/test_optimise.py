"""The optimum: against a slow second opinion, and case by case."""

from __future__ import annotations

import math
import random
from dataclasses import asdict, replace

import pytest

from perfgate.cost import optimise as module
from perfgate.cost.optimise import machines, optimise
from perfgate.cost.posing import items_per_month
from perfgate.errors import UsageError
from perfgate.records.cost import (
    ANCHORED,
    COST,
    ENERGY,
    ITEMS,
    MEASURED,
    STEPS,
    TIME,
    UTILISATION,
    Requirements,
    Volume,
)
from perfgate.records.hardware import Excluded, Market, PriceTable
from tests.cost.problems import (
    GIB,
    FakeTimes,
    brute,
    changed,
    make_offer,
    make_platform,
    make_way,
    non_dominated,
    random_problem,
)

A, B = make_platform("a"), make_platform("b")
PLATFORMS = {"a": A, "b": B}
# a: 1 ms an item at $1, b: 2 ms at $0.4.
TIMES = {"a": 1e6, "b": 2e6}
MARKET = Market(offers=(make_offer("a", 1.0), make_offer("b", 0.4)))


def solve(*, ways=None, market=MARKET, times=None, platforms=None, sigma=0.0, volume=None, tail=None, **requirements):
    return optimise(
        ways or [make_way()],
        market,
        Requirements(**requirements),
        times or FakeTimes(TIMES, sigma),
        volume=volume,
        platforms=platforms or PLATFORMS,
        tail=tail,
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


# Each requirement alone.


@pytest.mark.parametrize(
    ("requirements", "platforms_left"),
    [
        ({"max_step_ns": 1.5e6}, {"a"}),
        ({"min_throughput": 700.0}, {"a"}),
        ({"job_items": 3.6e6, "deadline_s": 3700.0}, {"a"}),
        ({"max_usd_per_hour": 0.5}, {"b"}),
        ({"max_usd_per_month": 300.0}, {"b"}),  # of 730 hours
        ({"min_utilisation": 0.06}, {"a"}),
        ({"memory_headroom": 0.9}, set()),  # 1.6 GiB free, 2.4 needed with context
        ({"devices": ("a",)}, {"a"}),
    ],
)
def test_optimise__each_requirement_alone(requirements, platforms_left):
    answer = solve(ways=[make_way(1), make_way(1, dtype="float32")], objectives=(COST, TIME), **requirements)

    assert {point.offer.platform for point in answer.front} == platforms_left
    assert answer.excluded


def test_optimise__a_limit_is_held_by_the_upper_end_of_the_interval():
    # https://github.com/mit-han-lab/hardware-aware-transformers/issues/13 (E8): found under a limit of 200 ms by
    # prediction, 270 ms in truth.
    answer = solve(max_step_ns=1.2e6, sigma=0.2)

    assert answer.cheapest is None
    assert any("1 configuration would meet 1.20 ms by the estimate" in text for text in answer.warnings)
    assert solve(max_step_ns=1.2e6).cheapest is not None


def test_optimise__the_winner_under_a_limit_is_to_be_confirmed_unless_measured():
    def measured(way, devices):
        return changed(FakeTimes(TIMES)(way, devices), source=MEASURED)

    modelled, known = solve(max_step_ns=3e6), solve(max_step_ns=3e6, times=measured)

    assert any("confirm the choice by a measurement" in text for text in modelled.warnings)
    assert not any("confirm" in text for text in known.warnings)
    assert known.sources == {MEASURED: 2}


def test_optimise__the_upper_end_is_never_too_low_for_the_truth():
    # E8 as a selection among 200 noisy predictions: what the estimate admits mostly breaks the limit, what the upper
    # end of the interval admits mostly keeps it.
    rng = random.Random(0)
    broken = {True: 0, False: 0}
    for _ in range(100):
        truth = {f"p{number}": rng.uniform(0.6e6, 1.6e6) for number in range(200)}
        guess = {name: ns * math.exp(rng.gauss(0, 0.15)) for name, ns in truth.items()}
        platforms = {name: make_platform(name) for name in truth}
        # The slower the cheaper an item, as it often is: the winner is the one that only just fits.
        market = Market(offers=tuple(make_offer(name, (1e6 / ns) ** 3) for name, ns in truth.items()))
        for upper in (True, False):
            times = FakeTimes(guess, 0.15 if upper else 0.0)
            best = solve(market=market, platforms=platforms, times=times, max_step_ns=1e6).cheapest
            assert best is not None
            broken[upper] += truth[best.offer.platform] > 1e6
    assert broken[False] > 50
    assert broken[True] < broken[False] / 2


def test_optimise__percentiles_come_on_top_of_the_median():
    plain, p99 = solve(max_step_ns=1.1e6), solve(max_step_ns=1.1e6, percentile=0.99)

    assert plain.cheapest is not None
    assert p99.cheapest is None
    assert p99.nearest is not None
    # Log-normal with 5 %: exp(0.05 * 2.326).
    assert p99.nearest.step_ns == pytest.approx(1e6 * math.exp(0.05 * 2.3263478740408408))
    assert any("assumed scatter" in text for text in p99.warnings)


def test_optimise__a_measured_tail_counts_before_the_assumed_one():
    answer = solve(max_step_ns=1.1e6, percentile=0.99, tail=1.05)

    assert answer.cheapest is not None
    assert answer.cheapest.step_ns == pytest.approx(1.05e6)
    # Throughput and money are of the median.
    assert answer.cheapest.items_per_s == pytest.approx(1000)
    assert not any("assumed scatter" in text for text in answer.warnings)


def test_optimise__nothing_feasible_names_the_nearest_miss_with_units():
    # https://github.com/triton-inference-server/perf_analyzer/issues/222 (E31): one vague warning, no row.
    answer = solve(max_step_ns=0.9e6, percentile=0.99, tail=1.1, max_usd_per_hour=0.9)

    assert answer.cheapest is None
    assert answer.feasible == 0
    assert answer.nearest is not None
    # a: 22 % over time, 11 % over the price; b: 144 % over time.
    assert answer.nearest.offer.platform == "a"
    assert [missed.text for missed in answer.missed] == ["p99 1.10 ms > 900 µs", "price an hour $1.00 > $0.90"]
    assert [missed.constraint for missed in answer.missed] == ["step time", "price an hour"]


def test_optimise__an_estimate_that_misses_is_shown_with_its_upper_end():
    answer = solve(max_step_ns=0.9e6, sigma=0.1)

    assert answer.missed[0].text == "step time up to 1.18 ms (estimate 1.00 ms) > 900 µs"


def test_optimise__a_miss_by_less_than_three_digits_is_still_seen():
    assert solve(max_step_ns=0.9999e6, devices=("a",)).missed[0].text == "step time 1.00 ms > 1.00 ms, by 0.01 %"


@pytest.mark.parametrize(("limit", "feasible"), [(1e6, True), (1e3, False), (1e9, True)])
def test_optimise__times_are_nanoseconds_and_not_micro_or_milliseconds(limit, feasible):
    # E31 as well: limits of another unit let everything or nothing through.
    assert (solve(devices=("a",), max_step_ns=limit).cheapest is not None) is feasible


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


def test_optimise__volume_in_steps_is_of_the_first_way():
    assert items_per_month(Volume(amount=10, unit=STEPS), make_way(8)) == 80
    assert items_per_month(Volume(amount=10, unit=ITEMS), make_way(8)) == 10
    assert items_per_month(None, make_way(8)) is None


def test_optimise__a_months_price_is_at_the_volume():
    # b: 1 M items are $0.2222; a: $0.2778.
    kept = solve(volume=Volume(amount=1e6, unit=ITEMS), max_usd_per_month=0.25)

    assert [point.offer.platform for point in kept.front] == ["b"]
    assert solve(volume=Volume(amount=2e6, unit=ITEMS), max_usd_per_month=0.25).cheapest is None
    assert not any("no volume" in text for text in kept.warnings)
    assert any("no volume" in text for text in solve(max_usd_per_month=1000.0).warnings)


def test_optimise__counts_every_offer_that_a_price_removes():
    offers = tuple(make_offer("a", price, instance=f"i{price}") for price in (1.0, 2.0, 3.0))

    answer = solve(market=Market(offers=offers), max_usd_per_hour=2.5)

    assert (answer.candidates, answer.feasible) == (3, 2)
    assert Excluded(what="configurations", reason="price an hour above $2.50", count=1) in answer.excluded


def test_optimise__an_unknown_dtype_is_left_out_and_said():
    times = FakeTimes(TIMES, dtypes={"a": ("float32",)})

    answer = solve(ways=[make_way(), make_way(dtype="float32")], times=times)

    assert {(point.offer.platform, point.dtype) for point in answer.front} <= {("b", "float16"), ("a", "float32")}
    reasons = {one.reason: one.count for one in answer.excluded}
    assert reasons["float16: no rate or no step time is known for a"] == 1


def test_optimise__no_platform_can_run_it():
    answer = solve(times=FakeTimes({"a": None, "b": None}))

    assert (answer.candidates, answer.feasible, answer.nearest) == (2, 0, None)
    assert any("nearest miss" in text for text in answer.warnings)
    assert answer.sources == {}


def test_optimise__an_empty_market_is_an_answer():
    answer = solve(market=Market(offers=(), warnings=("prices are old",)))

    assert (answer.candidates, answer.feasible, answer.cheapest, answer.nearest) == (0, 0, None, None)
    assert "prices are old" in answer.warnings
    assert any("no offers at all" in text for text in answer.warnings)


def test_optimise__no_way_is_an_error():
    with pytest.raises(UsageError, match="at least one counted way"):
        optimise([], MARKET, Requirements(), FakeTimes(TIMES), platforms=PLATFORMS)


@pytest.mark.parametrize("volume", [Volume(amount=0), Volume(amount=math.nan), Volume(amount=1, unit="epochs")])
def test_optimise__a_volume_that_is_none_is_an_error(volume):
    with pytest.raises(UsageError, match="a month is none"):
        solve(volume=volume)


@pytest.mark.parametrize("ns", [0.0, -1.0, math.nan, math.inf])
def test_optimise__times_that_are_none_are_an_error(ns):
    def wrong(way, devices):
        return changed(FakeTimes(TIMES)(way, devices), ns=ns)

    with pytest.raises(UsageError, match="is none"):
        solve(times=wrong)


def test_optimise__memory_of_the_offer_decides():
    small = Market(offers=(make_offer("a", 1.0, memory_bytes=GIB),))

    answer = solve(market=small)

    assert answer.cheapest is None
    # 1 GB and 0.11 GB, with 640 MiB of context and workspace.
    assert answer.missed[0].text == "memory 1.66 GiB > 922 MiB"
    gone = Excluded(what="configurations", reason="needs more memory than a device has free", count=1)
    assert gone in answer.excluded


def test_optimise__unknown_memory_is_left_out_unless_little_is_needed():
    unknown = {"a": make_platform("a", memory_bytes=None)}
    market = Market(offers=(make_offer("a", 1.0),))
    tiny = make_way()
    tiny = replace(tiny, totals=replace(tiny.totals, weight_bytes=10**6, peak_activation_bytes=10**6))

    large, small = solve(market=market, platforms=unknown), solve(market=market, platforms=unknown, ways=[tiny])

    assert large.cheapest is None
    assert any("memory is not known of a" in one.reason for one in large.excluded)
    assert small.cheapest is not None
    assert small.cheapest.free_bytes is None
    assert any("memory is not known of a" in text for text in small.warnings)


def test_optimise__energy_without_power_is_left_out_only_where_it_counts():
    platforms = {"a": make_platform("a", power_w=None), "b": B}

    asked = solve(platforms=platforms, objectives=(ENERGY,))
    not_asked = solve(platforms=platforms, objectives=(TIME,))

    assert [point.offer.platform for point in asked.front] == ["b"]
    assert any("no power is known for a" in one.reason for one in asked.excluded)
    assert [point.offer.platform for point in not_asked.front] == ["a"]
    assert not_asked.front[0].energy_j_per_item is None


def test_optimise__forms_without_a_link_rate_are_left_out_and_said():
    market = Market(offers=(make_offer("a", 4.0, count=4),))

    reasons = {one.reason: one.count for one in solve(market=market).excluded}

    # Two and four devices each.
    assert reasons["tensor: no link rate is known for a"] == 2
    assert reasons["pipeline: no link rate is known for a"] == 2
    assert "data: no link rate is known for a" not in reasons


def test_optimise__training_replicas_need_a_link_too():
    market = Market(offers=(make_offer("a", 4.0, count=4),))

    reasons = {one.reason for one in solve(market=market, ways=[make_way(4, mode="train")]).excluded}

    assert "data: no link rate is known for a" in reasons


def test_optimise__splitting_a_large_model_makes_it_fit():
    linked = {"a": make_platform("a", link_bytes_per_s=3e11)}
    market = Market(offers=(make_offer("a", 4.0, count=4),))
    way = make_way()
    large = replace(way, totals=replace(way.totals, weight_bytes=30 * GIB))

    answer = solve(market=market, platforms=linked, ways=[large])

    assert {point.form for point in answer.front} <= {"tensor", "pipeline"}
    assert answer.cheapest is not None
    assert answer.cheapest.devices == 4
    assert answer.cheapest.memory_bytes < 16 * GIB


def test_optimise__tensor_parallelism_shortens_a_step():
    linked = {"a": make_platform("a", link_bytes_per_s=3e11)}
    market = Market(offers=(make_offer("a", 4.0, count=4),))

    times = {
        form: solve(market=market, platforms=linked, objectives=(TIME,), forms=(form,)).front[0].step_ns
        for form in ("single", "data", "tensor", "pipeline")
    }

    assert times["tensor"] < times["single"] == times["data"] < times["pipeline"]


def test_optimise__what_is_measured_is_not_measured_in_another_form():
    def measured(way, devices):
        return changed(FakeTimes({"a": 1e6})(way, devices), source=MEASURED)

    market = Market(offers=(make_offer("a", 4.0, count=4),))

    answer = solve(market=market, times=measured, forms=("single", "data"))

    assert answer.sources == {MEASURED: 1, ANCHORED: 1}


def test_optimise__forms_that_no_machine_can_have_are_said():
    answer = solve(forms=("tensor",))

    assert answer.candidates == 0
    assert any("parallel forms" in text for text in answer.warnings)


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
