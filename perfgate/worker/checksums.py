"""Floor 3, worker. What digests of torch's tensors and of numpy's arrays have in common. Standard library only.

In: dtype, sizes and bytes of each leaf in order. Out: ``Digest``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

from perfgate.records.protocol import Digest

MAX_VALUES = 256
_MAX_LAYOUT = 200
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Checksum:
    """Grows leaf by leaf; ``nonfinite`` counts values that are NaN or infinite."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._layout: list[str] = []
        self.nonfinite = 0
        self.update = self._hash.update

    def tensor(self, path: str, dtype: str, shape: Sequence[int]) -> None:
        """A tensor's place, dtype and sizes; its bytes go to :attr:`update`."""
        line = f"{path} {dtype}[{','.join(map(str, shape))}]"
        self.update(line.encode())
        self._layout.append(line)

    def other(self, path: str, leaf: object) -> None:
        """A leaf that is no tensor."""
        # Addresses in an object's text would differ from run to run.
        text = repr(leaf) if isinstance(leaf, _PLAIN) else ""
        line = f"{path} {type(leaf).__name__}"
        self.update(f"{line} {text}".encode())
        self._layout.append(line)

    def digest(self, values: Iterable[float]) -> Digest:
        """The record; ``values`` are those at :func:`spaced`."""
        layout = self._layout
        if len(layout) > _MAX_LAYOUT:
            layout = [*layout[:_MAX_LAYOUT], f"and {len(layout) - _MAX_LAYOUT} more"]
        return Digest(
            checksum=self._hash.hexdigest(),
            layout=tuple(layout),
            values=tuple(value if math.isfinite(value) else None for value in values),
            nonfinite=self.nonfinite,
        )


def spaced(sizes: Sequence[int]) -> list[list[int]]:
    """Up to ``MAX_VALUES`` places, evenly spaced over all elements, of arrays with ``sizes`` elements each."""
    total = sum(sizes)
    count = min(MAX_VALUES, total)
    wanted = [index * total // count for index in range(count)]
    found = []
    start = 0
    for size in sizes:
        found.append([index - start for index in wanted if start <= index < start + size])
        start += size
    return found
