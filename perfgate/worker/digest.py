"""Floor 3, worker. Checksums of inputs and outputs, and values to say how far two of them differ.

In: any tree of tensors. Out: ``Digest``. Needs no numpy.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from typing import Any

import torch

from perfgate.records.protocol import Digest
from perfgate.worker import trees

MAX_VALUES = 256
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MAX_LAYOUT = 200
_CHUNK = 1 << 24


def digest(tree: object) -> Digest:
    """Checksum over types, shapes and bytes of all leaves in order; values evenly spaced over all elements."""
    checksum = hashlib.sha256()
    layout: list[str] = []
    tensors: list[Any] = []
    nonfinite = 0
    for path, leaf in trees.leaves(tree):
        if isinstance(leaf, torch.Tensor):
            tensor = _dense(leaf)
            line = f"{path} {str(leaf.dtype).removeprefix('torch.')}[{','.join(map(str, leaf.shape))}]"
            checksum.update(line.encode())
            if tensor is not None:
                _update(checksum, tensor)
                tensors.append(tensor)
                if tensor.is_floating_point():
                    nonfinite += int((~torch.isfinite(tensor)).sum())
        else:
            # Addresses in an object's text would differ from run to run.
            text = repr(leaf) if isinstance(leaf, _PLAIN) else ""
            line = f"{path} {type(leaf).__name__}"
            checksum.update(f"{line} {text}".encode())
        layout.append(line)
    if len(layout) > _MAX_LAYOUT:
        layout = [*layout[:_MAX_LAYOUT], f"and {len(layout) - _MAX_LAYOUT} more"]
    return Digest(
        checksum=checksum.hexdigest(), layout=tuple(layout), values=tuple(_values(tensors)), nonfinite=nonfinite
    )


def _dense(tensor: Any) -> Any:
    """A contiguous one-dimensional copy on the host, real-valued; None for what has no such form."""
    try:
        host = tensor.detach()
        host = host.dequantize() if host.is_quantized else host
        host = host.to_dense() if host.layout is not torch.strided else host
        host = torch.view_as_real(host) if host.is_complex() else host
        return host.to("cpu").contiguous().reshape(-1)
    except (RuntimeError, NotImplementedError):
        return None


def _update(checksum: Any, tensor: Any) -> None:
    size = tensor.numel() * tensor.element_size()
    address = tensor.data_ptr()
    for start in range(0, size, _CHUNK):
        count = min(_CHUNK, size - start)
        checksum.update((ctypes.c_char * count).from_address(address + start))


def _values(tensors: list[Any]) -> list[float | None]:
    total = sum(tensor.numel() for tensor in tensors)
    count = min(MAX_VALUES, total)
    values: list[float | None] = []
    start = 0
    wanted = [index * total // count for index in range(count)]
    for tensor in tensors:
        end = start + tensor.numel()
        inside = [index - start for index in wanted if start <= index < end]
        if inside:
            picked = tensor[torch.tensor(inside)].to(torch.float64).tolist()
            values.extend(value if math.isfinite(value) else None for value in picked)
        start = end
    return values
