"""Floor 3, gate. Judged workloads in; the verdict in words (title) and the line below it (why) out.

Plain text without markup: names come from the pull request, and whoever renders escapes them.
"""

from __future__ import annotations

from collections.abc import Callable

from perfgate.gate import money as money_rows
from perfgate.gate import operators
from perfgate.gate.limits import definition
from perfgate.gate.reasons import DIFFERENT_WORK, ENVIRONMENT
from perfgate.records.evidence import Skipped
from perfgate.records.metrics import SPAN_PREFIX
from perfgate.records.report import (
    ACCEPTED,
    IMPROVEMENT,
    INCONCLUSIVE,
    INVALID,
    MISSING,
    NEW,
    NO_BASELINE,
    PASS,
    REGRESSION,
    SEVERITY,
    SHOWN,
    MetricResult,
    ModelResult,
    WorkloadKey,
)
from perfgate.units import percent, quantity

_VERB = {"infer": "infers", "train": "trains", "step": "steps"}
_LISTED = 3
_NAME = 60

_SEVERAL = {
    REGRESSION: "got worse",
    MISSING: "vanished",
    INVALID: "could not be judged",
    INCONCLUSIVE: "got no answer",
    NO_BASELINE: "have nothing to be compared with",
    ACCEPTED: "got worse and were accepted",
    NEW: "report new metrics",
    IMPROVEMENT: "got better",
}


def title(verdict: str, models: tuple[ModelResult, ...]) -> str:
    """The verdict of a run with workloads in words; informative workloads are not spoken of."""
    judged = [model for model in models if not model.informative]
    count = f"{len(judged)} workload{'' if len(judged) == 1 else 's'}"
    if verdict == SHOWN or (verdict == PASS and not any(row.gated for model in judged for row in model.metrics)):
        return f"nothing is gated in {count}"
    if verdict == PASS:
        return f"no regression in {count}"
    hit = [model for model in judged if model.verdict == verdict]
    if len(hit) == 1:
        return headline(hit[0])
    said = _SEVERAL.get(verdict, verdict)
    if verdict == REGRESSION and all(_is_time(leading(model)) for model in hit):
        said = "are slower"
    elif verdict == IMPROVEMENT and all(_is_time(leading(model)) for model in hit):
        said = "are faster"
    return f"{len(hit)} of {count} {said}"


def headline(model: ModelResult) -> str:
    """One workload's verdict in words: ``resnet50 trains 7.9 % slower (batch 32, cpu)``."""
    row = leading(model)
    where = _where(model.workload)
    if row is None:
        return f"{model.model} ({model.workload.mode}, {where}) has no metric"
    named = f"{model.model} ({model.workload.mode}, {where})"
    match row.verdict:
        case "regression" | "improvement" | "accepted":
            change = _change(row, model.workload.mode)
            # The verb tells the mode already.
            told = change.startswith(tuple(f"{verb} " for verb in _VERB.values()))
            text = f"{model.model} {change} ({where if told else f'{model.workload.mode}, {where}'})"
            return f"{text}, accepted" if row.verdict == ACCEPTED else text
        case "missing":
            whole = row.base is None and row.metric == "latency"
            return f"{named} vanished" if whole else f"{named} no longer reports {_label(row)}"
        case "inconclusive":
            return f"no answer for {named}"
        case "invalid":
            return f"{named} could not be judged"
        case "no-baseline":
            return f"nothing to compare {named} with"
        case "new":
            return f"{named} reports {_label(row)} for the first time"
        case _:
            return f"no regression in {named}"


def why(verdict: str, models: tuple[ModelResult, ...], money: tuple[str, ...] = ()) -> str:
    """What is known of the cause, from the workload that the title speaks of; sentences end in a full stop.

    An environment that the pull request changes itself is named first, then the operators that changed. ``money``
    holds the findings of all workloads, for a run whose verdict has no cause to tell.
    """
    judged = [model for model in models if not model.informative]
    hit = sorted((m for m in judged if m.verdict == verdict), key=_by_size, reverse=True)
    if verdict in (PASS, IMPROVEMENT, SHOWN):
        changed, seen = _operators(hit if verdict == IMPROVEMENT else judged), [*_largest(judged), *_resolution(judged)]
        # Within the limits, what was seen is the news, and the operators are a remark.
        found = [*changed, *seen] if verdict == IMPROVEMENT else [*seen, *changed]
        return _sentences([*_environment(judged), *found, *money[:_LISTED]], judged)
    if not hit:
        return ""
    first = hit[0]
    row = leading(first)
    note = row.note if row is not None and verdict in (INCONCLUSIVE, NO_BASELINE, ACCEPTED) else ""
    failed, around, rest = _by_topic([reason for reason in first.reasons if not note or note not in reason])
    parts = [] if len(hit) == 1 else [f"first of them: {headline(first)}"]
    if row is not None and note:
        parts.append(f"{note} ({_label(row)})")
    found = [*failed, *around, *parts, *rest] if len(hit) == 1 else [*around, *parts, *failed, *rest]
    return _sentences(found[: _LISTED + len(around)], judged)


def unchanged(skipped: tuple[Skipped, ...]) -> str:
    """Why nothing was measured."""
    causes = list(dict.fromkeys(item.reason for item in skipped))
    count = f"{len(skipped)} model{'' if len(skipped) == 1 else 's'} skipped"
    return _sentences([f"{count}: {'; '.join(causes[:_LISTED])}"])


def leading(model: ModelResult) -> MetricResult | None:
    """The gated row that a workload's verdict rests on: the worst verdict, then step time, then the largest change."""
    gated = [row for row in model.metrics if row.gated]
    if not gated:
        return None
    return min(gated, key=lambda row: (SEVERITY.index(row.verdict), row.metric != "latency", -_size(row)))


def _size(row: MetricResult) -> float:
    return abs(row.ratio - 1) if row.ratio is not None else 0.0


def _by_size(model: ModelResult) -> float:
    row = leading(model)
    # What has no ratio at all (a failure, a vanished workload) is said before any percentage.
    return float("inf") if row is None or row.ratio is None else _size(row)


def _is_time(row: MetricResult | None) -> bool:
    return row is not None and row.unit == "ns" and row.ratio is not None


def _label(row: MetricResult) -> str:
    return definition(row.metric).label


def _change(row: MetricResult, mode: str) -> str:
    if row.note.startswith(DIFFERENT_WORK):
        return DIFFERENT_WORK
    if row.head is None:
        return "runs out of memory" if row.metric == "peak_memory" else "no longer runs"
    if row.ceiling is not None and row.head > row.ceiling:
        return f"is past the {_label(row)} ceiling of {quantity(row.ceiling, row.unit)}"
    if row.ratio is None:
        return f"changes {_label(row)} from {quantity(row.base, row.unit)} to {quantity(row.head, row.unit)}"
    size, grew = percent(_size(row)), row.ratio > 1
    if row.metric == "latency":
        return f"{_VERB.get(mode, 'runs')} {size} {'slower' if grew else 'faster'}"
    if row.metric.startswith(SPAN_PREFIX):
        return f"takes {size} {'longer' if grew else 'less time'} in {_label(row)}"
    if row.metric in money_rows.METRICS:
        return f"costs {size} {'more' if grew else 'less'} {money_rows.label_of_change(row.metric)}"
    # "F" and "M" are symbols; the others read as words.
    return f"needs {size} {'more' if grew else 'less'} {_label(row)}"


def _where(key: WorkloadKey) -> str:
    parts = [f"batch {key.batch}"]
    if key.dtype != "float32":
        parts.append(key.dtype)
    parts.append(key.device)
    if key.compile != "eager":
        parts.append(f"compile {key.compile}")
    return ", ".join(parts)


def _rows(models: list[ModelResult], keep: Callable[[MetricResult], bool]) -> list[tuple[ModelResult, MetricResult]]:
    return [(model, row) for model in models for row in model.metrics if row.gated and keep(row)]


def _largest(models: list[ModelResult]) -> list[str]:
    timed = _rows(models, lambda row: row.metric == "latency" and row.ratio is not None)
    if not timed:
        return []
    model, row = max(timed, key=lambda found: _size(found[1]))
    change = percent((row.ratio or 1.0) - 1, sign=True)
    inside = ""
    if row.ci_low is not None and row.ci_high is not None:
        low, high = percent(row.ci_low - 1, sign=True), percent(row.ci_high - 1, sign=True)
        inside = f", 95 % interval {low} to {high}"
    return [f"largest change of step time: {model.model} {model.workload.mode} {change}{inside}"]


def _resolution(models: list[ModelResult]) -> list[str]:
    seen = [row.mde for _, row in _rows(models, lambda row: row.metric == "latency" and row.mde is not None)]
    known = [mde for mde in seen if mde is not None]
    return [f"changes of {percent(max(known))} would have been seen"] if known else []


def _environment(models: list[ModelResult]) -> list[str]:
    return list(dict.fromkeys(reason for m in models for reason in m.reasons if reason.startswith(ENVIRONMENT)))


def _by_topic(reasons: list[str]) -> tuple[list[str], list[str], list[str]]:
    """What failed (which stands before the environment), the environment itself, and the rest."""
    around = [reason for reason in reasons if reason.startswith(ENVIRONMENT)]
    at = reasons.index(around[0]) if around else 0
    return reasons[:at], around, [reason for reason in reasons[at:] if reason not in around]


def _operators(models: list[ModelResult]) -> list[str]:
    """What changed inside the first of ``models`` of which that is known."""
    for model in models:
        cause = operators.lead(model.difference, model.base_totals, model.head_totals)
        breaks = (reason for reason in model.reasons if reason.startswith(operators.GRAPH_BREAKS))
        if found := cause or next(breaks, ""):
            return [found if len(models) == 1 else f"{model.model} {model.workload.mode}: {found}"]
    return []


def _sentences(parts: list[str], models: list[ModelResult] | None = None) -> str:
    """One text of ``parts``. The first word begins with a capital unless it is a name that ``models`` hold."""
    names = {change.name for m in models or () if m.difference is not None for change in m.difference.changes}
    names |= {model.model for model in models or ()}
    return " ".join(_sentence(part, names) for part in parts if part)


def _sentence(part: str, names: set[str]) -> str:
    named = any(_begins(part, name) for name in names if name)
    text = part if named else f"{part[:1].upper()}{part[1:]}"
    return text if text.endswith((".", "…", "!", "?")) else f"{text}."


def _begins(text: str, name: str) -> bool:
    # A long name stands shortened in its sentence.
    if len(name) > _NAME:
        return text.startswith(name[:_NAME])
    return text.startswith(name) and not text[len(name) : len(name) + 1].isalnum()
