from __future__ import annotations

import itertools

import pytest

from perfgate.records.sampling import Condition, Network
from perfgate.sampling.adaptive import choose, distances
from perfgate.sampling.design import Space, sequence
from perfgate.sampling.pace import Pace


def drawn(count, **space):
    return list(itertools.islice(sequence(Space(**space)), count))


def wide(width, batch=8):
    parameters = {"inputs": 64, "depth": 2, "width": width, "normalise": 0}
    return Condition(network=Network(family="fully-connected", parameters=parameters), mode="infer", batch=batch)


def test_choose__where_the_estimator_is_least_sure():
    pool = [wide(64), wide(72), wide(80)]
    assert choose(pool, [], Pace(), uncertainty=lambda asked: [0.1, 0.9, 0.2]) == pool[1]


def test_choose__time_counts():
    quick, slow = wide(64), wide(4096, batch=1024)
    pace = Pace()
    assert pace.seconds(slow) > 4 * pace.seconds(quick)
    assert choose([quick, slow], [], pace, uncertainty=lambda asked: [0.8, 1.0]) == quick
    assert choose([quick, slow], [], pace, uncertainty=lambda asked: [0.1, 1.0]) == slow


def test_choose__without_an_estimator_what_is_least_like_all_that_ran():
    run = [wide(64), wide(72), wide(80)]
    assert choose([wide(68), wide(1024), wide(76)], run, Pace()) == wide(1024)


@pytest.mark.parametrize("values", [[0.0, 0.0], [float("nan"), -1.0]])
def test_choose__an_estimator_that_knows_nothing_decides_nothing(values):
    run = [wide(64)]
    assert choose([wide(68), wide(1024)], run, Pace(), uncertainty=lambda asked: values) == wide(1024)


def test_choose__an_interval_without_end_is_the_greatest_doubt():
    pool = [wide(64), wide(72)]
    assert choose(pool, [], Pace(), uncertainty=lambda asked: [5.0, float("inf")]) == pool[1]


def test_choose__wrong_numbers_of_values_are_refused():
    with pytest.raises(ValueError, match="gave 1 values for 2 conditions"):
        choose([wide(64), wide(72)], [], Pace(), uncertainty=lambda asked: [0.5])
    with pytest.raises(ValueError, match="no candidate"):
        choose([], [], Pace())


def test_distances__zero_for_what_was_run_and_one_for_all_before_anything():
    pool = drawn(5)
    assert distances(pool, pool[:1])[0] == pytest.approx(0.0)
    assert (distances(pool, pool[:1])[1:] > 0).all()
    assert (distances(pool, []) == 1).all()


def test_choose__conditions_picked_by_distance_cover_more_than_the_sequence_in_equal_time():
    everything = drawn(300)
    pace = Pace()
    plain, chosen = everything[:60], everything[:20]
    left = sum(map(pace.seconds, plain[20:]))
    while True:
        best = choose([one for one in everything if one not in chosen], chosen, pace)
        left -= pace.seconds(best)
        if left < 0:
            break
        chosen.append(best)
    rest = [one for one in everything if one not in chosen and one not in plain]
    # How far what was left out is from what was taken, in the mean.
    assert distances(rest, chosen).mean() < distances(rest, plain).mean()
