"""Floor 3, sampling. How long a condition will take and how much memory it needs; learns from those that ran.

In: conditions, and what those that ran took. Out: seconds and bytes. A plain roofline with rates that any machine of
today has, corrected by the mean log ratio of what was seen: good within a factor of two after a dozen conditions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from perfgate.records.sampling import Condition
from perfgate.sampling.work import Work, work

# FLOP/s of one thread, bytes/s, seconds a kernel: where learning starts, by whether there is an accelerator.
_CPU = (4e10, 1e10, 1e-5)
_GPU = (1e13, 5e11, 1e-5)
# A second thread does not double the speed.
_THREAD_POWER = 0.8
# Steps after the first one fill so many seconds (see ``bench/sampling.py``).
_BLOCK_S = {False: 0.2, True: 0.5}
_LEAST_STEPS = 4  # the first one, the one that decides how many, and two more
# Starting a process, tracing and counting so many kernels, drawing the weights.
_START_S = {False: 0.3, True: 4.0}
_KERNEL_S = {"infer": 0.002, "train": 0.006}
_WEIGHT_S = 1.2e-8
_COMPILE_S = {False: 25.0, True: 15.0}
_COMPILE_KERNEL_S = 0.05
# Beside the forward pass: F of a backward pass is twice its, and what the optimiser keeps for each weight.
_TRAIN = 3.0
_STATES = {"": 1, "sgd": 2, "momentum": 3, "adam": 4, "adamw": 4}
_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
_ROOM = 2**28
# So many observations of a kind weigh as much as those of all kinds together.
_SHRINK = 3.0


@dataclass(slots=True)
class _Ratio:
    """Mean of the logarithms of seen over predicted."""

    total: float = 0.0
    count: int = 0

    def add(self, ratio: float) -> None:
        self.total += ratio
        self.count += 1

    def towards(self, prior: float, weight: float) -> float:
        return (self.total + weight * prior) / (self.count + weight)


@dataclass(slots=True)
class Pace:
    """Predictions for one machine. ``learn`` after each condition."""

    _steps: dict[tuple[str, ...], _Ratio] = field(default_factory=dict)
    _rest: dict[tuple[str, ...], _Ratio] = field(default_factory=dict)

    def step_s(self, condition: Condition) -> float:
        """Seconds of one step."""
        return _plain_step_s(condition) * math.exp(_mean(self._steps, *_kinds(condition)))

    def seconds(self, condition: Condition) -> float:
        """Seconds of the whole condition, its process and its trace included."""
        rest = _plain_rest_s(condition) * math.exp(_mean(self._rest, *_rest_kinds(condition)))
        return rest + _stepping_s(condition, self.step_s(condition))

    def learn(self, condition: Condition, *, step_s: float, spent_s: float) -> None:
        """``step_s``: mean of a step; ``spent_s``: all that the condition took."""
        ratio = math.log(max(step_s, 1e-9) / _plain_step_s(condition))
        rest = max(spent_s - _stepping_s(condition, step_s), 0.01)
        for kind in _kinds(condition):
            self._steps.setdefault(kind, _Ratio()).add(ratio)
        for kind in _rest_kinds(condition):
            self._rest.setdefault(kind, _Ratio()).add(math.log(rest / _plain_rest_s(condition)))


def memory_bytes(condition: Condition) -> float:
    """Upper estimate of what a condition needs on its device beside the process itself."""
    made = work(condition.network)
    trains = condition.mode == "train"
    size = _element_bytes(condition)
    amp = condition.dtype.startswith("amp-")
    weights = made.weights * ((4 if amp else size) * _STATES.get(condition.optimizer, 4) + (2 if amp else 0))
    items = math.ceil(condition.batch / condition.accumulation)
    # Backward passes need all results, and twice the largest on the way; forward passes only a few at a time.
    alive = made.made * 1.5 if trains else made.largest * 4
    # Tracing does without contents, but saving the weights holds them once more.
    return float(weights + made.weights * size + alive * items * (4 if amp else size) + _ROOM)


def _plain_step_s(condition: Condition) -> float:
    made = work(condition.network)
    rate, bandwidth, launch = _GPU if _accelerated(condition) else _CPU
    scale = 1.0 if _accelerated(condition) else condition.threads**_THREAD_POWER
    times = _TRAIN if condition.mode == "train" else 1.0
    size = _element_bytes(condition)
    moved = 2 * times * made.made * condition.batch * size + made.weights * size * _STATES.get(condition.optimizer, 4)
    launches = made.kernels * times * condition.accumulation
    return times * made.flop * condition.batch / (rate * scale) + moved / bandwidth + launches * launch


def _stepping_s(condition: Condition, step_s: float) -> float:
    return max(step_s * _LEAST_STEPS, 2 * step_s + _BLOCK_S[_accelerated(condition)])


def _plain_rest_s(condition: Condition) -> float:
    made = work(condition.network)
    kernels = made.kernels * condition.accumulation
    seconds = _START_S[_accelerated(condition)] + made.weights * _WEIGHT_S + kernels * _KERNEL_S[condition.mode]
    if condition.compile != "eager":
        seconds += _COMPILE_S[_accelerated(condition)] + made.kernels * _COMPILE_KERNEL_S
    return seconds


def _mean(ratios: dict[tuple[str, ...], _Ratio], *kinds: tuple[str, ...]) -> float:
    """From the coarsest kind to the finest, each shrunk to the one before."""
    mean = 0.0
    for kind in kinds:
        mean = ratios.get(kind, _Ratio()).towards(mean, _SHRINK)
    return mean


def _kinds(condition: Condition) -> tuple[tuple[str, ...], ...]:
    device = condition.device
    return (
        (device,),
        (device, condition.mode),
        (device, condition.mode, condition.dtype),
        (device, condition.mode, condition.dtype, condition.network.family),
    )


def _rest_kinds(condition: Condition) -> tuple[tuple[str, ...], ...]:
    device = condition.device
    return (
        (device, condition.compile),
        (device, condition.compile, condition.mode),
        (device, condition.compile, condition.mode, condition.network.family),
    )


def _accelerated(condition: Condition) -> bool:
    return condition.device != "cpu"


def _element_bytes(condition: Condition) -> int:
    return _BYTES.get(condition.dtype.removeprefix("amp-"), 4)


def describe(condition: Condition) -> Work:
    """Work of one step's forward pass: that of an item times the batch, and kernels times the accumulation."""
    made = work(condition.network)
    return Work(
        flop=made.flop * condition.batch,
        weights=made.weights,
        made=made.made * condition.batch,
        largest=made.largest * condition.batch,
        kernels=made.kernels * condition.accumulation,
    )
