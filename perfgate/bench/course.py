"""Floor 3, bench. The state of one workload's comparison: pairs, voids, losses, and how it ended. Pure.

A pair is void for a reason outside its timings and is measured again; a lost worker costs its pair, and a second
loss on the same side is that side's failure.
"""

from __future__ import annotations

from dataclasses import replace

from perfgate.bench.task import BASE, HEAD, Work
from perfgate.bench.workers import WorkerFailed
from perfgate.records.evidence import Pair, SideEvidence, WorkloadEvidence
from perfgate.records.policy import Plan
from perfgate.records.protocol import Failed
from perfgate.records.report import INCONCLUSIVE
from perfgate.stats import sequential
from perfgate.stats.pairs import log_ratios, rounds

_MAX_NOTES = 20
_NOTE_CHARS = 500


class Course:
    """One workload on its way from no pairs to an end. ``pair_s`` is the expected length of its next pair."""

    def __init__(self, work: Work, plan: Plan, *, pair_s: float) -> None:
        self.work = work
        self.plan = plan
        self.pair_s = pair_s
        self.pairs: list[Pair] = []
        self.end = ""
        self.needed_s: float | None = None
        self._notes: dict[str, None] = {}
        self._losses: dict[str, list[Failed]] = {BASE: [], HEAD: []}
        self._failed: dict[str, Failed] = {}
        self._counted = 0
        self._measured_s: list[float] = []
        self.looks = self._looks()

    def _looks(self) -> tuple[int, ...]:
        if not self.work.tolerances:
            return (self.work.max_pairs or self.plan.looks[0],)
        looks = sequential.looks_and_alphas(self.plan.looks, self.plan.alpha, pairs_per_round=self.plan.pairs_per_unit)
        bound = self.work.max_pairs or looks[-1].n
        return (*(look.n for look in looks if look.n < bound), min(bound, looks[-1].n))

    @property
    def n_max(self) -> int:
        """Pairs after which measuring ends whatever they say."""
        return self.looks[-1]

    @property
    def counted(self) -> int:
        """Pairs that count."""
        return self._counted

    @property
    def next_look(self) -> int:
        """Pairs that the next decision needs."""
        return next((n for n in self.looks if n > self._counted), self.n_max)

    def add(self, pair: Pair, seconds: float, notes: tuple[str, ...] = ()) -> None:
        """Take a complete pair that took ``seconds``, and end if that decides every gated metric."""
        self.pairs.append(pair)
        self._say(*notes)
        self._measured_s.append(seconds)
        recent = self._measured_s[-5:]
        self.pair_s = max(recent)  # the budget must hold in the worse case
        if pair.void:
            self._say(f"pair {pair.index} does not count: {pair.void}")
            if len(self.pairs) - self._counted > self.n_max // 2:
                self.stop("unstable")
            return
        self._counted += 1
        if self._decided():
            self.stop("decided")
        elif self._counted >= self.n_max:
            self.stop("n_max" if self.work.tolerances else "decided")

    def lose(self, lost: WorkerFailed) -> None:
        """Take note of a worker that failed; its pair was dropped."""
        self._losses[lost.side].append(lost.failure)
        self._say(f"{lost.side}: {lost.failure.message}; that pair was dropped")
        other = HEAD if lost.side == BASE else BASE
        if len(self._losses[lost.side]) < 2:
            return
        if self._losses[other]:
            # Both sides lose workers: that is the runner, or a fault that the change did not bring.
            self.stop("unstable")
            return
        self._failed[lost.side] = lost.failure
        self.stop("failed")

    def stop(self, end: str, needed_s: float | None = None) -> None:
        """End for the reason ``end`` of :class:`WorkloadEvidence`, unless it has ended already."""
        if not self.end:
            self.end = end
            self.needed_s = needed_s

    def evidence(self) -> WorkloadEvidence:
        """What is known now; ``interrupted`` if it has not ended."""
        return WorkloadEvidence(
            workload=self.work.workload,
            base=self._side(BASE),
            head=self._side(HEAD),
            pairs=tuple(self.pairs),
            end=self.end or "interrupted",
            informative=self.work.informative,
            needed_s=self.needed_s,
            notes=tuple(self._notes)[:_MAX_NOTES],
        )

    def _side(self, side: str) -> SideEvidence:
        known = self.work.known(side)
        failure = self._failed.get(side)
        return known if failure is None else replace(known, status="failed", failure=failure)

    def _say(self, *sentences: str) -> None:
        self._notes.update(dict.fromkeys(sentence[:_NOTE_CHARS] for sentence in sentences))

    def _decided(self) -> bool:
        """True when each gated metric that was measured has an answer."""
        if not self.work.tolerances or self._counted not in self.looks:
            return False
        answers = []
        for metric, tolerance in self.work.tolerances.items():
            ratios = log_ratios(self.pairs, metric)
            if not ratios:
                self._say(f"{metric} was not available in every pair")
                continue
            decision = sequential.decide(
                ratios,
                tolerance=tolerance,
                alpha=self.plan.alpha,
                looks=self.plan.looks,
                clusters=None if self.plan.independent_pairs else rounds(self.pairs),
                pairs_per_round=self.plan.pairs_per_unit,
            )
            answers.append(decision.state not in (sequential.CONTINUE, INCONCLUSIVE))
        return bool(answers) and all(answers)
