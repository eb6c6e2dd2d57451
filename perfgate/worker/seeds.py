"""Floor 3, worker. Random numbers that depend on a name, not on the order of events.

In: one seed for the comparison and names. Out: 63-bit seeds, and all generators of the process set.
"""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any


def derive(seed: int, *names: object) -> int:
    """A seed in [0, 2**63) for ``names``; equal on every machine and Python."""
    text = "\0".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def set_all(seed: int) -> None:
    """Seed Python's and, where they are loaded, torch's and numpy's global generators."""
    random.seed(seed)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        numpy.random.seed(seed % 2**32)
