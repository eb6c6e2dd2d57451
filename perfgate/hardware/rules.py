"""Floor 2, hardware. Rules that one row of a table must meet by itself, whatever the table.

In: a row, with its architecture where that is known. Out: problems. Physics and arithmetic only: how fast pins of each
kind of memory run, how large its chips are, how much a watt can compute, and how the rates of one architecture hang
together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from perfgate.hardware.entries import BANDWIDTH, MATRIX, MEASURED, MEMORY, POWER, Family, near
from perfgate.hardware.rows import (
    ACCUMULATION,
    COLUMN,
    HALF,
    IMPLAUSIBLE,
    NUMBER,
    RATIO,
    SPARSE,
    THOUSAND_TOLERANCE,
    UNIT,
    UNSUPPORTED,
    VECTOR,
    Problem,
    Row,
    shown,
)
from perfgate.records.hardware import DTYPES

# Gbit/s that one pin moves, from the slowest to the fastest parts on sale (JEDEC grades and makers' catalogues).
PIN_RATES = {
    "gddr5": (3.5, 9.0),
    "gddr5x": (9.0, 12.5),
    "gddr6": (9.0, 20.5),
    "gddr6x": (18.0, 24.5),
    "gddr7": (17.0, 36.5),
    "hbm2": (1.0, 2.5),
    "hbm2e": (1.1, 3.8),
    "hbm3": (4.0, 6.7),
    "hbm3e": (5.6, 9.9),
}
# GiB of graphics memory on each 32 bits of the interface: one chip, or two that share it.
_CHANNEL_GIB = (0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)

# Operations a second and watt that no device on sale exceeds (float32: L4 0.42e12; bfloat16: B200 2.3e12).
_MOST_PER_WATT = {"float64": 0.4e12, "float32": 0.6e12, "tf32": 1.8e12, "float16": 3.5e12, "bfloat16": 3.5e12}
_MOST_PER_WATT |= {"fp8": 7e12, "int8": 7e12}
# And of one device, whatever its power.
_MOST = {
    "float64": 0.3e15,
    "float32": 0.3e15,
    "tf32": 2e15,
    "float16": 5e15,
    "bfloat16": 5e15,
    "fp8": 12e15,
    "int8": 12e15,
}

# How far a rate may be from what its family and float32 give: clocks under vector and matrix load differ a little.
_RATIO_TOLERANCE = 0.12


def inspect(item: Row) -> Iterator[Problem]:
    """Everything that is wrong with ``item`` by itself; a field may be named by several rules."""
    yield from _numbers(item)
    yield from _unsupported(item)
    yield from _ratios(item)
    yield from _watts(item)
    yield from _swapped(item)
    yield from _pins(item)
    yield from _chips(item)
    yield from _measured(item)


def _numbers(item: Row) -> Iterator[Problem]:
    for name, value in item.values.items():
        if not (math.isfinite(value) and value > 0):
            yield Problem(platform=item.name, field=name, what=NUMBER, text=f"{value} is not a number above 0")


def _unsupported(item: Row) -> Iterator[Problem]:
    family = item.family
    if family is None:
        return
    for dtype in DTYPES:
        if dtype in item.values and not family.supports(dtype):
            yield item.problem(dtype, UNSUPPORTED, f"{family.name} has no instructions for {dtype}")


def _ratios(item: Row) -> Iterator[Problem]:
    """Rates of one architecture against its base rate (float32, or bfloat16 where there is no other)."""
    family = item.family
    base = item.values.get(family.base, 0.0) if family is not None else 0.0
    if family is None or not (math.isfinite(base) and base > 0):
        return
    for dtype, ratio in family.ratio.items():
        value = item.values.get(dtype, 0.0)
        expected = ratio * base
        if value <= 0 or dtype in item.unlike_family or near(value, expected, _RATIO_TOLERANCE):
            continue
        what, why = _why_ratio(family, dtype, value / expected, value / base)
        wanted = f"{family.name} gives {ratio:.4g} x {family.base}, {shown(dtype, expected)}"
        yield item.problem(dtype, what, f"{why} ({wanted})")


def _why_ratio(family: Family, dtype: str, against: float, times_base: float) -> tuple[str, str]:
    for factor in (1000.0, 0.001):
        if near(against, factor, THOUSAND_TOLERANCE):
            return UNIT, f"{factor:g} times what the other rates give: another unit"
    matrix = dtype in MATRIX and family.ratio.get(dtype, 0.0) > 1.5 * (family.vector_half or 1.0)
    if matrix and family.base == "float32" and any(near(times_base, k) for k in (1.0, family.vector_half)):
        return VECTOR, "the rate of the vector units, not of the matrix units"
    if near(against, 2.0) and family.sparse:
        return SPARSE, "twice the dense rate: with structured sparsity"
    if near(against, 2.0) and family.half_accumulate:
        return ACCUMULATION, "twice the rate: with float16 accumulation"
    if near(against, 0.5):
        return HALF, "half the rate: a multiply-add counted as one operation"
    same = [other for other, ratio in family.ratio.items() if other != dtype and near(times_base, ratio)]
    if same:
        return COLUMN, f"the rate of {' or '.join(same)}"
    return RATIO, f"{against:.3g} times what the other rates give"


def _watts(item: Row) -> Iterator[Problem]:
    power = item.values.get(POWER, math.nan)
    for dtype, most in _MOST_PER_WATT.items():
        value = item.values.get(dtype, 0.0)
        per_watt = value / power if power > 0 else 0.0
        if per_watt > 5 * most and value > _MOST[dtype]:
            yield item.problem(dtype, UNIT, f"at {power:g} W beyond any device; a thousandth would fit: another unit")
        elif per_watt > most:
            yield item.problem(dtype, IMPLAUSIBLE, f"at {power:g} W more than any device does ({most / 1e12:g} a watt)")
        elif value > _MOST[dtype] and math.isfinite(value):
            yield item.problem(dtype, IMPLAUSIBLE, f"more than any device does ({shown(dtype, _MOST[dtype])})")


def _pins(item: Row) -> Iterator[Problem]:
    """Bandwidth over the width of the interface is what one pin moves: every kind of memory has its range."""
    value = item.values.get(BANDWIDTH, 0.0)
    limits = PIN_RATES.get(item.memory_type)
    if limits is None or item.bus_bits <= 0 or value <= 0:
        return
    pin = value * 8 / item.bus_bits / 1e9
    if not limits[0] <= pin <= limits[1]:
        kind = item.memory_type.upper()
        text = f"{pin:.3g} Gbit/s a pin on {item.bus_bits} bits; {kind} does {limits[0]:g} to {limits[1]:g}"
        yield item.problem(BANDWIDTH, IMPLAUSIBLE, text)


def _chips(item: Row) -> Iterator[Problem]:
    """Graphics memory comes in equal chips on every 32 bits of the interface."""
    value = item.values.get(MEMORY, 0.0)
    if not item.memory_type.startswith("gddr") or item.bus_bits < 32 or value <= 0:
        return
    each = value / 2**30 / (item.bus_bits / 32)
    if not any(near(each, size, 0.01) for size in _CHANNEL_GIB):
        text = f"{item.bus_bits // 32} channels cannot hold it in equal chips ({each:.3g} GiB each)"
        yield item.problem(MEMORY, IMPLAUSIBLE, text)


def _swapped(item: Row) -> Iterator[Problem]:
    """GiB and GB/s: no graphics memory is larger than what it moves in a second."""
    memory, bandwidth = item.values.get(MEMORY, 0.0), item.values.get(BANDWIDTH, 0.0)
    if memory > 0 and 0 < bandwidth < memory:
        text = "moves less in a second than it holds: the columns of memory and bandwidth are swapped"
        yield item.problem(BANDWIDTH, COLUMN, text)
        yield item.problem(MEMORY, COLUMN, text)


def _measured(item: Row) -> Iterator[Problem]:
    """Nothing measured exceeds the peak."""
    for name, value in item.values.items():
        peak = item.values.get(name.removeprefix(MEASURED))
        if name.startswith(MEASURED) and peak is not None and value > 1.02 * peak:
            yield item.problem(name, IMPLAUSIBLE, f"measured above the peak of {shown(name, peak)}")
