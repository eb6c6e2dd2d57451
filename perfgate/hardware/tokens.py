"""Floor 2, hardware. The text of a device's name in, its parts out.

In: what ``torch.cuda.get_device_name``, NVML, ``/proc/cpuinfo``, ``lspci`` and price lists write. Out: ``Name``: words
that tell models apart, and apart from them the memory, its kind, and the profile of a slice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Words that never tell two devices apart. Quadro, TITAN, Laptop, Max-Q, Ti, SUPER ... do.
_MAKERS = {
    "nvidia",
    "corporation",
    "corp",
    "inc",
    "ltd",
    "amd",
    "ati",
    "advanced",
    "micro",
    "devices",
    "intel",
    "google",
}
_MAKERS |= {"cloud", "aws", "amazon", "habana"}
_BRANDS = {"tesla", "geforce", "instinct", "radeon", "oam", "tm", "r"}
_KINDS = {"gpu", "gpus", "graphics", "card", "cpu", "processor", "device", "accelerator"}
_NOISE = _MAKERS | _BRANDS | _KINDS
_VENDORS = {"nvidia": "nvidia", "amd": "amd", "ati": "amd", "radeon": "amd", "intel": "intel", "geforce": "nvidia"}

_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]", re.IGNORECASE)
_CLOCK = re.compile(r"@?\s*\b\d+(?:\.\d+)?\s*ghz\b")
_CORES = re.compile(r"\b(?:\d+|dual|quad|six|eight)[- ]cores?\b")
_GENERATION = re.compile(r"\b\d+th gen\b")
_MEMORY = re.compile(r"\b(\d+)\s*gi?b?\b(?!\.)")
_MIG = re.compile(r"\bmig\s+(\d+g\.\d+gb)(?:\+\S+)?")
_MIG_BACKED = re.compile(r"-(\d)-(\d+)(?:c|q|a|b)\b")
_VGPU = re.compile(r"(?<=\d)-(\d+)(?:q|c|a|b)\b|(?<=\d[a-z])-(\d+)(?:q|c|a|b)\b")
_MEMORY_TYPES = re.compile(r"\b(?:hbm\d?e?|gddr\d?x?)\b")
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_HEX_IDS = re.compile(r"^[0-9a-f]{4}(?::[0-9a-f]{4})?$")
_SXM = re.compile(r"^sxm[24-9]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A name in parts.

    Attributes:
        words: What tells models apart, sorted: word order differs between drivers, lists and people.
        vendor: Where the text says it, else empty.
        memory_gb, memory_type: As printed (``80``, ``hbm3``), else None and empty.
        mig: Profile of a MIG instance (``1g.5gb``), else empty.
        vgpu_gb: Memory of a time-sliced virtual GPU in its profile; 0: none.
        virtual: A part of a GPU of unsaid size (``MxGPU``).
    """

    words: tuple[str, ...]
    vendor: str = ""
    memory_gb: int | None = None
    memory_type: str = ""
    mig: str = ""
    vgpu_gb: int = 0
    virtual: bool = False


def split(text: str) -> Name:
    """The parts of ``text``; see :class:`Name`."""
    lower = _MARKS.sub(" ", _bracketed(text)).lower()
    vendor = next((name for word, name in _VENDORS.items() if re.search(rf"\b{word}\b", lower)), "")
    mig, lower = _take(_MIG, lower)
    backed = _MIG_BACKED.search(lower)
    if backed and not mig:
        mig = f"{backed.group(1)}g.{backed.group(2)}gb"
        lower = lower[: backed.start()]
    vgpu, lower = ("", lower) if backed else _take(_VGPU, lower)
    for pattern in (_CLOCK, _CORES, _GENERATION):
        lower = pattern.sub(" ", lower)
    kind, lower = _take(_MEMORY_TYPES, lower, group=0)
    memory, lower = _take(_MEMORY, lower)
    words = [word for word in re.split(r"[^a-z0-9/]+", lower.replace(" / ", "/")) if word and word not in _NOISE]
    return Name(
        words=tuple(sorted("sxm" if _SXM.match(word) else word for word in words if word not in ("grid", "mxgpu"))),
        vendor=vendor,
        memory_gb=int(memory) if memory else None,
        memory_type=kind,
        mig=mig,
        vgpu_gb=int(vgpu) if vgpu else 0,
        virtual="mxgpu" in words,
    )


def _take(pattern: re.Pattern[str], text: str, group: int = 1) -> tuple[str, str]:
    """What ``pattern`` finds, and ``text`` without it; a second find stays, and makes the name unknown."""
    found = pattern.search(text)
    if found is None:
        return "", text
    taken = found.group(group) or found.group(found.lastindex or 0)
    return taken, f"{text[: found.start()]} {text[found.end() :]}"


def _bracketed(text: str) -> str:
    """``lspci`` writes chip and product, ``GA100 [A100 SXM4 40GB]``: the product, which is the last in brackets."""
    lower = text.lower()
    if not any(mark in lower for mark in ("controller", "corporation", "[amd/ati]")):
        return text
    products = [part for part in _BRACKETS.findall(lower) if part != "amd/ati" and not _HEX_IDS.match(part)]
    vendor = "nvidia" if "nvidia" in lower else "amd" if "[amd/ati]" in lower else ""
    return f"{vendor} {products[-1]}" if products else text
