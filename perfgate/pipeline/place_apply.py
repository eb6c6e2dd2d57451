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
        ports.progress.step(f"Deploying {len(parts)} pieces", 0, 0, None)
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
    """Raise UsageError where deploying would overwrite something else."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "plan.json").is_file())):
        msg = f"{folder}: is no deployed model and not empty; name another folder with --to"
        raise UsageError(msg)


def _move(made: Path, folder: Path) -> None:
    """A deployed folder to where it was wanted; an older one there is replaced. Raises UsageError."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, folder)
    except OSError as error:
        msg = f"{folder}: cannot be written ({error.strerror}); name another folder with --to"
        raise UsageError(msg) from None
