"""``perfgate sample``: sample workloads until the budget is spent, each written to the database at once."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfgate.bench import machine, saturating
from perfgate.bench.sampling import Sampler
from perfgate.bench.session import HEAD, Session
from perfgate.errors import MeasuringError
from perfgate.graph.build import build
from perfgate.pipeline.request import CONFIG_FILE, Ports
from perfgate.pipeline.sample_record import Surroundings, condition_of, disturbed, question, record_of, spent_s
from perfgate.pipeline.working_tree import configuration, default_store, opened
from perfgate.records.baseline import BaselineRecord
from perfgate.records.graph import Totals
from perfgate.records.protocol import Failed, Software
from perfgate.records.sampling import NAMESPACE_SAMPLE, Condition
from perfgate.records.workload import SideConfig
from perfgate.sampling import adaptive, design
from perfgate.sampling.design import Limits, Space
from perfgate.sampling.pace import Pace
from perfgate.store.contract import BaselineStore
from perfgate.store.open import open_store

# How unsure an estimator that has learned from the first records is of each of the second, which have no times: the
# logarithm of high over low.
Doubt = Callable[[Sequence[BaselineRecord], Sequence[BaselineRecord]], Sequence[float]]

# The first part of the budget is space-filling, and one condition in so many stays so: an estimator is sure of what it
# has never seen, too.
_FILLING_SHARE = 1 / 3
_FILLING_EVERY = 3
_POOL = 48
# Candidates are traced before the estimator can look at them, so there are fewer.
_TRACED_POOL = 12
# No condition takes more than this part of the budget, and none more than so many seconds.
_CONDITION_SHARE = 1 / 40
_SHORTEST_S, _LONGEST_S = 5.0, 10.0
_COMPILED_SHARE = 1 / 4
# What a machine may not tell, and then why.
_LACKING = {
    "energy": "only counters of GPUs are read, and no GPU used has one",
    "peak_memory": "the system tells no peak of a process",
}
# So many failures in a row, with nothing recorded, are the machine's fault.
_HOPELESS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """``store_url`` empty: the configuration's database, else the one in the working tree. ``space``: what is drawn.

    ``filling`` True: space-filling to the end. ``most``: records to stop after; None: the budget alone decides.
    """

    root: Path
    budget_s: float
    space: Space = field(default_factory=Space)
    store_url: str = ""
    python: str = ""
    fallback_python: str = ""
    config_file: str = CONFIG_FILE
    seed: int = 0
    filling: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A condition that did not run, and why."""

    condition: str
    phase: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSummary:
    """What a run came to. ``known``: conditions of this machine and software that were in the database before.

    ``steps_ns``: step time of each record, in order; ``end``: ``budget``, ``enough``, ``exhausted`` (nothing else fits
    the limits) or ``interrupted``. ``adaptive``: records chosen by what the estimator is least sure of, or by distance.
    ``disturbed``: records whose steps had to wait for processors that other programs had; such a condition is run again
    when its turn comes in another run. ``lacking``: metric -> why no record of this run has it.
    """

    store: str
    recorded: int
    known: int
    adaptive: int
    disturbed: int
    seconds: float
    end: str
    families: dict[str, int] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    steps_ns: tuple[float, ...] = ()
    failures: tuple[Failure, ...] = ()
    lacking: dict[str, str] = field(default_factory=dict)


def sample(request: SampleRequest, ports: Ports, *, doubt: Doubt | None = None) -> SampleSummary:
    """Run conditions until ``request.budget_s`` is over; those in the database are not run again.

    ``doubt`` None: the next condition is the one that is least like all that ran. Ctrl-C ends the run, and what was
    recorded by then stays. Raises UsageError, ConfigError, StoreError, and MeasuringError where nothing can run.
    """
    config = configuration(request.root, request.config_file)
    side = config.side if config is not None else SideConfig(source="defaults")
    url = request.store_url or (config.store_url if config is not None else "") or default_store(request.root)
    python = request.python or side.python or request.fallback_python
    with open_store(url) as store:
        run: _Run | None = None
        try:
            with (
                opened(request.root, side, ports, python=python) as session,
                session.sampling(HEAD, request.space.devices) as sampler,
            ):
                # Not before: another perfgate on this machine may have been waited for, which spends no budget.
                run = _Run(request, ports, store, session, sampler, doubt, time.monotonic())
                end = run.all()
        except KeyboardInterrupt:
            if run is None:
                raise
            end = "interrupted"
        return run.summary(end)


class _Run:
    """One call of :func:`sample`. Raises MeasuringError where the interpreter cannot run anything."""

    def __init__(
        self,
        request: SampleRequest,
        ports: Ports,
        store: BaselineStore,
        session: Session,
        sampler: Sampler,
        doubt: Doubt | None,
        begun: float,
    ) -> None:
        self._request = request
        self._progress = ports.progress
        self._store = store
        self._session = session
        self._sampler = sampler
        self._doubt = doubt
        self._begun = begun
        self._pace = Pace()
        self._software = self._known_software()
        environment = machine.environment(ports.environ)
        self._around = Surroundings(
            environment=environment, nonce=secrets.token_hex(8), cache_bytes=saturating.cache_bytes()
        )
        self._records: list[BaselineRecord] = []
        self._run: list[Condition] = []
        self._before = self._remember()
        self._failures: list[Failure] = []
        self._adaptive: set[str] = set()
        # Also before the run: what the space-filling part has left off is what the sequence goes on with.
        self._sequence = self._candidates()
        self._pool: dict[str, Condition] = {}
        self._traced: dict[str, Totals] = {}

    def all(self) -> str:
        """Until the budget ends; returns why."""
        while self._left_s() > 0:
            if self._request.most is not None and self._recorded >= self._request.most:
                return "enough"
            chosen = self._next()
            if chosen is None:
                return "exhausted" if self._left_s() > _SHORTEST_S else "budget"
            self._show()
            self._one(chosen)
            if not self._recorded and len(self._failures) >= _HOPELESS:
                first = self._failures[0]
                msg = f"{_HOPELESS} sample networks in a row could not run; the first ({first.phase}): {first.message}"
                raise MeasuringError(msg)
        return "budget"

    def summary(self, end: str) -> SampleSummary:
        """What has been done by now."""
        own = self._records[self._before :]
        return SampleSummary(
            store=self._store.name,
            recorded=len(own),
            known=self._before,
            adaptive=sum(record.workload.key in self._adaptive for record in own),
            disturbed=sum(map(disturbed, own)),
            seconds=round(time.monotonic() - self._begun, 1),
            end=end,
            families=dict(sorted(Counter(record.hyper_parameters["family"] for record in own).items())),
            modes=dict(sorted(Counter(record.workload.mode for record in own).items())),
            steps_ns=tuple(record.metrics["latency"] for record in own),
            failures=tuple(self._failures),
            lacking={name: why for name, why in _LACKING.items() if own and not any(name in it.metrics for it in own)},
        )

    @property
    def _recorded(self) -> int:
        return len(self._records) - self._before

    def _known_software(self) -> Software:
        self._progress.step("Starting", 0, 0, None)
        found = self._sampler.software(self._request.space.threads[0])
        if isinstance(found, Failed):
            msg = f"sample networks cannot run ({found.phase}): {found.message}"
            raise MeasuringError(msg)
        return found

    def _remember(self) -> int:
        """Take what this machine has recorded before with the same torch; returns how many there are."""
        torch = self._software.versions.get("torch")
        for record in self._store.newest(namespace=NAMESPACE_SAMPLE):
            here = record.hardware_id == self._around.environment.hardware_id
            condition = condition_of(record)
            if condition is None or not here or record.software.get("torch") != torch or disturbed(record):
                continue
            self._keep(condition, record)
        return len(self._records)

    def _keep(self, condition: Condition, record: BaselineRecord) -> None:
        self._records.append(record)
        self._run.append(condition)
        spent = spent_s(record)
        if spent is not None:
            self._pace.learn(condition, step_s=record.metrics["latency"] / 1e9, spent_s=spent)

    def _candidates(self) -> Iterator[Condition]:
        done = {condition.key for condition in self._run}
        return design.admitted(self._request.space, self._pace, self._limits, seed=self._request.seed, done=done)

    def _limits(self) -> Limits:
        budget, left = self._request.budget_s, self._left_s()
        longest = min(_LONGEST_S, max(_SHORTEST_S, budget * _CONDITION_SHARE))
        return Limits(
            seconds=min(longest, left),
            compiled_seconds=min(budget * _COMPILED_SHARE, left),
            free_bytes=self._session.free_bytes(self._request.space.devices),
        )

    def _left_s(self) -> float:
        return self._request.budget_s - (time.monotonic() - self._begun)

    def _next(self) -> Condition | None:
        """The next condition; None where there is none that fits."""
        spent = 1 - self._left_s() / self._request.budget_s
        filling = self._request.filling or spent < _FILLING_SHARE or self._recorded % _FILLING_EVERY == 0
        if filling:
            return next(self._sequence, None)
        self._fill()
        limits = self._limits()
        pool = [one for one in self._pool.values() if limits.admit(one, self._pace)]
        if not pool:
            return next(self._sequence, None)
        ranked = adaptive.ranked(pool, self._run, self._pace, uncertainty=self._uncertainty())
        # The last one is what is known best: it makes room, or the pool would fill up with its like.
        for one in {ranked[0].key, ranked[-1].key}:
            del self._pool[one]
        if len(ranked) > 1:
            self._traced.pop(ranked[-1].key, None)
        self._adaptive.add(ranked[0].key)
        return ranked[0]

    def _fill(self) -> None:
        wanted = _POOL if self._doubt is None else _TRACED_POOL
        while len(self._pool) < wanted and (one := next(self._sequence, None)) is not None:
            if self._doubt is None or self._totals(one) is not None:
                self._pool[one.key] = one

    def _uncertainty(self) -> adaptive.Uncertainty | None:
        doubt = self._doubt
        if doubt is None:
            return None

        def of(pool: Sequence[Condition]) -> Sequence[float]:
            asked = [question(one, self._traced[one.key], self._software, self._around) for one in pool]
            return doubt(self._records, asked)

        return of

    def _one(self, condition: Condition) -> None:
        """Run a condition and write its record, or note why there is none."""
        begun = time.monotonic()
        known = condition.key in self._traced
        totals = self._totals(condition)
        if totals is None:
            return
        tracing_s = 0.0 if known else time.monotonic() - begun
        taken = self._sampler.take(condition, self._request.seed)
        if isinstance(taken, Failed):
            self._failed(condition, taken)
            return
        self._traced.pop(condition.key, None)
        record = record_of(taken, totals, self._around, tracing_s=tracing_s)
        self._store.record((record,))
        self._keep(condition, record)

    def _totals(self, condition: Condition) -> Totals | None:
        """Counts of a condition, from its trace; None (and a failure noted) where it has none."""
        if condition.key in self._traced:
            return self._traced[condition.key]
        trace = self._sampler.trace(condition, self._request.seed)
        if isinstance(trace, Failed):
            self._failed(condition, trace)
            return None
        self._traced[condition.key] = totals = build(trace).totals
        return totals

    def _failed(self, condition: Condition, failure: Failed) -> None:
        self._traced.pop(condition.key, None)
        self._failures.append(Failure(condition=condition.key, phase=failure.phase, message=failure.message))

    def _show(self) -> None:
        left, done = self._left_s(), self._recorded
        spent = time.monotonic() - self._begun
        more = round(left * done / spent) if done else 0
        self._progress.step("Running sample workloads", done, done + more, left)
