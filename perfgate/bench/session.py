"""Floor 3, bench. One run's measuring: owns every worker from start to end; nothing survives its exit.

In: sides, options, a folder for the run. Out: each side's facts (:meth:`Session.probe`) and the pairs of a comparison
(:meth:`Session.compare`).
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

from perfgate.bench import machine, nvml, saturating
from perfgate.bench.blocks import shape
from perfgate.bench.course import Course
from perfgate.bench.laboratory import Experience, Laboratory
from perfgate.bench.locks import Locks
from perfgate.bench.nvml import Gpus
from perfgate.bench.placing import Placer
from perfgate.bench.probing import Prober
from perfgate.bench.process import Trees
from perfgate.bench.progress import Progress
from perfgate.bench.rounds import run
from perfgate.bench.sampling import Sampler, free_bytes
from perfgate.bench.shim import worker_environment, write_shim
from perfgate.bench.task import BASE, HEAD, SIDES, Options, Side, Work
from perfgate.bench.telemetry import Watch
from perfgate.bench.visible import hashed, visible
from perfgate.bench.workers import Factory, FreshChild, Place, WorkerFailed, place
from perfgate.errors import MeasuringError
from perfgate.records.evidence import SideEvidence, WorkloadEvidence
from perfgate.records.hardware import MeasuredRoofline
from perfgate.records.placing import Wanted
from perfgate.records.policy import Plan
from perfgate.records.protocol import Counted, Failed
from perfgate.records.workload import ModelSpec, Workload

__all__ = ["BASE", "HEAD", "SIDES", "Options", "Session", "Side", "Work"]

LOCK_VARIABLE = "PERFGATE_LOCK_DIR"
# What building a model takes beside its first step and warm-up, where probing has not shown that it takes less.
_BUILD_S = 1.0
_PAIR_OVERHEAD_S = 0.2
# Both roofs of one device: some seconds for each dtype, and creating the arrays.
_SATURATE_LIMIT_S = 180.0


class Session:
    """Context manager. ``sides`` may lack one: a side that cannot run at all is the caller's evidence.

    ``shim`` and ``gpus`` replace the worker's folder and the cards in tests.
    """

    def __init__(
        self,
        sides: Mapping[str, Side],
        *,
        run_dir: Path,
        options: Options,
        progress: Progress,
        shim: Path | None = None,
        gpus: Gpus | None = None,
    ) -> None:
        self._sides = dict(sides)
        self._run_dir = run_dir
        self._options = options
        self._progress = progress
        self._shim = shim
        self._environ = dict(os.environ if options.environ is None else options.environ)
        self._gpus = nvml.connect() if gpus is None else gpus
        self._watch = Watch(self._gpus, self._environ)
        self._known = Experience()
        self._courses: list[Course] = []
        folder = options.lock_dir or Path(self._environ.get(LOCK_VARIABLE) or tempfile.gettempdir())
        self._locks = Locks(folder, wait_s=options.lock_wait_s, waiting=lambda text: progress.step(text, 0, 0, None))
        self._trees: Trees | None = None
        self._place: Place | None = None

    def __enter__(self) -> Self:
        """Write the worker's folder; no process is started yet. Raises MeasuringError where that cannot be written."""
        environments = {
            name: worker_environment(self._environ, side.env, self._run_dir / "cache" / name)
            for name, side in self._sides.items()
        }
        try:
            self._run_dir.mkdir(parents=True, exist_ok=True)
            shim = self._shim or write_shim(self._run_dir)
        except OSError as error:
            msg = f"{error.filename}: cannot be written ({error.strerror}); free space or set TMPDIR to another folder"
            raise MeasuringError(msg) from None
        self._trees = Trees(secrets.token_hex(8), niceness=self._options.niceness)
        self._place = place(self._trees, shim, self._run_dir, self._options, environments)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process of both sides, whatever happened; a second Ctrl-C does not stop that."""
        try:
            self._end()
        except KeyboardInterrupt:
            self._end()
            raise

    def probe(
        self, specs: Mapping[str, Mapping[str, ModelSpec]], *, real: bool = False
    ) -> dict[str, dict[str, SideEvidence]]:
        """Facts of every workload: side -> model name -> spec in; side -> ``workload.key`` -> evidence out.

        Every workload is asked from ``Options.probe_processes`` processes a side. What a side's code does wrong is in
        its evidence. ``real`` True traces on real tensors, also where a model needs none. Raises MeasuringError where
        another gate holds the machine for too long.
        """
        where = self._open()
        workloads = [w for models in specs.values() for spec in models.values() for w in spec.workloads]
        self._lock(workloads)
        return Prober(where, self._sides, self._known, self._progress, real=real).run(specs)

    def count_all(
        self, side: str, specs: Sequence[ModelSpec], modules: tuple[str, ...]
    ) -> Generator[tuple[ModelSpec, Counted | Failed]]:
        """:meth:`count` of the first workload of many models, which share one process's imports (``modules``)."""
        where = self._open()
        waiting = list(specs)
        while waiting:
            try:
                factory = Factory(where, self._sides[side], waiting, modules)
                factory.prepared()
                while waiting:
                    spec = waiting.pop(0)
                    yield spec, self._forked_count(factory, spec)
            except WorkerFailed as lost:
                # The factory itself is gone: whoever was next takes the blame, the others get a new one.
                if waiting:
                    yield waiting.pop(0), lost.failure
            finally:
                where.end(side)

    @staticmethod
    def _forked_count(factory: Factory, spec: ModelSpec) -> Counted | Failed:
        workload = spec.workloads[0]
        child = factory.fork(workload.key)
        try:
            return child.count(workload, spec)
        except WorkerFailed as lost:
            return lost.failure
        finally:
            child.close()

    def checkout(self, side: str) -> Path:
        """The folder that ``side`` runs in."""
        return self._sides[side].checkout

    def count(self, side: str, spec: ModelSpec, workload: Workload) -> Counted | Failed:
        """One step's trace from a process of its own, or why there is none. Nothing is timed, so nothing is locked."""
        where = self._open()
        try:
            process = FreshChild(where, self._sides[side], spec, spec.modules)
            process.prepared()
            return process.child().count(workload, spec)
        except WorkerFailed as lost:
            return lost.failure
        finally:
            where.end(side)

    def saturate(self, side: str, device: str) -> MeasuredRoofline | Failed:
        """Pi and beta that ``device`` reaches, from a process of its own. Raises MeasuringError.

        Nothing else of perfgate measures on the machine meanwhile.
        """
        where = self._open()
        request = saturating.request(device)
        probe = ModelSpec(name="roofline", device=(device,), timeout_s=_SATURATE_LIMIT_S)
        self._lock(probe.workloads)
        try:
            process = FreshChild(where, self._sides[side], probe, ())
            prepared = process.prepared()
            answer = process.child().saturate(request, _SATURATE_LIMIT_S)
        except WorkerFailed as lost:
            return lost.failure
        finally:
            where.end(side)
        facts = machine.environment(self._environ, gpus=self._gpus).hardware
        return saturating.reached(
            request, answer, prepared, label=facts["cpu"], cache=saturating.cache_bytes()
        )  # fmt: skip

    @contextmanager
    def sampling(self, side: str, devices: Sequence[str]) -> Iterator[Sampler]:
        """Sample workloads on ``devices``, by the interpreter of ``side``. Raises MeasuringError.

        Nothing else of perfgate measures on them meanwhile.
        """
        where = self._open()
        self._lock(ModelSpec(name="sample", device=tuple(devices)).workloads)
        try:
            yield Sampler(where, self._sides[side], self._watch)
        finally:
            where.end(side)

    @contextmanager
    def placing(
        self, side: str, spec: ModelSpec, cut: Callable[[Wanted], None], *, devices: Sequence[str] = ()
    ) -> Iterator[Placer]:
        """A process that takes the model apart and times it on ``devices`` too. Raises MeasuringError and WorkerFailed.

        Nothing else of perfgate measures on them meanwhile.
        """
        where = self._open()
        self._lock(ModelSpec(name=spec.name, device=tuple({*spec.device, *devices})).workloads)
        try:
            process = FreshChild(where, self._sides[side], spec, spec.modules)
            process.prepared()
            yield Placer(process.child(), cut, spec.timeout_s)
        finally:
            where.end(side)

    def free_bytes(self, devices: Iterable[str]) -> dict[str, int]:
        """Memory that is free now, by device; unknown is absent."""
        return free_bytes(devices, self._gpus, self._environ)

    def compare(self, work: Sequence[Work], plan: Plan, budget_s: float) -> tuple[WorkloadEvidence, ...]:
        """Pairs of every work until it is decided, n_max is reached or ``budget_s`` seconds are over; in order.

        Raises MeasuringError where another gate holds the machine. After KeyboardInterrupt, :meth:`partial` has
        what was measured.
        """
        where = self._open()
        if not work:
            return ()
        self._lock([each.workload for each in work])
        begun = time.monotonic()
        self._courses = [Course(each, plan, pair_s=self._predicted_s(each, plan)) for each in work]
        lab = Laboratory(where, self._sides, self._watch, plan, self._known)
        for each in work:
            self._watch.hold_clocks(self._devices(each.workload))
        left = budget_s - (time.monotonic() - begun)
        run(self._courses, lab, seed=plan.seed, budget_s=left, now=time.monotonic, progress=self._progress)
        evidence = self.partial()
        self._courses = []
        return evidence

    def partial(self) -> tuple[WorkloadEvidence, ...]:
        """Evidence of the comparison that runs or was interrupted; () before the first and after a complete one."""
        return tuple(course.evidence() for course in self._courses)

    def _open(self) -> Place:
        if self._place is None:
            msg = "a Session measures only inside its with-block"
            raise MeasuringError(msg)
        return self._place

    def _end(self) -> None:
        try:
            if self._place is not None:
                self._place.end()
                self._place = None
            if self._trees is not None:
                self._trees.close()
                self._trees = None
        finally:
            self._watch.release()
            self._locks.release()

    def _devices(self, workload: Workload) -> tuple[str, ...]:
        return self._known.devices.get(workload.key, (workload.device,))

    def _lock(self, workloads: Iterable[Workload]) -> None:
        names = {name for workload in workloads for name in self._devices(workload)}
        on_gpu = {name for name in names if name.startswith("cuda")}
        cards = self._watch.cards(on_gpu)
        if on_gpu and not cards:  # which card it will be is not certain: keep off all that may be it
            cards = visible(self._gpus.all(), self._environ.get("CUDA_VISIBLE_DEVICES"))
        self._locks.take((hashed(card.uuid) for card in cards), cpu="cpu" in names)

    def _predicted_s(self, work: Work, plan: Plan) -> float:
        """Seconds of one pair, from what the probes took."""
        steps, total = [], _PAIR_OVERHEAD_S
        warmup_s = self._options.warmup_min_ns / 1e9
        for side in SIDES:
            probes = work.known(side).probes
            step = median([probe.step_ns for probe in probes] or [0])
            first = median([probe.first_step_ns for probe in probes] or [0])
            opening = first / 1e9 + max(warmup_s, 10 * step / 1e9) + _BUILD_S
            total += min(opening, self._known.open_s.get((side, work.workload.key), opening))
            steps.append(step)
        block_ns = plan.block_ns
        chosen = shape(int(min(steps)), block_ns)
        for step in steps:
            thrown = max(chosen.request.discard_ns, chosen.request.discard_calls * step)
            total += 2 * plan.groups * (chosen.samples * chosen.inner * step + thrown) / 1e9
        return total
