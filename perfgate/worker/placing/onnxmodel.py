"""Floor 3, worker. An ONNX model, lowered: ``Lower`` -> :class:`OnnxModel`, by way of files that the parent cuts.

In: the user's file and inputs. Out: nodes of the graph after onnxruntime's basic optimisation (constants folded,
normalisation in convolutions, standard operators only). Raises WorkerError, and :class:`Needed` where a file is
lacking.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perfgate import onnx_names, wire
from perfgate.records.placing import CrossingValue, Cut, Described, Lower, Wanted
from perfgate.records.protocol import ONNXRUNTIME
from perfgate.worker import runtime, seeds
from perfgate.worker.failures import WorkerError, phase, refuse
from perfgate.worker.onnx import faults, inputs, signature, source
from perfgate.worker.onnx.inputs import Feeds
from perfgate.worker.placing import grouping
from perfgate.worker.placing.model import Model, Parts
from perfgate.worker.placing.needed import Needed
from perfgate.worker.placing.operations import Operation, kind, role
from perfgate.worker.placing.pieces import Piece
from perfgate.worker.preparing import Side, resolve

_LARGE_BYTES = 2**30
_TIED_BYTES = 4096
_ERRORS_ONLY = 3
_SIZED_BY_DATA = frozenset({"nonzero", "unique", "compress", "nonmaxsuppression", "if", "loop", "stringsplit"})


def lower(request: Lower, side: Side) -> tuple[OnnxModel, tuple[str, ...]]:
    """The model, and notes. Raises WorkerError, and Needed up to two times."""
    checkout, folder = side.request.checkout, Path(request.folder)
    if request.workload.mode != "infer":
        message = f"models.{request.spec.name}: mode {request.workload.mode} cannot be placed; only infer can"
        refuse("unsupported", "build", message)
    if ONNXRUNTIME in side.broken:
        raise WorkerError(side.broken[ONNXRUNTIME])
    key = f"models.{request.spec.name}.entry = {request.spec.entry!r}"
    with phase("build", checkout):
        located = source.locate(request.spec, side.request)
    module = runtime.load(checkout)
    optimised = folder / "optimised.onnx"
    with faults.building(key, checkout):
        # Weights in files of their own would be looked for beside the new file, so they are written anew there.
        apart = located.nbytes > _LARGE_BYTES or bool(located.contents.external)
        session = _optimise(module, located.path, optimised, apart)
    feeds = _feeds(request, side, session)
    names = [one.name for one in session.get_outputs()]
    with phase("first-step", checkout):
        reference = session.run(names, feeds.arrays)
    described = _described(optimised, folder)
    operations = tuple(_operations(described))
    made = {name for one in operations for name in one.makes}
    lost = [name for name in described.outputs if name not in made]
    if lost:
        refuse(
            "unsupported", "build", f"{key}: it returns {lost[0]!r} as it is, without an operator; remove that output"
        )
    groups = grouping.group(operations, described.outputs)
    values = _values(module, optimised, folder, groups, operations, feeds, described)
    parts = Parts(
        operations=operations,
        groups=groups,
        nodes=grouping.nodes(operations, groups, values),
        values=values,
        inputs=tuple(name for name in described.inputs if any(name in one.inputs for one in groups)),
        outputs=described.outputs,
    )
    model = OnnxModel(request.spec.name, folder, parts, feeds, reference, optimised)
    return model, ()


def _optimise(module: Any, path: Path, optimised: Path, apart: bool) -> Any:
    settings = module.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = _ERRORS_ONLY
    settings.graph_optimization_level = module.GraphOptimizationLevel.ORT_ENABLE_BASIC
    if not optimised.is_file():
        settings.optimized_model_filepath = str(optimised)
        if apart:
            settings.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", f"{optimised.name}.data"
            )
    return module.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])


def _feeds(request: Lower, side: Side, session: Any) -> Feeds:
    spec, batch = request.spec, request.workload.batch
    make = resolve(spec.make_inputs, f"models.{spec.name}.make_inputs", side) if spec.make_inputs else None
    with phase("inputs", side.request.checkout):
        slots = signature.slots(session)
        if make is None:
            return inputs.from_specification(spec.inputs, slots, batch, request.seed)
        seeds.set_all(seeds.derive(request.seed, "inputs"))
        return inputs.from_function(make, slots, batch, request.workload.device)


def _described(optimised: Path, folder: Path) -> Described:
    file = folder / "described.json"
    if not file.is_file():
        raise Needed(Wanted(source=str(optimised), describe=str(file)))
    return wire.loads(Described, file.read_text(encoding="utf-8"))


def _operations(described: Described) -> Iterable[Operation]:
    counts: dict[str, int] = {}
    for one in described.operators:
        for name in set(one.reads):
            counts[name] = counts.get(name, 0) + 1
    for one in described.operators:
        weights = {name: described.weights[name] for name in one.reads if name in described.weights}
        texts = ",".join(described.texts.get(name, "" if name else "-") for name in one.reads)
        base = one.op.lower()
        yield Operation(
            op=onnx_names.operator(one.domain, one.op),
            base=base,
            role=role(base),
            kind=kind(base),
            reads=tuple(name for name in one.reads if name and name not in weights),
            makes=tuple(name for name in one.makes if name),
            weights=tuple(weights.items()),
            tied=tuple(name for name, size in weights.items() if counts[name] > 1 and size >= _TIED_BYTES),
            text=f"{one.domain}:{one.op}({texts}){one.attributes}->{len(one.makes)}",
            module=one.module,
        )


def _values(
    module: Any,
    optimised: Path,
    folder: Path,
    groups: Sequence[grouping.Group],
    operations: Sequence[Operation],
    feeds: Feeds,
    described: Described,
) -> dict[str, CrossingValue]:
    """Dtypes and shapes of everything at borders, as they are in a step."""
    probe = folder / "probe.onnx"
    names = tuple(dict.fromkeys([*(name for one in groups for name in one.outputs), *described.outputs]))
    if not probe.is_file():
        cut = Cut(file=str(probe), nodes=tuple(range(len(operations))), outputs=names)
        raise Needed(Wanted(source=str(optimised), cuts=(cut,)))
    arrays = _run(module, probe, feeds.arrays, names)
    return {name: _value(name, array) for name, array in {**feeds.arrays, **arrays}.items()}


def _run(module: Any, file: Path, arrays: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    settings = module.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = _ERRORS_ONLY
    # What is at borders must be there, so nothing may be fused away.
    settings.graph_optimization_level = module.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = module.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
    known = {one.name for one in session.get_inputs()}
    given = {name: array for name, array in arrays.items() if name in known}
    return dict(zip(names, session.run(list(names), given), strict=True))


def _value(name: str, array: Any) -> CrossingValue:
    if not isinstance(array, np.ndarray):
        message = (
            f"the value {name!r} between operators is a {type(array).__name__}, no tensor; leave this model out of "
        )
        refuse("unsupported", "build", f"{message}placement")
    return CrossingValue(name=name, dtype=str(array.dtype), shape=tuple(array.shape), bytes=int(array.nbytes))


def _unsized(operations: Iterable[Operation]) -> frozenset[str]:
    """Values whose sizes may depend on the data: what such operators make, and what is made of that."""
    found: set[str] = set()
    for one in operations:
        if one.base in _SIZED_BY_DATA or not found.isdisjoint(one.reads):
            found.update(one.makes)
    return frozenset(found)


class OnnxModel(Model):
    """See :class:`Model`."""

    framework = ONNXRUNTIME
    notes: tuple[str, ...] = ()

    def __init__(
        self, name: str, folder: Path, parts: Parts, feeds: Feeds, reference: Sequence[Any], optimised: Path
    ) -> None:
        super().__init__(name, folder, parts)
        self._unsized = _unsized(parts.operations)
        self._feeds = feeds
        self._reference = list(reference)
        self.source = optimised

    def capture(self, names: Iterable[str]) -> dict[str, Any]:
        """By running the file whose outputs are all values at borders."""
        wanted = list(dict.fromkeys(names))
        given = {name: self._feeds.arrays[name] for name in wanted if name in self._feeds.arrays}
        inner = [name for name in wanted if name not in given]
        module = importlib.import_module("onnxruntime")
        return {**given, **_run(module, self.folder / "probe.onnx", self._feeds.arrays, inner)} if inner else given

    def inputs(self) -> list[Any]:
        """Arrays that some operator reads."""
        return [self._feeds.arrays[name] for name in self.parts.inputs]

    def reference(self) -> list[Any]:
        """Of onnxruntime on the CPU with basic optimisation."""
        return self._reference

    def interface(self) -> dict[str, Any]:
        """Arrays by position or by name, a list of arrays back."""
        values = self.parts.values
        numbers = {name: place for place, name in enumerate(self.parts.inputs)}
        return {
            "framework": ONNXRUNTIME,
            "device": "cpu",
            "arguments": {
                "kind": "inputs",
                "items": {name: {"kind": "value", "number": numbers.get(name)} for name in self._feeds.arrays},
            },
            "results": {
                "kind": "list",
                "items": [{"kind": "value", "number": place} for place in range(len(self.parts.outputs))],
            },
            "inputs": [
                {"path": name, "dtype": values[name].dtype, "shape": list(values[name].shape)}
                for name in self.parts.inputs
            ],
        }

    def keep(self, folder: Path) -> None:
        """``inputs.npz``."""
        kept = {f"input_{n}": array for n, array in enumerate(self.inputs())}
        kept |= {f"output_{n}": array for n, array in enumerate(self._reference)}
        np.savez(folder / "inputs.npz", **kept)

    def module(self, numbers: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """The parent cuts files."""

    def need(self, pieces: Iterable[Piece], empty: Path | None = None) -> None:
        """Raises :class:`Needed` where files of these pieces are not there yet."""
        cuts = [self._cut(piece) for piece in pieces if not (piece.folder / "model.onnx").is_file()]
        if empty is not None and not empty.is_file():
            cuts.append(Cut(file=str(empty)))
        if cuts:
            raise Needed(Wanted(source=str(self.source), cuts=tuple(cuts)))

    def _cut(self, piece: Piece) -> Cut:
        names = (*piece.inputs, *piece.outputs)
        return Cut(
            file=str(piece.folder / "model.onnx"),
            nodes=tuple(piece.numbers),
            outputs=tuple(piece.outputs),
            values=tuple(self._described(name) for name in names if name in self.parts.values),
        )

    def _described(self, name: str) -> CrossingValue:
        value = self.parts.values[name]
        return replace(value, shape=(-1,) * len(value.shape)) if name in self._unsized else value
