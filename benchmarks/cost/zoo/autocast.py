"""What autocast on CUDA does to a step, on tensors without contents, where torch's own autocast does nothing.

In: a module. Out: one that runs it as ``torch.autocast("cuda", torch.float16)`` would, call by call: which functions
run in the narrow dtype, which in float32, and a weight's cast once a step, follow the operator lists in torch's
documentation ("CUDA Ops that can autocast to float16", "... to float32"). Casts are kernels of their own, and attention
is one kernel: flash without a mask, the memory-efficient one with it, where tensors without a device would be given the
matrix products and the softmax that CUDA never runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

# Flash attention need not keep what only a backward pass reads.
_NO_STATISTICS = False
# Batch, heads, rows, features; the fused kernels take no other form.
_FUSED_DIMENSIONS = 4


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# By the name of the function or method, whatever module it is called from.
_NARROW = _words(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc linear matmul __matmul__"
    " __rmatmul__ mm bmm mv addmm addmv addr addbmm baddbmm chain_matmul einsum prelu"
    " multi_head_attention_forward"
)
_WIDE = _words(
    "layer_norm group_norm softmax log_softmax softplus norm normalize vector_norm sum prod cumsum cumprod exp expm1"
    " log log2 log10 log1p logsumexp pow __pow__ __rpow__ rsqrt reciprocal cosine_similarity cdist dist"
    " interpolate upsample cross_entropy nll_loss mse_loss"
)


class Autocast(TorchFunctionMode):  # type: ignore[misc]
    """One step's casts; a weight's copy is kept until the step ends."""

    def __init__(self, narrow: torch.dtype) -> None:
        super().__init__()
        self._narrow = narrow
        self._copies: dict[int, torch.Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention" and args[0].dim() == _FUSED_DIMENSIONS:
            return _attention(*_each(args, self._narrowed), **_each(kwargs, self._narrowed))
        if name in _NARROW or name == "scaled_dot_product_attention":
            return func(*_each(args, self._narrowed), **_each(kwargs, self._narrowed))
        if name in _WIDE:
            return func(*_each(args, self._widened), **_each(kwargs, self._widened))
        return func(*args, **kwargs)

    def _narrowed(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dtype != torch.float32:
            return leaf
        if not isinstance(leaf, nn.Parameter):
            return leaf.to(self._narrow)
        copy = self._copies.get(id(leaf))
        if copy is None:
            copy = self._copies[id(leaf)] = leaf.to(self._narrow)
        return copy

    def _widened(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype == self._narrow:
            return leaf.to(torch.float32)
        return leaf


class Autocasted(nn.Module):  # type: ignore[misc]
    """``module`` with its forward pass under :class:`Autocast`."""

    def __init__(self, module: nn.Module, narrow: torch.dtype = torch.float16) -> None:
        super().__init__()
        self.module = module
        self._narrow = narrow

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with Autocast(self._narrow):
            return self.module(*args, **kwargs)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002 - torch's own signature
    scale: float | None = None,
    **_: Any,
) -> torch.Tensor:
    if attn_mask is None:
        flash: Any = torch.ops.aten._scaled_dot_product_flash_attention.default
        return flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(attn_mask.logical_not(), -1e4)
    bias = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    efficient: Any = torch.ops.aten._scaled_dot_product_efficient_attention.default
    return efficient(query, key, value, bias, _NO_STATISTICS, dropout_p, is_causal, scale=scale)[0]


def _each(tree: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _each(item, change) for key, item in tree.items()}
    if isinstance(tree, (tuple, list)) and not hasattr(tree, "_fields"):
        return type(tree)(_each(item, change) for item in tree)
    return change(tree)
