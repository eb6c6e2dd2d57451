"""Floor 3, gate. Pairs of one workload in; one row for each metric that only statistics can compare out."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from perfgate.gate.exact import compare
from perfgate.gate.limits import Limit, Rules, definition, kind_of, pairs_per_unit, tolerance_of
from perfgate.records.evidence import WorkloadEvidence
from perfgate.records.metrics import METRICS, NOISY, SHOWN, SPAN_PREFIX
from perfgate.records.report import (
    IMPROVEMENT,
    INCONCLUSIVE,
    INVALID,
    MISSING,
    NEW,
    PASS,
    REGRESSION,
    MetricResult,
)
from perfgate.records.report import SHOWN as SHOWN_VERDICT
from perfgate.stats.pairs import log_ratios, noisy_metrics, rounds, side_values, valid_pairs
from perfgate.stats.sequential import Decision, decide, one_sided_lower
from perfgate.units import percent, quantity, wall_clock

_WHY_STOPPED = {
    "budget": "the time budget ended before an answer",
    "interrupted": "measuring was interrupted",
    "failed": "measuring ended with a failure",
    "not-begun": "not begun for lack of time budget",
    "n_max": "no answer within the planned number of pairs",
}


def noisy_rows(evidence: WorkloadEvidence, rules: Rules, *, invalid: str = "") -> tuple[MetricResult, ...]:
    """Rows of latency, energy, CPU memory and spans, then of the metrics that are only shown.

    ``invalid`` is a reason why no noisy metric of this workload can be judged; empty: judge them.
    """
    present = [name for name in noisy_metrics(evidence.pairs) if kind_of(name, evidence.workload) == NOISY]
    names = present if "latency" in present else ["latency", *present]
    rows = [noisy_row(name, evidence, rules, invalid=invalid) for name in names]
    rows += [
        noisy_row(name, evidence, rules, invalid=invalid)
        for name, known in METRICS.items()
        if known.kind == SHOWN and any(side_values(evidence.pairs, name)) and valid_pairs(evidence.pairs)
    ]
    return tuple(rows)


def noisy_row(
    name: str,
    evidence: WorkloadEvidence,
    rules: Rules,
    *,
    invalid: str = "",
    scale: float = 1.0,
    judge_ceiling: bool = True,
) -> MetricResult:
    """One judged row; ``base`` and ``head`` are geometric means over the pairs that decided.

    ``scale`` is what values of the pairs are multiplied by (a price); ``judge_ceiling`` False: a ceiling is named in
    the row and decides nothing.
    """
    limit = rules.limit(evidence.workload.model, name)
    base, head = (tuple(scale * value for value in side) for side in side_values(evidence.pairs, name))
    x = log_ratios(evidence.pairs, name)
    row = _decided(name, evidence, rules, limit, x, base) if x else _undecided(name, evidence, limit, base, head)
    if judge_ceiling:
        row = _with_ceiling(row, head, rules.alpha)
    if not row.gated:
        return replace(row, verdict=SHOWN_VERDICT, kind=definition(name).kind)
    return replace(row, verdict=INVALID, note=invalid) if invalid else row


def blank_row(name: str, limit: Limit, verdict: str, note: str = "") -> MetricResult:
    """A row without numbers: what is known of ``name`` before anything was measured."""
    return MetricResult(
        metric=name,
        # A percentile with a limit is judged by the same statistics as latency.
        kind=NOISY,
        unit=definition(name).unit,
        base=None,
        head=None,
        ratio=None,
        ci_low=None,
        ci_high=None,
        limit=limit.relative,
        verdict=verdict,
        pairs=0,
        gated=limit.gated,
        enforced=limit.enforced,
        ceiling=limit.ceiling,
        note=note,
    )


def _decided(
    name: str,
    evidence: WorkloadEvidence,
    rules: Rules,
    limit: Limit,
    x: tuple[float, ...],
    base: tuple[float, ...],
) -> MetricResult:
    policy = rules.policy
    relative = policy.tolerance if limit.relative is None else limit.relative
    decision = decide(
        x,
        tolerance=tolerance_of(name, relative),
        alpha=rules.alpha,
        looks=policy.looks,
        final=True,
        clusters=None if policy.independent_pairs else rounds(evidence.pairs),
        pairs_per_round=pairs_per_unit(policy),
    )
    verdict, note = _say(name, decision, evidence) if limit.relative is not None else (PASS, "")
    mean = math.exp(statistics.fmean(map(math.log, base[: decision.n])))
    ratio, low, high = decision.ratio, decision.ci_low, decision.ci_high
    if definition(name).larger_is_better:
        ratio, low, high = _inverse(ratio), _inverse(high), _inverse(low)
    shown = not limit.gated
    return replace(
        blank_row(name, limit, verdict, note),
        base=mean,
        head=None if ratio is None else mean * ratio,
        ratio=ratio,
        ci_low=None if shown and definition(name).kind == SHOWN else low,
        ci_high=None if shown and definition(name).kind == SHOWN else high,
        pairs=decision.n,
        mde=None if shown else decision.mde,
    )


def _say(name: str, decision: Decision, evidence: WorkloadEvidence) -> tuple[str, str]:
    worse = "worse" if definition(name).larger_is_better else "slower" if definition(name).unit == "ns" else "more"
    if decision.state == REGRESSION:
        return REGRESSION, ""
    if decision.state == IMPROVEMENT:
        return IMPROVEMENT, ""
    if decision.state == PASS:
        return PASS, f"{worse}, within the limit" if decision.certain_slower else ""
    why = _WHY_STOPPED.get(evidence.end, "no answer")
    if decision.upper is None:
        return INCONCLUSIVE, f"{why}; {decision.units} valid pair(s) are too few to say anything"
    note = f"{why}; a change of up to {percent(decision.upper - 1, sign=True)} is not ruled out"
    if decision.mde is not None:
        note += f", and {decision.n} pairs here find a change of {percent(decision.mde)} or more"
    return INCONCLUSIVE, note


def _undecided(
    name: str, evidence: WorkloadEvidence, limit: Limit, base: tuple[float, ...], head: tuple[float, ...]
) -> MetricResult:
    """A metric without log ratios: one side lacks it, a value is 0, or nothing was measured."""
    counted = len(valid_pairs(evidence.pairs))
    row = replace(
        blank_row(name, limit, INCONCLUSIVE),
        base=statistics.median(base) if base else None,
        head=statistics.median(head) if head else None,
        pairs=counted,
    )
    if not counted:
        return replace(row, note=_no_pairs(evidence))
    if base and head:
        if not limit.gated or limit.relative is None:
            return replace(row, verdict=PASS)
        # Some value is 0: no ratio exists and the direction decides, but only if it is the same in all pairs.
        verdicts = {
            compare(b, h, limit.relative, larger_is_better=definition(name).larger_is_better)
            for b, h in zip(base, head, strict=True)
        }
        if len(verdicts) == 1:
            return replace(row, verdict=verdicts.pop(), note="a value is 0, so the direction decides")
        return replace(row, note="some values are 0 and the pairs disagree")
    side = "base" if base else "head"
    if not base and not head:
        return replace(row, note="missing in some pairs on both sides")
    if not name.startswith(SPAN_PREFIX):
        return replace(row, note=f"could be read on {side} only")
    other = evidence.pairs[0].head if base else evidence.pairs[0].base
    if any(name.removeprefix(SPAN_PREFIX) in block.spans_ns for block in other.blocks):
        return replace(row, note=f"the span is complete on {side} only")
    return (
        replace(row, verdict=MISSING, note="the step no longer yields this span")
        if base
        else replace(row, verdict=NEW, note="base does not yield this span")
    )


def _no_pairs(evidence: WorkloadEvidence) -> str:
    note = _WHY_STOPPED.get(evidence.end, "no valid pair was measured")
    if evidence.needed_s is not None:
        needed = wall_clock(evidence.needed_s)
        note += f"; the first look needs about {needed}: raise gate.budget or leave it to a nightly run"
    elif evidence.pairs:
        note = f"all {len(evidence.pairs)} pairs were void ({evidence.pairs[-1].void})"
    return note


def _with_ceiling(row: MetricResult, head: tuple[float, ...], alpha: float) -> MetricResult:
    """The row with its absolute maximum applied: red if head is certainly past it, open if only its estimate is."""
    if row.ceiling is None or row.head is None or not head or min(head) <= 0:
        return row
    text = quantity(row.ceiling, row.unit)
    used = head[: row.pairs]
    lower = one_sided_lower([math.log(value) for value in used], alpha)
    if lower is not None and lower > math.log(row.ceiling):
        before = " (base was past it too)" if row.base is not None and row.base > row.ceiling else ""
        return replace(row, verdict=REGRESSION, note=f"past the ceiling of {text}{before}")
    if row.head > row.ceiling and row.verdict not in (REGRESSION, MISSING):
        return replace(row, verdict=INCONCLUSIVE, note=f"past the ceiling of {text}, but not certainly")
    return row


def _inverse(value: float | None) -> float | None:
    return 1 / value if value else None
