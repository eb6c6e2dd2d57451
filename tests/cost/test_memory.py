"""What a way occupies, and what is free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.cost import memory
from perfgate.records.graph import BACKWARD, OPTIMIZER, KernelGroup
from perfgate.records.hardware import CPU
from tests.cost.problems import GIB, make_offer, make_platform, make_way, with_kernels

BESIDE = memory.CONTEXT_BYTES + memory.WORKSPACE_BYTES["gpu"]
BACK = KernelGroup(name="back", kind="matmul", dtype="float32", flop=1, bytes=1, phase=BACKWARD)


def update(moved: int) -> KernelGroup:
    return KernelGroup(name="step", kind="pointwise", dtype="float32", flop=0, bytes=moved, phase=OPTIMIZER)


def training(moved: int, **changes):
    """1 GB of weights; 3 GB made in the step, of which 1 GB gradients; ``moved`` bytes by the optimiser."""
    return with_kernels(make_way(4, mode="train", **changes), BACK, update(moved), peak=3 * 10**9)


def test_bytes_needed__inference_has_weights_activations_and_context():
    # https://github.com/casys-kaist/LLMServingSim/pull/59 (E14): activations and the context were left out.
    way = make_way(10)

    assert memory.bytes_needed(way, "single", 1) == round(BESIDE + 1e9 + 1.1 * 1e9)
    assert memory.bytes_needed(way, "single", 1) >= way.totals.weight_bytes + 10**9 + 2**29


def test_bytes_needed__a_cpu_has_no_workspace_of_its_own():
    assert memory.bytes_needed(make_way(10), "single", 1, kind=CPU) == round(memory.CONTEXT_BYTES + 1e9 + 1.1e9)


def test_bytes_needed__training_has_gradients_in_its_peak_and_state_beside_it():
    plain, adam = training(3 * 10**9), training(7 * 10**9)

    # Weights 1, gradients 1, activations 2 with a tenth more.
    assert memory.bytes_needed(plain, "single", 1) == round(BESIDE + 1e9 + 1e9 + 1.1 * 2e9)
    assert memory.bytes_needed(adam, "single", 1) == memory.bytes_needed(plain, "single", 1) + 2 * 10**9


def test_state_bytes__unknown_optimisers_are_taken_for_adam():
    assert memory.state_bytes(with_kernels(make_way(mode="train"))) == 2 * 10**9
    assert memory.state_bytes(make_way()) == 0


def test_bytes_needed__a_measured_peak_counts_before_the_model():
    way = make_way(10, peak_bytes=5 * 10**9)

    assert memory.bytes_needed(way, "single", 1) == round(BESIDE + 5e9 + 0.1 * 4e9)


def test_bytes_needed__a_measured_peak_splits_as_the_model_does():
    split = memory.bytes_needed(make_way(10, peak_bytes=5 * 10**9), "tensor", 2) - BESIDE
    whole = memory.bytes_needed(make_way(10, peak_bytes=5 * 10**9), "single", 1) - BESIDE
    model = (0.5e9 + 1.1e9 * 0.75) / 2.1e9

    assert split == pytest.approx(whole * model)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("data", 1e9 + 2 * 1e9 + 2.2e9),  # gradients once more, in buckets
        ("tensor", (1e9 + 1e9) / 4 + 2.2e9 * 5 / 8),
        ("pipeline", (1e9 + 1e9) / 4 + 2.2e9 / 4),
    ],
)
def test_bytes_needed__forms_of_training_on_four_devices(form, expected):
    assert memory.bytes_needed(training(3 * 10**9), form, 4) == round(BESIDE + expected)


def test_bytes_needed__replicas_that_infer_hold_everything():
    assert memory.bytes_needed(make_way(10), "data", 8) == memory.bytes_needed(make_way(10), "single", 1)


def test_activation_bytes__without_a_peak_is_an_upper_bound():
    way = make_way(2)
    unknown = replace(way, totals=replace(way.totals, peak_activation_bytes=None))

    assert memory.activation_bytes(unknown) >= memory.activation_bytes(way)


def test_free_bytes__the_offer_counts_before_the_platform():
    platform = make_platform("a")

    assert memory.free_bytes(make_offer("a", 1.0), platform, 0.1) == int(16 * GIB * 0.9)
    assert memory.free_bytes(make_offer("a", 1.0, memory_bytes=40 * GIB), platform, 0.5) == 20 * GIB
    assert memory.free_bytes(make_offer("a", 1.0, share=0.25), platform, 0) == 4 * GIB


def test_free_bytes__of_a_cpu_is_the_machines():
    platform = make_platform("c", kind=CPU, memory_bytes=None)

    assert memory.free_bytes(make_offer("c", 1.0), platform, 0.1) is None
    assert memory.free_bytes(make_offer("c", 1.0, ram_bytes=8 * GIB, share=0.5), platform, 0) == 8 * GIB
