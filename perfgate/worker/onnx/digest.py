"""Floor 3, worker. Checksums of numpy arrays, and values to say how far two of them differ: ``digest`` without torch.

In: arrays with the paths that they are known by. Out: ``Digest``, made as for torch's tensors.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from perfgate.records.protocol import Digest

MAX_VALUES = 256
_MAX_LAYOUT = 200
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def digest(parts: Iterable[tuple[str, object]]) -> Digest:
    """Checksum over dtypes, shapes and bytes of all leaves in order; values evenly spaced over all elements."""
    checksum = hashlib.sha256()
    layout: list[str] = []
    arrays: list[Any] = []
    nonfinite = 0
    for path, leaf in _leaves(parts):
        if isinstance(leaf, np.ndarray):
            line = f"{path} {leaf.dtype}[{','.join(map(str, leaf.shape))}]"
            checksum.update(line.encode())
            nonfinite += _contents(leaf, checksum, arrays)
        else:
            # Addresses in an object's text would differ from run to run.
            text = repr(leaf) if isinstance(leaf, _PLAIN) else ""
            line = f"{path} {type(leaf).__name__}"
            checksum.update(f"{line} {text}".encode())
        layout.append(line)
    if len(layout) > _MAX_LAYOUT:
        layout = [*layout[:_MAX_LAYOUT], f"and {len(layout) - _MAX_LAYOUT} more"]
    return Digest(
        checksum=checksum.hexdigest(), layout=tuple(layout), values=tuple(_values(arrays)), nonfinite=nonfinite
    )


def _leaves(parts: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """Outputs may be sequences and maps (classifiers of ``ai.onnx.ml`` give a list of dicts)."""
    for path, value in parts:
        if isinstance(value, (list, tuple)):
            yield from _leaves((f"{path}[{n}]", item) for n, item in enumerate(value))
        elif isinstance(value, Mapping):
            yield from _leaves((f"{path}[{key!r}]", item) for key, item in value.items())
        else:
            yield path, np.asarray(value) if isinstance(value, np.generic) else value


def _contents(array: Any, checksum: Any, arrays: list[Any]) -> int:
    """Add the bytes of an array, and the array to those whose values are shown; how many of them are not finite."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind not in "biufc":
        # Texts: their bytes are addresses.
        checksum.update(repr(flat.tolist()).encode())
        return 0
    checksum.update(flat.view(np.uint8).data)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    arrays.append(flat)
    return int(np.count_nonzero(~np.isfinite(flat))) if flat.dtype.kind == "f" else 0


def _values(arrays: list[Any]) -> list[float | None]:
    total = sum(array.size for array in arrays)
    count = min(MAX_VALUES, total)
    wanted = [index * total // count for index in range(count)]
    values: list[float | None] = []
    start = 0
    for array in arrays:
        end = start + array.size
        picked = array[[index - start for index in wanted if start <= index < end]].astype(np.float64).tolist()
        values.extend(value if math.isfinite(value) else None for value in picked)
        start = end
    return values
