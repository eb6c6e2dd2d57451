"""Small pure functions from records to words; every number goes through :mod:`perfgate.units`."""

from __future__ import annotations

import math
import re

from perfgate import units
from perfgate.records import metrics
from perfgate.records import report as verdicts
from perfgate.records.evidence import Revision
from perfgate.records.report import MetricResult, ModelResult, Report

ICONS = {
    verdicts.REGRESSION: "❌",
    verdicts.MISSING: "❌",
    verdicts.INVALID: "⚠️",
    verdicts.INCONCLUSIVE: "❔",
    verdicts.NO_BASELINE: "🆕",
    verdicts.ACCEPTED: "☑️",
    verdicts.NEW: "🆕",
    verdicts.IMPROVEMENT: "🎉",
    verdicts.PASS: "✅",
    verdicts.SHOWN: "",
    verdicts.UNCHANGED: "➖",
    verdicts.NOT_MEASURED: "⏸️",
    verdicts.ERROR: "⛔",
}

# Beside every icon where there is room, so that colour and shape are never the only sign.
WORDS = {
    verdicts.REGRESSION: "regression",
    verdicts.MISSING: "missing",
    verdicts.INVALID: "not valid",
    verdicts.INCONCLUSIVE: "undecided",
    verdicts.NO_BASELINE: "no baseline",
    verdicts.ACCEPTED: "accepted",
    verdicts.NEW: "new",
    verdicts.IMPROVEMENT: "better",
    verdicts.PASS: "within the limit",
    verdicts.SHOWN: "shown, not gated",
    verdicts.UNCHANGED: "nothing touched",
    verdicts.NOT_MEASURED: "not measured",
    verdicts.ERROR: "not judged",
}

BAD = (verdicts.REGRESSION, verdicts.MISSING)
QUIET = (verdicts.PASS, verdicts.SHOWN)
_EMPHASISED = (*BAD, verdicts.ACCEPTED, verdicts.IMPROVEMENT)
_COMMAND_WORD = re.compile(r"[^\s`<>|\\\x00-\x1f]+")
NOTHING = "–"


def icon(verdict: str) -> str:
    """The sign of a verdict; a verdict that this version does not know is a question mark, never green."""
    return ICONS.get(verdict, "❔")


def word(verdict: str) -> str:
    """The verdict in words for people."""
    return WORDS.get(verdict, verdict)


def severity(verdict: str) -> int:
    """0 for the worst verdict; what this version does not know counts as undecided."""
    known = verdict if verdict in verdicts.SEVERITY else verdicts.INCONCLUSIVE
    return verdicts.SEVERITY.index(known)


def definition(name: str) -> metrics.Metric | None:
    """The registry's entry of a metric; None for a name from a newer version."""
    try:
        return metrics.metric(name)
    except KeyError:
        return None


def metric_label(name: str) -> str:
    """The metric's name for people."""
    known = definition(name)
    return known.label if known else name


def worsening(result: MetricResult) -> float:
    """Relative change in the bad direction (0.08: 8 % worse, negative: better); infinite where no ratio exists."""
    if result.ratio is None:
        return 0.0 if result.base == result.head and result.base is not None else math.inf
    known = definition(result.metric)
    change = result.ratio - 1
    return -change if known and known.larger_is_better else change


def change(result: MetricResult) -> str:
    """Head against base in words: ``+7.9 %``, ``equal``, ``from 0``, ``n/a``."""
    if result.base is None or result.head is None:
        return units.NOT_AVAILABLE
    if result.base == result.head and (result.kind != metrics.NOISY or not result.pairs):
        return "equal"
    if result.ratio is None:
        return "from 0" if result.base == 0 else units.NOT_AVAILABLE
    text = units.percent(result.ratio - 1, sign=True)
    if result.kind == metrics.EXACT and text == units.percent(0.0):
        # One parameter more out of millions is a change, and "0.0 %" would deny it.
        step = result.head - result.base
        return f"{'+' if step > 0 else '−'}{units.quantity(abs(step), result.unit)}"
    return text


def interval(result: MetricResult) -> str:
    """The 95 % interval of the change, ``(7.1 to 8.7)`` in percent; ``(exact)`` for exact metrics; else empty."""
    if result.base is None or result.head is None:
        return ""
    if result.kind == metrics.EXACT:
        return "(exact)"
    if result.ci_low is None or result.ci_high is None:
        return ""
    low, high = (units.percent(bound - 1).removesuffix(" %") for bound in (result.ci_low, result.ci_high))
    return f"({low} to {high})"


def limit(result: MetricResult) -> str:
    """The relative limit and the ceiling in force, ``3 %, at most 20.0 ms``; a dash where nothing is gated."""
    parts = []
    if result.limit is not None:
        parts.append(units.share(result.limit))
    if result.ceiling is not None:
        parts.append(f"at most {units.quantity(result.ceiling, result.unit)}")
    if not parts:
        return NOTHING
    text = ", ".join(parts)
    return text if result.enforced else f"{text} (report only)"


def emphasised(verdict: str) -> bool:
    """True where the change is the news."""
    return verdict in _EMPHASISED


def varying_parts(report: Report) -> frozenset[str]:
    """Which of ``dtype``, ``device`` and ``compile`` differ between the cells of this report."""
    cells = [model.workload for model in report.models]
    names = ("dtype", "device", "compile")
    return frozenset(name for name in names if len({getattr(cell, name) for cell in cells}) > 1)


def workload_label(model: ModelResult, varying: frozenset[str]) -> str:
    """``train · b32`` and those parts of the cell that are unusual or that tell this report's cells apart."""
    cell = model.workload
    parts = [cell.mode, f"b{cell.batch}"]
    if "dtype" in varying or cell.dtype != "float32":
        parts.append(cell.dtype)
    if "device" in varying:
        parts.append(cell.device)
    if "compile" in varying or cell.compile != "eager":
        parts.append(cell.compile)
    if model.informative:
        parts.append("with the pull request's own bench code")
    return " · ".join(parts)


def commit_name(revision: Revision) -> str:
    """Seven digits of the commit; the user's name for it, or "the working tree", where there is no commit."""
    return revision.sha[:7] or revision.name or "the working tree"


def would_fail_only(report: Report) -> bool:
    """True if the run is red by the rules, but the policy's mode keeps it from failing."""
    return report.would_fail and report.exit_code == 0


def accept_example(report: Report) -> str:
    """The command that accepts the worst regression on purpose; empty if nothing red has a bound that could be given.

    The bound is the change rounded up to whole percents, plus one: room for the next run's noise.
    """
    red = [
        (worsening(result), f"{model.model}/{model.workload.mode}/{result.metric}")
        for model in report.models
        if not model.informative
        for result in model.metrics
        if result.verdict == verdicts.REGRESSION and math.isfinite(worsening(result)) and worsening(result) > 0
    ]
    if not red or report.exit_code == 0:
        return ""
    worst, target = max(red, key=lambda item: item[0])
    if not _COMMAND_WORD.fullmatch(target):
        return ""  # nobody could type it, and nothing could read it
    # Rounded first: 0.08 * 100 is 8.000000000000002 in binary and must not become 9.
    bound = math.ceil(round(100 * worst, 6)) + 1
    return f"/perfgate accept {target} up to {bound}% because REASON"
