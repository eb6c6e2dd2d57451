"""Floor 3, gate. One workload's evidence in; its judged :class:`~perfgate.records.report.ModelResult` out.

The join of base and head is a full one: what only head has is ``no-baseline``, what only base has is
``missing`` and red, and a side that failed is told apart from one that was never there.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace

from perfgate.gate import accept, money, reasons
from perfgate.gate.exact import exact_rows
from perfgate.gate.limits import Rules
from perfgate.gate.noisy import blank_row, noisy_rows
from perfgate.gate.verdicts import worst
from perfgate.records.evidence import Changes, WorkloadEvidence
from perfgate.records.metrics import EXACT, NOISY
from perfgate.records.policy import Acceptance
from perfgate.records.protocol import Failed
from perfgate.records.report import (
    INVALID,
    MISSING,
    NO_BASELINE,
    REGRESSION,
    SHOWN,
    MetricResult,
    ModelResult,
    WorkloadKey,
)

OK = "ok"
ABSENT = "absent"
FOREIGN = "foreign-code"


def judge_workload(
    evidence: WorkloadEvidence, rules: Rules, changes: Changes, accepted: tuple[Acceptance, ...] = ()
) -> ModelResult:
    """The rows, the verdict (the worst of the gated rows) and the reasons of one workload."""
    workload = evidence.workload
    rows = accept.apply(_rows(evidence, rules, changes), workload, accepted, rules.policy)
    if evidence.informative:
        rows = tuple(replace(row, verdict=SHOWN, gated=False) for row in rows)
    return ModelResult(
        model=workload.model,
        key=workload.key,
        workload=WorkloadKey(
            mode=workload.mode,
            batch=workload.batch,
            dtype=workload.dtype,
            device=workload.device,
            compile=workload.compile,
        ),
        metrics=rows,
        reasons=reasons.of_workload(evidence, rows, changes, findings(evidence, rows, rules)),
        verdict=worst(row.verdict for row in rows if row.gated),
        informative=evidence.informative,
        base_totals=evidence.base.totals,
        head_totals=evidence.head.totals,
        difference=evidence.difference,
    )


def findings(evidence: WorkloadEvidence, rows: tuple[MetricResult, ...], rules: Rules) -> tuple[str, ...]:
    """What this change does to money, in words; an informative look has none of its own."""
    return () if evidence.informative else money.sentences(evidence.workload, rows, rules.cost)


def failure_line(failure: Failed | None) -> str:
    """One line for people: the message (an exception's type and text), with the phase it happened in."""
    if failure is None:
        return "failed without a message"
    # The trace of a process that hung or died is the end of its log: the user's own output, not the reason.
    lines = [line.strip() for line in failure.trace.splitlines() if line.strip()]
    text = failure.message.strip() or (lines[-1] if lines else failure.kind)
    where = failure.phase if failure.kind in (failure.phase, "raised") else f"{failure.kind} in {failure.phase}"
    return f"{text} ({where})"


def nothing_works(evidence: WorkloadEvidence) -> bool:
    """Whether no side could run it although head has it: then nothing is judged and the run ends in an error."""
    return not evidence.informative and evidence.head.status == "failed" and evidence.base.status != OK


def foreign_code(evidence: WorkloadEvidence) -> Failed | None:
    """The failure of a side that did not load its own checkout: then no number of the run can be believed."""
    failures = (side.failure for side in (evidence.base, evidence.head))
    return next((failure for failure in failures if failure is not None and failure.kind == FOREIGN), None)


def _rows(evidence: WorkloadEvidence, rules: Rules, changes: Changes) -> tuple[MetricResult, ...]:
    base, head = evidence.base, evidence.head
    if foreign_code(evidence) or nothing_works(evidence):
        return (_only_row(evidence, rules, INVALID, f"not judged: {failure_line(head.failure or base.failure)}"),)
    if head.status == ABSENT:
        return (_only_row(evidence, rules, MISSING, "head no longer has this workload"),)
    if head.status != OK:
        return (_only_row(evidence, rules, REGRESSION, f"head fails: {failure_line(head.failure)}"),)
    if base.status != OK:
        why = "base does not have this workload"
        if base.status != ABSENT:
            why = f"base fails: {failure_line(base.failure)}"
        return _without_base(evidence, rules, why)
    invalid = _why_invalid(evidence, changes)
    rows = (
        *noisy_rows(evidence, rules, invalid=invalid),
        *money.rows(evidence, rules, invalid=invalid),
        *exact_rows(evidence, rules),
    )
    different = different_work(evidence)
    if not different:
        return rows
    return tuple(
        replace(row, verdict=REGRESSION, gated=True, note=f"{reasons.DIFFERENT_WORK}: {different}")
        if row.metric == "latency"
        else row
        for row in rows
    )


def different_work(evidence: WorkloadEvidence) -> str:
    """Items per step on both sides in words if each side has one number and they differ; else empty."""
    base, head = reasons.items(evidence, "base"), reasons.items(evidence, "head")
    if len(base) == len(head) == 1 and base != head:
        return f"{base.pop()} items a step on base, {head.pop()} on head"
    return ""


def _why_invalid(evidence: WorkloadEvidence, changes: Changes) -> str:
    if evidence.end == "unstable":
        return "the runner was unstable: too many pairs had to be thrown away"
    undeclared = reasons.software_differences(evidence)
    if undeclared and not changes.environment:
        return f"base and head ran on different software and no changed file explains it: {', '.join(undeclared)}"
    return ""


def _only_row(evidence: WorkloadEvidence, rules: Rules, verdict: str, note: str) -> MetricResult:
    """The one row of a workload without numbers; out of memory is told as memory, all else as step time."""
    failure = evidence.head.failure
    name = "peak_memory" if failure is not None and failure.kind == "oom" else "latency"
    limit = rules.limit(evidence.workload.model, name)
    return replace(blank_row(name, limit, verdict, note), gated=True)


def _without_base(evidence: WorkloadEvidence, rules: Rules, why: str) -> tuple[MetricResult, ...]:
    """Head's absolute numbers, so that a first run shows something; nothing is judged."""

    def row(name: str, kind: str, value: float | None, note: str) -> MetricResult:
        limit = rules.limit(evidence.workload.model, name)
        told = limit.gated or name == "latency"
        blank = blank_row(name, limit, NO_BASELINE if told else SHOWN, note)
        return replace(blank, kind=kind, head=value, gated=told)

    probes = evidence.head.probes
    step_ns = [probe.step_ns for probe in probes if probe.step_ns > 0]
    first_ns = [probe.first_step_ns for probe in probes if probe.first_step_ns > 0]
    found = [row("latency", NOISY, _median(step_ns), f"{why}; time of one warm process, for orientation")]
    found += [row(item.metric, EXACT, item.head, why) for item in exact_rows(evidence, rules)]
    found += money.head_rows(evidence, rules, why)
    if first_ns:
        found.append(row("first_step", SHOWN, _median(first_ns), ""))
    return tuple(found)


def _median(values: list[int]) -> float | None:
    middle: Callable[[list[int]], float] = statistics.median
    return float(middle(values)) if values else None
