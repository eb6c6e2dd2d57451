"""A plan in, deployed again: what ``perfgate place --apply`` does."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from perfgate.errors import MeasuringError, UsageError
from perfgate.pipeline import place_problem
from perfgate.pipeline.place import placing, to_lower
from perfgate.pipeline.place_candidates import PlaceRequest
from perfgate.pipeline.request import Ports
from perfgate.records.placement import PlacementPlan, Target
from perfgate.records.placing import Build, Built, Lowered, Part
from perfgate.report.write import unwritable

# All that a deployed folder holds, and what running it leaves there. Only these are ever removed.
_OURS = frozenset(
    {"plan.json", "interface.json", "placed.py", "loaders", "pieces", "inputs.pt", "inputs.npz", "__pycache__"}
)


def apply(request: PlaceRequest, plan: PlacementPlan, folder: Path, ports: Ports) -> Built:
    """Deploy a plan into ``folder``.

    Raises MeasuringError where the model is not the one that it was made for, UsageError for the folder.
    """
    _check(folder)
    with tempfile.TemporaryDirectory(prefix="perfgate-place-") as text, placing(request, Path(text), ports) as placer:
        ports.progress.step(f"Taking {request.spec.name} apart", 0, 0, None)
        lowered = placer.lower(to_lower(request, Path(text)))
        if lowered.fingerprint != plan.fingerprint:
            msg = f"{plan.model}: the plan is for another graph than the model has now; run perfgate place again"
            raise MeasuringError(msg)
        parts, targets = _parts(lowered, plan), _targets(lowered, plan)
        ports.progress.step(f"Deploying {len(parts)} piece{'s' * (len(parts) != 1)}", 0, 0, None)
        made = Path(text) / "deployed"
        built = placer.build(
            Build(
                parts=parts,
                targets=targets,
                folder=str(made),
                objective=plan.objective,
                predicted_s=plan.predicted_s,
                best_single=plan.best_single,
            )
        )
        _move(made, folder)
        return built


def _parts(lowered: Lowered, plan: PlacementPlan) -> tuple[Part, ...]:
    number = {node.name: index for index, node in enumerate(lowered.nodes)}
    for name in (name for piece in plan.pieces for name in piece.nodes):
        if name not in number:
            msg = f"{plan.model}: the plan places {name}, which the model has no more; run perfgate place again"
            raise MeasuringError(msg)
    return tuple(Part(target=piece.target, nodes=tuple(number[name] for name in piece.nodes)) for piece in plan.pieces)


def _targets(lowered: Lowered, plan: PlacementPlan) -> tuple[Target, ...]:
    """Those of the plan as they are here. Raises MeasuringError where one is not."""
    threads = tuple(dict.fromkeys(piece.threads for piece in plan.pieces if piece.device == "cpu")) or (0,)
    devices = tuple({piece.device for piece in plan.pieces})
    there = place_problem.targets(lowered, devices=devices, libraries=(), threads=threads)
    known = {(one.library, one.device, one.threads): one for one in there}
    found = {}
    for piece in plan.pieces:
        target = known.get((piece.library, piece.device, piece.threads))
        if target is None:
            why = next((one.missing for one in lowered.libraries if one.name == piece.library), "")
            msg = f"{plan.model}: the plan needs {piece.target}, which is not there: {why or 'unknown here'}"
            raise MeasuringError(msg)
        found[piece.target] = replace(target, name=piece.target)
    return tuple(found.values())


def _check(folder: Path) -> None:
    """Raise UsageError unless ``folder`` is new, empty, or holds nothing but a deployed model."""
    problem = ""
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            problem = "is no folder"
        elif folder.is_dir():
            others = sorted(one.name for one in folder.iterdir() if one.name not in _OURS)
            problem = f"holds {others[0]}, which is no part of a deployed model" if others else ""
        elif reason := unwritable(folder):
            problem = f"cannot be written: {reason}"
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    if problem:
        msg = f"--to {folder}: {problem}; name a new folder"
        raise UsageError(msg)


def _move(made: Path, folder: Path) -> None:
    """A deployed model to where it was wanted; an older one there is replaced. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _OURS:
            old = folder / name
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink(missing_ok=True)
        for part in sorted(made.iterdir()):
            shutil.move(part, folder / part.name)
    except OSError as error:
        msg = f"--to {folder}: cannot be written ({error.strerror}); name another folder"
        raise UsageError(msg) from None
