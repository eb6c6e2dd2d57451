"""Floor 3, worker. What can be worked out before the first request: constants, and normalisation after convolution.

In: a flat graph with weights as attributes, changed in place. Out: nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.utils.fusion import fuse_conv_bn_weights

# A folded constant may be larger than what it comes from, up to here: a table made by the model is one, a large mask
# that is cheap to make is not.
MAX_BYTES = 16 * 2**20

_CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d", "convolution"})
_NORMALISATIONS = frozenset({"batch_norm", "_native_batch_norm_legit_no_training"})
_TRAINS, _PROBABILITIES = ("train", "training"), ("dropout_p", "dropout")
_RANDOM = ("rand", "bernoulli", "multinomial", "normal", "dropout", "exponential", "uniform", "poisson", "geometric")


def base_name(target: Any) -> str:
    """``aten.add_.Tensor`` -> ``add_``; of anything else its own name."""
    packet = getattr(target, "overloadpacket", None)
    return str(getattr(packet, "__name__", None) or getattr(target, "__name__", None) or target)


def has_effect(node: Any) -> bool:
    """Whether a call changes something besides making its result, or must stay for another reason."""
    if node.op in {"placeholder", "output"}:
        return True
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def is_random(node: Any) -> bool:
    """Whether a call may draw random numbers."""
    name = base_name(node.target)
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or name.startswith(_RANDOM)


def draws(node: Any) -> bool:
    """Whether a call draws random numbers: dropout that is switched off, also inside attention and LSTMs, does not."""
    if not is_random(node):
        return False
    given = _arguments(node)
    off = any(given.get(name) is False for name in _TRAINS)
    return not off and not any(name in given and given[name] == 0 for name in _PROBABILITIES)


def _arguments(node: Any) -> dict[str, Any]:
    """Arguments of a call by name, defaults included."""
    schema = getattr(node.target, "_schema", None)
    found = {}
    for place, argument in enumerate(schema.arguments if schema is not None else ()):
        value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
        found[str(argument.name)] = value
    return found


def tensor_of(module: Any, node: Any) -> Any:
    """The tensor that a ``get_attr`` node stands for; None for any other node."""
    if not isinstance(node, torch.fx.Node) or node.op != "get_attr":
        return None
    found: Any = module
    for part in str(node.target).split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, torch.Tensor) else None


def changed(module: Any) -> set[str]:
    """Names of the attributes that calls write to."""
    return {
        str(read.target)
        for node in module.graph.nodes
        if has_effect(node) and node.op == "call_function"
        for read in written(node)
        if read.op == "get_attr"
    }


def written(node: Any) -> Iterator[Any]:
    """Nodes whose tensors a call changes in place."""
    schema = getattr(node.target, "_schema", None)
    for place, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, torch.fx.Node):
                yield one


def fold_constants(module: Any) -> None:
    """Calls that read nothing but constants are replaced by what they give."""
    graph = module.graph
    state = changed(module)
    count = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or has_effect(node) or is_random(node):
            continue
        known = {read: tensor_of(module, read) for read in node.all_input_nodes}
        if any(value is None for value in known.values()) or any(str(read.target) in state for read in known):
            continue
        value = _value(node, known)
        if value is None:
            continue
        name = f"folded_{count}"
        while hasattr(module, name):
            count += 1
            name = f"folded_{count}"
        module.register_buffer(name, value, persistent=True)
        with graph.inserting_before(node):
            constant = graph.get_attr(name)
        constant.meta = {key: node.meta[key] for key in ("val", "tensor_meta") if key in node.meta}
        node.replace_all_uses_with(constant)
        graph.erase_node(node)


def _value(node: Any, known: dict[Any, Any]) -> Any:
    """What a call gives; None where it is no tensor, too large, or cannot be had."""
    expected = node.meta.get("val")
    if not isinstance(expected, torch.Tensor) or expected.device.type == "meta":
        return None
    size = expected.numel() * expected.element_size()
    if size > max(MAX_BYTES, sum(value.numel() * value.element_size() for value in known.values())):
        return None
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda read: known[read])
    try:
        with torch.no_grad():
            value = node.target(*args, **kwargs)
    except Exception:
        return None
    # Of a view only the part that is read, in an order of its own.
    return value.detach().clone() if isinstance(value, torch.Tensor) else None


def fold_normalisation(module: Any) -> None:
    """Batch normalisation in inference is part of the weights of the convolution before it, where nothing else reads
    it."""
    graph = module.graph
    count = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or base_name(node.target) not in _NORMALISATIONS:
            continue
        convolution = node.args[0]
        if not _foldable(node, convolution):
            continue
        fused = _fused(module, node, convolution)
        if fused is None:
            continue
        readers = [node] if base_name(node.target) == "batch_norm" else list(node.users)
        for kind, value in zip(("weight", "bias"), fused, strict=True):
            module.register_buffer(f"fused_{count}_{kind}", value.detach().clone(), persistent=True)
        with graph.inserting_before(convolution):
            weight, bias = (graph.get_attr(f"fused_{count}_{kind}") for kind in ("weight", "bias"))
        count += 1
        arguments = [*convolution.args]
        arguments += [None] * (3 - len(arguments))
        arguments[1:3] = [weight, bias]
        convolution.args = tuple(arguments)
        convolution.kwargs = {key: value for key, value in convolution.kwargs.items() if key not in {"weight", "bias"}}
        for reader in readers:
            reader.replace_all_uses_with(convolution)
            graph.erase_node(reader)
        if node not in readers:
            graph.erase_node(node)


def _foldable(node: Any, convolution: Any) -> bool:
    if not isinstance(convolution, torch.fx.Node) or convolution.op != "call_function" or len(convolution.users) != 1:
        return False
    if base_name(convolution.target) not in _CONVOLUTIONS:
        return False
    if base_name(convolution.target) == "convolution" and convolution.args[6]:
        return False
    if base_name(node.target) == "batch_norm":
        return not node.args[5]
    return all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)


def _fused(module: Any, node: Any, convolution: Any) -> Any:
    """New weight and bias; None where a part of them is no constant."""
    weight = tensor_of(module, convolution.args[1])
    bias_node = convolution.args[2] if len(convolution.args) > 2 else None
    bias = tensor_of(module, bias_node)
    scale, shift, mean, variance = (tensor_of(module, read) for read in node.args[1:5])
    eps = node.args[7] if base_name(node.target) == "batch_norm" else node.args[6]
    if weight is None or mean is None or variance is None or (bias is None) != (bias_node is None):
        return None
    if (scale is None) != (node.args[1] is None) or (shift is None) != (node.args[2] is None):
        return None
    with torch.no_grad():
        return fuse_conv_bn_weights(weight, bias, mean, variance, eps, scale, shift)
