"""Floor 3, graph. What is known of an operator, found by its name.

In: ``aten::add_``, ``ai.onnx::Conv``. Out: its :class:`Definition`, or None.
"""

from __future__ import annotations

from functools import lru_cache

from perfgate.graph.operators import (
    einsum,
    onnx_table,
    torch_attention,
    torch_convolution,
    torch_matmul,
    torch_movement,
    torch_other,
    torch_pointwise,
    torch_quantized,
    torch_recurrent,
    torch_reduction,
)
from perfgate.graph.operators.definition import COPY, POINTWISE, REDUCTION, TRANSFER, Definition

_TORCH: dict[str, Definition] = {
    **torch_movement.DEFINITIONS,
    **torch_reduction.DEFINITIONS,
    **torch_pointwise.DEFINITIONS,
    **torch_other.DEFINITIONS,
    **torch_matmul.DEFINITIONS,
    **einsum.TORCH,
    **torch_convolution.DEFINITIONS,
    **torch_attention.DEFINITIONS,
    **torch_recurrent.DEFINITIONS,
    **torch_quantized.DEFINITIONS,
}
_ALL: dict[str, Definition] = {**_TORCH, **onnx_table.DEFINITIONS}
_NAMESPACES = torch_other.NAMESPACES | {name.partition("::")[0] for name in onnx_table.DEFINITIONS}

# torch's namespaces whose operators are those of aten under the same names.
_LIKE_ATEN = frozenset(
    {"prims", "quantized", "_quantized", "quantized_decomposed", "onednn", "torchvision", "rngprims"}
)
# Spellings of one operator: written to an argument, on lists, as a special function, without mutation.
_ENDINGS = ("_out", "_functional", "_copy")
_BEGINNINGS = ("_foreach_", "special_", "mkldnn_", "cudnn_", "miopen_", "_nested_tensor_")


def known_namespace(op: str) -> bool:
    """Whether an operator comes with torch or is standard in ONNX, so that its work can be judged by its name."""
    return op.partition("::")[0] in _NAMESPACES


@lru_cache(maxsize=4096)
def lookup(op: str) -> Definition | None:
    """The definition of an operator, of the one it is a spelling of, or of the one it is the gradient of.

    Matrix products are found under their own names only, as other spellings may name their arguments differently;
    ``mm_`` for ``mm`` is the exception.
    """
    found = _ALL.get(op)
    if found is not None:
        return found
    namespace, _, name = op.partition("::")
    if namespace not in torch_other.NAMESPACES:
        return None
    if name.endswith("_") and not name.endswith("__"):
        base = lookup(f"{namespace}::{name[:-1]}")
        if base is not None:
            return base
    return _like_aten(namespace, name) or _spelling(namespace, name) or _by_habit(namespace, name)


def _like_aten(namespace: str, name: str) -> Definition | None:
    if namespace not in _LIKE_ATEN:
        return None
    name = name[1:] if namespace == "onednn" else name
    found = lookup(f"aten::{name}")
    return found if found is not None and found.flop is None else None


def _spelling(namespace: str, name: str) -> Definition | None:
    for beginning in _BEGINNINGS:
        if name.startswith(beginning):
            return _plain(lookup(f"{namespace}::{name[len(beginning) :]}"))
    for ending in _ENDINGS:
        if name.endswith(ending):
            found = _plain(lookup(f"{namespace}::{name[: -len(ending)]}"))
            return found or (Definition(kind=COPY) if ending == "_copy" else None)
    for middle in ("_backward", "_jvp"):
        before, found_middle, _ = name.partition(middle)
        if found_middle:
            return _gradient(lookup(f"{namespace}::{before}"))
    return None


def _by_habit(namespace: str, name: str) -> Definition | None:
    """Weights that are packed or put in another order, and talk between processes."""
    if any(word in name for word in ("prepack", "unpack", "_pack_", "reorder_")):
        return Definition(kind=COPY)
    talk = namespace in torch_other.COMMUNICATION and "matmul" not in name and "_mm" not in name
    return Definition(kind=TRANSFER) if talk else None


def _plain(found: Definition | None) -> Definition | None:
    """What another spelling may take over: no formula and no bytes, since they go by the names of arguments."""
    return Definition(kind=found.kind) if found is not None and found.flop is None else None


def _gradient(found: Definition | None) -> Definition | None:
    """The gradient of a pointwise operator or a reduction is elementwise, other kinds stay what they are."""
    if found is None or found.flop is not None:
        return None
    return Definition(kind=POINTWISE if found.kind == REDUCTION else found.kind)
