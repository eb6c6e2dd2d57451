"""The estimator of a run: fitted again on the database after measuring, and asked about this run's workloads.

Its answers rest on other runs, never on what was measured just now, and are facts of the evidence: the publishing
stage, which may have no database, shows them as they are. Nothing here is ever judged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from perfgate import units
from perfgate.errors import PerfgateError, UsageError
from perfgate.estimator import fit
from perfgate.estimator.model import Model
from perfgate.hardware import catalogue
from perfgate.pipeline import estimator_file
from perfgate.pipeline.estimator_questions import fits
from perfgate.pipeline.examples import NAMESPACES, example, examples, of_platform
from perfgate.pipeline.working_tree import ESTIMATOR_FILE
from perfgate.records.baseline import BaselineRecord
from perfgate.records.cost import Requirements
from perfgate.records.estimate import (
    PEAK_MEMORY,
    STEP_TIME,
    DeviceEstimate,
    Estimate,
    EstimatorReport,
    Example,
    SideEstimate,
    WorkloadEstimate,
)
from perfgate.records.evidence import Measurements
from perfgate.store.contract import BaselineStore
from perfgate.store.from_evidence import records_of

# Fewer teach nothing that a reader could rely on.
LEAST_EXAMPLES = 30
LEAST_GROUPS = 5
TIME_LIMIT_S = 20.0

# base, head -> the question and the measured step time in ns.
Sides = Mapping[str, tuple[Example, float | None]]


def estimated(measurements: Measurements, store: BaselineStore, root: Path) -> Measurements:
    """``measurements`` with what the estimator says; as they were where nothing was counted."""
    questions = _questions(measurements)
    if not questions:
        return measurements
    rooflines = {measurements.environment.hardware_id: measurements.rooflines}
    known = examples(_teaching(store, measurements.run.nonce), rooflines)
    return replace(measurements, estimator=report(known, questions, measurements, root))


def report(
    known: Sequence[Example], questions: Mapping[str, Sides], measurements: Measurements, root: Path
) -> EstimatorReport:
    """Fit on ``known`` and answer ``questions``. A fault of the estimator is its reason for not being used."""
    groups = len({one.group for one in known})
    if len(known) < LEAST_EXAMPLES or groups < LEAST_GROUPS:
        wanted = f"{LEAST_EXAMPLES} records of {LEAST_GROUPS} kinds of models are needed"
        reason = f"{wanted}, the database has {len(known)} of {groups}; run `perfgate sample` to add some"
        return EstimatorReport(used=False, reason=reason, examples=len(known), groups=groups)
    started = time.monotonic()
    try:
        choice = _model(known, root)
        workloads = tuple(_workload(key, sides, choice.model, measurements) for key, sides in questions.items())
    except (PerfgateError, ValueError, ArithmeticError) as error:
        return EstimatorReport(used=False, reason=str(error), examples=len(known), groups=groups)
    return EstimatorReport(
        used=True,
        examples=len(known),
        groups=groups,
        content=choice.model.key,
        seconds=round(time.monotonic() - started, 3),
        accuracy=tuple(choice.model.accuracy.values()),
        workloads=workloads,
        notes=(*choice.model.notes, *((choice.reason,) if choice.worse else ())),
    )


def _teaching(store: BaselineStore, nonce: str) -> Iterable[BaselineRecord]:
    """Records of other runs: an estimate of this run must not know its result."""
    for namespace in NAMESPACES:
        yield from store.newest(namespace=namespace, each_threads=True, but_run=nonce)


def _model(known: Sequence[Example], root: Path) -> fit.Choice:
    """The model of these examples, from the cache where the content is the same."""
    path = root / ESTIMATOR_FILE
    # All targets, as `perfgate estimate fit` has them: both keep their model in the same file.
    choice = fit.again(estimator_file.cached(path), known, time_limit_s=TIME_LIMIT_S)
    if not choice.kept:
        # A cache that cannot be written costs a fit the next time, and nothing else.
        with suppress(UsageError):
            estimator_file.write(choice.model, path)
    return choice


def _questions(measurements: Measurements) -> dict[str, Sides]:
    """Workload key -> side -> question and its measured step time."""
    found: dict[str, dict[str, tuple[Example, float | None]]] = {}
    shas = {"base": measurements.base.sha, "head": measurements.head.sha}
    for evidence in measurements.workloads:
        if evidence.informative:
            continue
        # Records in the order of `records_of`: base first, and only of sides that ran.
        single = replace(measurements, workloads=(evidence,))
        sides = [name for name in shas if getattr(evidence, name).status == "ok"]
        for name, record in zip(sides, records_of(single), strict=True):
            asked = example(record, measurements.rooflines)
            if asked is not None:
                question = replace(asked, targets={}, resources={})
                found.setdefault(evidence.workload.key, {})[name] = (question, asked.targets.get(STEP_TIME))
    return {key: sides for key, sides in found.items() if sides}


def _workload(key: str, sides: Sides, model: Model, measurements: Measurements) -> WorkloadEstimate:
    name = next(iter(sides.values()))[0].model
    requirements = measurements.policy.cost.of(name)
    base = _side(sides["base"], model, requirements) if "base" in sides else None
    head = _side(sides["head"], model, requirements) if "head" in sides else None
    if base is not None and head is not None and base.surprise and head.surprise:
        # Both sides are off: the estimator does not know this model, and the pull request has not changed that.
        head = replace(head, surprise="")
    return WorkloadEstimate(model=name, key=key, base=None if base is None else replace(base, surprise=""), head=head)


def _side(asked: tuple[Example, float | None], model: Model, requirements: Requirements) -> SideEstimate:
    question, measured = asked
    here = _finite(model.estimate(question, STEP_TIME))
    return SideEstimate(
        runner=here,
        measured_ns=measured,
        devices=tuple(_devices(question, model, requirements)),
        surprise="" if here is None or measured is None else surprise(here, measured),
    )


def surprise(here: Estimate, measured_ns: float) -> str:
    """What is said where a measured time lies outside of its interval; nothing where the estimator is not sure."""
    if here.novel or here.low <= measured_ns <= here.high:
        return ""
    word = "slower" if measured_ns > here.high else "faster"
    between = f"{units.duration(here.low)} to {units.duration(here.high)} expected"
    return f"{word} than its structure explains: {units.duration(measured_ns)} measured, {between}"


def _devices(question: Example, model: Model, requirements: Requirements) -> Iterable[DeviceEstimate]:
    """Estimates for the platforms that the user lists under ``[cost] devices``."""
    platforms = catalogue.platforms()
    for name in requirements.devices:
        platform = platforms.get(name)
        if platform is None or name == question.machine.name:
            continue
        there = replace(question, machine=of_platform(platform), threads=0)
        step_time = _finite(model.estimate(there, STEP_TIME))
        if step_time is None:
            continue
        memory = _finite(model.estimate(there, PEAK_MEMORY)) if PEAK_MEMORY in model.accuracy else None
        fit = fits(memory, platform.memory_bytes, requirements.memory_headroom)
        yield DeviceEstimate(platform=name, step_time=step_time, memory=memory, fits=fit)


def _finite(found: Estimate) -> Estimate | None:
    """An estimate that can be written down; None where the model runs away."""
    numbers = (found.value, found.low, found.high, *(term.value for term in found.terms))
    return found if all(map(math.isfinite, numbers)) else None
