"""Floor 3, worker. What counts as an operator call.

In: an operator. Out: whether it does work of its own, and what it changes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

# Bookkeeping of autograd and allocation without any work of its own. `_unsafe_view` is a view of a fresh copy.
_FREE = frozenset(
    f"aten::{name}"
    for name in (
        "_assert_async", "_empty_affine_quantized", "_empty_per_channel_affine_quantized", "_unsafe_view", "detach",
        "detach_", "empty", "empty_like", "empty_permuted", "empty_quantized", "empty_strided", "lift", "lift_fresh",
        "new_empty", "new_empty_strided", "record_stream", "rename", "resize_", "resize_as_", "set_",
    )
)  # fmt: skip
_ALIASES = frozenset(f"aten::{name}" for name in ("_unsafe_view", "detach", "detach_", "lift", "lift_fresh"))
_LIFTS = frozenset({"aten::lift", "aten::lift_fresh"})
# Questions about a tensor's values are work although they answer with no tensor: the host waits for them.
_QUESTIONS = frozenset(f"aten::{name}" for name in ("_local_scalar_dense", "equal", "is_nonzero", "item", "allclose"))
_QUIET_SPACES = frozenset({"aten", "prim", "prims", "profiler"})
# Their schemas do not tell that they change the running statistics in training, which argument 5 says.
_NORMS = frozenset(f"aten::{name}" for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"))
_TRAINING = 5
# Lengths of packed sequences.
_HOST_ARGUMENTS = {"aten::_pack_padded_sequence": 1, "aten::_pack_padded_sequence_backward": 2}
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, FakeTensor})


@cache
def is_free(func: Any) -> bool:
    """Views, bookkeeping that moves no data, and questions about shapes and types."""
    schema = func._schema
    if func.is_view or schema.name in _FREE:
        return True
    silent = not schema.is_mutable and not any("Tensor" in str(item.type) for item in schema.returns)
    return silent and func.namespace in _QUIET_SPACES and schema.name not in _QUESTIONS


@cache
def is_view(func: Any) -> bool:
    """Results share memory with the first argument."""
    return bool(func.is_view) or func._schema.name in _ALIASES


@cache
def is_question(func: Any) -> bool:
    """What answers with a number for the host."""
    return func._schema.name in _QUESTIONS


@cache
def is_lift(func: Any) -> bool:
    """What ``torch.tensor`` ends with: a tensor that was made of the host's numbers."""
    return func._schema.name in _LIFTS


@cache
def is_composite(func: Any) -> bool:
    """Whether torch defines the operator by others; outside of inference mode those come instead of it."""
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))
    except RuntimeError:
        # Questions like `prim::device` are no operators of the dispatcher.
        return False


@cache
def is_foreign(kind: Any) -> bool:
    """A subclass of tensors that handles operators itself."""
    return kind not in _PLAIN and kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


def untold_writes(func: Any, args: Any) -> tuple[str, ...]:
    """Arguments that a call changes although the operator's schema does not say so."""
    training = len(args) > _TRAINING and args[_TRAINING] is True
    return ("running_mean", "running_var") if training and func._schema.name in _NORMS else ()


def written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Tensors that a call changes in place by its schema."""
    found: list[Any] = []
    if not func._schema.is_mutable:
        return found
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            found.extend(tensors_of(value))
    return found


def flat(value: Any) -> list[Any]:
    """The items of an operator's argument or result; lists are the only nesting that schemas have."""
    if not isinstance(value, (list, tuple)):
        return [value]
    return [leaf for item in value for leaf in (item if isinstance(item, (list, tuple)) else (item,))]


def tensors(args: Any, kwargs: Any) -> list[Any]:
    """All tensors that an operator is given."""
    given = tensors_of(args)
    for value in kwargs.values():
        given += tensors_of(value)
    return given


def tensors_of(value: Any) -> list[Any]:
    """All tensors in one argument or result."""
    return [leaf for leaf in flat(value) if isinstance(leaf, torch.Tensor)]


def host_arguments(func: Any, args: Any) -> list[Any]:
    """Tensors that the operator reads on the host, whatever the device of the others."""
    position = _HOST_ARGUMENTS.get(func._schema.name)
    return [] if position is None else [args[position]]
