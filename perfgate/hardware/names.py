"""Floor 2, hardware. The name that a driver gives a device in, the platform out.

In: the text of ``torch.cuda.get_device_name``, NVML, ``/proc/cpuinfo`` or ``lspci``, and the memory where it is known.
Out: a platform, or None: explicitly unknown. Every word of the text must be accounted for, so an L40S is never an L40
and a laptop's RTX 4090 never the desktop's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from perfgate.hardware import catalogue
from perfgate.hardware.entries import Entry, near
from perfgate.hardware.tokens import Name, split
from perfgate.records.hardware import Platform

# What a driver reports of a device's memory, over what it is sold with: error correction and reserves take a part.
_LEAST_MEMORY, _MOST_MEMORY = 0.86, 1.03
# No driver's text is half as long; what is longer comes from whoever wrote the evidence.
_LONGEST = 400


def parse(text: str, memory_bytes: int | None = None) -> Platform | None:
    """The platform that calls itself ``text``, or that the catalogue calls so; None: unknown.

    ``memory_bytes`` as the driver gives it decides between variants that the text does not tell apart (A100 with 40 or
    80 GB); where it fits none of them, the device is unknown (an RTX 3080 with 12 GB is not the one with 10). Without
    it, variants that differ in nothing but memory (V100 SXM2) count as the smallest, and others are unknown. Of a MIG
    instance or a virtual GPU the memory is the slice's: there the profile decides, and the memory only where the text
    has no profile. Virtual GPUs are known where the catalogue has a slice of that memory.
    """
    if len(text) > _LONGEST:
        return None
    text = " ".join(text.split())
    exact = catalogue.platforms().get(text.lower())
    if exact is not None:
        return _one([exact], memory_bytes)
    name = split(text)
    if not name.words:
        return None
    known = _index().get(name.words, ())
    wholes = _matching(name, known)
    if name.mig:
        return _one([slice_ for whole in wholes for slice_ in _mig(whole, name.mig)], None)
    if name.vgpu_gb or (name.virtual and not any(other.virtual for other, _ in known)):
        return _fraction(wholes, name, memory_bytes)
    return _one(wholes, memory_bytes)


@functools.cache
def _index() -> Mapping[tuple[str, ...], tuple[tuple[Name, Entry], ...]]:
    """Words -> the names that have them, with their entries."""
    index: dict[tuple[str, ...], list[tuple[Name, Entry]]] = {}
    for entry in catalogue.entries().values():
        platform = entry.platform
        for text in platform.names:
            name = split(text)
            index.setdefault(name.words, []).append((name, entry))
    return {words: tuple(found) for words, found in index.items()}


def _matching(name: Name, candidates: Iterable[tuple[Name, Entry]]) -> list[Platform]:
    """Candidates that nothing in ``name`` contradicts, each once."""
    found = {}
    for known, entry in candidates:
        platform = entry.platform
        if name.vendor and platform.vendor not in (name.vendor, "arm", "aws"):
            continue
        if known.memory_type and known.memory_type != name.memory_type:
            continue
        if name.memory_type and not (known.memory_type or entry.memory_type.startswith(name.memory_type)):
            continue
        if known.memory_gb != name.memory_gb and not _memory_agrees(name, known, platform):
            continue
        found[platform.name] = platform
    return list(found.values())


def _memory_agrees(name: Name, known: Name, platform: Platform) -> bool:
    """Whether the printed memory is the platform's, or one of the two texts is silent about it."""
    if name.memory_gb is None:
        # A name that is told apart by its memory alone (``gh200 144gb``) needs it; by variants memory_bytes decides.
        return known.memory_gb is None or _is_own_memory(known, platform)
    if known.memory_gb is not None and not _is_own_memory(known, platform):
        return False
    return platform.memory_bytes is not None and near(name.memory_gb * 2**30, platform.memory_bytes, 0.08)


def _is_own_memory(known: Name, platform: Platform) -> bool:
    """False where a name prints another memory than the device's: the Grace CPU's of a GH200 480GB."""
    return platform.memory_bytes is not None and near((known.memory_gb or 0) * 2**30, platform.memory_bytes, 0.08)


def _one(candidates: list[Platform], memory_bytes: int | None) -> Platform | None:
    if memory_bytes is not None:
        candidates = [platform for platform in candidates if _fits(platform, memory_bytes)]
    if len(candidates) > 1 and all(_alike(platform, candidates[0]) for platform in candidates):
        return min(candidates, key=lambda platform: platform.memory_bytes or 0)
    return candidates[0] if len(candidates) == 1 else None


def _fits(platform: Platform, memory_bytes: int) -> bool:
    whole = platform.memory_bytes
    return whole is None or _LEAST_MEMORY * whole <= memory_bytes <= _MOST_MEMORY * whole


def _alike(one: Platform, other: Platform) -> bool:
    """Whether two variants differ in nothing but memory (bandwidths within 1 %, power aside)."""
    rates = one.peak_flop_per_s.keys() == other.peak_flop_per_s.keys() and all(
        near(rate, other.peak_flop_per_s[dtype], 0.01) for dtype, rate in one.peak_flop_per_s.items()
    )
    return rates and near(one.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s, 0.01)


def _mig(whole: Platform, profile: str) -> list[Platform]:
    found = catalogue.platforms().get(f"{whole.name}-mig-{profile}")
    return [] if found is None else [found]


def _fraction(wholes: list[Platform], name: Name, memory_bytes: int | None) -> Platform | None:
    """The whole, or its rented fraction, that has the memory of the profile (or of the driver)."""
    memory = name.vgpu_gb * 2**30 if name.vgpu_gb else memory_bytes
    if memory is None or len(wholes) != 1:
        return None
    fractions = [
        platform
        for platform in catalogue.platforms().values()
        if platform.part_of == wholes[0].name and "-mig-" not in platform.name
    ]
    return _one([*wholes, *fractions], memory)
