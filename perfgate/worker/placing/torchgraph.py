"""Floor 3, worker. A flat torch graph as operations, cut into pieces, and run for the values at borders.

In: the graph module of ``exporting.flat``. Out: :class:`TorchGraph`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from perfgate.records.placing import CrossingValue
from perfgate.worker.failures import refuse
from perfgate.worker.placing import folding
from perfgate.worker.placing.operations import VIEW, Operation, kind, role

_ROOTS = ("L__self__", "_export_root")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchGraph:
    """``calls[k]`` is the node of operation k. ``inputs``: of all arguments, flat, empty names for those not read.

    ``state``: names of attributes that a step changes. ``random``: operators that draw random numbers.
    """

    module: Any
    operations: tuple[Operation, ...]
    calls: tuple[Any, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str | None, ...]
    values: Mapping[str, CrossingValue]
    state: frozenset[str]
    random: tuple[str, ...] = ()

    def cut(self, numbers: Iterable[int], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
        """A module of these operations: tensors ``inputs`` in, a tuple of ``outputs`` out."""
        graph = torch.fx.Graph()
        by_name = {node.name: node for node in self.module.graph.nodes}
        made: dict[Any, Any] = {}
        for name in inputs:
            placeholder = graph.placeholder(f"input_{len(made)}")
            placeholder.meta = dict(by_name[name].meta)
            made[by_name[name]] = placeholder
        for number in sorted(numbers):
            node = self.calls[number]
            for read in node.all_input_nodes:
                if read.op == "get_attr" and read not in made:
                    made[read] = graph.node_copy(read)
            made[node] = graph.node_copy(node, lambda read: made[read])
        graph.output(tuple(made[by_name[name]] for name in outputs))
        return torch.fx.GraphModule(self.module, graph)

    def capture(self, arguments: Sequence[Any], names: Iterable[str]) -> dict[str, Any]:
        """Values of these names in one step with the flat ``arguments``; the state stays as it was."""
        wanted = set(names)
        kept = {name: value for name, value in zip(self.inputs, arguments, strict=True) if name in wanted}
        with self.unchanged(), torch.no_grad():
            _Recorder(self.module, wanted, kept).run(*arguments)
        return kept

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Puts the state back afterwards."""
        tensors = [_attribute(self.module, name) for name in sorted(self.state)]
        before = [tensor.detach().clone() for tensor in tensors]
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in zip(tensors, before, strict=True):
                    tensor.copy_(value)


class _Recorder(torch.fx.Interpreter):  # type: ignore[misc]
    def __init__(self, module: Any, wanted: set[str], kept: dict[str, Any]) -> None:
        # Placeholders are taken in order from what is given, as they are in the flat graph.
        super().__init__(module, garbage_collect_values=True)
        self._wanted = wanted
        self._kept = kept

    def run_node(self, n: Any) -> Any:
        value = super().run_node(n)
        if n.name in self._wanted and n.op == "call_function":
            # A later operation may write into it.
            self._kept[n.name] = value.detach().clone() if isinstance(value, torch.Tensor) else value
        return value


def read(module: Any, name: str) -> TorchGraph:
    """The operations of ``module``. Raises WorkerError, ``unsupported``."""
    nodes = list(module.graph.nodes)
    state = folding.changed(module)
    holders = _holders(module, nodes)
    parameters = {holders.get(path, path) for path, _ in module.named_parameters(remove_duplicate=False)}
    calls = tuple(node for node in nodes if node.op == "call_function")
    strange = [node for node in nodes if node.op in {"call_module", "call_method"}]
    if strange:
        message = (
            f"models.{name}: its exported graph calls {strange[0].target}, which cannot be taken apart; leave this "
        )
        refuse("unsupported", "build", f"{message}model out of placement")
    for node in calls:
        if any(one.op == "placeholder" for one in folding.written(node)):
            message = (
                f"models.{name}: the model changes its inputs in place ({folding.base_name(node.target)}); copy them"
            )
            refuse("unsupported", "build", f"{message} first, or leave this model out of placement")
    _refuse_unknown_sizes(calls, name)
    (output,) = (node for node in nodes if node.op == "output")
    results = torch.utils._pytree.tree_leaves(output.args[0])
    return TorchGraph(
        module=module,
        operations=tuple(_operation(module, node, holders, parameters, state) for node in calls),
        calls=calls,
        inputs=tuple(node.name for node in nodes if node.op == "placeholder"),
        outputs=tuple(str(one.name) if isinstance(one, torch.fx.Node) else None for one in results),
        values=_values(nodes),
        state=frozenset(state),
        random=tuple(dict.fromkeys(folding.base_name(node.target) for node in calls if folding.draws(node))),
    )


def _refuse_unknown_sizes(calls: Iterable[Any], name: str) -> None:
    """A piece is made for the shapes of its inputs."""
    for node in calls:
        value = node.meta.get("val")
        shape = value.shape if isinstance(value, torch.Tensor) else ()
        if isinstance(value, torch.SymInt) or any(not isinstance(size, int) for size in shape):
            message = f"models.{name}: {folding.base_name(node.target)} makes a tensor whose size depends on the data"
            refuse("unsupported", "build", f"{message}; leave this model out of placement")


def return_copies(module: Any) -> None:
    """Constants and inputs that the model returns as they are become results of operations."""
    graph = module.graph
    (output,) = (node for node in graph.nodes if node.op == "output")
    for node in list(output.all_input_nodes):
        value = node.meta.get("val") if node.op == "placeholder" else folding.tensor_of(module, node)
        if isinstance(value, torch.Tensor):
            with graph.inserting_before(output):
                copied = graph.call_function(torch.ops.aten.clone.default, (node,))
            copied.meta = {"val": value}
            output.replace_input_with(node, copied)
    module.recompile()


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _holders(module: Any, nodes: Iterable[Any]) -> dict[str, str]:
    """Attribute -> the first attribute that holds the same memory, for tied weights."""
    first: dict[int, str] = {}
    holders: dict[str, str] = {}
    for node in nodes:
        tensor = folding.tensor_of(module, node)
        if tensor is None or tensor.numel() == 0:
            continue
        holders[str(node.target)] = first.setdefault(_memory(tensor), str(node.target))
    return holders


def _memory(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def _values(nodes: Iterable[Any]) -> dict[str, CrossingValue]:
    found = {}
    for node in nodes:
        value = node.meta.get("val")
        if node.op in {"placeholder", "call_function"} and isinstance(value, torch.Tensor):
            found[node.name] = CrossingValue(
                name=node.name,
                dtype=str(value.dtype).removeprefix("torch."),
                shape=tuple(int(size) for size in value.shape),
                bytes=int(value.numel()) * value.element_size(),
            )
    return found


def _operation(module: Any, node: Any, holders: Mapping[str, str], parameters: set[str], state: set[str]) -> Operation:
    base = folding.base_name(node.target)
    weights: dict[str, int] = {}
    reads: list[str] = []
    for one in node.all_input_nodes:
        if one.op != "get_attr":
            reads.append(one.name)
            continue
        tensor = folding.tensor_of(module, one)
        if tensor is not None:
            weights[holders.get(str(one.target), str(one.target))] = tensor.numel() * tensor.element_size()
    value = node.meta.get("val")
    several = isinstance(value, (tuple, list))
    path, _ = _place(node)
    return Operation(
        op=str(node.target) if "." in str(node.target) and "<" not in str(node.target) else base,
        base=base,
        role=VIEW if node.target is operator.getitem else role(base),
        kind=kind(base),
        reads=tuple(reads),
        makes=(node.name,),
        weights=tuple(weights.items()),
        tied=tuple(name for name in weights if name in parameters),
        text=_text(module, node),
        module=path,
        state=tuple(sorted(str(one.target) for one in folding.written(node) if str(one.target) in state)),
        inseparable=(node.name,) if several or not isinstance(value, torch.Tensor) else (),
    )


def _place(node: Any) -> tuple[str, str]:
    """Path and class of the innermost module; empty for the model itself."""
    stack = node.meta.get("nn_module_stack") or {}
    for path, found in reversed(list(stack.values())):
        name = getattr(found, "__name__", None) or str(found).rpartition(".")[2]
        clean = str(path)
        for root in _ROOTS:
            clean = clean.removeprefix(root).lstrip(".")
        return clean.partition("@")[0], str(name)
    return "", ""


def _text(module: Any, node: Any) -> str:
    """Operator, arguments, layouts: equal for calls that do the same work."""

    def shown(value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            tensor = folding.tensor_of(module, value)
            if tensor is None and value.op == "get_attr":
                return str(getattr(_attribute(module, str(value.target)), "code", value.target))
            return _layout(tensor if tensor is not None else value.meta.get("val"))
        if isinstance(value, (list, tuple)):
            return f"[{','.join(map(shown, value))}]"
        return repr(value)

    arguments = [*map(shown, node.args), *(f"{key}={shown(value)}" for key, value in sorted(node.kwargs.items()))]
    return f"{node.target}({','.join(arguments)})->{_layout(node.meta.get('val'))}"


def _layout(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"({','.join(map(_layout, value))})"
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    strides = list(value.stride()) if value.layout is torch.strided else [str(value.layout)]
    return f"{value.dtype}{list(value.shape)}{strides}@{value.device.type}"
