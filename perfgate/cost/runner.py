"""Floor 3, cost. What this runner is and costs: a declared price, or the cheapest offer of the recognised device.

In: the runner's stable facts, offers, ``[cost] runner``. Out: :class:`Runner`. Unknown stays unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from perfgate import units
from perfgate.hardware import catalogue, names, offers
from perfgate.hardware.short_names import short
from perfgate.records.cost import Device
from perfgate.records.hardware import CPU, ON_DEMAND, OWN, SPOT, Market, Offer

_MEMORY = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*GiB", re.ASCII)
_CORES = re.compile(r"\d{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """``device`` None: the catalogue does not know it. ``usd_per_hour`` None: nobody knows its price; see ``text``.

    ``assumed`` True: the price is that of the cheapest comparable offer and nobody declared it. ``date``: of that
    offer, or of the declared one; empty for a number.
    """

    device: Device | None
    usd_per_hour: float | None
    text: str
    assumed: bool = False
    warnings: tuple[str, ...] = ()
    date: str = ""


def runner(hardware: Mapping[str, str], device: str, declared: str, market: Market) -> Runner:
    """The runner as ``device`` (``cpu``, ``cuda:N``) of a machine with the facts ``hardware``.

    ``declared``: ``aws/g6.xlarge``, ``own/NAME``, or dollars an hour as text; empty: nothing is declared.
    """
    known = recognised(hardware, device)
    if declared:
        return _declared(known, declared, market)
    label = fact(hardware, device)
    if known is None:
        text = f"unknown: {label or device} is not in the hardware catalogue; set runner under [cost]"
        return Runner(device=None, usd_per_hour=None, text=text)
    found = offers.of_platform(market, known.platform.name, terms=(ON_DEMAND, OWN))
    if not found:
        text = f"unknown: no offer of {short(known.platform.name)} is known; set runner under [cost]"
        return Runner(device=known, usd_per_hour=None, text=text)
    best = min(found, key=lambda offer: (_per_device(offer, known), offer.name, offer.region))
    price = _per_device(best, known)
    name = short(known.platform.name)
    text = f"assumed: {units.money(price)} an hour, the cheapest offer of one {name} ({where(best)})"
    return Runner(device=known, usd_per_hour=price, text=text, assumed=True, date=best.date)


def recognised(hardware: Mapping[str, str], device: str) -> Device | None:
    """The catalogue's entry for ``device`` and the share of it that this machine has; None where it is unknown."""
    text = fact(hardware, device)
    if not text:
        return None
    platform = names.parse(text, memory_bytes=_memory(hardware, device))
    if platform is None or (device == "cpu") != (platform.kind == CPU):
        return None
    if platform.kind != CPU:
        return Device(platform=platform)
    cores = hardware.get("physical_cores", "")
    if not platform.cores or not _CORES.fullmatch(cores) or not int(cores):
        return None
    return Device(platform=platform, share=int(cores) / platform.cores)


def fact(hardware: Mapping[str, str], device: str) -> str:
    """The name that the driver or the kernel gives ``device``."""
    if device == "cpu":
        return hardware.get("cpu", "")
    return hardware.get(f"gpu{device.partition(':')[2] or '0'}", "")


def where(offer: Offer) -> str:
    """An offer in words: ``aws/g6.xlarge, us-east-1, $0.805 an hour on 2026-07-20``."""
    spot = ", spot" if offer.terms == SPOT else ""
    date = f" on {offer.date}" if offer.date else ""
    region = f", {offer.region}" if offer.region else ""
    return f"{offer.name}{region}{spot}, {units.money(offer.usd_per_hour)} an hour{date}"


def _memory(hardware: Mapping[str, str], device: str) -> int | None:
    number = device.partition(":")[2] or "0"
    match = _MEMORY.match(hardware.get(f"gpu{number}_memory", "")) if device != "cpu" else None
    return round(float(match[1]) * 2**30) if match else None


def _declared(known: Device | None, declared: str, market: Market) -> Runner:
    try:
        price = float(declared)
    except ValueError:
        price = math.nan
    if math.isfinite(price) and price > 0:
        return Runner(device=known, usd_per_hour=price, text=f"declared: {units.money(price)} an hour")
    named = [offer for offer in market.offers if offer.name == declared and offer.terms != SPOT]
    if not named:
        text = f"unknown: runner = {declared!r} under [cost] is no offer that is known; declare it under [cost.prices]"
        return Runner(device=known, usd_per_hour=None, text=text, warnings=(text,))
    best = min(named, key=lambda offer: (offer.usd_per_hour, offer.region))
    if known is None and best.platform in catalogue.platforms():
        known = Device(platform=catalogue.find(best.platform), share=best.share)
    return Runner(device=known, usd_per_hour=best.usd_per_hour, text=f"declared: {where(best)}", date=best.date)


def _per_device(offer: Offer, known: Device) -> float:
    """Price of one device, or of as much of a CPU as this machine has."""
    return offer.usd_per_hour / (offer.count * offer.share) * known.share
