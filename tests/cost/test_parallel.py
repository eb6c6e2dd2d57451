"""Times of parallel forms, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfgate.cost import parallel
from perfgate.cost.parallel import HOP_NS, LINK_EFFICIENCY, Spread

# 100 GB/s, of which 75 are reached.
LINK = np.array([100e9])
YES, NO = np.array([True]), np.array([False])


def exact(ns: float) -> Spread:
    return Spread(np.array([ns]), np.array([ns]), np.array([ns]))


@pytest.mark.parametrize(
    ("count", "expected"), [(1, ()), (2, (2,)), (3, (2, 3)), (4, (2, 4)), (6, (2, 4, 6)), (8, (2, 4, 8))]
)
def test_used_counts__powers_of_two_and_all(count, expected):
    assert parallel.used_counts(count) == expected


def test_all_reduce_ns__sends_twice_all_but_one_share():
    # 75 MB over 4 devices: 1.5 x 75 MB at 75 GB/s is 1.5 ms; one message in 2 x 2 rounds.
    assert parallel.all_reduce_ns(75e6, 1.0, 4, LINK) == pytest.approx(1.5e6 + 4 * HOP_NS)


def test_data__inference_needs_no_link_and_does_n_steps_in_the_time_of_one():
    unknown = np.array([math.nan])

    running = parallel.data(exact(1e6), 8, gradients=np.array([0.0]), link=unknown, training=NO)

    assert running.step.ns == 1e6
    assert running.per_s(running.period.ns) == pytest.approx(8000)
    assert running.link_ns == 0


def test_data__training_waits_for_gradients():
    running = parallel.data(exact(1e6), 2, gradients=np.array([75e6]), link=LINK, training=YES)

    # 2 (n - 1) / n = 1; three buckets of 25 MiB, two rounds each.
    sent = 75e6 / 75e9 * 1e9 + 3 * 2 * HOP_NS
    assert running.step.ns == pytest.approx(1e6 + sent)
    assert running.link_ns == pytest.approx(sent)
    assert running.per_s(running.period.ns) == pytest.approx(2e9 / (1e6 + sent))


def test_data__training_without_a_link_rate_has_no_time():
    running = parallel.data(exact(1e6), 2, gradients=np.array([1.0]), link=np.array([math.nan]), training=YES)

    assert np.isnan(running.step.ns).all()


def test_tensor__adds_a_sum_after_every_second_product():
    running = parallel.tensor(
        exact(5e5), 2, outputs=np.array([150e6]), products=np.array([4.0]), link=LINK, training=NO
    )

    sent = 75e6 / 75e9 * 1e9 + 2 * 2 * HOP_NS
    assert running.step.ns == pytest.approx(5e5 + sent)
    assert running.per_s(running.period.ns) == pytest.approx(1e9 / (5e5 + sent))


def test_tensor__training_sums_backward_as_well():
    def sent(training):
        return parallel.tensor(
            exact(5e5), 2, outputs=np.array([150e6]), products=np.array([4.0]), link=LINK, training=training
        ).link_ns

    assert sent(YES) == pytest.approx(2 * sent(NO))


def pipeline(training, *, micro=8.0, largest=0.01, update=0.0):
    return parallel.pipeline(
        exact(1e6),
        exact(update) if update else Spread(*(np.zeros(1),) * 3),
        4,
        micro=np.array([micro]),
        largest=np.array([largest]),
        cut=np.array([75e6 * LINK_EFFICIENCY / 0.75]),
        link=LINK,
        training=training,
    )


def test_pipeline__inference_ends_a_step_every_stage():
    running, sent = pipeline(NO), 1e6 + HOP_NS

    assert running.step.ns == pytest.approx(1e6 + 3 * sent)
    assert running.per_s(running.period.ns) == pytest.approx(1e9 / (2.5e5 + sent))


def test_pipeline__training_pays_the_bubble_and_the_update():
    running, sent = pipeline(YES, update=4e5), 1e6 + HOP_NS

    assert running.step.ns == pytest.approx((8 + 3) * (2.5e5 + 2 * sent) + 1e5)
    assert running.per_s(running.period.ns) == pytest.approx(1e9 / float(running.step.ns[0]))


def test_pipeline__no_stage_is_shorter_than_the_largest_kernel():
    assert pipeline(NO, largest=0.5).period.ns == pytest.approx(5e5 + 1e6 + HOP_NS)


def test_spread__wider_adds_errors_in_quadrature():
    sigma = 0.3
    factor = math.exp(1.6448536269514722 * sigma)
    wide = Spread(np.array([1.0]), np.array([1 / factor]), np.array([factor])).wider(0.4)

    assert math.log(float(wide.high[0])) == pytest.approx(1.6448536269514722 * 0.5)
    assert float(wide.low[0] * wide.high[0]) == pytest.approx(1.0)


def test_spread__ends_add_with_ends():
    total = Spread(np.array([2.0]), np.array([1.0]), np.array([4.0])).plus(exact(1.0))

    assert [float(one[0]) for one in (total.ns, total.low, total.high)] == [3.0, 2.0, 5.0]
