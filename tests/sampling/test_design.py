from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import qmc

from perfgate.records.sampling import FAMILIES
from perfgate.sampling import networks
from perfgate.sampling.design import Limits, Space, admitted, condition, design, sequence
from perfgate.sampling.networks import Range
from perfgate.sampling.pace import Pace, memory_bytes


def first(count, space=None, seed=0):
    return list(itertools.islice(sequence(space or Space(), seed=seed), count))


def test_sequence__families_and_modes_take_turns():
    drawn = [(one.network.family, one.mode) for one in first(8 * len(FAMILIES))]
    turns = 2 * len(FAMILIES)
    for start in range(0, 4 * turns, turns):
        assert len(set(drawn[start : start + turns])) == turns


def test_sequence__is_the_same_for_the_same_seed_only():
    assert first(30) == first(30)
    assert first(30) != first(30, seed=1)


def test_sequence__run_conditions_are_spread():
    space = Space(threads=(1, 2, 4))
    drawn = first(600, space)
    assert {one.threads for one in drawn} == {1, 2, 4}
    for name, share in (("mode", 1 / 2), ("threads", 1 / 3)):
        counts = Counter(getattr(one, name) for one in drawn)
        assert all(abs(count / 600 - share) < 0.04 for count in counts.values()), counts
    trains = [one for one in drawn if one.mode == "train"]
    assert {one.optimizer for one in trains} == set(space.optimizers)
    assert all(one.batch % one.accumulation == 0 for one in trains)
    assert all(one.optimizer == "" and one.accumulation == 1 for one in drawn if one.mode == "infer")


def test_sequence__the_first_dtype_is_twice_as_frequent_as_all_others():
    counts = Counter(one.dtype for one in first(600, Space(dtypes=("float32", "bfloat16", "float16"))))
    assert counts["float32"] == pytest.approx(400, abs=20)
    assert counts["bfloat16"] == pytest.approx(100, abs=20)


def test_sequence__an_accelerator_has_no_threads_to_choose():
    drawn = first(100, Space(devices=("cpu", "cuda:0"), threads=(1, 2)))
    assert {one.threads for one in drawn if one.device == "cuda:0"} == {1}
    assert {one.threads for one in drawn if one.device == "cpu"} == {1, 2}


def test_sequence__fills_space_better_than_chance():
    space = Space(families=("residual",), modes=("infer",))
    names = ("width", "resolution", "blocks")
    axes = [one for one in networks.SPACE["residual"] if one.name in names and isinstance(one, Range)]

    def places(drawn):
        return np.array(
            [
                [math.log(one.network.parameters[a.name] / a.low) / math.log(a.high / a.low) for a in axes]
                for one in drawn
            ]
        )

    filled = qmc.discrepancy(places(first(64, space)), method="L2-star")
    rng = np.random.default_rng(0)
    size = len(networks.SPACE["residual"]) + 7
    chance = [
        qmc.discrepancy(places([condition(space, "residual", "infer", point) for point in rng.random((64, size))]),
                        method="L2-star")
        for _ in range(20)
    ]  # fmt: skip
    assert filled < np.median(chance)


def test_design__takes_about_the_budget_and_admits_what_fits_only():
    pace, limits = Pace(), Limits(seconds=3.0)
    chosen = design(120.0, pace=pace, limits=limits)
    total = sum(map(pace.seconds, chosen))
    assert 115.0 < total <= 120.0
    assert max(map(pace.seconds, chosen)) <= 3.0
    assert len({one.key for one in chosen}) == len(chosen)


def test_design__ten_minutes_are_more_than_200_conditions():
    assert len(design(600.0)) > 200


def test_design__families_of_large_networks_keep_their_turns():
    counts = Counter((one.network.family, one.mode) for one in design(300.0, limits=Limits(seconds=1.5)))
    assert len(counts) == 2 * len(FAMILIES)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_design__what_was_run_is_not_drawn_again():
    whole = design(60.0)
    done = {one.key for one in whole[:10]}
    rest = design(60.0, done=done)
    assert not done & {one.key for one in rest}
    assert {one.key for one in whole[10:]} <= {one.key for one in rest}


def test_design__memory_bounds_what_is_drawn():
    free = 2**30
    chosen = design(60.0, limits=Limits(free_bytes={"cpu": free}))
    assert chosen
    assert max(map(memory_bytes, chosen)) <= free / 2
    assert max(map(memory_bytes, design(60.0))) > free / 2


def test_design__where_nothing_fits_it_is_empty():
    assert design(60.0, Space(families=("fully-connected",)), limits=Limits(free_bytes={"cpu": 0})) == []


def test_admitted__limits_are_asked_anew():
    limits = [Limits(seconds=60.0)]
    drawn = admitted(Space(), Pace(), lambda: limits[0])
    next(drawn)
    limits[0] = Limits(seconds=1.0)
    assert all(Pace().seconds(next(drawn)) <= 1.0 for _ in range(5))
