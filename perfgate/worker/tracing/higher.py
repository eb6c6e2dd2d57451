"""Floor 3, worker. Operators whose arguments are functions: control flow, flex attention, ...

In: such an operator and its arguments. Out: for control flow the function that takes its place, step by step; for
all others nothing, since they are traced as one call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

FLEX = frozenset({"flex_attention", "flex_attention_backward"})


def register(mode: type, handle: Callable[..., Any]) -> None:
    """Send these operators through a mode in releases of torch that want each of them told about it.

    ``handle`` is called as ``handle(mode, operator, args, kwargs)``.
    """
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    for operator in list(torch._ops._higher_order_ops.values()):
        # Told before, or of a kind that is told otherwise.
        with suppress(AssertionError, AttributeError):
            operator.py_impl(mode)(_handler(operator, handle))


def _handler(operator: Any, handle: Callable[..., Any]) -> Callable[..., Any]:
    return lambda mode, *args, **kwargs: handle(mode, operator, args, kwargs)


def spelled_out(name: str) -> Callable[..., Any] | None:
    """Plain Python that does what operator ``name`` does, through operators that can be traced; or None."""
    return _SPELLED.get(name)


def _cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def _while(cond_fn: Any, body_fn: Any, carried: Any, additional: Any = (), *_: Any, **__: Any) -> Any:
    state = tuple(carried)
    while bool(cond_fn(*state, *additional)):
        state = tuple(body_fn(*state, *additional))
    return state


def _map(function: Any, xs: Any, additional: Any = (), *_: Any, **__: Any) -> Any:
    results = [function(*(x[index] for x in xs), *additional) for index in range(xs[0].shape[0])]
    return pytree.tree_map(lambda *parts: torch.stack(parts), *results)


def _scan(combine: Any, init: Any, xs: Any, additional: Any = (), *_: Any, **__: Any) -> Any:
    carried, collected = list(init), []
    for index in range(xs[0].shape[0]):
        results = list(combine(*carried, *(x[index] for x in xs), *additional))
        carried = results[: len(init)]
        collected.append(results[len(init) :])
    return [*carried, *(torch.stack(parts) for parts in zip(*collected, strict=True))]


_SPELLED: dict[str, Callable[..., Any]] = {"cond": _cond, "while_loop": _while, "map_impl": _map, "scan": _scan}


def named(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by the names that the operator gives them, ``in0``, ``in1``, ... where it gives none."""
    try:
        parameters = list(inspect.signature(func.__call__).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [item.name for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]
    found = {names[n] if n < len(names) else f"in{n}": arg for n, arg in enumerate(args)}
    return {**found, **kwargs}


def tensors_of(arguments: dict[str, Any]) -> dict[str, list[Any]]:
    """Those that are or hold tensors."""
    found = {name: _tensors(value) for name, value in arguments.items()}
    return {name: tensors for name, tensors in found.items() if tensors}


def numbers_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Those that are numbers or texts."""
    return {name: value for name, value in arguments.items() if isinstance(value, (bool, int, float, str))}


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
