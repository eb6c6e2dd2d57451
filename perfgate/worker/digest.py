"""Floor 3, worker. Checksums of inputs and outputs, and values to say how far two of them differ.

In: any tree of tensors. Out: ``Digest``. Needs no numpy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import torch

from perfgate.records.protocol import Digest
from perfgate.worker import trees
from perfgate.worker.checksums import Checksum, spaced

_CHUNK = 1 << 24


def digest(tree: object) -> Digest:
    """Checksum over types, shapes and bytes of all leaves in order; values evenly spaced over all elements."""
    checksum = Checksum()
    tensors: list[Any] = []
    for path, leaf in trees.leaves(tree):
        if not isinstance(leaf, torch.Tensor):
            checksum.other(path, leaf)
            continue
        tensor = _dense(leaf)
        checksum.tensor(path, str(leaf.dtype).removeprefix("torch."), leaf.shape)
        if tensor is not None:
            _update(checksum, tensor)
            tensors.append(tensor)
            if tensor.is_floating_point():
                checksum.nonfinite += int((~torch.isfinite(tensor)).sum())
    return checksum.digest(_values(tensors))


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


def _update(checksum: Checksum, tensor: Any) -> None:
    size = tensor.numel() * tensor.element_size()
    address = tensor.data_ptr()
    for start in range(0, size, _CHUNK):
        count = min(_CHUNK, size - start)
        checksum.update((ctypes.c_char * count).from_address(address + start))


def _values(tensors: list[Any]) -> Iterator[float]:
    for tensor, places in zip(tensors, spaced([tensor.numel() for tensor in tensors]), strict=True):
        if places:
            yield from tensor[torch.tensor(places)].to(torch.float64).tolist()
