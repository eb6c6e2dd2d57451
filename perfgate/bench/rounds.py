"""Floor 3, bench. Which pair is measured next, and when to stop. Pure: pairs and time come through ports.

A *round* starts parent processes afresh and measures ``plan.pairs_per_round`` pairs of every workload that is still
open and affordable, in random order. The budget is shared evenly so, and drift of the machine meets all alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from perfgate.bench.blocks import OutOfTime
from perfgate.bench.course import Course
from perfgate.bench.progress import Progress
from perfgate.bench.task import Work
from perfgate.bench.workers import WorkerFailed
from perfgate.records.evidence import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A complete pair, and sentences that it gave rise to."""

    pair: Pair
    notes: tuple[str, ...] = ()


class Round(Protocol):
    """Parent processes of both sides, alive."""

    def pair(self, work: Work, *, index: int, late: Callable[[], bool]) -> Measured:
        """Measure one pair. Raises WorkerFailed, and OutOfTime once ``late()`` says so."""


class Laboratory(Protocol):
    """Makes rounds. ``round_s``: seconds that starting one is expected to take."""

    @property
    def round_s(self) -> float:
        """Seconds until both parents are ready."""

    def open_round(self, works: Sequence[Work], number: int) -> AbstractContextManager[Round]:
        """Parents for ``works``; nothing of the round survives the context."""


class Budget:
    """Wall-clock seconds from now on."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._now = now
        self._end = now() + seconds

    @property
    def left_s(self) -> float:
        """Seconds left; negative when over."""
        return self._end - self._now()

    def over(self) -> bool:
        """No time is left."""
        return self.left_s <= 0


def run(
    courses: Sequence[Course],
    lab: Laboratory,
    *,
    seed: int,
    budget_s: float,
    now: Callable[[], float],
    progress: Progress,
) -> None:
    """Measure until every course has ended. What a course cannot afford ends as ``not-begun`` or ``budget``."""
    budget = Budget(budget_s, now)
    _admit(courses, lab.round_s, budget_s)
    number = 0
    while open_ := _affordable(courses, lab.round_s, budget):
        number += 1
        # Not for secrets: the order must be the same for the same seed.
        random.Random(f"{seed}/round/{number}").shuffle(open_)  # noqa: S311
        with lab.open_round([course.work for course in open_], number) as round_:
            for course in open_:
                _turn(course, round_, budget, now, lambda text: _tell(progress, text, courses, lab.round_s, budget))


def needed_s(course: Course, round_s: float) -> float:
    """Seconds to the first look if the course were alone."""
    first = course.looks[0]
    return first * course.pair_s + ceil(first / course.plan.pairs_per_round) * round_s


def _admit(courses: Sequence[Course], round_s: float, budget_s: float) -> None:
    """Begin only what can reach its first look, the cheapest first; parents are paid once for all."""
    spent = paid_rounds_s = 0.0
    for course in sorted(courses, key=lambda each: needed_s(each, round_s)):
        pairs_s = course.looks[0] * course.pair_s
        rounds_s = max(paid_rounds_s, needed_s(course, round_s) - pairs_s)
        if spent + pairs_s + rounds_s > budget_s:
            course.stop("not-begun", needed_s(course, round_s))
        else:
            spent, paid_rounds_s = spent + pairs_s, rounds_s


def _affordable(courses: Sequence[Course], round_s: float, budget: Budget) -> list[Course]:
    for course in courses:
        if not course.end and round_s + course.pair_s > budget.left_s:
            course.stop("budget")
    return [course for course in courses if not course.end]


def _turn(course: Course, round_: Round, budget: Budget, now: Callable[[], float], tell: Callable[[str], None]) -> None:
    """This round's pairs of one course. After a loss its next pair waits for fresh parents."""
    for _ in range(course.plan.pairs_per_round):
        if course.end:
            return
        if course.pair_s > budget.left_s:
            course.stop("budget")
            return
        tell(f"{course.work.workload.key}: pair {course.counted + 1} of {course.next_look} for the next look")
        start = now()
        try:
            measured = round_.pair(course.work, index=len(course.pairs), late=budget.over)
        except WorkerFailed as lost:
            course.lose(lost)
            return
        except OutOfTime:
            course.stop("budget")
            return
        course.add(measured.pair, now() - start, measured.notes)


def _tell(progress: Progress, text: str, courses: Sequence[Course], round_s: float, budget: Budget) -> None:
    done = sum(len(course.pairs) for course in courses)
    missing = [(course, course.next_look - course.counted) for course in courses if not course.end]
    predicted = sum(pairs * course.pair_s for course, pairs in missing)
    predicted += round_s * max((ceil(pairs / course.plan.pairs_per_round) for course, pairs in missing), default=0)
    progress.step(text, done, done + sum(pairs for _, pairs in missing), max(0.0, min(predicted, budget.left_s)))
