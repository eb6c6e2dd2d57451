"""Floor 3, worker. Checksums of numpy arrays, and values to say how far two of them differ: ``digest`` without torch.

In: arrays with the paths that they are known by. Out: ``Digest``, made as for torch's tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from perfgate.records.protocol import Digest
from perfgate.worker.checksums import Checksum, spaced


def digest(parts: Iterable[tuple[str, object]]) -> Digest:
    """Checksum over dtypes, shapes and bytes of all leaves in order; values evenly spaced over all elements."""
    checksum = Checksum()
    arrays: list[Any] = []
    for path, leaf in _leaves(parts):
        if isinstance(leaf, np.ndarray):
            checksum.tensor(path, str(leaf.dtype), leaf.shape)
            _contents(leaf, checksum, arrays)
        else:
            checksum.other(path, leaf)
    return checksum.digest(_values(arrays))


def _leaves(parts: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """Outputs may be sequences and maps (classifiers of ``ai.onnx.ml`` give a list of dicts)."""
    for path, value in parts:
        if isinstance(value, (list, tuple)):
            yield from _leaves((f"{path}[{n}]", item) for n, item in enumerate(value))
        elif isinstance(value, Mapping):
            yield from _leaves((f"{path}[{key!r}]", item) for key, item in value.items())
        else:
            yield path, np.asarray(value) if isinstance(value, np.generic) else value


def _contents(array: Any, checksum: Checksum, arrays: list[Any]) -> None:
    """Add the bytes of an array, and the array to those whose values are shown."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind not in "biufc":
        # Texts: their bytes are addresses.
        checksum.update(repr(flat.tolist()).encode())
        return
    checksum.update(flat.view(np.uint8).data)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    arrays.append(flat)
    if flat.dtype.kind == "f":
        checksum.nonfinite += int(np.count_nonzero(~np.isfinite(flat)))


def _values(arrays: list[Any]) -> Iterator[float]:
    for array, places in zip(arrays, spaced([array.size for array in arrays]), strict=True):
        yield from array[places].astype(np.float64).tolist()
