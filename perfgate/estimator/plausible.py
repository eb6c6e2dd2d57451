"""Floor 3, estimator. Examples from files, checked: words that are known, numbers in range, units that can be true.

In: examples as they were read, and the places that they come from. Out: nothing, or UsageError that names the place,
the column and what to write. Units are judged over a whole file: one odd row is a measurement, most are a wrong unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from perfgate.errors import UsageError
from perfgate.estimator import features
from perfgate.records.estimate import ENERGY, PEAK_MEMORY, STEP_TIME, TARGETS, UTILISATION, Example, Machine
from perfgate.records.hardware import CPU, GPU

MODES = ("infer", "train", "step")
KINDS = (GPU, CPU, "tpu", "accelerator")
# Beyond these nothing is a measurement: ns, byte, joule, share.
RANGES = {STEP_TIME: (1e-3, 1e18), PEAK_MEMORY: (1.0, 2.0**60), ENERGY: (1e-12, 1e12), UTILISATION: (1e-9, 1.0)}
# Counts, FLOP and bytes are kept as 64-bit numbers.
MOST = 2**63 - 1
# No device has so few FLOP/s or bytes/s: it was written in tera or giga.
_LEAST_RATE = 1e6
# So many times faster than all published rates allow: clocks and measured rates explain a small factor only.
_TOO_FAST = 20.0


def check(example: Example, where: str) -> None:
    """Raises UsageError for the first thing in ``example`` that cannot be."""
    for target, value in example.targets.items():
        _target(target, value, where)
    if not example.kernels:
        _refuse(where, "no kernels; give flop.KIND, bytes.KIND and calls.KIND, or kernels")
    if example.batch < 1 or example.items < 1:
        _refuse(where, "batch and items are at least 1")
    if example.mode not in MODES:
        _refuse(where, f"mode is {example.mode[:60]!r}; write {', '.join(MODES[:-1])} or {MODES[-1]}")
    _machine(example.machine, where)
    for group in example.kernels:
        numbers = (group.flop, group.bytes, group.calls, group.written_bytes, group.weight_bytes)
        if min(numbers) < 0 or max(numbers) * max(1, group.calls) > MOST:
            _refuse(where, f"kernels of kind {group.kind} have a quantity that is negative or beyond {MOST:.2g}")


def check_units(examples: Sequence[Example], file: str) -> None:
    """Raises UsageError where most rows can only be meant in another unit."""
    for column, remedy, wrong in _DOUBTS:
        asked = [found for one in examples if (found := wrong(one)) is not None]
        if asked and 2 * sum(asked) > len(asked):
            what = f"{file}: {column} of {sum(asked)} of {len(asked)} rows cannot be: {remedy}"
            raise UsageError(what)


def _target(target: str, value: float, where: str) -> None:
    if target not in TARGETS:
        _refuse(where, f"{target!r} is no target; choose from {', '.join(TARGETS)}")
    if not value > 0:
        _refuse(where, f"{target} is {value:g}; a measured value is above 0, an unknown one is left empty")
    low, high = RANGES[target]
    if not low <= value <= high:
        hint = " (a share, so 85 % is 0.85)" if target == UTILISATION else ""
        _refuse(where, f"{target} is {value:g}; a measured value lies between {low:g} and {high:.3g}{hint}")


def _machine(machine: Machine, where: str) -> None:
    if machine.kind not in KINDS:
        _refuse(where, f"machine_kind is {machine.kind[:60]!r}; write {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    rates = {f"flop_per_s.{dtype}": rate for dtype, rate in machine.flop_per_s.items()}
    rates |= {"bandwidth_bytes_per_s": machine.bandwidth_bytes_per_s}
    for name, rate in rates.items():
        if not math.isfinite(rate) or rate < 0 or 0 < rate < _LEAST_RATE:
            unit = "byte/s, as 300e9 for 300 GB/s" if name.startswith("band") else "FLOP/s, as 30e12 for 30 TFLOP/s"
            _refuse(where, f"{name} is {rate:g}; write {unit}, or 0 where it is not known")
    if machine.memory_bytes < 0 or not 0 <= machine.clock_mhz < math.inf:
        _refuse(where, "memory_bytes and clock_mhz are not negative; write 0 where they are not known")


def _too_fast(example: Example) -> bool | None:
    """Whether the products alone would need longer at the machine's full rates; None: not measured, or no rates."""
    step_ns = example.targets.get(STEP_TIME)
    if step_ns is None or not any(example.machine.flop_per_s.values()):
        return None
    flop = sum(one.flop * one.calls / features.pi(example.machine, one.dtype) for one in example.kernels)
    return flop * 1e9 > _TOO_FAST * step_ns


def _too_small(example: Example) -> bool | None:
    """Whether the weights alone hold more memory than was measured; None: one of the two is not known."""
    peak = example.targets.get(PEAK_MEMORY)
    return None if peak is None or not example.weight_bytes else peak < example.weight_bytes / 2


_WRONG_TIME = (
    f"their FLOP would run {_TOO_FAST:g} times faster than the machine can; write step_time in ns, flop.* in FLOP of "
    "one step, flop_per_s.* in FLOP/s"
)
_WRONG_MEMORY = "it is less than half of weight_bytes; write both in bytes"
_DOUBTS: tuple[tuple[str, str, Callable[[Example], bool | None]], ...] = (
    (STEP_TIME, _WRONG_TIME, _too_fast),
    (PEAK_MEMORY, _WRONG_MEMORY, _too_small),
)


def _refuse(where: str, what: str) -> None:
    msg = f"{where}: {what}"
    raise UsageError(msg)
