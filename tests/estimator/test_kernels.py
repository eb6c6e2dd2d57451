"""Steps of one kernel: a law that whole blocks, caches and throttling are part of, found again."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from perfgate.errors import UsageError
from perfgate.estimator import columns, fit, kernel_columns, kernel_fit, kernels, saved
from perfgate.records.estimate import FITTED, STEP_TIME, TRANSFERRED, Machine
from perfgate.records.graph import KernelGroup
from tests.estimator import steps

MACHINES = tuple(
    Machine(name=name, kind="gpu", flop_per_s={"float32": flop * 1e12}, bandwidth_bytes_per_s=moved * 1e9)
    for name, flop, moved in (("a", 10, 800), ("b", 20, 1600), ("c", 8, 300), ("d", 14, 900))
)
LAUNCH_NS = 30e3


def linear(rows, inner, outer):
    """A product with a weight."""
    weight, written = inner * outer * 4, rows * outer * 4
    return KernelGroup(
        name="linear",
        kind="matmul",
        dtype="float32",
        flop=2 * rows * inner * outer,
        bytes=rows * inner * 4 + weight + written,
        written_bytes=written,
        weight_bytes=weight,
    )


def pointwise(elements):
    """One tensor read, one written."""
    return KernelGroup(
        name="relu", kind="pointwise", dtype="float32", flop=0, bytes=8 * elements, written_bytes=4 * elements
    )


def seconds(kernel, machine):
    """The law: whole blocks of 128, bytes that are cheap in caches."""
    moved = machine.bandwidth_bytes_per_s
    if not kernel.flop:
        far = max(kernel.bytes - 16 * 2**20, 0)
        return LAUNCH_NS / 1e9 + (0.3 * (kernel.bytes - far) + 1.2 * far) / moved
    inner = kernel.flop / 2 / (kernel.written_bytes / 4)
    outer = kernel.weight_bytes / 4 / inner
    rows = kernel.written_bytes / 4 / outer
    blocks = 2 * math.ceil(rows / 128) * math.ceil(outer / 128) * 128**2 * inner
    return LAUNCH_NS / 1e9 + 1.25 * blocks / machine.flop_per_s["float32"]


def measured(kernel, machine, group, *, noise=1.0, slow=1.0):
    """An example of one kernel."""
    one = steps.step(f"{group} {kernel.flop} {kernel.bytes}", group, [kernel], machine=machine)
    return replace(one, targets={STEP_TIME: seconds(kernel, machine) * 1e9 * noise * slow})


def drawn(machines=MACHINES, *, throttled=0.0, n=120):
    """Random kernels on machines, with 3 % of noise; a share of ``throttled`` takes twice as long."""
    rng = np.random.default_rng(0)
    found = []
    for machine in machines:
        for number in range(n):
            noise = float(np.exp(rng.normal(0, 0.03)))
            rows, inner, outer = (8 * int(rng.integers(2, 250)) for _ in range(3))
            slow = 2.0 if rng.random() < throttled else 1.0
            found.append(measured(linear(rows, inner, outer), machine, f"fc {number % 8}", noise=noise, slow=slow))
            size = int(np.exp(rng.uniform(8, 18)))
            found.append(measured(pointwise(size), machine, f"relu {number % 8}", noise=noise))
    return found


def learned(examples):
    """What is learned of them."""
    settings = columns.settings_of(examples)
    calls = columns.of(examples, STEP_TIME).calls
    y = np.array([one.targets[STEP_TIME] for one in examples])
    return kernel_fit.fit(examples, settings, calls, y, seed=0)


def told(known, examples):
    """Answers for them."""
    return kernels.answer(known, examples, columns.settings_of(examples), columns.of(examples, STEP_TIME).calls)


@pytest.fixture(scope="module")
def known():
    return learned(drawn())


QUESTIONS = [linear(1024, 512, 768), linear(257, 999, 130), pointwise(10**6), pointwise(3 * 10**8)]


@pytest.mark.parametrize("kernel", QUESTIONS)
def test_answer__follows_blocks_and_caches_and_goes_on_beyond_what_was_measured(known, kernel):
    asked = steps.step("q", "q", [kernel], machine=MACHINES[0])
    found = told(known, [asked])
    assert found.value[0] == pytest.approx(seconds(kernel, MACHINES[0]) * 1e9, rel=0.1)
    assert found.low[0] <= found.value[0] <= found.high[0]


@pytest.mark.parametrize("kernel", QUESTIONS)
def test_answer__carries_over_to_a_machine_that_nobody_measured(known, kernel):
    machine = Machine(name="new", kind="gpu", flop_per_s={"float32": 15e12}, bandwidth_bytes_per_s=700e9)
    found = told(known, [steps.step("q", "q", [kernel], machine=machine)])
    assert found.value[0] == pytest.approx(seconds(kernel, machine) * 1e9, rel=0.15)


def test_answer__is_silent_on_more_than_one_kernel_and_on_what_was_not_learned(known):
    machine = MACHINES[0]
    two = steps.step("q", "q", [QUESTIONS[0], QUESTIONS[2]], machine=machine)
    twice = steps.step("q", "q", [replace(QUESTIONS[0], calls=2)], machine=machine)
    other = steps.step("q", "q", [replace(QUESTIONS[2], kind="softmax")], machine=machine)
    half = replace(steps.step("q", "q", [QUESTIONS[0]], machine=machine), dtype="float16")
    one = steps.step("q", "q", [QUESTIONS[0]], machine=machine)
    found = told(known, [one, two, twice, other, half]).value
    assert np.isnan(found).tolist() == [False, True, True, True, True]
    assert told(known, [two]) is None
    assert told(None, [other]) is None


def test_answer__never_falls_with_rows_columns_depth_or_elements(known):
    shape = (200, 300, 500)
    for side in range(3):
        grown = [[size + step if at == side else size for at, size in enumerate(shape)] for step in range(0, 9000, 91)]
        asked = [steps.step("q", "q", [linear(*one)], machine=MACHINES[1]) for one in grown]
        assert (np.diff(told(known, asked).value) >= 0).all()
    sizes = [
        steps.step("q", "q", [pointwise(one)], machine=MACHINES[1]) for one in np.geomspace(100, 1e9, 200).astype(int)
    ]
    assert (np.diff(told(known, sizes).value) >= 0).all()


def test_fit__takes_rows_that_throttled_for_the_noise_that_they_are():
    throttled = learned(drawn(throttled=0.3))
    asked = steps.step("q", "q", [QUESTIONS[0]], machine=MACHINES[0])
    assert told(throttled, [asked]).value[0] == pytest.approx(seconds(QUESTIONS[0], MACHINES[0]) * 1e9, rel=0.15)


def test_fit__needs_enough_kernels():
    assert learned(drawn(n=kernel_fit.LEAST - 1)) is None


def test_fit__extrapolates_how_far_machines_with_much_arithmetic_are_from_their_peak():
    every = [
        Machine(name=f"m{flop}", kind="gpu", flop_per_s={"float32": flop * 1e12}, bandwidth_bytes_per_s=1e12)
        for flop in (8, 12, 16, 24, 60)
    ]

    def bound(machine):
        """The law where power allows of ever less of the peak."""
        return (machine.flop_per_s["float32"] / 8e12) ** 0.5

    examples = [
        replace(one, targets={STEP_TIME: one.targets[STEP_TIME] * bound(one.machine)})
        for one in drawn(every)
        if one.kernels[0].flop
    ]
    found = learned([one for one in examples if one.machine != every[-1]])
    kernel = linear(4096, 2048, 2048)
    told_, flat = told(found, [steps.step("q", "q", [kernel], machine=every[-1])]), seconds(kernel, every[-1]) * 1e9
    assert told_.value[0] / flat == pytest.approx(bound(every[-1]), rel=0.3)
    assert told_.value[0] / flat > 1.7


def test_worthwhile__leaves_out_what_another_estimator_tells_better(known):
    examples = drawn()
    settings, calls = columns.settings_of(examples), columns.of(examples, STEP_TIME).calls
    rows = np.arange(len(examples))
    assert kernel_fit.worthwhile(known, examples, settings, calls, rows, np.full(len(rows), 1.0)) == known
    assert kernel_fit.worthwhile(known, examples, settings, calls, rows, np.zeros(len(rows))) is None
    error = np.array([0.0 if one.kernels[0].flop else 1.0 for one in examples])
    kept = kernel_fit.worthwhile(known, examples, settings, calls, rows, error)
    assert kept is not None
    assert set(kept.own) == set(kept.shared) == {"activation"}


def test_units__are_those_of_the_columns():
    for kernel in QUESTIONS[1:3]:
        one = steps.step("q", "q", [kernel], machine=MACHINES[0])
        name = "linear" if kernel.flop else "activation"
        assert kernel_columns.columns(name, [kernel], [one]).shape == (1, len(kernel_columns.units(name)))


@pytest.fixture(scope="module")
def model():
    return fit.fit(drawn(), targets=(STEP_TIME,))


def test_model__answers_steps_of_one_kernel_by_kernels_and_the_same_one_by_its_measurement(model):
    kernel = linear(777, 320, 410)
    here = model.estimate(steps.step("q", "fc 1", [kernel], machine=MACHINES[0]))
    assert here.value == pytest.approx(seconds(kernel, MACHINES[0]) * 1e9, rel=0.1)
    assert (here.source, here.low <= here.value <= here.high) == (FITTED, True)
    assert sum(term.value for term in here.terms) == pytest.approx(here.value)
    new = Machine(name="new", kind="gpu", flop_per_s={"float32": 15e12}, bandwidth_bytes_per_s=700e9)
    there = model.estimate(steps.step("q", "fc 1", [kernel], machine=new))
    assert there.source == TRANSFERRED
    assert there.high / there.low > 1
    own = measured(kernel, MACHINES[0], "fc 1", slow=1.5)
    again = model.estimate(replace(own, targets={}), anchors=[own])
    assert again.value == pytest.approx(own.targets[STEP_TIME], rel=0.15)


def test_model__with_kernels_is_kept_as_json(model):
    assert model.fitted[STEP_TIME].kernels is not None
    back = saved.loads(saved.dumps(model))
    assert back.fitted[STEP_TIME].kernels == model.fitted[STEP_TIME].kernels
    asked = steps.step("q", "q", [QUESTIONS[1]], machine=MACHINES[2])
    assert back.estimate(asked) == model.estimate(asked)


def _without(tree):
    del tree["kernels"]


def _shorter(tree):
    next(iter(tree["kernels"]["own"]["linear"].values()))["coefficients"].pop()


def _negative(tree):
    next(iter(tree["kernels"]["shared"]["linear"].values()))["coefficients"][0] = -1.0


def _other(tree):
    tree["kernels"]["own"]["lineal"] = tree["kernels"]["own"].pop("linear")


def _ranges(tree):
    next(iter(tree["kernels"]["own"]["linear"].values()))["sizes"]["scale"].pop()


@pytest.mark.parametrize("damage", [_without, _shorter, _negative, _other, _ranges])
def test_model__whose_kernels_are_damaged_is_refused(model, damage):
    tree = json.loads(saved.dumps(model))
    damage(tree["fitted"][STEP_TIME])
    # A part that is not there at all is as if another version had written the file.
    with pytest.raises(UsageError, match="another version" if damage is _without else "damaged"):
        saved.loads(json.dumps(tree))
