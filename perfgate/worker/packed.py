"""Floor 3, worker. Weights that torch's quantised operators keep in opaque objects.

In: such an object. Out: the tensors in it. Unpacking makes copies, new ones each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

_CELL = "CellParamsBase"
_LINEAR = "LinearPackedParamsBase"
# Kinds of cells whose state ends with their two packed matrices, and holds the biases if anything else.
_DYNAMIC = frozenset({"quantized_dynamic", "quantized_fp16"})


def is_packed(value: Any) -> bool:
    """Whether a value is a packed weight of a quantised operator, or all those of a recurrent cell."""
    # Whole modules of TorchScript are such objects too, and may have any method.
    opaque = isinstance(value, torch.ScriptObject) and not isinstance(value, torch._C.ScriptModule)
    return opaque and (hasattr(value, "unpack") or _is_cell(value))


def unpacked(value: Any) -> list[Any]:
    """Weight and bias of a packed weight; of a cell both matrices, then both biases. None: there is no such bias.

    Empty where the object does not tell.
    """
    # Not on fake tensors, which know no quantised ones.
    with suppress(Exception), _disable_current_modes():
        return _cell(value) if _is_cell(value) else _layer(value)
    return []


def held(module: Any) -> Iterator[Any]:
    """Packed weights that a module holds itself."""
    return (value for value in vars(module).values() if is_packed(value))


def _is_cell(value: Any) -> bool:
    return str(value._type()).endswith(_CELL)


def _layer(value: Any) -> list[Any]:
    made = value.unpack()
    # Tables of embeddings are alone.
    found = [made] if isinstance(made, torch.Tensor) else list(made)
    leaves = [leaf if isinstance(leaf, torch.Tensor) else None for leaf in found]
    weight = leaves[0]
    if weight is not None and weight.dtype is torch.float32 and str(value._type()).endswith(_LINEAR):
        # In half precision it is unpacked to single.
        leaves[0] = weight.half()
    return leaves


def _cell(value: Any) -> list[Any]:
    (kind, tensors, _, _, layers), _ = value.__getstate__()
    if kind not in _DYNAMIC:
        return []
    matrices, biases = zip(*(_layer(layer) for layer in layers), strict=True)
    return [*matrices, *(tensors or biases)]
