"""The machine for a job: against exhaustive search, and case by case."""

import math
import random
from datetime import date

import pytest

from benchmarks.estimator.allocation import BOTH_NONE, SAME_CHOICE, TIE, compare, known_names, middling
from perfgate.cost.allocate import allocate
from perfgate.cost.times import RooflineTimes
from perfgate.errors import UsageError
from perfgate.hardware import catalogue, offers
from perfgate.records.allocation import CHEAPEST, CHOICES, SMALLEST
from perfgate.records.cost import Prices, Requirements
from perfgate.records.estimate import Job
from perfgate.records.hardware import CPU, Market
from tests.cost.exhaustive import Exhaustive, random_job, random_requirements, random_ways
from tests.cost.problems import GIB, FakeTimes, make_offer, make_platform, make_time, make_way

PLATFORMS = {
    "slow": make_platform("slow", memory_bytes=16 * GIB),
    "fast": make_platform("fast", memory_bytes=40 * GIB, peak_flop_per_s={"float16": 300e12, "float32": 50e12}),
}
# 10 ms and 2 ms an item of the way below.
TIMES = FakeTimes({"slow": 10e6, "fast": 2e6})
MARKET = Market(offers=(make_offer("slow", 1.0), make_offer("fast", 4.0)))
# Here the fast machine is dearer also by the item.
DEAR = Market(offers=(make_offer("slow", 1.0), make_offer("fast", 8.0)))
SINGLE = Requirements(forms=("single",))


def found(job, *, market=MARKET, times=TIMES, requirements=SINGLE, ways=None, **options):
    """An allocation of the small problem above."""
    ways = [make_way(1)] if ways is None else ways
    return allocate(ways, market, requirements, job, times, platforms=PLATFORMS, **options)


def platform(allocation):
    return allocation.chosen.point.offer.platform


def test_allocate__chooses_what_exhaustive_search_chooses():
    platforms = catalogue.platforms()
    everything = offers.market(Prices(max_age_days=10_000), today=date(2026, 10, 1)).offers
    rng = random.Random(1)
    times = RooflineTimes()
    second = Exhaustive(times, platforms)
    models = [random_ways(rng) for _ in range(10)]
    results = []
    for number in range(100):
        market = Market(offers=tuple(rng.sample(everything, 200)))
        ways, choice = models[number % len(models)], CHOICES[number % 2]
        step_ns, rate = middling(times, ways[-1], platforms)
        job, wanted = random_job(rng, rate), known_names(random_requirements(rng, step_ns), market)
        allocation = allocate(ways, market, wanted, job, times, choice=choice, platforms=platforms)
        results.append(compare(allocation, list(second.search(ways, market, wanted, job, choice))))
    assert set(results) <= {SAME_CHOICE, TIE, BOTH_NONE}
    # Not by finding nothing.
    assert results.count(SAME_CHOICE) > 50


def test_cheapest__is_the_job_and_not_the_hour():
    # 1e6 items: 10 000 s at $1 an hour are $2.78, 2 000 s at $4 an hour are $2.22.
    job = Job(items=1e6, start_up_s=0.0)
    allocation = found(job)
    assert platform(allocation) == "fast"
    assert allocation.chosen.usd == pytest.approx(4 * 2000 / 3600)
    assert [one.point.offer.platform for one in allocation.alternatives] == ["slow"]
    # Of a job of one item next to nothing but the start-up is paid for.
    assert platform(found(Job(items=1.0, start_up_s=300.0))) == "slow"


def test_cheapest__without_an_end_is_the_hour_and_not_the_item():
    # At full load an item costs less on the fast machine; nobody asks for so many.
    assert platform(found(Job(items_per_s=90.0))) == "slow"
    assert platform(found(Job(items_per_s=110.0))) == "fast"


def test_smallest__is_least_memory_then_peak_then_price():
    job = Job(items=1e6, start_up_s=0.0)
    assert platform(found(job, choice=SMALLEST)) == "slow"
    market = Market(offers=(make_offer("slow", 1.0, instance="a", count=2), make_offer("slow", 2.0, instance="b")))
    assert found(job, market=market, choice=SMALLEST).chosen.point.offer.instance == "b"
    strong = {**PLATFORMS, "strong": make_platform("strong", peak_flop_per_s={"float16": 200e12})}
    market = Market(offers=(make_offer("strong", 0.1), make_offer("slow", 1.0)))
    times = FakeTimes({"slow": 10e6, "strong": 5e6})
    allocation = allocate([make_way(1)], market, SINGLE, job, times, choice=SMALLEST, platforms=strong)
    assert allocation.chosen is not None
    assert allocation.chosen.point.offer.platform == "slow"
    assert allocation.chosen.peak_flop_per_s == 100e12
    assert allocation.chosen.memory_bytes == 16 * GIB


def test_confidence__the_upper_end_has_to_meet_the_deadline():
    # The spread of the time's logarithm is 0.2: at 90 % its upper end is 1.39 times the estimate, at 50 % 1.14 times.
    times = FakeTimes({"slow": 10e6, "fast": 2e6}, sigma=0.2)
    job = {"items": 1e5, "start_up_s": 0.0}
    assert platform(found(Job(**job, deadline_s=1400, confidence=0.9), times=times, market=DEAR)) == "slow"
    assert platform(found(Job(**job, deadline_s=1380, confidence=0.9), times=times, market=DEAR)) == "fast"
    assert platform(found(Job(**job, deadline_s=1380, confidence=0.5), times=times, market=DEAR)) == "slow"
    chosen = found(Job(**job, deadline_s=1380, confidence=0.5), times=times, market=DEAR).chosen
    assert chosen.slow_job_s == pytest.approx(1000 * math.exp(0.6744897501960817 * 0.2))
    assert chosen.point.high_ns == pytest.approx(10e6 * math.exp(0.6744897501960817 * 0.2))
    assert chosen.job_s == pytest.approx(1000)


def test_confidence__of_an_interval_that_is_not_symmetric_goes_by_its_own_ends():
    class Skewed(FakeTimes):
        def _one(self, way, device):
            return make_time(10e6, low_ns=9e6, high_ns=20e6)

    high = found(Job(confidence=0.9), times=Skewed({})).chosen.point.high_ns
    assert high == pytest.approx(20e6)
    wide = found(Job(confidence=0.99), times=Skewed({})).chosen.point
    assert wide.high_ns == pytest.approx(10e6 * 2 ** (2.5758293035489004 / 1.6448536269514722))
    assert wide.low_ns == pytest.approx(10e6 * 0.9 ** (2.5758293035489004 / 1.6448536269514722))


def test_deadline__has_the_start_up_in_it():
    job = {"items": 1e5, "deadline_s": 1100.0}
    assert platform(found(Job(**job, start_up_s=90.0), market=DEAR)) == "slow"
    assert platform(found(Job(**job, start_up_s=110.0), market=DEAR)) == "fast"


def test_budget__is_of_the_whole_job_at_the_unfavourable_end():
    times = FakeTimes({"slow": 10e6, "fast": 2e6}, sigma=0.2)
    market = Market(offers=(make_offer("slow", 1.0),))
    worst = (100 + 1000 * math.exp(1.6448536269514722 * 0.2)) / 3600
    job = {"items": 1e5, "start_up_s": 100.0}
    assert found(Job(**job, budget_usd=worst * 1.001), market=market, times=times).chosen.slow_usd == pytest.approx(
        worst
    )
    allocation = found(Job(**job, budget_usd=worst * 0.999), market=market, times=times)
    assert allocation.chosen is None
    assert [missed.constraint for missed in allocation.missed] == ["budget"]
    assert "price of the job up to $0.41" in allocation.missed[0].text
    # More machines of the kind cost more: no fleet would help.
    assert not allocation.several


def test_job__takes_whole_steps_and_every_epoch_ends_with_one():
    # 100 items in batches of 64 are two steps; two and a half epochs five.
    way = make_way(64)
    times = FakeTimes({"slow": 10e6, "fast": 2e6})
    step_s = 0.64
    market = Market(offers=(make_offer("slow", 1.0),))
    for job, steps in (
        (Job(items=100, start_up_s=0), 2),
        (Job(dataset_items=100, start_up_s=0), 2),
        (Job(dataset_items=100, epochs=2.5, start_up_s=0), 2 + 2 + 1),
        (Job(dataset_items=128, epochs=3, start_up_s=7), 6),
    ):
        allocation = found(job, ways=[way], times=times, market=market)
        assert allocation.chosen.job_s == pytest.approx(steps * step_s + job.start_up_s)


def test_replicas__share_a_pass():
    market = Market(offers=(make_offer("slow", 1.0, count=4),))
    allocation = found(Job(items=400, start_up_s=0), market=market, requirements=Requirements(forms=("data",)))
    assert allocation.chosen.job_s == pytest.approx(1.0)
    assert allocation.chosen.point.devices == 4


def test_infeasible__names_the_nearest_miss_and_that_several_machines_might_do():
    allocation = found(Job(items_per_s=1000.0))
    assert allocation.chosen is None
    assert allocation.feasible == 0
    assert allocation.nearest.point.offer.platform == "fast"
    assert [missed.constraint for missed in allocation.missed] == ["throughput"]
    assert allocation.several
    # What does not fit into any memory does not fit into two.
    big = make_way(1000)
    assert not found(Job(items_per_s=1000.0), ways=[big]).several


def test_feasible_and_left_out_add_up_to_all_offers():
    slow = [make_offer("slow", 1.0 + number, instance=f"i{number}") for number in range(5)]
    market = Market(offers=(*slow, make_offer("fast", 4.0)))
    # 1 000 s and 200 s: $0.28 to $1.39, and $0.22.
    allocation = found(Job(items=1e5, budget_usd=0.6, start_up_s=0.0), market=market)
    assert allocation.candidates == 6
    assert allocation.feasible == 3
    assert sum(one.count for one in allocation.excluded) == 3
    assert "price of the job above $0.60" in [one.reason for one in allocation.excluded]


def test_ties__are_marked_where_times_decide_and_nowhere_else():
    times = FakeTimes({"slow": 10e6, "fast": 2.6e6}, sigma=0.3)
    allocation = found(Job(items=1e6, start_up_s=0.0), times=times)
    assert (allocation.chosen.point.tie, allocation.alternatives[0].point.tie) == (1, 1)
    # What an hour costs is known.
    allocation = found(Job(items_per_s=10.0), times=times)
    assert (allocation.chosen.point.tie, allocation.alternatives[0].point.tie) == (0, 0)


def test_availability__unavailable_offers_are_not_chosen():
    job = Job(items=1e6, start_up_s=0.0)
    assert platform(found(job, requirements=Requirements(unavailable=("cloud/fast.x",)))) == "slow"


def test_notes__say_what_a_reader_should_know_of_the_choice():
    idle = found(Job(items=400), market=Market(offers=(make_offer("slow", 1.0, count=4),)))
    assert "3 of the machine's 4 devices stay idle and are paid for" in idle.warnings
    job = Job(items=1e5, deadline_s=1e6)
    assert any("modelled, not measured" in warning for warning in found(job).warnings)
    spot = Market(offers=(make_offer("slow", 1.0, terms="spot"),))
    wanted = Requirements(forms=("single",), terms=("spot",))
    assert any("may be taken away" in warning for warning in found(job, market=spot, requirements=wanted).warnings)
    assert not any("may be taken away" in warning for warning in found(job).warnings)


def test_allocate__numbers_that_overflow_are_left_out_without_a_warning_of_numpy():
    # pytest turns a RuntimeWarning into an error. Prices and times of a few hundred orders of magnitude.
    market = Market(offers=(make_offer("slow", 1e308, count=8), make_offer("fast", 4.0), make_offer("fast", 1e308)))
    times = FakeTimes({"slow": 1e290, "fast": 2e6}, sigma=0.5)
    for job in (Job(items=1e6, confidence=0.999999), Job(items_per_s=1.0), Job(items=1e300, budget_usd=1e300)):
        allocation = found(job, market=market, times=times, requirements=Requirements())
        assert allocation.candidates == allocation.feasible + sum(one.count for one in allocation.excluded)
        for one in (allocation.chosen, *allocation.alternatives):
            assert one is None or math.isfinite(one.point.usd_per_1m_items)


def test_host_memory__holds_a_process_a_replica_and_of_a_processor_the_step():
    market = Market(offers=(make_offer("slow", 1.0, count=4, ram_bytes=16 * GIB),))
    data = found(Job(items=400), market=market, requirements=Requirements(forms=("data",))).chosen
    # Four processes want 4 GiB and the weights each: more than the machine has.
    assert data.host_bytes == math.ceil(0.9 * 16 * GIB)
    one = found(Job(items=400)).chosen
    assert one.host_bytes == 4 * GIB + 10**9
    cpus = {"cpu": make_platform("cpu", kind=CPU, memory_bytes=None, cores=8)}
    market = Market(offers=(make_offer("cpu", 0.1, ram_bytes=64 * GIB),))
    allocation = allocate(
        [make_way(1)], market, Requirements(memory_headroom=0.2), Job(), FakeTimes({"cpu": 1e9}), platforms=cpus
    )
    assert allocation.chosen is not None
    assert allocation.chosen.host_bytes == math.ceil(allocation.chosen.point.memory_bytes / 0.8)
    assert allocation.chosen.memory_bytes == 64 * GIB


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(items=0.0), "items of the job is 0.0"),
        (Job(items=math.nan), "items of the job is nan"),
        (Job(items=1, dataset_items=1), "leave items or dataset_items out"),
        (Job(epochs=3), "give dataset_items as well"),
        (Job(items=1, items_per_s=1), "leave one of them out"),
        (Job(items_per_s=1, budget_usd=1), "price an hour or a month instead"),
        (Job(deadline_s=1000), "give items, or dataset_items and epochs"),
        (Job(items=1, deadline_s=300), "start-up of 300 s"),
        (Job(confidence=1.0), "as in 90%"),
        (Job(start_up_s=-1.0), "at least 0 s"),
    ],
)
def test_job__that_makes_no_sense_is_one_sentence(job, words):
    with pytest.raises(UsageError, match=words):
        found(job)


def test_allocate__refuses_another_choice_and_a_job_given_twice():
    with pytest.raises(UsageError, match="cheapest, smallest"):
        found(Job(), choice="best")
    with pytest.raises(UsageError, match="given twice"):
        found(Job(items=1), requirements=Requirements(job_items=1.0, deadline_s=2.0))


def test_allocate__nothing_on_offer_says_so():
    allocation = found(Job(items=1), market=Market(offers=()))
    assert (allocation.candidates, allocation.chosen, allocation.nearest) == (0, None, None)
    assert any("no offers at all" in warning for warning in allocation.warnings)


def test_allocate__rate_of_the_requirements_counts_too():
    wanted = Requirements(forms=("single",), min_throughput=200.0)
    assert platform(found(Job(items_per_s=50.0), requirements=wanted)) == "fast"


def test_choice__default_is_the_cheapest():
    assert found(Job(items=1e6)).choice == CHEAPEST
