"""Floor 3, graph. Names in force at one place of an ONNX model, and what the walk offers to control flow.

In: graphs, functions, subgraphs. Out: :class:`Scope`, in which a subgraph sees the names around it and a function
only its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from onnx import AttributeProto, GraphProto, NodeProto, OperatorSetIdProto, TypeProto

from perfgate.graph.onnx.known import Known
from perfgate.graph.onnx.recording import Recorder


@dataclass(slots=True, kw_only=True)
class Frame:
    """The model itself, or one call of a function: operator sets, attributes, the module around it, depth of calls."""

    opsets: dict[str, int]
    imports: list[OperatorSetIdProto]
    attributes: dict[str, AttributeProto] = field(default_factory=dict)
    module: str = ""
    depth: int = 0


@dataclass(slots=True, kw_only=True)
class Scope:
    """One graph. ``key`` tells graphs apart whatever loop or call they are walked for.

    ``absent``: optional inputs of a function that its call leaves out.
    """

    frame: Frame
    key: tuple[str, ...] = ()
    names: dict[str, Known] = field(default_factory=dict)
    parent: Scope | None = None
    declared: Mapping[str, TypeProto] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()

    def find(self, name: str) -> Known | None:
        """What a name stands for here or in a graph around; None where nothing has made it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def is_absent(self, name: str) -> bool:
        """Whether the name is that of an input which the call leaves out."""
        return name in self.absent or (self.parent is not None and self.parent.is_absent(name))

    def inner(self, node: NodeProto, attribute: str) -> Scope:
        """The scope of a node's subgraph."""
        made = next((name for name in node.output if name), node.name)
        return Scope(frame=self.frame, key=(*self.key, made, attribute), parent=self)


class Walk(Protocol):
    """What control flow asks of the walk."""

    recorder: Recorder

    def graph(self, graph: GraphProto, scope: Scope, inputs: list[Known]) -> list[Known]:
        """Walk a graph whose inputs are known; its outputs."""
        ...
