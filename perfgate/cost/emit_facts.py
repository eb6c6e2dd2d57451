"""Floor 3, cost. What a scheduler is asked for, before it is written in any scheduler's words.

In: an assignment and the catalogue. Out: :class:`Ask`, and names of devices as drivers and labels have them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from perfgate.errors import UsageError
from perfgate.records.allocation import Assignment
from perfgate.records.estimate import Job
from perfgate.records.hardware import CPU, ON_DEMAND, OWN, SPOT, Offer, Platform

GIB = 2**30
X64, ARM64 = "x64", "arm64"

# Accelerators whose hosts have processors of Arm.
_ARM_HOSTS = ("t4g", "gh200", "gh200-144gb", "gb200")
# Parts of a platform's name that say how a card is built or how much memory it has, not which card it is.
_BUILD = re.compile(r"-(?:pcie|sxm\d?|nvl|\d+gb)$")
_MIG = re.compile(r"-mig-(\d+g\.\d+gb)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is asked of a scheduler.

    Attributes:
        name: Of the job. ``offer``: the machine. ``platform``: its device; ``whole`` the device that it is a part of.
        devices: Accelerators that the job uses; 0 on a processor. ``machine_devices``: how many its machine has.
        mig: Profile of the slice (``1g.10gb``), or empty. ``fraction``: the machine has a part of one device, no slice.
        cpus: Logical processors of the host that belong to these devices. ``host_bytes``: main memory.
        arch: ``x64`` or ``arm64``. ``spot``: it may be taken away. ``time_s``: the most that the job may take; None.
        summary: The machine and its price on one line.
    """

    name: str
    offer: Offer
    platform: Platform
    whole: Platform
    devices: int
    machine_devices: int
    mig: str
    fraction: bool
    cpus: int
    host_bytes: int
    arch: str
    spot: bool
    time_s: float | None
    summary: str


def ask(assignment: Assignment, job: Job, name: str, platforms: Mapping[str, Platform]) -> Ask:
    """The facts of an assignment. Raises UsageError where its platform is not in ``platforms``."""
    point = assignment.point
    offer = point.offer
    if offer.platform not in platforms:
        msg = f"{offer.platform} is not in the catalogue of platforms, so no scheduler can be asked for it"
        raise UsageError(msg)
    platform = platforms[offer.platform]
    whole = platforms.get(platform.part_of, platform) if platform.part_of else platform
    on_cpu = platform.kind == CPU
    mig = _MIG.search(platform.name)
    return Ask(
        name=label(name),
        offer=offer,
        platform=platform,
        whole=whole,
        devices=0 if on_cpu else point.devices,
        machine_devices=0 if on_cpu else offer.count,
        mig=mig[1] if mig else "",
        fraction=not on_cpu and not mig and (bool(platform.part_of) or offer.share < 1),
        cpus=_cpus(offer, platform, point.devices),
        host_bytes=assignment.host_bytes,
        arch=ARM64 if whole.name in _ARM_HOSTS or (on_cpu and whole.vendor == "arm") else X64,
        spot=offer.terms == SPOT,
        # A job may take all of its deadline: killing it at the end of an interval would end one in twenty too early.
        time_s=job.deadline_s,
        summary=_summary(offer),
    )


def label(text: str) -> str:
    """A name of lower-case letters, digits and hyphens, at most 63: what Kubernetes and all others take."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].rstrip("-") or "job"


def card(ask: Ask) -> str:
    """Which card it is, without its memory and its form: ``a100``, ``l40s``, ``rtx-a6000``."""
    name = ask.whole.name
    while (shorter := _BUILD.sub("", name)) != name:
        name = shorter
    return name


def gib(size: int) -> int:
    """Whole GiB, rounded up, at least 1."""
    return max(1, math.ceil(size / GIB))


def _cpus(offer: Offer, platform: Platform, devices: int) -> int:
    if platform.kind == CPU:
        cores = (platform.cores or 1) * offer.share
        return max(1, int(offer.vcpus if offer.vcpus is not None else cores))
    part = devices / offer.count
    return max(1, int(offer.vcpus * part)) if offer.vcpus is not None else 0


def _summary(offer: Offer) -> str:
    price = f"{offer.usd_per_hour:.6g} USD/h{f' of {offer.date}' if offer.date else ''}"
    terms = "" if offer.terms in {OWN, ON_DEMAND} else offer.terms
    parts = (f"{offer.count} x {offer.platform}", offer.name, offer.region, terms, price)
    # A comment ends with its line.
    return " ".join(", ".join(part for part in parts if part).split())
