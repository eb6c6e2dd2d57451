"""Floor 3, worker. ``Build`` -> a folder that runs a model in pieces, without perfgate.

In: a lowered model, parts in order of execution. Out: ``plan.json``, ``interface.json``, ``placed.py`` with its
loaders, the files of the pieces, inputs and reference outputs; and ``Built``. Every piece is compared with the
reference, and the whole is, after it was loaded from the folder. Raises WorkerError that names the piece.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfgate import wire
from perfgate.records.placement import Piece as PlanPiece
from perfgate.records.placement import PlacementPlan, Target
from perfgate.records.placing import Build, Built
from perfgate.records.workload import Workload
from perfgate.worker.failures import refuse
from perfgate.worker.placing import timing, trials
from perfgate.worker.placing.deployed import placed
from perfgate.worker.placing.libraries import base
from perfgate.worker.placing.libraries.registry import Registry
from perfgate.worker.placing.model import Model
from perfgate.worker.placing.pieces import Piece
from perfgate.worker.placing.trials import Trial

_TIMED_S = 1.0
_SOURCE = Path(placed.__file__).parent
# Where a file belongs in perfgate says nothing to those who read it in a deployed folder.
_ROOM = "Floor 3, worker. "


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    piece: Piece
    target: Target
    trial: Trial
    allowed: float


def build(model: Model, registry: Registry, request: Build, workload: Workload) -> Built:
    """Raises WorkerError, and Needed where the parent has to cut files first."""
    begun = time.monotonic()
    targets = _targets(model, registry, request)
    parts = [sorted(set(part.nodes)) for part in request.parts]
    _check_order(model, parts)
    borders = {name for nodes in parts for name in _names(model.piece(nodes))}
    values = model.capture(borders)
    values.update(zip(model.parts.inputs, model.inputs(), strict=True))
    pieces = [model.piece(nodes, values) for nodes in parts]
    model.need(pieces)
    folder = Path(request.folder)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "pieces").mkdir(parents=True)
    alone = len({target.library for target in targets}) == 1
    done = [
        _one(registry, target, piece, values, folder / "pieces" / f"{number:02d}-{target.library}", alone=alone)
        for number, (piece, target) in enumerate(zip(pieces, targets, strict=True))
    ]
    plan = _plan(model, registry, request, workload, done, parts)
    _write(model, registry, folder, plan, done, alone=alone)
    difference, step_s = _run(model, folder, plan)
    plan = wire.loads(PlacementPlan, json.dumps({**wire.to_tree(plan), "difference": difference}))
    (folder / "plan.json").write_text(wire.dumps(plan, indent=1) + "\n", encoding="utf-8")
    return Built(
        plan=plan,
        differences={one.file: each.trial.difference for one, each in zip(plan.pieces, done, strict=True)},
        step_s=step_s,
        build_s=time.monotonic() - begun,
    )


def _targets(model: Model, registry: Registry, request: Build) -> list[Target]:
    known = {target.name: target for target in request.targets}
    for part in request.parts:
        if part.target not in known:
            refuse("protocol", "build", f"there is no target {part.target!r}; known are {', '.join(known)}")
        missing = registry.missing(known[part.target].library)
        if missing:
            refuse("unsupported", "build", f"models.{model.name}: {part.target} is not here: {missing}")
    return [known[part.target] for part in request.parts]


def _check_order(model: Model, parts: Sequence[Sequence[int]]) -> None:
    """Every node once, and after what it reads."""
    count = len(model.parts.nodes)
    given = [index for nodes in parts for index in nodes]
    if sorted(given) != list(range(count)):
        refuse(
            "protocol",
            "build",
            f"the parts hold {len(given)} nodes, and the model has {count}: each belongs to one part",
        )
    place = {index: number for number, nodes in enumerate(parts) for index in nodes}
    for index, node in enumerate(model.parts.nodes):
        for source in node.sources:
            if place[source] > place[index]:
                message = (
                    f"part {place[index]} has {node.name}, which reads from {model.parts.nodes[source].name} in part "
                    f"{place[source]}: parts come in order of execution"
                )
                refuse("protocol", "build", message)


def _names(piece: Piece) -> Iterable[str]:
    return (*piece.inputs, *piece.outputs)


def _one(
    registry: Registry, target: Target, piece: Piece, values: Mapping[str, Any], folder: Path, *, alone: bool
) -> _Done:
    library = registry.usable[target.library]
    wanted = [values[name] for name in piece.outputs]
    trial = trials.attempt(piece, library, target, wanted, folder=folder, alone=alone)
    if trial.runner is None:
        message = f"{target.name} does not run the piece {piece.name}: {trial.answer.reason}"
        refuse("unsupported", "build", f"{message}; place it elsewhere")
    # The loaded piece is not needed any more: the folder is loaded as a whole.
    trial.release()
    return _Done(piece=piece, target=target, trial=trial, allowed=trials.tolerance(library, wanted))


def _plan(
    model: Model,
    registry: Registry,
    request: Build,
    workload: Workload,
    done: Sequence[_Done],
    parts: Sequence[Sequence[int]],
) -> PlacementPlan:
    folder = Path(request.folder)
    found = {one.name: one.version for one in registry.found}
    return PlacementPlan(
        model=model.name,
        fingerprint=model.fingerprint,
        pieces=tuple(
            PlanPiece(
                target=one.target.name,
                library=one.target.library,
                device=registry.usable[one.target.library].device,
                file=str(_file(one).relative_to(folder)),
                threads=one.target.threads,
                nodes=tuple(model.parts.nodes[index].name for index in nodes),
                inputs=one.piece.inputs,
                outputs=one.piece.outputs,
            )
            for one, nodes in zip(done, parts, strict=True)
        ),
        inputs=model.parts.inputs,
        outputs=model.parts.outputs,
        objective=request.objective,
        batch=workload.batch,
        dtype=workload.dtype,
        software={one.target.library: found.get(one.target.library, "") for one in done},
        tolerance=max((one.allowed for one in done), default=0.0),
        predicted_s=request.predicted_s,
        best_single=request.best_single,
    )


def _file(one: _Done) -> Path:
    if one.trial.made is None:
        raise AssertionError(one.piece.name)
    return one.trial.made.file


def _write(
    model: Model, registry: Registry, folder: Path, plan: PlacementPlan, done: Sequence[_Done], *, alone: bool
) -> None:
    interface = model.interface()
    interface["loaders"] = {one.target.library: registry.usable[one.target.library].loader for one in done}
    interface["pieces"] = [
        {"options": base.options(one.trial.made, one.target.threads, alone=alone)}
        for one in done
        if one.trial.made is not None
    ]
    (folder / "plan.json").write_text(wire.dumps(plan, indent=1) + "\n", encoding="utf-8")
    (folder / "interface.json").write_text(json.dumps(interface, indent=1) + "\n", encoding="utf-8")
    (folder / "loaders").mkdir()
    for file in (_SOURCE / "placed.py", *sorted((_SOURCE / "loaders").glob("*.py"))):
        text = file.read_text(encoding="utf-8").replace(_ROOM, "", 1)
        (folder / file.relative_to(_SOURCE)).write_text(text, encoding="utf-8")
    model.keep(folder)


def _run(model: Model, folder: Path, plan: PlacementPlan) -> tuple[float, float]:
    """Largest difference of the deployed whole from the reference, and the median of some warm steps in seconds."""
    deployed = placed.load(folder)
    given = model.inputs()
    got = deployed.flat(given)
    difference = trials.worst(got, model.reference())
    if not difference <= plan.tolerance:
        message = (
            f"models.{model.name}: the deployed model differs from the reference by {difference:.2g} of the largest "
            f"value (allowed: {plan.tolerance:g}), though each piece alone does not; use fewer "
            "libraries, or another dtype"
        )
        refuse("unsupported", "build", message)

    def call() -> None:
        deployed.flat(given)
        for runner in deployed.runners:
            runner.wait()

    single = all(one.threads == 1 and one.device == "cpu" for one in plan.pieces)
    (times,) = timing.interleaved([call], _TIMED_S, single=single)
    return difference, times.median_s
