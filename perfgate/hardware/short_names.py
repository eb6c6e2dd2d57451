"""Floor 2, hardware. Key of a platform in, a short name for people out: ``h100-sxm`` -> ``H100 SXM``.

Short, since it stands in tables, drawings and sentences beside prices; and made from the key, so that a reader knows
what to write under ``[cost]``.
"""

from __future__ import annotations

import re
from itertools import pairwise

_KEY = re.compile(r"[a-z0-9][a-z0-9.]*(-[a-z0-9.]+)*")
# How makers write what is neither a word nor a number of a model.
_SPELLED = {
    "ada": "Ada", "epyc": "EPYC", "gtx": "GTX", "mig": "MIG", "nvl": "NVL", "pcie": "PCIe", "pro": "PRO", "rtx": "RTX",
    "rx": "RX", "super": "SUPER", "sxm": "SXM", "ti": "Ti", "titan": "TITAN", "tpu": "TPU", "xp": "Xp", "xt": "XT",
    "xtx": "XTX",
}  # fmt: skip
# ``1g.5gb`` and ``1of8`` of a slice, ``v5e`` of a TPU, ``i9`` of a processor.
_LOWER = re.compile(r"\d+[cg]\.\d+gb|\d+of\d+|v\d[a-z]?|i\d")
_WORD = re.compile(r"[a-z]{4,}\d*")
_DIGIT = re.compile(r"\d")


def short(name: str) -> str:
    """A name for people; what is no key (a name that a driver gave, one of the user's) stays as it is."""
    if not _KEY.fullmatch(name):
        return name
    parts = name.split("-")
    found = _spelled(parts[0])
    for before, part in pairwise(parts):
        # 10940X goes with i9, and a letter alone with the number before it.
        joined = re.fullmatch(r"i\d", before) or (len(part) == 1 and (before == "max" or _DIGIT.search(before)))
        found += f"{'-' if joined else ' '}{_spelled(part)}"
    return found


def _spelled(part: str) -> str:
    if part in _SPELLED:
        return _SPELLED[part]
    if _LOWER.fullmatch(part):
        return part
    return part.capitalize() if _WORD.fullmatch(part) or not _DIGIT.search(part) else part.upper()
