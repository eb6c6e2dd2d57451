"""Floor 3, bench. The facts of each side without timing, from several processes each.

In: models of each side. Out: :class:`SideEvidence` for every workload; one model's failure never stops the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from perfgate.bench.laboratory import DYNAMO, Experience, modules_of_all
from perfgate.bench.progress import Progress
from perfgate.bench.task import Side
from perfgate.bench.workers import Child, Factory, FreshChild, Place, WorkerFailed
from perfgate.records.evidence import SideEvidence
from perfgate.records.protocol import Failed, Prepared, Probe, Software
from perfgate.records.workload import ModelSpec, Workload

# Deaths that may be bad luck, so that one more process is asked before they count.
_MAYBE_LUCK = frozenset({"exited", "killed", "oom"})


@dataclass(slots=True, kw_only=True)
class _Finding:
    """What is known of one workload on one side so far."""

    probes: list[Probe] = field(default_factory=list)
    software: Software | None = None
    failure: Failed | None = None
    deaths: int = 0

    def evidence(self) -> SideEvidence:
        status = "ok" if self.failure is None else "failed"
        return SideEvidence(status=status, probes=tuple(self.probes), failure=self.failure, software=self.software)


Models = Mapping[str, ModelSpec]
_Open = tuple[Factory | None, Prepared]


def of_framework(software: Software, spec: ModelSpec) -> Software:
    """What runs ``spec``: models of both frameworks may share a process, and are not judged by each other's."""
    strange = ("torch", "cuda", "cpu_capability", "mkldnn", "float32_matmul") if spec.is_onnx else ("onnxruntime",)

    def own(facts: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in facts.items() if not name.startswith(strange)}

    return replace(software, versions=own(software.versions), flags=own(software.flags))


class Prober:
    """Asks each side about its models; ``real`` True traces on real tensors only."""

    def __init__(
        self, where: Place, sides: Mapping[str, Side], known: Experience, progress: Progress, *, real: bool = False
    ) -> None:
        self._real = real
        self._where = where
        self._sides = sides
        self._known = known
        self._progress = progress
        self._found: dict[tuple[str, str], _Finding] = {}
        self._total = 0
        self._done = 0

    def run(self, specs: Mapping[str, Models]) -> dict[str, dict[str, SideEvidence]]:
        """Side -> models in; side -> ``workload.key`` -> evidence out."""
        for side, models in specs.items():
            for spec in models.values():
                self._found.update({(side, workload.key): _Finding() for workload in spec.workloads})
        processes = self._where.options.probe_processes
        self._total = processes * len(self._found)
        for _ in range(processes):
            for side, models in specs.items():
                self._visit(side, models)
        return {
            side: {w.key: self._found[side, w.key].evidence() for spec in models.values() for w in spec.workloads}
            for side, models in specs.items()
        }

    def _visit(self, side: str, models: Models) -> None:
        """One process for every workload of ``models`` that has not failed; factories are shared if possible."""
        models = {name: spec for name, spec in models.items() if any(self._pending(side, spec))}
        if not models:
            return
        shared = {name: spec for name, spec in models.items() if name not in self._known.fresh}
        if len(shared) > 1 and not self._visit_together(side, shared):
            shared = {}
        for name, spec in models.items():
            if len(shared) < 2 or name not in shared:
                self._visit_together(side, {name: spec})

    def _visit_together(self, side: str, models: Models) -> bool:
        """False where ``models`` (several) cannot share a factory and nothing was asked yet."""
        waiting = [(spec, workload) for spec in models.values() for workload in self._pending(side, spec)]
        while waiting:
            with self._opened(side, models) as opened:
                if isinstance(opened, Failed) or (opened[0] is None and len(models) > 1):
                    if len(models) > 1:
                        return False
                    for _, workload in waiting:
                        self._fail(side, workload, opened)
                    return True
                waiting = self._ask_all(side, opened, waiting)
        return True

    def _ask_all(
        self, side: str, opened: _Open, waiting: list[tuple[ModelSpec, Workload]]
    ) -> list[tuple[ModelSpec, Workload]]:
        """Ask until one fails; what is still to be asked then, from other processes."""
        factory, prepared = opened
        for place, (spec, workload) in enumerate(waiting):
            finding = self._found[side, workload.key]
            finding.software = of_framework(prepared.software, spec)
            self._progress.step(f"{workload.key}: facts of {side}", self._done, self._total, None)
            try:
                self._ask(side, spec, workload, factory)
            except WorkerFailed as lost:
                finding.deaths += 1
                luck = not lost.told and lost.failure.kind in _MAYBE_LUCK and finding.deaths == 1
                if not luck:
                    self._fail(side, workload, lost.failure)
                return waiting[place if luck else place + 1 :]
            self._done += 1
        return []

    def _ask(self, side: str, spec: ModelSpec, workload: Workload, factory: Factory | None) -> None:
        child = self._child(side, spec, factory, workload)
        opened = child.open(workload, spec, probe=True, real=self._real)
        if opened.probe is not None:
            self._found[side, workload.key].probes.append(opened.probe)
        # A process that is timed collects no facts, so what those took does not count.
        spent = opened.ready_ns / 1e9
        known = self._known.open_s.get((side, workload.key), spent)
        self._known.open_s[side, workload.key] = min(known, spent)
        self._known.devices[workload.key] = opened.devices
        child.close()
        keep = [] if factory is None else [factory.started.popen.pid]
        self._where.trees.end(self._where.trees.left_behind(side, keep), self._where.options.grace_s)

    def _child(self, side: str, spec: ModelSpec, factory: Factory | None, workload: Workload) -> Child:
        if factory is not None:
            return factory.fork(workload.key)
        process = FreshChild(self._where, self._sides[side], spec, spec.modules)
        process.prepared()
        return process.child()

    @contextmanager
    def _opened(self, side: str, models: Models) -> Iterator[_Open | Failed]:
        """A factory of ``side`` (None where it cannot fork) and its reply, or why there is none."""
        begun = time.monotonic()
        try:
            try:
                modules = modules_of_all(models.values())
                workloads = [workload for spec in models.values() for workload in spec.workloads]
                if len(models) > 1 and any(w.mode != "infer" or w.compile != "eager" for w in workloads):
                    # Optimisers and compiled models import it: with several children the factory does so once.
                    modules = (*modules, DYNAMO)
                factory = Factory(self._where, self._sides[side], models.values(), modules)
                prepared = factory.prepared()
            except WorkerFailed as lost:
                yield lost.failure
                return
            self._known.import_s[side] = time.monotonic() - begun
            if prepared.can_fork:
                yield factory, prepared
                return
            if len(models) == 1:
                self._known.fresh[next(iter(models))] = prepared.reason or "unknown"
            yield None, prepared
        finally:
            self._where.end(side)

    def _pending(self, side: str, spec: ModelSpec) -> list[Workload]:
        return [workload for workload in spec.workloads if self._found[side, workload.key].failure is None]

    def _fail(self, side: str, workload: Workload, failure: Failed | _Open) -> None:
        if isinstance(failure, Failed):
            self._found[side, workload.key].failure = failure
            self._done += self._where.options.probe_processes - len(self._found[side, workload.key].probes)
