"""Floor 2, config. The kinds of values that stand in ``[cost]``: money, volumes, machines, dates.

In: one TOML value. Out: the same value in the unit of the records. Every reader raises ValueError with one
sentence that says what to write instead.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from perfgate import units
from perfgate.config import values as v
from perfgate.records.cost import HOURS_PER_MONTH, ITEMS, STEPS, Volume

T = TypeVar("T")

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_SUFFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
# How many of the period make a month.
_PER_MONTH = {
    "s": 3600 * HOURS_PER_MONTH, "second": 3600 * HOURS_PER_MONTH,
    "min": 60 * HOURS_PER_MONTH, "minute": 60 * HOURS_PER_MONTH,
    "h": HOURS_PER_MONTH, "hour": HOURS_PER_MONTH,
    "d": HOURS_PER_MONTH / 24, "day": HOURS_PER_MONTH / 24,
    "week": HOURS_PER_MONTH / (24 * 7),
    "month": 1.0,
    "year": 1 / 12,
}  # fmt: skip
_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_VOLUME = re.compile(rf"\s*{_NUMBER}\s*([kMGBT]?)\s*(steps?|items?)\s*(?:/|per)\s*([a-z]+)\s*")
_DAYS = re.compile(rf"\s*{_NUMBER}\s*(d|days?|weeks?)\s*")
_PROVIDER = r"[a-z0-9][a-z0-9._-]{0,99}"
_PLATFORM = re.compile(r"[a-z0-9][a-z0-9.+_-]{0,99}")
_LONGEST = 40
_LEAST_USD, _MOST_USD = 1e-9, 1e12
_LEAST_JOB_S, _MOST_JOB_S = 1.0, 100 * 366 * 86400.0
_LEAST_AMOUNT, _MOST_AMOUNT = 1e-3, 1e21
_LEAST_DUTY = 1e-4
_MOST_BYTES = 1e6 * 2.0**40


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _positive(what: str, example: str, least: float, most: float, *, zero: bool = False) -> Callable[[object], float]:
    """Reader of a plain number from ``least`` to ``most`` (or 0 too): ``what`` it is stands in the message.

    Bounds are far outside of what anybody means. What lies beyond them is a slip of the keyboard, would fill lines with
    digits, or overflow where it is multiplied.
    """

    def read(value: object) -> float:
        if not (_is_number(value) and isinstance(value, (int, float)) and (value > 0 or (zero and value == 0))):
            above = "of at least 0" if zero else "above 0"
            msg = f"{_shown(value)} is not {what}; write a plain number {above}, as in {example}"
            raise ValueError(msg)
        if value and not least <= value <= most:
            msg = f"{_shown(value)} is out of range for {what}; write {least:g} to {most:g}, as in {example}"
            raise ValueError(msg)
        return float(value)

    return read


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


read_usd = _positive("an amount of US dollars", "0.53", _LEAST_USD, _MOST_USD)
read_free_usd = _positive("an amount of US dollars", "0.09", 1e-9, 1e6, zero=True)
read_factor = _positive("a factor", "0.7 for 30 % off", 1e-3, 1e3)
read_rate = _positive("a rate", "200", 1e-9, 1e15)
read_amount = _positive("a number of items", "1e9", _LEAST_AMOUNT, _MOST_AMOUNT)
read_years = _positive("a number of years", "4", 1e-2, 1e3)
read_watt = _positive("a power in watts", "700", 1e-2, 1e9)
read_part = _positive("a part of a device", "0.5", 1e-4, 64)


def read_step_ns(value: object) -> float:
    """Nanoseconds of ``"20ms"``; nothing runs in less than one."""
    found = v.read_duration_ns(value)
    if found < 1:
        msg = f"{value!r} is out of range; write at least 1 ns, as in '20ms'"
        raise ValueError(msg)
    return found


def read_memory(value: object) -> float:
    """Bytes of ``"80GiB"``; one byte to a million TiB."""
    found = v.read_bytes(value)
    if not 1 <= found <= _MOST_BYTES:
        msg = f"{value!r} is out of range for a memory; write it as in '80GiB'"
        raise ValueError(msg)
    return found


def read_deadline_s(value: object) -> float:
    """Seconds of ``"36h"`` or ``"14 days"``: a job may take longer than any single measurement."""
    if not isinstance(value, str):
        msg = f"{value!r} has no unit; write it as '36h' or '14 days'"
        raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueError only
    days = _DAYS.fullmatch(value)
    try:
        seconds = _days_s(days) if days else units.parse_duration_ns(value) / 1e9
    except ValueError:
        msg = f"{value!r} is no time for a job; write it as '36h' or '14 days'"
        raise ValueError(msg) from None
    if not _LEAST_JOB_S <= seconds <= _MOST_JOB_S:
        msg = f"{value!r} is out of range; write 1 s to 100 years, as in '36h' or '14 days'"
        raise ValueError(msg)
    return seconds


def _days_s(match: re.Match[str]) -> float:
    return float(match[1]) * 86400 * (7 if match[2].startswith("week") else 1)


def read_percentile(value: object) -> float:
    """0.99 of ``"p99"`` or ``0.99``; only the percentiles that are measured."""
    if isinstance(value, str) and value in _PERCENTILES:
        return _PERCENTILES[value]
    if _is_number(value) and value in _PERCENTILES.values():
        return float(value)  # type: ignore[arg-type]  # a number, as _is_number says
    msg = f"{value!r} is no percentile of the step time; write one of 'p50', 'p90' and 'p99'"
    raise ValueError(msg)


def read_headroom(value: object) -> float:
    """A share that stays free: 0 is allowed, all of it is not."""
    found = v.read_share(value)
    if found >= 1:
        msg = f"{units.share(found)} leaves no memory at all; write less than 100 %, as in '10%'"
        raise ValueError(msg)
    return found


def read_duty(value: object) -> float:
    """A share of all hours, above 0 and at most 1."""
    found = 1.0 if _is_number(value) and value == 1 else v.read_share(value)
    if not _LEAST_DUTY <= found <= 1:
        msg = f"{units.share(found)} is no share of all hours; write 0.01 % to 100 %, as in '60%'"
        raise ValueError(msg)
    return found


def read_volume(value: object) -> Volume:
    """``Volume`` of a month, from ``"40M steps/month"``, ``"3e6 items/day"``, ``"25 items/s"``.

    A month has 730 hours.
    """
    match = _VOLUME.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[4] not in _PER_MONTH:
        periods = ", ".join(name for name in _PER_MONTH if len(name) > 1)
        msg = f"{value!r} is no volume; write it as '40M steps/month' or '3e6 items/day' (per {periods})"
        raise ValueError(msg)
    amount = float(match[1]) * _SUFFIX[match[2]] * _PER_MONTH[match[4]]
    if not _LEAST_AMOUNT <= amount <= _MOST_AMOUNT:
        msg = f"{value!r} is out of range; write 1e-3 to 1e21 a month, as in '40M steps/month'"
        raise ValueError(msg)
    return Volume(amount=amount, unit=STEPS if match[3].startswith("step") else ITEMS)


def read_runner(value: object) -> str:
    """``aws/g6.xlarge``, ``own/rack``, or a price an hour, which stays text in the record."""
    if _is_number(value) or (isinstance(value, str) and re.fullmatch(rf"\s*{_NUMBER}\s*", value)):
        text = str(value).strip()
        if _LEAST_USD <= float(text) <= _MOST_USD:
            return text
    elif isinstance(value, str) and _is_offer(value):
        return value
    msg = f"{value!r} is no runner; write 'aws/g6.xlarge', 'own/NAME' or its price in US dollars an hour, as in 0.53"
    raise ValueError(msg)


def read_platform(value: object) -> str:
    """The form of a platform's name: whether there is such a platform is checked where the catalogue is known."""
    if isinstance(value, str) and _PLATFORM.fullmatch(value):
        return value
    msg = f"{value!r} is no name of a platform; write it in lower case without spaces, as in 'h100-sxm' or 'l4'"
    raise ValueError(msg)


def read_provider(value: object) -> str:
    """``aws``; also ``own`` for machines with a price of one's own."""
    if isinstance(value, str) and re.fullmatch(_PROVIDER, value):
        return value
    msg = f"{value!r} names no provider; write it in lower case, as in 'aws'"
    raise ValueError(msg)


def read_offers(value: object) -> str:
    """``aws`` or ``aws/p5.48xlarge``: one offer, or all of a provider."""
    if isinstance(value, str) and (re.fullmatch(_PROVIDER, value) or _is_offer(value)):
        return value
    msg = f"{value!r} names no offer; write 'aws/p5.48xlarge', or 'aws' for the whole provider"
    raise ValueError(msg)


def read_region(value: object) -> str:
    """A region as its provider writes it."""
    if isinstance(value, str) and value.strip() == value and value and value.isprintable():
        return value
    msg = f"{value!r} names no region; write it as its provider does, as in 'us-east-1'"
    raise ValueError(msg)


def read_count(value: object) -> int:
    """Devices in a machine."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 4096:
        return value
    msg = f"{_shown(value)} is no number of devices; write a whole number from 1 to 4096"
    raise ValueError(msg)


def read_date(value: object) -> str:
    """``YYYY-MM-DD``, as text or as a TOML date."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        try:
            return dt.date.fromisoformat(value).isoformat()
        except ValueError:
            pass
    msg = f"{str(value)!r} is no date; write it as '2026-11-30'"
    raise ValueError(msg)


def read_price_name(value: str) -> str:
    """The NAME of ``own/NAME``."""
    if re.fullmatch(r"[\w][\w.+-]{0,99}", value):
        return value
    msg = f"{value!r} is no name for a machine; use letters, digits, '_', '.', '+' and '-', at most 100"
    raise ValueError(msg)


def _is_offer(text: str) -> bool:
    provider, slash, instance = text.partition("/")
    named = bool(instance) and instance.strip() == instance and instance.isprintable()
    return bool(slash) and named and bool(re.fullmatch(_PROVIDER, provider))


def _all(value: object) -> object:
    """``"all"``: no such constraint, as without the key."""
    return None if value is None or value == "all" else v.as_list(value)


def _listed(value: object) -> object:
    return None if value is None else v.as_list(value)


def _distinct(items: list[T] | None) -> list[T] | None:
    return items if items is None else v.distinct(items)


def _reader(function: Callable[[object], Any]) -> BeforeValidator:
    return BeforeValidator(function)


Usd = Annotated[float, _reader(read_usd)]
FreeUsd = Annotated[float, _reader(read_free_usd)]
Factor = Annotated[float, _reader(read_factor)]
Rate = Annotated[float, _reader(read_rate)]
Amount = Annotated[float, _reader(read_amount)]
Years = Annotated[float, _reader(read_years)]
Watt = Annotated[float, _reader(read_watt)]
Part = Annotated[float, _reader(read_part)]
DeadlineS = Annotated[float, _reader(read_deadline_s)]
Percentile = Annotated[float, _reader(read_percentile)]
Headroom = Annotated[float, _reader(read_headroom)]
Duty = Annotated[float, _reader(read_duty)]
StepNs = Annotated[float, _reader(read_step_ns)]
Memory = Annotated[float, _reader(read_memory)]
MonthlyVolume = Annotated[Volume, _reader(read_volume)]
Runner = Annotated[str, _reader(read_runner)]
PlatformName = Annotated[str, _reader(read_platform)]
Provider = Annotated[str, _reader(read_provider)]
OfferName = Annotated[str, _reader(read_offers)]
Region = Annotated[str, _reader(read_region)]
Date = Annotated[str, _reader(read_date)]
DeviceCount = Annotated[int, _reader(read_count)]
Days = Annotated[int, Field(ge=1, le=36500)]
# As keys of a table: pydantic reads them as text already.
PriceName = Annotated[str, AfterValidator(read_price_name)]
OfferKey = Annotated[str, AfterValidator(read_offers)]
ProviderKey = Annotated[str, AfterValidator(read_provider)]
Terms = Literal["on-demand", "spot", "own"]
Form = Literal["single", "data", "tensor", "pipeline"]
Objective = Literal["cost", "utilisation", "time", "energy"]

_LISTED = BeforeValidator(_all)
_ONCE = AfterValidator(_distinct)
Platforms = Annotated[list[PlatformName] | None, _LISTED, _ONCE]
Providers = Annotated[list[Provider] | None, _LISTED, _ONCE]
Regions = Annotated[list[Region] | None, _LISTED, _ONCE]
Offers = Annotated[list[OfferName] | None, BeforeValidator(_listed), _ONCE]
Counts = Annotated[list[DeviceCount] | None, _LISTED, _ONCE]
AllTerms = Annotated[list[Terms] | None, _LISTED, _ONCE]
Forms = Annotated[list[Form] | None, _LISTED, _ONCE]
Objectives = Annotated[list[Objective] | None, BeforeValidator(_listed), _ONCE]
