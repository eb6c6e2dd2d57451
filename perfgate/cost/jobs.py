"""Floor 3, cost. A job as columns: how long all of it takes on every configuration, and the limits that it has.

In: a job, candidates. Out: :class:`Work`, and bounds on it as :class:`Limit`. A job takes whole steps: ten items in
batches of 64 are one step, and every pass over a data set ends with a step of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfgate.cost.candidates import Candidates
from perfgate.cost.limits import DEADLINE, Limit
from perfgate.cost.shapes import Column
from perfgate.errors import UsageError
from perfgate.records.cost import DATA, FORMS
from perfgate.records.estimate import Job

BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds of the whole job on every row, start-up included: at the estimate, and at the slow end."""

    likely_s: Column
    slow_s: Column


def check(job: Job) -> None:
    """Raises UsageError where a job makes no sense whatever the market, with what to write instead."""
    for name in ("items", "dataset_items", "epochs", "items_per_s", "deadline_s", "budget_usd"):
        value = getattr(job, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            msg = f"{name} of the job is {value}; give a number above 0, or leave it out"
            raise UsageError(msg)
    if not 0 < job.confidence < 1:
        msg = f"a confidence of {job.confidence} is none; write a share between 0 and 100 %, as in 90%"
        raise UsageError(msg)
    if not (math.isfinite(job.start_up_s) and job.start_up_s >= 0):
        msg = f"a start-up of {job.start_up_s} s is none; give a time of at least 0 s"
        raise UsageError(msg)
    problem = next((text for wrong, text in _contradictions(job) if wrong), "")
    if problem:
        raise UsageError(problem)


def ends(job: Job) -> bool:
    """Whether the job is an amount of work: else it is a rate without end, or nothing is said of either."""
    return job.items is not None or job.dataset_items is not None


def amount(job: Job) -> float | None:
    """Items of the whole job; None: it has no end."""
    if job.dataset_items is not None:
        return job.dataset_items * (1.0 if job.epochs is None else job.epochs)
    return job.items


def work(job: Job, candidates: Candidates) -> Work | None:
    """How long the job takes on every row; None: it has no end.

    Replicas of the form ``data`` share a pass; of all other forms a step is the machine's.
    """
    if not ends(job):
        return None
    rows = candidates.rows
    items = np.array([way.items for way in candidates.ways], dtype=np.float64)[rows.way]
    round_items = items * np.where(rows.form == FORMS.index(DATA), rows.devices, 1)
    rounds = _rounds(job, round_items)
    return Work(
        job.start_up_s + rounds * round_items / rows.items, job.start_up_s + rounds * round_items / rows.slow_items
    )


def limits(job: Job, found: Work | None, price: Column) -> list[Limit]:
    """Bounds of the job on rows whose machines cost ``price`` dollars an hour: its deadline, then its budget."""
    bounds = []
    if found is not None and job.deadline_s is not None:
        bounds.append(_limit(DEADLINE, "time of the job", found.slow_s, found.likely_s, job.deadline_s, "s"))
    if found is not None and job.budget_usd is not None:
        slow, likely = price * found.slow_s / 3600, price * found.likely_s / 3600
        bounds.append(_limit(BUDGET, "price of the job", slow, likely, job.budget_usd, "usd"))
    return bounds


def _limit(name: str, label: str, slow: Column, likely: Column, bound: float, unit: str) -> Limit:
    return Limit(name, label, slow, likely, np.full(len(slow), bound), unit)


def _rounds(job: Job, each: Column) -> Column:
    """Steps of the machine, one after another, where each does so many items."""
    if job.dataset_items is None:
        return np.ceil((job.items or 0.0) / each)
    epochs = 1.0 if job.epochs is None else job.epochs
    whole = math.floor(epochs)
    # Half an epoch of 1 000 items is a pass over 500. The remainder of a float is no work.
    rest = round((epochs - whole) * job.dataset_items, 6)
    return np.asarray(whole * np.ceil(job.dataset_items / each) + np.ceil(rest / each))


def _contradictions(job: Job) -> tuple[tuple[bool, str], ...]:
    endless = "a load without end has neither deadline nor budget: limit its price an hour or a month instead"
    late = "the deadline passes before the job can start: allow more than the start-up of {:.4g} s, or a shorter one"
    return (
        (
            job.items is not None and job.dataset_items is not None,
            "a job is either so many items or passes over a data set; leave items or dataset_items out",
        ),
        (
            job.epochs is not None and job.dataset_items is None,
            "epochs are passes over a data set: give dataset_items as well",
        ),
        (
            job.items_per_s is not None and ends(job),
            "a job is either a rate without end or an amount of work; leave one of them out",
        ),
        (job.items_per_s is not None and not (job.deadline_s is None and job.budget_usd is None), endless),
        (
            not ends(job) and not (job.deadline_s is None and job.budget_usd is None),
            "a deadline or a budget is that of an amount of work: give items, or dataset_items and epochs",
        ),
        (job.deadline_s is not None and job.deadline_s <= job.start_up_s, late.format(job.start_up_s)),
    )
