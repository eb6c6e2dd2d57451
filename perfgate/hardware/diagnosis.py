"""Floor 2, hardware. Why a published value differs from the catalogue's: which known mistake makes that number.

In: a row's value and the reference. Out: a diagnosis and a sentence. Explanations are tried from the most to the least
specific, each an arithmetic relation (factor, other column, other device); the first that fits within the tolerance is
taken, and a value that nothing explains is said to differ, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

from perfgate.hardware.entries import BANDWIDTH, MATRIX, MEMORY, POWER, TOLERANCE, Entry, near
from perfgate.hardware.rows import (
    ACCUMULATION,
    BINARY,
    BOARD,
    COLUMN,
    DEVICE,
    DIE,
    DIFFERS,
    HALF,
    SPARSE,
    THOUSAND_TOLERANCE,
    UNIT,
    UNSUPPORTED,
    VECTOR,
    Problem,
    Reference,
    Row,
    is_matrix,
    shown,
)
from perfgate.records.hardware import CPU, DTYPES

_Finding = tuple[str, str]
# Another device's value must be met closely: any two numbers are within 5 % of some third.
_SAME_FAMILY = 0.015
_OTHER_FAMILY = 0.004
_CLOCKS = 0.07  # makers' editions of a card differ so much in clock
_DECIMAL = 0.08  # a GiB is 7.4 % more than a GB, and tables mix them
_NAMED = 3


def differences(item: Row, reference: Reference, tolerance: float = TOLERANCE) -> Iterator[Problem]:
    """One problem for each value of ``item`` that is further than ``tolerance`` from its reference."""
    entry = reference.of(item)
    if entry is None:
        return
    known = entry.values()
    for name, value in item.values.items():
        if name not in known:
            if name in DTYPES and not entry.family.supports(name):
                text = f"{entry.family.name} has no instructions for {name}{_isa(entry)}"
                yield item.problem(name, UNSUPPORTED, text)
        elif not near(value, known[name], tolerance):
            what, why = _explain(name, value, entry, reference)
            yield item.problem(name, what, f"{why} (catalogue: {shown(name, known[name])})")


def _isa(entry: Entry) -> str:
    return f": the rate assumes vector units that {entry.platform.label} lacks" if entry.family.kind == CPU else ""


def _explain(name: str, value: float, entry: Entry, reference: Reference) -> _Finding:
    tests: tuple[Callable[[str, float, Entry, Reference], _Finding | None], ...]
    if name in DTYPES:
        tests = (_unit, _vector, _doubled, _half, _column, _device, _sparse_device, _count)
    elif name == BANDWIDTH:
        tests = (_unit, _device, _binary, _count)
    elif name == MEMORY:
        tests = (_sibling, _count, _unit, _binary, _device)
    else:
        tests = (_count, _unit) if name == POWER else (_unit, _half)
    for test in tests:
        finding = test(name, value, entry, reference)
        if finding is not None:
            return finding
    return DIFFERS, f"{value / entry.values()[name]:.3g} times the known value, by no known mistake"


def _unit(name: str, value: float, entry: Entry, _: Reference) -> _Finding | None:
    against = value / entry.values()[name]
    for factor, text in ((1000.0, "a thousand times"), (0.001, "a thousandth of")):
        if near(against, factor, THOUSAND_TOLERANCE):
            return UNIT, f"{text} the known value: another unit"
    return None


def _vector(name: str, value: float, entry: Entry, _: Reference) -> _Finding | None:
    """The vector units' rate of this dtype, or their float32 rate, where the matrix units do more."""
    peaks, share = entry.platform.peak_flop_per_s, entry.family.vector_share
    rates = [share[name] * peaks[name]] if name in share else []
    if is_matrix(name, entry.platform):
        base = peaks.get("float32", 0.0)
        half = entry.family.vector_half if name in ("float16", "bfloat16") else 0.0
        rates += [base, share.get("float32", 1.0) * base, half * base]
    if any(rate and near(value, rate, _CLOCKS) for rate in rates):
        return VECTOR, "the rate of the vector units, not of the matrix units"
    return None


def _doubled(name: str, value: float, entry: Entry, _: Reference) -> _Finding | None:
    if name not in MATRIX or not near(value / entry.values()[name], 2.0):
        return None
    accumulated = entry.family.half_accumulate and name in ("float16", "bfloat16", "fp8")
    if entry.family.sparse:
        also = ", or with float16 accumulation" if accumulated else ""
        return SPARSE, f"twice the dense rate: with structured sparsity{also}"
    return (ACCUMULATION, "twice the rate: with float16 accumulation") if accumulated else None


def _column(name: str, value: float, entry: Entry, _: Reference) -> _Finding | None:
    """Another dtype's rate of the same device, dense or sparse."""
    others = {dtype: rate for dtype, rate in entry.platform.peak_flop_per_s.items() if dtype != name}
    found = [f"{dtype} with sparsity" for dtype, rate in others.items() if _is_sparse(entry, dtype, value, rate)]
    found += [dtype for dtype, rate in others.items() if near(value, rate, _SAME_FAMILY)]
    return (COLUMN, f"the rate of {' or '.join(found)} in the column of {name}") if found else None


def _is_sparse(entry: Entry, dtype: str, value: float, rate: float) -> bool:
    return entry.family.sparse and dtype in MATRIX and near(value, 2 * rate, _SAME_FAMILY)


def _device(name: str, value: float, entry: Entry, reference: Reference) -> _Finding | None:
    found = _others(name, value, entry, reference, 1.0)
    return (DEVICE, f"the value of {', '.join(found)}") if found else None


def _sibling(name: str, value: float, entry: Entry, reference: Reference) -> _Finding | None:
    """The value of a variant: same family and nearly the same name (``v100-sxm-16gb``, ``v100-sxm-32gb``)."""
    stem = entry.platform.name.rsplit("-", 1)[0]
    found = [other for other in _others(name, value, entry, reference, 1.0) if other.rsplit("-", 1)[0] == stem]
    return (DEVICE, f"the value of {found[0]}") if found else None


def _sparse_device(name: str, value: float, entry: Entry, reference: Reference) -> _Finding | None:
    found = _others(name, value, entry, reference, 2.0)
    if not found:
        return None
    if entry.family.sparse and name in MATRIX:
        return SPARSE, f"twice the dense rate of {', '.join(found)}: with structured sparsity, and of another device"
    return (BOARD, f"twice the value of {', '.join(found)}: of two devices") if name == "float32" else None


def _others(name: str, value: float, entry: Entry, reference: Reference, factor: float) -> list[str]:
    """Whole devices of the same maker whose ``name`` times ``factor`` is ``value``; the likest names first."""
    own = entry.platform
    found = []
    for other in reference.entries.values():
        platform = other.platform
        same_kind = (platform.vendor, platform.kind) == (own.vendor, own.kind)
        known = other.values().get(name) if same_kind and not platform.part_of and platform.name != own.name else None
        close = _SAME_FAMILY if other.family.name == entry.family.name else _OTHER_FAMILY
        if known is not None and near(value, factor * known, close):
            found.append((other.family.name != entry.family.name, -_likeness(own.name, platform.name), platform.name))
    return [key for _, _, key in sorted(found)[:_NAMED]]


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _half(name: str, value: float, entry: Entry, _: Reference) -> _Finding | None:
    if not near(value / entry.values()[name], 0.5):
        return None
    peaks = entry.platform.peak_flop_per_s
    same = [dtype for dtype, rate in peaks.items() if dtype != name and near(value, rate, _SAME_FAMILY)]
    also = f", or the rate of {' or '.join(same)}" if same else ", or one of two units that issue together"
    return HALF, f"half the rate: a multiply-add counted as one operation{also}"


def _count(name: str, value: float, entry: Entry, _: Reference) -> _Finding | None:
    """A whole number of devices, or one die of two."""
    against = value / entry.values()[name]
    if near(against, 0.5, _DECIMAL) and name not in DTYPES:
        return DIE, "half the device: one die or one GPU of two"
    for devices in (2, 4, 8, 16) if name in (MEMORY, POWER) else (2,):
        if near(against, devices, _DECIMAL):
            return BOARD, f"{devices} times the device: of a board or machine with {devices}, or counted twice"
    return None


def _binary(name: str, value: float, entry: Entry, _: Reference) -> _Finding | None:
    """Thousands taken as 1 024, once: ``3 x 1024`` GB/s."""
    plain = value / (1e9 if name == BANDWIDTH else 2**30)
    if plain >= 1024 and plain % 1024 == 0 and entry.values()[name] % 1024e9:
        return BINARY, f"{plain / 1024:g} x 1024: a rounded figure in binary thousands"
    return None
