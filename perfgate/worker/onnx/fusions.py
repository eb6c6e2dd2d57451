"""Floor 3, worker. From the operators that ONNX Runtime runs back to those of the user's file.

In: the file's nodes, and where it could be had the optimised graph's. Out: the place and operator, in the user's
terms, of what a profile names. Optimisations rename, merge and split nodes: a fused node counts as the operator that
does its work, and what only changes a layout for another operator counts at that one's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfgate import onnx_names
from perfgate.worker.onnx.file import Node

# How far a fused operator may lie above the value that carries its name: convolution, bias, sum, activation.
_REACH = 4
# Operators that a fused one may have been made from, beside one of its own name.
_MADE_FROM = {
    "FusedConv": ("Conv",),
    "FusedGemm": ("Gemm", "MatMul"),
    "FusedMatMul": ("MatMul",),
    "Gemm": ("MatMul",),
    "QLinearConv": ("Conv",),
    "QLinearMatMul": ("MatMul",),
    "MatMulIntegerToFloat": ("MatMulInteger", "MatMul"),
    "DynamicQuantizeMatMul": ("MatMulInteger", "MatMul"),
    "NhwcFusedConv": ("Conv",),
    "NhwcMaxPool": ("MaxPool",),
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Module path and operator (``ai.onnx::Conv``)."""

    module: str
    op: str


class Origins:
    """Answers for the nodes of one profile; ask once for each, in order of execution."""

    def __init__(self, nodes: Sequence[Node], optimised: Sequence[Node] = ()) -> None:
        self._by_name = {node.name: node for node in reversed(nodes) if node.name}
        self._by_value = {value: node for node in nodes for value in node.outputs if value}
        self._optimised = {node.name: node for node in optimised if node.name}
        self._readers = {value: node for node in reversed(optimised) for value in node.inputs if value}
        self._taken: set[int] = set()
        self._known: dict[str, Origin] = {}

    def of(self, name: str, op_type: str) -> Origin:
        """Where the node called ``name`` that ran as ``op_type`` comes from."""
        if name not in self._known:
            self._known[name] = self._find(name, op_type)
        return self._known[name]

    def _find(self, name: str, op_type: str) -> Origin:
        node = self._node(name)
        if node is None:
            return self._at_reader(name, op_type)
        node = self._worker(node, op_type)
        self._taken.add(id(node))
        return Origin(node.module, node.op)

    def _node(self, name: str) -> Node | None:
        if name in self._by_name:
            return self._by_name[name]
        found = self._by_value_in(self._optimised[name].outputs) if name in self._optimised else None
        if found is not None:
            return found
        # `VALUE_nchwc`, `NODE/MatMulAddFusion`, `fused NODE`: the user's own name with something around it.
        return next(filter(None, map(self._named, _shortened(name.removeprefix("fused ")))), None)

    def _named(self, text: str) -> Node | None:
        return self._by_name.get(text) or self._by_value.get(text)

    def _by_value_in(self, values: Iterable[str]) -> Node | None:
        return next((self._by_value[value] for value in values if value in self._by_value), None)

    def _worker(self, node: Node, op_type: str) -> Node:
        """The node that does the work of a fused one which carries ``node``'s name or makes its value."""
        wanted = (op_type, *_MADE_FROM.get(op_type, ()))
        level = [node]
        for _ in range(_REACH):
            for candidate in level:
                if candidate.op_type in wanted and id(candidate) not in self._taken:
                    return candidate
            above = [self._by_value[value] for each in level for value in each.inputs if value in self._by_value]
            level = list({id(each): each for each in above}.values())
        return node

    def _at_reader(self, name: str, op_type: str) -> Origin:
        """A node of the optimiser's own stands where the operator does that reads what it makes."""
        own = self._optimised.get(name)
        op = onnx_names.operator("" if own is None else own.domain, op_type)
        for _ in range(_REACH):
            own = None if own is None else self._reader(own)
            node = None if own is None else self._node(own.name)
            if own is not None and node is not None:
                return Origin(self._worker(node, own.op_type).module, op)
        return Origin("", op)

    def _reader(self, node: Node) -> Node | None:
        return next((self._readers[value] for value in node.outputs if value in self._readers), None)


def _shortened(name: str) -> Iterable[str]:
    """``name``, and with one more of its last words cut off each time: words end at ``/`` and ``_``."""
    yield name
    for match in reversed(list(re.finditer(r"[/_]+", name))):
        if match.start():
            yield name[: match.start()]
