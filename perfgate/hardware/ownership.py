"""Floor 2, hardware. What a machine of one's own costs an hour.

In: :class:`OwnPrice` of ``[cost.prices.NAME]``. Out: its :class:`Offer`. On premises (total cost of ownership, without
staff, space and network, which only their owner knows)::

    USD/h = (purchase / lifetime + power x price of energy x hours of use) / hours of use in a year

All in a year; hours of use = duty x 8760. Power is drawn while the machine is used, so a duty below 1 spreads the
purchase over fewer hours and leaves energy as it is. Cooling belongs in ``power_w`` (the meter's reading, or thermal
design power times the data centre's PUE).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from perfgate.errors import UsageError
from perfgate.hardware import catalogue
from perfgate.records.cost import OwnPrice
from perfgate.records.hardware import CPU, OWN, Offer, Platform

HOURS_PER_YEAR = 8760.0
DECLARED = "declared by its owner"
COMPUTED = "what its owner says of purchase and power"


def usd_per_hour(own: OwnPrice) -> float:
    """The declared price, or what purchase, lifetime, power, energy and duty make of it. Raises UsageError."""
    if own.usd_per_hour is not None:
        return _above_zero(own, "usd_per_hour", own.usd_per_hour)
    if own.purchase_usd is None and not own.power_w:
        msg = f"{_place(own)}: has no price; set usd_per_hour, or purchase_usd with lifetime_years"
        raise UsageError(msg)
    duty = _above_zero(own, "duty", own.duty)
    if duty > 1:
        msg = f"{_place(own)}.duty: is above 1; write the share of the year's hours that the machine is used"
        raise UsageError(msg)
    purchase_a_year = 0.0
    if own.purchase_usd is not None:
        purchase_a_year = _not_negative(own, "purchase_usd", own.purchase_usd)
        purchase_a_year /= _above_zero(own, "lifetime_years", own.lifetime_years)
    energy_an_hour = _not_negative(own, "power_w", own.power_w or 0.0) / 1e3
    energy_an_hour *= _not_negative(own, "usd_per_kwh", own.usd_per_kwh)
    total = purchase_a_year / (duty * HOURS_PER_YEAR) + energy_an_hour
    if not total > 0:
        msg = f"{_place(own)}: costs nothing; set usd_per_hour, or purchase_usd and usd_per_kwh"
        raise UsageError(msg)
    if not math.isfinite(total):
        msg = f"{_place(own)}: costs more than any number; correct purchase_usd, lifetime_years, power_w or duty"
        raise UsageError(msg)
    return total


def offer(own: OwnPrice, platforms: Mapping[str, Platform], *, today: str) -> Offer:
    """``own/NAME``. Without a date of its own the price is as of ``today``: the file is in force. Raises UsageError."""
    if own.platform not in platforms:
        msg = f"{_place(own)}.platform: {own.platform!r} is no known platform; {catalogue.remedy(own.platform)}"
        raise UsageError(msg)
    if own.count < 1:
        msg = f"{_place(own)}.count: is below 1; write how many devices the machine has"
        raise UsageError(msg)
    share = _above_zero(own, "share", own.share)
    if share > 1 and platforms[own.platform].kind != CPU:
        # Several devices have several memories; only sockets of a CPU are one machine.
        msg = f"{_place(own)}.share: is above 1; write count for several devices, and share for a part of one"
        raise UsageError(msg)
    return Offer(
        provider=OWN,
        region=own.region,
        instance=own.name,
        platform=own.platform,
        count=own.count,
        usd_per_hour=usd_per_hour(own),
        terms=OWN,
        date=own.date or today,
        share=share,
        memory_bytes=own.memory_bytes,
        source=DECLARED if own.usd_per_hour is not None else COMPUTED,
    )


def _place(own: OwnPrice) -> str:
    return f"cost.prices.{own.name}"


def _above_zero(own: OwnPrice, key: str, value: float) -> float:
    if not 0 < value < math.inf:
        msg = f"{_place(own)}.{key}: is not above 0; write a number above 0"
        raise UsageError(msg)
    return value


def _not_negative(own: OwnPrice, key: str, value: float) -> float:
    if not 0 <= value < math.inf:
        msg = f"{_place(own)}.{key}: is negative or no number; write a number of at least 0"
        raise UsageError(msg)
    return value
