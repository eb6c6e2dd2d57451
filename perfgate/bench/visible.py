"""Floor 3, bench. Which card is ``cuda:0``? From ``CUDA_VISIBLE_DEVICES`` and the UUID that the worker saw.

CUDA numbers cards by speed unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID``, NVML by PCI bus: only a UUID is certain.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from perfgate.bench.nvml import Gpu
from perfgate.errors import UsageError

_NUMBER = re.compile(r"[+-]?\d+")


def visible(gpus: tuple[Gpu, ...], value: str | None) -> tuple[Gpu, ...]:
    """Cards that CUDA sees under ``CUDA_VISIBLE_DEVICES=value``; entries after the first unknown one do not count.

    UUIDs may be shortened as long as they name one card. Raises :class:`UsageError` where a short one names several.
    """
    cards = tuple(gpu for gpu in gpus if not gpu.mig)
    if value is None:
        return cards
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in value.split(",")):
        gpu = _entry(gpus, cards, entry)
        if gpu is None or gpu in chosen:
            break
        chosen.append(gpu)
    return tuple(chosen)


def _entry(gpus: tuple[Gpu, ...], cards: tuple[Gpu, ...], entry: str) -> Gpu | None:
    if _NUMBER.fullmatch(entry):
        number = int(entry)
        return cards[number] if 0 <= number < len(cards) else None
    if not entry.upper().startswith(("GPU-", "MIG-")):
        return None  # "", "NoDevFiles", "none": no device
    named = [gpu for gpu in gpus if gpu.uuid.lower().startswith(entry.lower())]
    if len(named) > 1:
        msg = (
            f"CUDA_VISIBLE_DEVICES: {entry!r} names {len(named)} GPUs ({', '.join(gpu.uuid for gpu in named)});"
            " write more digits"
        )
        raise UsageError(msg)
    return named[0] if named else None


def find(device: str, gpus: tuple[Gpu, ...], environ: Mapping[str, str]) -> Gpu | None:
    """The card of ``cuda:N`` or ``cuda:N=UUID``; None for ``cpu`` and where it cannot be told for certain."""
    name, _, uuid = device.partition("=")
    if not name.startswith("cuda"):
        return None
    if uuid:
        wanted = raw_uuid(uuid)
        return next((gpu for gpu in gpus if raw_uuid(gpu.uuid) == wanted), None)
    seen = visible(gpus, environ.get("CUDA_VISIBLE_DEVICES"))
    number = int(name.partition(":")[2] or 0)
    same_order = len(seen) == 1 or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    return seen[number] if same_order and number < len(seen) else None


def raw_uuid(text: str) -> bytes | str:
    """The 16 bytes behind any spelling of a card's UUID (a 00 byte is a byte); a MIG name stays text."""
    digits = text.lower().removeprefix("gpu-").replace("-", "")
    return bytes.fromhex(digits) if re.fullmatch(r"[0-9a-f]{32}", digits) else text.lower()


def hashed(uuid: str) -> str:
    """A name for a card that does not give its UUID away: 16 hexadecimal digits."""
    raw = raw_uuid(uuid)
    return hashlib.sha256(raw if isinstance(raw, bytes) else raw.encode()).hexdigest()[:16]
