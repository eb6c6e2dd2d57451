"""Floor 3, worker. ``Lower``, ``ProfileNodes`` and ``Build`` of one model, one after the other.

In: requests. Out: ``Lowered``, ``Profiled``, ``Built``, or ``Wanted`` where the parent has to write files first, or
``Advanced`` where there is more to do; the same request again goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from perfgate.records.placing import Advanced, Build, Built, Lower, Lowered, Profiled, ProfileNodes, Wanted
from perfgate.worker.failures import phase, refuse
from perfgate.worker.placing.model import Model
from perfgate.worker.placing.needed import Needed
from perfgate.worker.preparing import Side

if TYPE_CHECKING:
    from perfgate.worker.placing.libraries.registry import Registry
    from perfgate.worker.placing.profiling import Profiler

T = TypeVar("T")

# How often the parent is told how far a profile is.
_TOLD_EVERY_S = 2.0


class Placing:
    """What a child knows of the model that it takes apart."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._model: Model | None = None
        self._profile: tuple[ProfileNodes, Profiler, Iterator[Advanced]] | None = None

    def answer(self, request: Lower | ProfileNodes | Build) -> Lowered | Advanced | Profiled | Built | Wanted:
        """Raises WorkerError."""
        if isinstance(request, Lower):
            return _or_wanted(lambda: self._lower(request))
        if self._model is None:
            refuse("protocol", "build", f"{type(request).__name__} came before Lower had succeeded")
        model, registry, workload = self._model, self._registry, self._workload
        from perfgate.worker.placing import deploying

        checkout = self._side.request.checkout
        if isinstance(request, ProfileNodes):
            with phase("timing", checkout):
                return _or_wanted(lambda: self._profiled(model, registry, request))
        with phase("build", checkout):
            return _or_wanted(lambda: deploying.build(model, registry, request, workload))

    def _profiled(self, model: Model, registry: Registry, request: ProfileNodes) -> Profiled | Advanced:
        """A new profile, or the next seconds of the one that was begun."""
        from perfgate.worker.placing.profiling import Profiler

        if self._profile is None or self._profile[0] != request:
            fresh = Profiler(model, registry, request)
            self._profile = (request, fresh, fresh.steps())
        _, profiler, steps = self._profile
        until = time.monotonic() + _TOLD_EVERY_S
        try:
            for advanced in steps:
                if time.monotonic() > until:
                    return advanced
        except BaseException:
            self._profile = None
            raise
        self._profile = None
        return profiler.profiled()

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
