"""Machine types of Google Cloud: ``a2-highgpu-1g``, ``g2-standard-48``, ``c3-standard-22``."""

from __future__ import annotations

import re
from fractions import Fraction

from benchmarks.cost.prices.machine import NO_PLATFORM, SEVERAL, SIZE, LeftOut, Machine

_G2_DEVICES = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}
# Family -> platform, vCPUs and GiB of host memory a device.
_BY_DEVICES = {
    "a2-highgpu": ("a100-sxm-40gb", 12, 85.0), "a2-megagpu": ("a100-sxm-40gb", 6, 85.0),
    "a2-ultragpu": ("a100-sxm-80gb", 12, 170.0), "a3-highgpu": ("h100-sxm", 26, 234.0),
    "a3-megagpu": ("h100-sxm", 26, 234.0),
}  # fmt: skip
_G4_VCPUS_A_DEVICE = 48


def machine(instance: str, cores: dict[str, int]) -> Machine:
    """Devices of a type; ``cores`` of a socket by platform. Raises LeftOut."""
    found = re.fullmatch(r"([acegn]\d\w*)-([a-z]+)-(\d+)(g?)(-lssd)?(-metal)?", instance)
    if not found:
        raise LeftOut(SIZE)
    family, kind, number = found[1], found[2], int(found[3])
    if found[4]:
        platform, vcpus, gib = _BY_DEVICES[f"{family}-{kind}"]
        return Machine(platform=platform, count=number, vcpus=vcpus * number, ram_gib=gib * number)
    if family == "g2":
        return Machine(platform="l4", count=_G2_DEVICES[number], vcpus=number, ram_gib=4.0 * number)
    if family == "g4":
        return _g4(number)
    platform = _cpu(family, number, local=bool(found[5] or found[6]))
    if platform not in cores:
        raise LeftOut(NO_PLATFORM)
    gib = 4.0 if kind == "standard" else 2.0
    # A vCPU is a hardware thread; two make a core.
    return Machine(platform=platform, share=number / 2 / cores[platform], vcpus=number, ram_gib=gib * number)


def _g4(vcpus: int) -> Machine:
    whole = Fraction(vcpus, _G4_VCPUS_A_DEVICE)
    ram = 3.75 * vcpus
    if whole >= 1:
        return Machine(platform="rtx-pro-6000", count=int(whole), vcpus=vcpus, ram_gib=ram)
    name = f"rtx-pro-6000-{whole.numerator}of{whole.denominator}"
    return Machine(platform=name, device_gib=96.0 * float(whole), vcpus=vcpus, ram_gib=ram)


def _cpu(family: str, vcpus: int, *, local: bool) -> str:
    """Families that run on one generation of processors; e2 and the smaller n2 run on several."""
    if family == "c2":
        return "xeon-6253cl"
    if family == "c3":
        return "xeon-8481c"
    if family == "c4":
        # Sizes of 144 and 288 vCPUs, those with local disks and bare metal came with the next generation.
        return "xeon-6985p-c" if local or vcpus in (144, 288) else "xeon-8581c"
    if family == "n2" and vcpus == 128:
        return "xeon-8373c"
    raise LeftOut(SEVERAL)
