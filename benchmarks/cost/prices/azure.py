"""Sizes of Azure's N series: the list has names only, so vCPUs, devices and their share are read from the name.

``Standard_NC24ads_A100_v4``: family, vCPUs, features, accelerator, version. Devices follow from vCPUs by the rules
below, as Azure documents its sizes. Sizes whose rule is not certain are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from benchmarks.cost.prices.machine import NOT_CERTAIN, SIZE, LeftOut, Machine

_SIZE = re.compile(r"Standard_(?P<family>NCC|NC|ND|NV|NG)(?P<vcpus>\d+)(?P<features>[a-z]*)_?(?P<rest>.*)")


def machine(instance: str) -> Machine:
    """Devices of a size. Raises LeftOut."""
    found = _SIZE.fullmatch(instance)
    if not found:
        raise LeftOut(SIZE)
    family, vcpus, rest = found["family"], int(found["vcpus"]), found["rest"]
    if family == "ND":
        platform, count, gib = _nd(vcpus, rest, found["features"])
        return Machine(platform=platform, count=count, device_gib=gib, vcpus=vcpus)
    for pattern, rule in _RULES:
        if re.fullmatch(pattern, f"{family}{found['features']} {rest}"):
            return replace(rule(vcpus), vcpus=vcpus)
    raise LeftOut(NOT_CERTAIN)


def _nd(vcpus: int, rest: str, features: str) -> tuple[str, int, float | None]:
    if rest == "v2" and vcpus == 40:
        return "v100-sxm-32gb", 8, 32.0
    if rest in ("v4", "A100_v4") and vcpus == 96:
        return ("a100-sxm-80gb", 8, 80.0) if "m" in features else ("a100-sxm-40gb", 8, 40.0)
    if rest.endswith("H100_v5") and vcpus == 96:
        return "h100-sxm", 8, 80.0
    if rest.endswith("H200_v5") and vcpus == 96:
        return "h200-sxm", 8, 141.0
    if rest == "NDR_GB200_v6" and vcpus == 128:
        return "gb200", 4, None
    raise LeftOut(NOT_CERTAIN)


def _whole(platform: str, vcpus_a_device: int) -> Callable[[int], Machine]:
    """One device for each so many vCPUs, at least one."""
    return lambda vcpus: Machine(platform=platform, count=max(1, vcpus // vcpus_a_device))


def _parts(platform: str, of: int, vcpus_a_part: int, gib: float | None) -> Callable[[int], Machine]:
    """Fractions of a device of ``of`` parts, each with so many vCPUs and ``gib / of`` of its memory (None: unknown)."""

    def rule(vcpus: int) -> Machine:
        parts = vcpus / vcpus_a_part
        if parts >= of:
            return Machine(platform=platform, count=round(parts / of))
        if not parts.is_integer():
            raise LeftOut(NOT_CERTAIN)
        part = Fraction(int(parts), of)
        name = f"{platform}-{part.numerator}of{part.denominator}"
        return Machine(platform=name, device_gib=None if gib is None else gib * float(part))

    return rule


def _t4(vcpus: int) -> Machine:
    return Machine(platform="t4", count=4 if vcpus == 64 else 1)


def _rtx_pro(vcpus: int) -> Machine:
    """At most two GPUs, each with 128, 132 or 144 vCPUs; quarters and halves are told by their equal prices."""
    if vcpus in (16, 24, 32, 36):
        return Machine(platform="rtx-pro-6000-1of4", device_gib=24.0)
    if vcpus in (64, 72):
        return Machine(platform="rtx-pro-6000-1of2", device_gib=48.0)
    if vcpus >= 128:
        return Machine(platform="rtx-pro-6000", count=1 if vcpus < 256 else 2)
    raise LeftOut(NOT_CERTAIN)


# Family and features, blank, the rest of the name -> rule.
_RULES: tuple[tuple[str, Callable[[int], Machine]], ...] = (
    (r"NCr? Promo", _whole("k80", 6)),
    (r"NCr?s v3", _whole("v100-pcie-16gb", 6)),
    (r"NCr?s v2", _whole("p100-pcie-16gb", 6)),
    (r"NC ", _whole("k80", 6)),
    (r"NCas T4_v3", _t4),
    (r"NCads A100_v4", _whole("a100-pcie-80gb", 24)),
    (r"NCad(?:s|is) H100_v5|NCCads H100_v5", _whole("h100-nvl", 40)),
    (r"NV Promo", _whole("m60", 6)),
    (r"NVs v3", _whole("m60", 12)),
    (r"NVad(?:s|ms) A10_v5", _parts("a10", 6, 6, 24.0)),
    (r"NCl?ds xl_RTXPRO6000BSE_v6", _rtx_pro),
    (r"NVas v4", _parts("mi25", 8, 4, 16.0)),
    (r"NVad(?:s|ms) V710_v5", _parts("v710", 6, 4, None)),
    (r"NGad(?:s|ms) V620(?:_v1)?", _parts("v620", 4, 8, 32.0)),
)
