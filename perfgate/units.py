"""Floor 0. Numbers to text and text to numbers: the only place that rounds.

Stored values carry their unit in the name (``latency_ns``, ``peak_bytes``); this module
turns them into three significant digits with a unit, and reads the forms people write in
``perfgate.toml``. There is no text but ``n/a`` for None, NaN and infinity. FLOP = 2 x multiply-accumulate, everywhere.
"""

from __future__ import annotations

import math
import re
from typing import TypeGuard

_TIME_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}
_BYTES = {
    "B": 1.0,
    "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
}  # fmt: skip
_ENERGY_J = {"uJ": 1e-6, "µJ": 1e-6, "μJ": 1e-6, "mJ": 1e-3, "J": 1.0, "kJ": 1e3}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*")

NOT_AVAILABLE = "n/a"

# Outside of these nobody counts the zeros: such a number is shown by its power of ten.
_LEAST_IN_FULL, _MOST_IN_FULL = 1e-15, 1e18


def _parse(text: str, units: dict[str, float], example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if not match or match[2] not in units:
        msg = f"{text!r} is not a quantity; write a number and one of {', '.join(units)}, as in {example!r}"
        raise ValueError(msg)
    return float(match[1]) * units[match[2]]


def parse_duration_ns(text: str) -> float:
    """Nanoseconds of ``"20ms"``, ``"1.5 s"``, ``"10min"``. Raises ValueError with the accepted units."""
    return _parse(text, _TIME_NS, "20ms")


def parse_bytes(text: str) -> float:
    """Bytes of ``"22GiB"`` (binary) or ``"22GB"`` (decimal). Raises ValueError with the accepted units."""
    return _parse(text, _BYTES, "22GiB")


def parse_energy_j(text: str) -> float:
    """Joules of ``"35mJ"``. Raises ValueError with the accepted units."""
    return _parse(text, _ENERGY_J, "35mJ")


def parse_fraction(text: str) -> float:
    """0.03 of ``"3%"`` or ``"0.03"``. Raises ValueError unless finite and >= 0."""
    body = text.strip()
    percent = body.endswith("%")
    try:
        value = float(body[:-1].strip() if percent else body)
    except ValueError:
        msg = f"{text!r} is not a share; write it as '3%' or '0.03'"
        raise ValueError(msg) from None
    if not math.isfinite(value) or value < 0:
        msg = f"{text!r} is not a share; write a number of at least 0, as in '3%'"
        raise ValueError(msg)
    return value / 100 if percent else value


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def significant(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits, thousands by thin space; ``n/a`` for NaN and infinity.

    In exponent form (``1.00e+308``) only from 10^18 on and below 10^-15.
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return NOT_AVAILABLE
    if not _LEAST_IN_FULL <= abs(value) < _MOST_IN_FULL:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = _grouped(value, decimals)
    # 9.999 rounds up to 10.00: one digit too many, so round again at the new magnitude.
    if decimals and len(re.sub(r"\D", "", text).lstrip("0")) > digits:
        text = _grouped(value, decimals - 1)
    return text


def _grouped(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}".replace(",", "\u202f")


def _whole(value: float) -> str:
    """All digits before the point, as long as somebody would read them."""
    return _grouped(value, 0) if abs(value) < _MOST_IN_FULL else significant(value)


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    for size, unit in steps:
        # Compare after rounding, so that 999.96 us is shown as "1.00 ms" and not as "1 000 us".
        if abs(float(f"{value / size:.3g}")) >= 1 or size == steps[-1][0]:
            return f"{significant(value / size)} {unit}"
    raise AssertionError(steps)


def duration(ns: float | None) -> str:
    """Three digits of a time in ns: ``13.9 ms``; ``n/a`` where there is none."""
    if not _known(ns):
        return NOT_AVAILABLE
    return _scaled(ns, ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")))


def wall_clock(seconds: float) -> str:
    """Whole seconds as people say them: ``6 min 12 s``."""
    total = max(0, round(seconds))
    minutes, rest = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size(count: float | None) -> str:
    """Three digits of a memory size in bytes: ``11.4 GiB``; ``n/a`` where there is none."""
    if not _known(count):
        return NOT_AVAILABLE
    return _scaled(count, ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")))


def decimal(count: float | None, unit: str) -> str:
    """Three digits of a count with a decimal prefix: ``8.18 GFLOP``, ``25.6 M`` for an empty unit."""
    if not _known(count):
        return NOT_AVAILABLE
    prefixes = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
    for step, prefix in prefixes:
        if abs(float(f"{count / step:.3g}")) >= 1:
            return f"{significant(count / step)} {prefix}{unit}".rstrip()
    text = f"{count:.0f}" if float(count).is_integer() else significant(count)
    return f"{text} {unit}".rstrip()


def rate(items_per_s: float | None) -> str:
    """Three digits of a throughput: ``3 340 items/s``, ``1.20 M items/s``; ``n/a`` where there is none."""
    if not _known(items_per_s):
        return NOT_AVAILABLE
    for step, prefix in ((1e9, "G "), (1e6, "M ")):
        if abs(float(f"{items_per_s / step:.3g}")) >= 1:
            return f"{significant(items_per_s / step)} {prefix}items/s"
    return f"{significant(float(f'{items_per_s:.3g}'))} items/s"


def flop(count: float | None) -> str:
    """FLOP and MAC side by side: ``8.18 GFLOP (4.09 GMAC)``."""
    if not _known(count):
        return NOT_AVAILABLE
    return f"{decimal(count, 'FLOP')} ({decimal(count / 2, 'MAC')})"


def energy(joule: float | None) -> str:
    """Three digits of an energy in joules: ``1.25 J``; ``n/a`` where there is none."""
    if not _known(joule):
        return NOT_AVAILABLE
    return _scaled(joule, ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")))


def money(usd: float | None, *, sign: bool = False) -> str:
    """US dollars, at least to the cent and to three digits: ``$0.00412``, ``$0.44``, ``$98.32``, ``$1 180``.

    From a thousand on whole dollars. Never ``$0.00`` for an amount that is not 0. ``n/a`` where there is none.
    """
    if not _known(usd):
        return NOT_AVAILABLE
    amount = abs(usd)
    if amount >= 999.995:
        text = _whole(amount)
    elif amount >= 1:
        text = f"{amount:.2f}"
    elif amount >= _LEAST_IN_FULL:
        whole, _, decimals = significant(amount).partition(".")
        text = f"{whole}.{decimals.rstrip('0'):0<2}"
    elif amount > 0:
        text = significant(amount)
    else:
        return "$0"
    if usd < 0:
        return f"\u2212${text}"
    return f"+${text}" if sign else f"${text}"


def percent(fraction: float | None, *, sign: bool = False) -> str:
    """One decimal of a share: ``+7.9 %``, with U+2212 as minus; ``n/a`` where there is none."""
    value = None if fraction is None else 100 * fraction
    if not _known(value):
        return NOT_AVAILABLE
    text = f"{abs(value):.1f}" if abs(value) < 999.95 else significant(abs(value))
    if float(f"{abs(value):.1f}") == 0:
        return f"{text} %"
    if value < 0:
        return f"\u2212{text} %"
    return f"+{text} %" if sign else f"{text} %"


def share(fraction: float) -> str:
    """A limit as people write it: ``3 %``, ``0.5 %``."""
    return f"{100 * fraction:.4g} %"


def quantity(value: float | None, unit: str) -> str:
    """``value`` in the registry's ``unit`` (see ``records.metrics``) as text for people, or ``n/a``."""
    if not _known(value):
        return NOT_AVAILABLE
    match unit:
        case "ns":
            return duration(value)
        case "byte":
            return size(value)
        case "flop":
            return flop(value)
        case "joule":
            return energy(value)
        case "item/s":
            return rate(value)
        case "count":
            return _whole(value)
        case "ratio":
            return percent(value)
        case "usd":
            return money(value)
        case _:
            return f"{significant(value)} {unit}".rstrip()
