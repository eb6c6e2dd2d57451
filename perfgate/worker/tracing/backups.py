"""Floor 3, worker. What a step overwrites of what was there before it, put back afterwards.

In: tensors that are about to be written. Out: nothing; :meth:`Backups.restore` gives all of them their old contents.
"""

from __future__ import annotations

from typing import Any

import torch


class Backups:
    """Copies of storages, each made right before its first change."""

    def __init__(self) -> None:
        self._saved: dict[int, tuple[Any, Any]] = {}

    def keep(self, tensor: Any) -> None:
        """Remember the contents of a tensor's storage, once."""
        if tensor.layout is not torch.strided or tensor.is_nested:
            return
        try:
            block = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return
        if block.device.type != "meta" and block._cdata not in self._saved:
            self._saved[block._cdata] = (block, block.clone())

    def restore(self) -> None:
        """Put everything back."""
        for block, copy in self._saved.values():
            if block.nbytes() != copy.nbytes():
                block.resize_(copy.nbytes())
            block.copy_(copy)
        self._saved.clear()
