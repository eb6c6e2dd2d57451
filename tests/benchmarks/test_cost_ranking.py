"""Decisions, scores and choosers of the ranking check, on made-up devices and times."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchmarks.cost import calibration, cases, choosers, observations, public, ranking, ranking_tables, scores
from benchmarks.cost.choosers import Choice
from benchmarks.cost.observations import Observed
from benchmarks.cost.ranking_tables import Method, Table
from benchmarks.cost.scores import Score
from perfgate.hardware import catalogue
from perfgate.records.cost import Device
from perfgate.records.graph import KernelGroup, Totals, Traffic
from perfgate.records.hardware import Offer
from perfgate.roofline import calibration as calibrations

FLOP = 10**12


def observed(name: str, platform: str, seconds: float, *, batch: int = 8, flop: int = FLOP) -> Observed:
    kernel = KernelGroup(name="fc", kind="matmul", dtype="float32", flop=flop, bytes=10**6)
    totals = Totals(
        source="meta",
        flop=flop,
        params=1,
        weight_bytes=4,
        traffic=Traffic(eager=10**6, fused=10**6, min=10**6),
        kernels=1,
        fingerprint=name,
        eager_kernels=(kernel,),
        fused_kernels=(kernel,),
        batch=batch,
        peak_activation_bytes=0,
    )
    return Observed(
        name=name,
        source="neusight",
        group=name,
        platform=platform,
        dtype="float32",
        kernels=(kernel,),
        seconds=seconds,
        batch=batch,
        totals=totals,
    )


@pytest.fixture
def two() -> list[Observed]:
    """V100 twice as fast as T4 on one model."""
    return [observed("m", "t4", 0.4), observed("m", "v100-pcie-32gb", 0.2)]


def market(t4: float, v100: float) -> dict[str, Offer]:
    return {"t4": cases.offer("t4", t4), "v100-pcie-32gb": cases.offer("v100-pcie-32gb", v100)}


def test_cases__best_is_the_cheapest_that_truly_meets_the_limit(two):
    found = cases.cases(two, market(1.0, 3.0))
    unlimited = next(case for case in found if case.limit_s is None)
    assert unlimited.best == "t4"  # 0.4 s x 1 $ against 0.2 s x 3 $
    tight = replace(unlimited, limit_s=0.3)
    assert tight.best == "v100-pcie-32gb"
    assert unlimited.truths["t4"].usd_per_item == pytest.approx(0.4 / 3600 / 8)


def test_cases__limits_lie_between_true_times_and_one_that_nobody_meets_is_no_decision(two):
    found = cases.cases(two, market(1.0, 3.0))
    limits = {case.limit_s for case in found}
    assert None in limits
    assert all(0.2 < limit < 0.4 for limit in limits if limit is not None)
    assert all(case.best is not None for case in found)


def test_cases__a_limit_for_an_item_counts_batches():
    rows = [observed("m", "t4", 1.0, batch=100), observed("m", "v100-pcie-32gb", 0.1, batch=1)]
    case = next(one for one in cases.cases(rows, market(1.0, 1.0), per_item=True) if one.limit_s is not None)
    assert case.feasible("t4")
    assert not case.feasible("v100-pcie-32gb")


def test_even_prices__make_platforms_cost_the_same_on_average():
    rows = [
        observed("a", "t4", 0.4),
        observed("a", "v100-pcie-32gb", 0.1),
        observed("b", "t4", 0.4),
        observed("b", "v100-pcie-32gb", 0.2),
    ]
    even = cases.even_prices(rows)
    ratio = even["v100-pcie-32gb"] / even["t4"]
    assert ratio == pytest.approx(8**0.5)  # geometric mean of 4 and 2


def test_drawn_offers__stay_within_the_factor():
    even = {"t4": 1.0, "v100-pcie-32gb": 3.0}
    rng = random.Random(0)
    drawn = [cases.drawn_offers(even, rng, 2.0) for _ in range(50)]
    assert all(0.5 <= one["t4"].usd_per_hour <= 2.0 for one in drawn)
    assert len({one["t4"].usd_per_hour for one in drawn}) == 50


def test_score__counts_right_broken_refused_and_regret(two):
    free = next(case for case in cases.cases(two, market(1.0, 3.0)) if case.limit_s is None)
    tight = replace(free, limit_s=0.3)
    given = [
        (free, Choice(platform="t4")),  # right
        (free, Choice(platform="v100-pcie-32gb", ties=("t4",))),  # 0.6 for 0.4: regret 0.5, but tied
        (tight, Choice(platform="t4")),  # breaks the limit: paid for nothing, 0.4 for 0.6
        (tight, Choice(platform="v100-pcie-32gb", feasible=False)),  # the nearest miss is the best, yet refused
    ]
    found = scores.score([case for case, _ in given], [choice for _, choice in given])
    assert found.right == pytest.approx(0.25)
    assert found.right_or_tied == pytest.approx(0.5)
    assert found.broken == pytest.approx(0.25)
    assert found.refused == pytest.approx(0.25)
    assert found.regret == pytest.approx((0 + 0.5 + 0.4 / 0.6 + 0) / 4)


def test_choosers__price_alone_and_price_per_flop_choose_by_what_they_say(two):
    case = next(one for one in cases.cases(two, market(1.0, 1.2)) if one.limit_s is None)
    assert choosers.by_price(case).platform == "t4"
    # V100: 14 TFLOPS for 1.2, T4: 8.1 for 1.
    chosen = choosers.by_times(lambda _: choosers.PerFlopTimes())(case)
    assert chosen.platform == "v100-pcie-32gb"


def test_choosers__anchored_follows_the_measured_time(two):
    case = next(one for one in cases.cases(two, market(1.0, 1.2)) if one.limit_s is None)
    slow = replace(case, truths={**case.truths, "t4": replace(case.truths["t4"], step_s=100.0)})
    times = choosers.anchored("t4")(slow)
    way = slow.truths["t4"].way
    device = Device(platform=catalogue.find("t4"))
    (found,) = times(way, [device])
    assert found is not None
    assert found.ns == pytest.approx(100e9)


def test_choosers__only_known_pairs_can_be_chosen():
    rows = [observed("m", "t4", 0.4, batch=8), observed("m", "v100-pcie-32gb", 0.2, batch=4)]
    case = next(one for one in cases.cases(rows, market(1.0, 1.0)) if one.limit_s is None)
    only = choosers.Only(choosers.PerFlopTimes(), case)
    device = Device(platform=catalogue.find("t4"))
    assert only(case.truths["t4"].way, [device])[0] is not None
    assert only(case.truths["v100-pcie-32gb"].way, [device])[0] is None


def test_choosers__a_device_in_no_fit_has_no_measured_rates_either(two):
    case = next(one for one in cases.cases(two, market(1.0, 1.2)) if one.limit_s is None)
    way = case.truths["t4"].way
    t4 = catalogue.find("t4")
    assert t4.measured_flop_per_s["float32"] < 0.6 * t4.peak_flop_per_s["float32"]
    constants = calibrations.of(t4)
    assert constants is not None
    free = replace(constants, reach_flop={"default": 1.0}, launch_ns=0.0)
    (apart,) = choosers.ClassTimes({"t4": free})(way, [Device(platform=t4)])
    (shipped,) = choosers.ClassTimes({})(way, [Device(platform=t4)])
    assert apart is not None
    assert shipped is not None
    assert apart.ns == pytest.approx(FLOP / 8.1e12 * 1e9, rel=0.01)
    assert shipped.ns == pytest.approx(FLOP / 4.2e12 * 1e9, rel=0.01)


def scored(right: float, cases: int) -> Score:
    return Score(cases=cases, right=right, right_or_tied=right, regret=1 - right, broken=0.0, refused=0.0)


def test_pooled__counts_every_decision_once():
    found = scores.pooled([scored(1.0, 10), scored(0.5, 30)])
    assert found.cases == 40
    assert found.right == found.right_or_tied == pytest.approx(0.625)
    assert found.regret == pytest.approx(0.375)


def test_print_all__begins_with_a_summary_of_listed_and_of_random_prices(capsys):
    ours = Method(name="ours", choose=choosers.by_price, summary="us")
    theirs = Method(name="theirs", choose=choosers.by_price)

    def table(source: str, title: str, right: float, note: str) -> Table:
        rows = [(ours, scored(right, 4)), (theirs, scored(0.0, 4))]
        return Table(source=source, title=title, cases=4, models=1, rows=rows, note=note)

    nothing = Table(source="b", title="void", cases=0, models=0, rows=[])
    tables = [table("a", "x", 1.0, "Prices: 1."), table("a", "y", 0.5, "Prices: 2."), table("b", "z", 0.25, "")]
    ranking_tables.print_all([*tables, nothing])
    out = capsys.readouterr().out
    titles = [line for line in out.splitlines() if line.startswith("### ")]
    assert titles == ["### Summary: at listed prices", "### Summary: at random prices", "### a: x", "### a: y",
                      "### b: z", "### b: void"]  # fmt: skip
    summaries = [line.split("|")[1:-1] for line in out.splitlines() if line.startswith("| us ")]
    assert [[cell.strip() for cell in row] for row in summaries] == [
        ["us", "75.0%", "75.0%", "25.0%"],
        ["us", "25.0%", "25.0%", "75.0%"],
    ]
    assert "| theirs" not in out.partition("### a: x")[0]
    assert "nothing to decide" in out


def test_main__quick_fits_nothing_and_counts_nothing(monkeypatch, capsys, tmp_path):
    (tmp_path / "timm").mkdir()
    names = [name for name in (f"family{number}" for number in range(40)) if not observations.for_fitting(name)]
    rows = [
        observed(name, platform, seconds)
        for name in names
        for platform, seconds in (("rtx-3090", 0.2), ("rtx-4090", 0.1), ("core-i9-10940x", 3.0))
    ]
    labels = [observed("m__infer__1", "t4", 0.4), observed("m__infer__1", "v100-pcie-32gb", 0.2)]
    counted: list[bool] = []

    def given(found):
        def read(data, *, count=True):
            counted.append(count)
            return found

        return read

    monkeypatch.setattr(observations, "timm", given(rows))
    monkeypatch.setattr(observations, "labels", given(labels))

    def plans(data):
        raise AssertionError

    monkeypatch.setattr(calibration, "plans", plans)
    assert ranking.main(["--quick", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert counted == [False, False]
    assert out.count("decisions over 5 models") == 3
    assert "perfgate as shipped" in out.partition("### timm")[0]
    assert "device not in any fit" not in out
    rows.clear()
    assert ranking.main(["--quick", "--data", str(tmp_path)]) == 0
    assert "left out" in capsys.readouterr().out


def test_main__without_public_data_says_what_to_set(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(public, "_USUAL", tmp_path)
    monkeypatch.delenv(public.VARIABLE, raising=False)
    assert ranking.main([]) == 0
    assert public.VARIABLE in capsys.readouterr().out
