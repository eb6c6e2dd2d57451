"""Instance types of AWS, from its public tables of instance types: family -> processor, memory a vCPU, devices."""

from __future__ import annotations

import re
from fractions import Fraction

from benchmarks.cost.prices import names
from benchmarks.cost.prices.machine import CPU_NOT_SAID, NO_PLATFORM, SIZE, LeftOut, Machine

# Family -> CPU, physical cores a vCPU, GiB a vCPU.
_CPUS = {
    "c5": ("xeon-8124m", 0.5, 2.0), "c6a": ("epyc-7r13", 0.5, 2.0), "c6i": ("xeon-8375c", 0.5, 2.0),
    "c7a": ("epyc-9r14", 1.0, 2.0), "c7g": ("graviton3", 1.0, 2.0), "c7i": ("xeon-8488c", 0.5, 2.0),
    "c8g": ("graviton4", 1.0, 2.0), "m7i": ("xeon-8488c", 0.5, 4.0),
}  # fmt: skip
# The two oldest sizes of c5 and all others run on different generations.
_C5_LATER = ("12xlarge", "24xlarge", "metal")
_METAL_VCPUS = {"c5": 96, "c6a": 192, "c6i": 128, "c7g": 64, "g4dn": 96, "g5g": 64}
# Accelerated families: GiB of host memory a vCPU. Not listed: not a constant, or not known.
_RAM = {
    "p2": 15.25, "p3": 7.625, "p3dn": 8.0, "p4d": 12.0, "p4de": 12.0, "g3": 7.625, "g3s": 7.625, "g4ad": 4.0,
    "g4dn": 4.0, "g5": 4.0, "g5g": 2.0, "g6": 4.0, "g6e": 8.0, "g6f": 4.0, "gr6": 8.0, "gr6f": 8.0, "inf1": 2.0,
    "inf2": 4.0, "trn1": 4.0, "trn1n": 4.0, "dl1": 8.0,
}  # fmt: skip
_RAM_OF = {"p2.16xlarge": 732.0, "p5.48xlarge": 2048.0, "p5en.48xlarge": 2048.0, "p6-b200.48xlarge": 2048.0}
_SMALL = {"medium": 1.0, "large": 2.0, "xlarge": 4.0}


def machine(instance: str, accelerator: str, count: str, cores: dict[str, int]) -> Machine:
    """``accelerator`` and ``count`` as the list has them; ``cores`` of a socket by platform. Raises LeftOut."""
    family, _, size = instance.partition(".")
    vcpus = _vcpus(family, size)
    if not accelerator:
        return _cpu(family, size, vcpus, cores)
    ram = _RAM_OF.get(instance, _RAM[family] * vcpus if family in _RAM else None)
    if accelerator == "L4(fraction)":
        part = Fraction(count).limit_denominator(8)
        name = f"l4-{part.numerator}of{part.denominator}"
        return Machine(platform=name, device_gib=24.0 * float(part), vcpus=vcpus, ram_gib=ram)
    platform = names.platform(accelerator, "aws")
    return Machine(platform=platform, count=int(count), vcpus=vcpus, ram_gib=ram)


def _vcpus(family: str, size: str) -> float:
    if size in _SMALL:
        return _SMALL[size]
    if size == "metal":
        return float(_METAL_VCPUS[family])
    found = re.fullmatch(r"(?:metal-)?(\d+)xl(?:arge)?", size)
    if not found:
        raise LeftOut(SIZE)
    return 4.0 * int(found[1])


def _cpu(family: str, size: str, vcpus: float, cores: dict[str, int]) -> Machine:
    if family not in _CPUS:
        raise LeftOut(CPU_NOT_SAID)
    platform, cores_a_vcpu, gib = _CPUS[family]
    if family == "c5" and size in _C5_LATER:
        platform = "xeon-8275cl"
    if platform not in cores:
        raise LeftOut(NO_PLATFORM)
    share = vcpus * cores_a_vcpu / cores[platform]
    return Machine(platform=platform, share=share, vcpus=vcpus, ram_gib=gib * vcpus)
