"""Examples that follow a known physical law, with noise: what an estimator has to find again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from perfgate.records.estimate import ENERGY, PEAK_MEMORY, STEP_TIME, UTILISATION, Example, Machine
from perfgate.records.graph import KernelGroup

GPU = Machine(
    name="l4", kind="gpu", flop_per_s={"float32": 30e12}, bandwidth_bytes_per_s=300e9, memory_bytes=24 * 2**30
)
FASTER = Machine(
    name="h100-sxm", kind="gpu", flop_per_s={"float32": 67e12}, bandwidth_bytes_per_s=3350e9, memory_bytes=80 * 2**30
)
CPU = Machine(name="epyc", kind="cpu", flop_per_s={"float32": 1e12}, bandwidth_bytes_per_s=50e9)

# The law: each kind's seconds over those at the machine's full rates, and seconds of a call and of a step.
FLOP_FACTOR = {"convolution": 1.8, "matmul": 1.3, "pointwise": 0.0, "softmax": 0.0}
BYTE_FACTOR = {"convolution": 1.5, "matmul": 1.5, "pointwise": 1.1, "softmax": 2.0}
CALL_S, STEP_S = 4e-6, 30e-6
KINDS = tuple(FLOP_FACTOR)
FAMILIES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")


def step(model: str, group: str, groups, *, machine: Machine, batch: int = 8, **more: Any) -> Example:
    """Inference in float32, eager."""
    return Example(
        model=model,
        group=group,
        mode="infer",
        dtype="float32",
        compile="eager",
        batch=batch,
        items=batch,
        machine=machine,
        kernels=tuple(groups),
        **more,
    )


def kernels(rng, family: int, width: float, batch: int, *, kinds=KINDS) -> tuple[KernelGroup, ...]:
    """A step of a family: how often it calls what is the family's own, how large the kernels are is the model's."""
    taste = np.random.default_rng(family)
    groups = []
    for kind in kinds:
        calls = int(taste.integers(2, 40))
        elements = 2e4 * width * float(rng.uniform(0.5, 2)) * batch
        weight = int(1e4 * width) * 4 if kind in {"convolution", "matmul"} else 0
        flop = 2 * elements * float(rng.uniform(50, 500)) if weight else 0.0
        groups.append(
            KernelGroup(
                name=f"{kind}0",
                kind=kind,
                dtype="float32",
                flop=int(flop),
                bytes=int(8 * elements) + weight,
                calls=calls,
                written_bytes=int(4 * elements),
                weight_bytes=weight,
            )
        )
    return tuple(groups)


def large(n: int) -> tuple[KernelGroup, ...]:
    """A step of ``n`` operators, none of which is as another."""
    groups = kernels(np.random.default_rng(0), 1, 3.0, 8)
    return tuple(replace(groups[i % len(groups)], name=f"k{i}", bytes=10**5 + i, calls=1) for i in range(n))


def seconds(groups, machine: Machine, *, threads: int = 0) -> float:
    """The law."""
    pi, beta = machine.flop_per_s["float32"], machine.bandwidth_bytes_per_s
    share = 1.0 if not threads else threads / 2
    time = STEP_S
    for one in groups:
        time += one.calls * (FLOP_FACTOR[one.kind] * one.flop / pi / share + CALL_S)
        time += one.calls * BYTE_FACTOR[one.kind] * one.bytes / beta
    return time


def example(
    rng,
    number: int,
    *,
    machine: Machine = GPU,
    noise: float = 0.03,
    family: int | None = None,
    batch: int | None = None,
) -> Example:  # fmt: skip
    """One measured step of a random model of a family."""
    family = number % len(FAMILIES) if family is None else family
    batch = int(2 ** rng.integers(0, 7)) if batch is None else batch
    groups = kernels(rng, family, float(np.exp(rng.uniform(0, 3))), batch)
    odd = float(np.random.default_rng(1000 + family).normal(0, 0.05)) if noise else 0.0
    factor = float(np.exp(odd + rng.normal(0, noise))) if noise else 1.0
    time = seconds(groups, machine) * factor
    weights = sum(one.weight_bytes * one.calls for one in groups)
    activations = max(one.bytes for one in groups)
    beside = 300e6 if machine.kind == "cpu" else 0
    return step(
        f"{FAMILIES[family]}_{number}",
        FAMILIES[family],
        groups,
        machine=machine,
        batch=batch,
        software="torch 2.14.1",
        weight_bytes=weights,
        peak_activation_bytes=activations,
        targets={
            STEP_TIME: time * 1e9,
            ENERGY: time * 70 * float(np.exp(rng.normal(0, noise))),
            UTILISATION: min(1.0, 0.6 + 0.3 * float(rng.uniform())),
            PEAK_MEMORY: weights + 1.1 * activations + beside + 2e6,
        },
    )


def examples(n: int, *, seed: int = 0, machine: Machine = GPU, noise: float = 0.03) -> list[Example]:
    """``n`` measured steps of ten families."""
    rng = np.random.default_rng(seed)
    return [example(rng, number, machine=machine, noise=noise) for number in range(n)]
