"""Floor 3, worker. A lowered model, whichever framework it is of: nodes, pieces of them, and values at their borders.

In: operations and values of a torch graph or an ONNX file. Out: :class:`Model`, which torch's and ONNX's inherit from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfgate.records.placing import CrossingValue, LoweredNode
from perfgate.worker.placing import grouping
from perfgate.worker.placing.grouping import Group
from perfgate.worker.placing.operations import Operation, digest
from perfgate.worker.placing.pieces import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a model is made of. ``inputs``, ``outputs``: names in the order of arguments and results."""

    operations: Sequence[Operation]
    groups: Sequence[Group]
    nodes: tuple[LoweredNode, ...]
    values: Mapping[str, CrossingValue]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Model(ABC):
    """``folder`` is for files; ``name`` as in perfgate.toml."""

    framework: str

    def __init__(self, name: str, folder: Path, parts: Parts) -> None:
        self.name = name
        self.folder = folder
        self.parts = parts

    @property
    def fingerprint(self) -> str:
        """Of the lowered graph."""
        return grouping.fingerprint(self.parts.nodes)

    @abstractmethod
    def capture(self, names: Iterable[str]) -> dict[str, Any]:
        """Values of these names in one step."""

    @abstractmethod
    def inputs(self) -> list[Any]:
        """The step's inputs in the order of ``parts.inputs``."""

    @abstractmethod
    def reference(self) -> list[Any]:
        """What the user's own model gives for them, in the order of ``parts.outputs``."""

    @abstractmethod
    def interface(self) -> dict[str, Any]:
        """What a deployed folder needs to know of arguments and results."""

    @abstractmethod
    def keep(self, folder: Path) -> None:
        """Write inputs and reference where ``placed.stored`` looks for them."""

    @abstractmethod
    def module(self, numbers: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
        """How a piece is made: a callable that gives a torch module, or None where files are cut by the parent."""

    @abstractmethod
    def need(self, pieces: Iterable[Piece], empty: Path | None = None) -> None:
        """Raises ``needed.Needed`` where files of these pieces, or of an empty one, have to be cut by the parent."""

    def piece(self, nodes: Iterable[int], values: Mapping[str, Any] | None = None, *, shared: bool = False) -> Piece:
        """The piece of these nodes; ``values`` are examples of its inputs.

        ``shared``: it stands for every node of the same signature, whatever their weights: to be timed, not deployed.
        """
        chosen = sorted(set(nodes))
        parts = self.parts
        members = [number for index in chosen for number in parts.groups[index].members]
        border = grouping.bordered(parts.operations, members, set(parts.outputs))
        first, last = parts.nodes[chosen[0]], parts.nodes[chosen[-1]]
        name = first.name if len(chosen) == 1 else f"{first.name} to {last.name}"
        key = first.signature
        if not shared or len(chosen) != 1:
            key = digest(*(f"{index}:{parts.nodes[index].signature}" for index in chosen))
        return Piece(
            key=key,
            name=name,
            framework=self.framework,
            numbers=border.members,
            inputs=border.inputs,
            outputs=border.outputs,
            folder=self.folder / "cut" / key,
            examples=[values[one] for one in border.inputs] if values is not None else (),
            state=", ".join(sorted({parts.nodes[index].state for index in chosen} - {""})),
            module=self.module(border.members, border.inputs, border.outputs),
        )

    def representatives(self) -> dict[str, int]:
        """For each signature the first node that has it."""
        first: dict[str, int] = {}
        for index, node in enumerate(self.parts.nodes):
            first.setdefault(node.signature, index)
        return first

    @property
    def crossing(self) -> tuple[CrossingValue, ...]:
        """Values at borders, with their makers."""
        makers = {name: index for index, node in enumerate(self.parts.nodes) for name in node.outputs}
        used = dict.fromkeys([*self.parts.inputs, *makers])
        return tuple(
            replace(self.parts.values[name], maker=makers.get(name, -1)) for name in used if name in self.parts.values
        )
