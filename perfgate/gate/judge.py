"""Floor 3, gate. A whole run's evidence and the policy in; the frozen report out.

Pure: the same evidence and policy always give the same report, so the publish stage can judge again
what a measuring job uploaded, with the policy of the base revision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfgate.errors import CheckoutError, MeasuringError
from perfgate.gate import why
from perfgate.gate.accept import target_of
from perfgate.gate.limits import Rules, hardware_names, pairs_per_unit
from perfgate.gate.plan import Cell, comparisons
from perfgate.gate.verdicts import RED, Outcome, of_error, of_run, outcome, worst
from perfgate.gate.workloads import OK, failure_line, findings, foreign_code, judge_workload, nothing_works
from perfgate.records.cost import CostReport
from perfgate.records.estimate import EstimatorReport
from perfgate.records.evidence import Measurements, RunError, SideEvidence, SideSamples, WorkloadEvidence
from perfgate.records.metrics import METRICS, SPAN_PREFIX
from perfgate.records.policy import REPORT, Acceptance, Policy
from perfgate.records.report import (
    ERROR,
    FORMAT,
    NO_BASELINE,
    NOT_MEASURED,
    PASS,
    SHOWN,
    UNCHANGED,
    ModelResult,
    PolicySummary,
    Report,
)
from perfgate.stats.sequential import looks_and_alphas

GATING_STARTS = "The base revision has no policy: nothing is gated here, gating starts after merge."
WOULD_HAVE_FAILED = "Report mode: this run would have failed."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    name: str
    outcome: Outcome
    title: str
    why: str


def judge(
    measurements: Measurements,
    policy: Policy,
    accepted: tuple[Acceptance, ...] = (),
    cost: CostReport | None = None,
) -> Report:
    """The report of a run judged by ``policy``, which must come from the base revision.

    ``measurements.policy`` and ``measurements.accepted`` are claims of whoever wrote the file and are not used:
    pass the acceptances that the caller has verified. Of the plan only M is used, and never less than the
    comparisons that the evidence shows. ``cost`` has the runner's price, which rows in US dollars need, and the
    findings on money, which are told and decide nothing; None: nothing is known of money.
    """
    hardware = hardware_names(measurements.environment)
    counted = _comparisons(measurements, policy, hardware)
    planned = measurements.plan.comparisons if measurements.plan is not None else 0
    total = max(1, counted, planned)
    rules = Rules(policy=policy, alpha=policy.false_alarm_rate / total, hardware=hardware, cost=cost)
    models = tuple(
        judge_workload(evidence, rules, measurements.changes, accepted) for evidence in measurements.workloads
    )
    models = tuple(_with_surprise(model, measurements.estimator) for model in models)
    end = _end(measurements, rules, models)
    looks = looks_and_alphas(policy.looks, rules.alpha, pairs_per_round=pairs_per_unit(policy))
    return Report(
        format=FORMAT,
        verdict=end.name,
        base=measurements.base,
        head=measurements.head,
        environment=measurements.environment,
        models=models,
        title=end.title,
        why=end.why,
        exit_code=end.outcome.exit_code,
        check=end.outcome.check,
        would_fail=end.outcome.would_fail,
        policy=PolicySummary(
            source=policy.source,
            sha=policy.sha,
            mode=policy.mode if policy.has_base else REPORT,
            tolerance=policy.tolerance,
            false_alarm_rate=policy.false_alarm_rate,
            comparisons=total,
            looks=tuple(look.n for look in looks),
        ),
        run=measurements.run,
        banners=_banners(measurements, policy, end.outcome),
        skipped=measurements.skipped,
        notes=_notes(measurements, accepted, counted=counted, planned=planned),
        software=_software(measurements),
        cost=cost,
        estimator=measurements.estimator,
        placement=measurements.placement,
    )


def _judged(measurements: Measurements) -> tuple[WorkloadEvidence, ...]:
    return tuple(evidence for evidence in measurements.workloads if not evidence.informative)


def _comparisons(measurements: Measurements, policy: Policy, hardware: tuple[str, ...]) -> int:
    """The noisy comparisons that the evidence shows: only what both sides have can raise a false alarm."""
    both = [evidence for evidence in _judged(measurements) if evidence.base.status == evidence.head.status == OK]
    return sum(comparisons(policy, _cell(evidence), hardware) for evidence in both)


def _cell(evidence: WorkloadEvidence) -> Cell:
    base = _span_names([pair.base for pair in evidence.pairs], evidence.base)
    head = _span_names([pair.head for pair in evidence.pairs], evidence.head)
    blocks = [block for pair in evidence.pairs for side in (pair.base, pair.head) for block in side.blocks]
    energy = any(block.energy_j is not None for block in blocks)
    return Cell(workload=evidence.workload, spans=tuple(sorted(base & head)), energy=energy)


def _span_names(sides: list[SideSamples], facts: SideEvidence) -> set[str]:
    timed = {name for side in sides for block in side.blocks for name in block.spans_ns}
    return timed | {name for probe in facts.probes for name in probe.spans}


def _end(measurements: Measurements, rules: Rules, models: tuple[ModelResult, ...]) -> _Verdict:
    policy = rules.policy
    error = measurements.error or _foreign(measurements)
    if error is not None:
        return _not_judged(error)
    if measurements.unmeasured:
        ended = of_run(NOT_MEASURED, policy)
        return _Verdict(name=NOT_MEASURED, outcome=ended, title=f"not measured: {measurements.unmeasured}", why="")
    if not models:
        return _nothing_measured(measurements, policy)
    # Rows of an informative look are not gated.
    rows = [row for model in models for row in model.metrics if row.gated]
    enforced = {row.verdict for row in rows if row.enforced}
    reported = {row.verdict for row in rows if not row.enforced}
    verdict = worst(enforced | reported)
    broken = _nothing_works(measurements)
    if broken is not None and verdict not in RED:
        return _not_judged(broken)
    told = why.why(verdict, models, _findings(measurements, models, rules))
    if not policy.has_base:
        ended = outcome(NO_BASELINE, enforced=(), reported=reported, policy=policy)
        text = "nothing is gated: the base revision has no policy"
        return _Verdict(name=NO_BASELINE, outcome=ended, title=text, why=told)
    ended = outcome(verdict, enforced=enforced, reported=reported, policy=policy)
    name = PASS if verdict == SHOWN else verdict
    title = why.title(verdict, models)
    if measurements.base.sha and measurements.base.sha == measurements.head.sha:
        title = f"recorded {measurements.head.sha[:7]}, measured against itself: {title}"
    return _Verdict(name=name, outcome=ended, title=title, why=told)


def _with_surprise(model: ModelResult, estimator: EstimatorReport | None) -> ModelResult:
    """What the estimator did not expect of head stands last among the reasons: a finding, never a verdict."""
    told = () if estimator is None or not estimator.used or model.informative else estimator.workloads
    found = [one.head.surprise for one in told if one.key == model.key and one.head is not None and one.head.surprise]
    return replace(model, reasons=(*model.reasons, *found[:1])) if found else model


def _findings(measurements: Measurements, models: tuple[ModelResult, ...], rules: Rules) -> tuple[str, ...]:
    """What all workloads found on money, each named where there are several."""
    judged = [
        (model, findings(evidence, model.metrics, rules))
        for evidence, model in zip(measurements.workloads, models, strict=True)
    ]
    several = sum(not model.informative for model in models) > 1
    return tuple(
        f"{model.model} {model.workload.mode}: {text}" if several else text for model, found in judged for text in found
    )


def _not_judged(error: RunError) -> _Verdict:
    first, _, rest = error.message.partition("\n")
    return _Verdict(name=ERROR, outcome=of_error(error.exit_code), title=f"not judged: {first}", why=rest.strip())


def _nothing_measured(measurements: Measurements, policy: Policy) -> _Verdict:
    """Nothing touched is a success only if every model that the policy names is among the skipped, with its reason."""
    explained = {item.model for item in measurements.skipped}
    unexplained = sorted(policy.models.keys() - explained)
    if explained and not unexplained:
        ended = of_run(UNCHANGED, policy)
        text = why.unchanged(measurements.skipped)
        return _Verdict(name=UNCHANGED, outcome=ended, title="no model is touched", why=text)
    named = f": {', '.join(unexplained)}" if unexplained else ""
    cause = f"Neither measured nor skipped{named}." if named else "No model is configured, or none was found."
    return _Verdict(name=NO_BASELINE, outcome=of_run(NO_BASELINE, policy), title="nothing was measured", why=cause)


def _foreign(measurements: Measurements) -> RunError | None:
    for evidence in _judged(measurements):
        failure = foreign_code(evidence)
        if failure is not None:
            return RunError(exit_code=CheckoutError.exit_code, message=f"{evidence.workload.model}: {failure.message}")
    return None


def _nothing_works(measurements: Measurements) -> RunError | None:
    broken = [evidence for evidence in _judged(measurements) if nothing_works(evidence)]
    if not broken:
        return None
    first = broken[0]
    sides = "fails on both sides" if first.base.status == "failed" else "is new and fails"
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    message = f"{first.workload.key} {sides}{more}\n{failure_line(first.head.failure)}"
    return RunError(exit_code=MeasuringError.exit_code, message=message)


def _banners(measurements: Measurements, policy: Policy, ended: Outcome) -> tuple[str, ...]:
    banners = list(measurements.changes.banners)
    if not policy.has_base:
        banners.insert(0, GATING_STARTS)
    elif ended.would_fail and ended.exit_code == 0:
        banners.insert(0, WOULD_HAVE_FAILED)
    return tuple(dict.fromkeys(banners))


def _notes(
    measurements: Measurements, accepted: tuple[Acceptance, ...], *, counted: int, planned: int
) -> tuple[str, ...]:
    notes = list(measurements.notes)
    if planned > counted > 0:
        notes.append(f"The false-alarm rate is shared by {planned} comparisons, {counted} of them in this report.")
    targets = {
        target_of(evidence.workload, name)
        for evidence in measurements.workloads
        for name in (*METRICS, *(SPAN_PREFIX + span for span in _cell(evidence).spans))
    }
    notes += [f"Acceptance of {item.target} fits nothing here." for item in accepted if item.target not in targets]
    return tuple(notes)


def _software(measurements: Measurements) -> dict[str, str]:
    """Versions of head, from the first workload that knows them."""
    for evidence in measurements.workloads:
        if evidence.head.software is not None:
            return dict(evidence.head.software.versions)
    return {}
