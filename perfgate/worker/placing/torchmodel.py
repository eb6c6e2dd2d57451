"""Floor 3, worker. A torch model, lowered: ``Lower`` -> :class:`TorchModel`.

In: the user's module and inputs. Out: nodes of its exported graph. Raises WorkerError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from perfgate.records.placing import Lower
from perfgate.records.protocol import TORCH, Open
from perfgate.worker import loading, seeds
from perfgate.worker.failures import phase, refuse
from perfgate.worker.inputs import Arguments
from perfgate.worker.placing import exporting, grouping, interface, torchgraph
from perfgate.worker.placing.model import Model, Parts
from perfgate.worker.placing.pieces import Piece
from perfgate.worker.placing.torchgraph import TorchGraph
from perfgate.worker.preparing import Side


def lower(request: Lower, side: Side) -> tuple[TorchModel, tuple[str, ...]]:
    """The model, and notes. Raises WorkerError."""
    workload, checkout = request.workload, side.request.checkout
    name = request.spec.name
    _check_setting(request)
    asked = Open(workload=workload, spec=request.spec, seed=request.seed)
    loaded = loading.load(asked, side)
    arguments = loading.make_arguments(asked, side)
    notes = loaded.notes
    with phase("build", checkout):
        notes += loading.materialise(asked, loaded, arguments)
    seeds.set_all(request.seed)
    with phase("first-step", checkout), torch.no_grad(), _same_buffers(loaded.module):
        reference = loaded.plain(*arguments.args, **arguments.kwargs)
    program = exporting.export(loaded.module if loaded.module is not None else loaded.plain, arguments, name)
    with phase("build", checkout):
        flat = exporting.flat(program)
    model = TorchModel(name, Path(request.folder), flat, program, arguments, reference, workload.device)
    side.prove()
    if workload.compile != "eager":
        notes += (
            f"compile = {workload.compile!r} is not looked at: which compiler runs what is what placement decides",
        )
    return model, notes + model.notes


@contextmanager
def _same_buffers(module: Any) -> Iterator[None]:
    """What the reference was made with is what is exported: a step may change buffers."""
    buffers = list(module.buffers()) if module is not None else []
    before = [buffer.detach().clone() for buffer in buffers]
    yield
    for buffer, value in zip(buffers, before, strict=True):
        buffer.copy_(value)


def _check_setting(request: Lower) -> None:
    workload = request.workload
    where = f"models.{workload.model}"
    if workload.mode != "infer":
        refuse("unsupported", "build", f"{where}: mode {workload.mode} cannot be placed; only infer can")
    if workload.dtype.startswith("amp-"):
        plain = workload.dtype.removeprefix("amp-")
        message = f"{where}: dtype {workload.dtype} cannot be placed, since autocast decides anew in each step; "
        refuse("unsupported", "build", f"{message}write dtype = '{plain}' or 'float32'")


class TorchModel(Model):
    """See :class:`Model`."""

    framework = TORCH

    def __init__(
        self, name: str, folder: Path, flat: Any, program: Any, arguments: Arguments, reference: Any, device: str
    ) -> None:
        torchgraph.return_copies(flat)
        graph = torchgraph.read(flat, name)
        if graph.random:
            message = (
                f"models.{name}: a step draws random numbers ({', '.join(graph.random)}), so that no library's results "
            )
            refuse(
                "unsupported", "build", f"{message}can be compared with the model's own; pass them as inputs, or leave "
                "this model out of placement",
            )  # fmt: skip
        self.graph: TorchGraph = graph
        self.device = device
        self._flat = pytree.tree_leaves((arguments.args, arguments.kwargs))
        tensors = [isinstance(value, torch.Tensor) for value in self._flat]
        used = [bool(node.users) for node in flat.graph.nodes if node.op == "placeholder"]
        if len(used) != len(self._flat):
            message = f"models.{name}: its exported graph takes {len(used)} values where {len(self._flat)} are given; "
            refuse("unsupported", "build", f"{message}pass tensors, numbers, lists, tuples and dicts only")
        self._used = [read and tensor for read, tensor in zip(used, tensors, strict=True)]
        self._in_spec, self._out_spec = program.call_spec.in_spec, program.call_spec.out_spec
        results = _results(flat)
        outputs = tuple(value for value in results if isinstance(value, str))
        groups = grouping.group(graph.operations, outputs)
        super().__init__(
            name,
            folder,
            Parts(
                operations=graph.operations,
                groups=groups,
                nodes=grouping.nodes(graph.operations, groups, graph.values),
                values=graph.values,
                inputs=tuple(one for one, read in zip(graph.inputs, self._used, strict=True) if read),
                outputs=outputs,
            ),
        )
        self._results = results
        self._reference = [value for value in pytree.tree_leaves(reference) if isinstance(value, torch.Tensor)]
        if len(self._reference) != len(outputs):
            message = (
                f"models.{name}: it returns {len(self._reference)} tensors and its exported graph {len(outputs)}; "
            )
            refuse("unsupported", "build", f"{message}leave this model out of placement")
        self.notes: tuple[str, ...] = ()

    def capture(self, names: Iterable[str]) -> dict[str, Any]:
        """By running the graph operator by operator."""
        return self.graph.capture(self._flat, names)

    def inputs(self) -> list[Any]:
        """Tensors that the graph reads."""
        return [value for value, read in zip(self._flat, self._used, strict=True) if read]

    def reference(self) -> list[Any]:
        """Of the user's own module."""
        return self._reference

    def interface(self) -> dict[str, Any]:
        """Trees of arguments and results."""
        values = self.parts.values
        return {
            "framework": TORCH,
            "device": self.device,
            "arguments": interface.arguments(self._in_spec, self._flat, self._used, self.name),
            "results": interface.results(self._out_spec, self._results, self.name),
            "inputs": [
                {"path": name, "dtype": values[name].dtype, "shape": list(values[name].shape)}
                for name in self.parts.inputs
            ],
        }

    def keep(self, folder: Path) -> None:
        """``inputs.pt``."""
        torch.save({"inputs": self.inputs(), "outputs": self.reference()}, folder / "inputs.pt")

    def need(self, pieces: Iterable[Piece], empty: Path | None = None) -> None:
        """Nothing: torch cuts its own graphs."""

    def module(self, numbers: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> Callable[[], Any]:
        """Cut from the graph when it is needed."""
        return lambda: self.graph.cut(numbers, inputs, outputs)


def _results(flat: Any) -> list[Any]:
    """Names of the returned values; what is no value of the graph as it is."""
    (output,) = (node for node in flat.graph.nodes if node.op == "output")
    leaves = pytree.tree_leaves(output.args[0], is_leaf=lambda value: value is None)
    return [str(value.name) if isinstance(value, torch.fx.Node) else value for value in leaves]
