"""Floor 3, worker. ``Lower``, ``ProfileNodes`` and ``Build`` of one model, one after the other.

In: requests. Out: ``Lowered``, ``Profiled``, ``Built``, or ``Wanted`` where the parent has to write files first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from perfgate.records.placing import Build, Built, Lower, Lowered, Profiled, ProfileNodes, Wanted
from perfgate.worker.failures import phase, refuse
from perfgate.worker.placing.model import Model
from perfgate.worker.placing.needed import Needed
from perfgate.worker.preparing import Side

T = TypeVar("T")


class Placing:
    """What a child knows of the model that it takes apart."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._model: Model | None = None

    def answer(self, request: Lower | ProfileNodes | Build) -> Lowered | Profiled | Built | Wanted:
        """Raises WorkerError."""
        if isinstance(request, Lower):
            return _or_wanted(lambda: self._lower(request))
        if self._model is None:
            refuse("protocol", "build", f"{type(request).__name__} came before Lower had succeeded")
        model, registry, workload = self._model, self._registry, self._workload
        from perfgate.worker.placing import deploying
        from perfgate.worker.placing.profiling import Profiler

        checkout = self._side.request.checkout
        if isinstance(request, ProfileNodes):
            with phase("timing", checkout):
                return _or_wanted(lambda: Profiler(model, registry, request).run())
        with phase("build", checkout):
            return _or_wanted(lambda: deploying.build(model, registry, request, workload))

    def _lower(self, request: Lower) -> Lowered:
        if self._model is not None:
            refuse("protocol", "build", "a model is lowered already: one process places one model")
        Path(request.folder).mkdir(parents=True, exist_ok=True)
        model, notes = _lowered(request, self._side)
        from perfgate.records.protocol import TORCH
        from perfgate.worker.placing.libraries.registry import Registry

        with phase("build", self._side.request.checkout):
            self._registry = Registry(torch_model=model.framework == TORCH)
        self._model, self._workload = model, request.workload
        return Lowered(
            framework=model.framework,
            nodes=model.parts.nodes,
            values=model.crossing,
            inputs=model.parts.inputs,
            outputs=model.parts.outputs,
            fingerprint=model.fingerprint,
            libraries=self._registry.found,
            problems=self._registry.problems,
            notes=tuple(dict.fromkeys(notes)),
        )


def _or_wanted(answer: Callable[[], T]) -> T | Wanted:
    """A question is no failure, so it does not leave the phase as one."""
    try:
        return answer()
    except Needed as question:
        return question.wanted


def _lowered(request: Lower, side: Side) -> tuple[Model, tuple[str, ...]]:
    if request.spec.is_onnx:
        from perfgate.worker.placing import onnxmodel

        return onnxmodel.lower(request, side)
    from perfgate.worker.placing import torchmodel

    return torchmodel.lower(request, side)
