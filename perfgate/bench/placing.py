"""Floor 3, bench. One process that takes a model apart, times its operators on every library, and deploys plans.

In: requests of :mod:`perfgate.records.placing`. Out: their replies. What only the parent can do with an ONNX file, and
showing how far a profile is, it does between a request and its repetition.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from perfgate.bench.workers import Child, WorkerFailed
from perfgate.records.placing import Advanced, Build, Built, Lower, Lowered, Profiled, ProfileNodes, Wanted
from perfgate.records.protocol import Failed

T = TypeVar("T")

# A request may ask for a description and then for pieces, and for more pieces as it learns what fits.
_MOST_WANTED = 64
# Beside the budget of a profile: the last export or compilation was begun in time and ends when it ends.
_OVERTIME_S = 300.0


class Placer:
    """``cut`` does what a :class:`Wanted` asks; ``limit_s``: of lowering and of building."""

    def __init__(self, child: Child, cut: Callable[[Wanted], None], limit_s: float) -> None:
        self._child = child
        self._cut = cut
        self._limit_s = limit_s

    def lower(self, request: Lower) -> Lowered:
        """The model's operators. Raises :class:`WorkerFailed`."""
        return self._ask(request, Lowered, self._limit_s, "probe")

    def profile(self, request: ProfileNodes, shown: Callable[[Advanced], None] | None = None) -> Profiled:
        """Times of nodes, borders and whole models; ``shown`` is told how far it is. Raises :class:`WorkerFailed`."""
        return self._ask(request, Profiled, request.budget_s + _OVERTIME_S, "timing", shown)

    def build(self, request: Build) -> Built:
        """A deployed folder. Raises :class:`WorkerFailed`."""
        return self._ask(request, Built, self._limit_s, "build")

    def _ask(
        self,
        request: object,
        wanted: type[T],
        limit_s: float,
        phase: str,
        shown: Callable[[Advanced], None] | None = None,
    ) -> T:
        served, until = 0, time.monotonic() + limit_s
        while served < _MOST_WANTED and time.monotonic() < until:
            reply = self._child.place(request, limit_s, phase=phase)
            if isinstance(reply, wanted):
                return reply
            if isinstance(reply, Advanced):
                if shown is not None:
                    shown(reply)
            elif isinstance(reply, Wanted):
                served += 1
                self._cut(reply)
            else:
                break
        message = f"the worker did not answer {type(request).__name__} with {wanted.__name__}"
        raise WorkerFailed(self._child.side, Failed(kind="protocol", phase=phase, message=message), told=False)
