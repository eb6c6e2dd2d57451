"""Floor 3, github. ``Report`` in, annotations of the check run out: one for each metric that is not fine.

They hang on the line of ``perfgate.toml`` that declares the model, the only file that a verdict surely concerns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from perfgate import units
from perfgate.errors import EXIT_PASS
from perfgate.records import report as verdicts
from perfgate.records.metrics import metric
from perfgate.records.report import MetricResult, ModelResult, Report

LIMIT = 200
"""More are not sent: nobody reads them, and each fifty cost a request."""

_FAILING = frozenset({verdicts.REGRESSION, verdicts.MISSING})
_DOUBTFUL = frozenset({verdicts.INVALID, verdicts.INCONCLUSIVE})
_MAX_TEXT = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """``level`` is ``failure``, ``warning`` or ``notice``; ``line`` counts from 1."""

    path: str
    line: int
    level: str
    title: str
    message: str

    def tree(self) -> dict[str, object]:
        """The form that GitHub's API takes."""
        return {
            "path": self.path,
            "start_line": self.line,
            "end_line": self.line,
            "annotation_level": self.level,
            "title": self.title[:255],
            "message": self.message[:_MAX_TEXT] or self.title,
        }


def of_report(report: Report, *, path: str = "perfgate.toml", text: str = "") -> tuple[Annotation, ...]:
    """Annotations for ``report``, worst verdict first, at most :data:`LIMIT`.

    ``path`` is the configuration file in the repository and ``text`` its content, in which the line of each model's
    table is looked for; without it every annotation is on line 1.
    """
    found: list[tuple[int, Annotation]] = []
    for model in report.models:
        if model.informative:
            continue
        line = _line(text, model.model)
        rows = [row for row in model.metrics if row.gated and row.verdict in _FAILING | _DOUBTFUL]
        found.extend((_rank(row.verdict), _of_metric(model, row, path, line, report)) for row in rows)
        if not rows and model.verdict in _FAILING | _DOUBTFUL:
            found.append((_rank(model.verdict), _of_model(model, path, line, report)))
    found.sort(key=lambda ranked: ranked[0])
    return tuple(annotation for _, annotation in found[:LIMIT])


def targets(report: Report) -> tuple[str, ...]:
    """``MODEL/MODE/METRIC`` of every gated metric that regressed or vanished, each once, in the report's order."""
    names = (
        f"{model.model}/{model.workload.mode}/{row.metric}"
        for model in report.models
        if not model.informative
        for row in model.metrics
        if row.gated and row.verdict in _FAILING
    )
    return tuple(dict.fromkeys(names))


def _of_model(model: ModelResult, path: str, line: int, report: Report) -> Annotation:
    return Annotation(
        path=path,
        line=line,
        level=_level(model.verdict, enforced=not _only_told(report)),
        title=f"{_name(model)}: {model.verdict}",
        message=model.reasons[0] if model.reasons else f"{model.verdict}: see the report",
    )


def _of_metric(model: ModelResult, row: MetricResult, path: str, line: int, report: Report) -> Annotation:
    try:
        label = metric(row.metric).label
    except KeyError:
        label = row.metric
    parts = [f"{label}: {units.quantity(row.base, row.unit)} → {units.quantity(row.head, row.unit)}"]
    if row.ratio is not None:
        change = units.percent(row.ratio - 1, sign=True)
        if row.ci_low is not None and row.ci_high is not None:
            low, high = (units.percent(bound - 1, sign=True) for bound in (row.ci_low, row.ci_high))
            change += f" ({low} to {high})"
        parts.append(change)
    if row.limit is not None:
        parts.append(f"limit {units.share(row.limit)}")
    if row.ceiling is not None:
        parts.append(f"ceiling {units.quantity(row.ceiling, row.unit)}")
    message = ", ".join(parts) + (f". {row.note}" if row.note else "")
    return Annotation(
        path=path,
        line=line,
        level=_level(row.verdict, enforced=row.enforced and not _only_told(report)),
        title=f"{_name(model)}: {label} {row.verdict}",
        message=message,
    )


def _only_told(report: Report) -> bool:
    """True in mode ``report``: the run is red and does not fail."""
    return report.would_fail and report.exit_code == EXIT_PASS


def _name(model: ModelResult) -> str:
    return f"{model.model} · {model.workload.mode} · b{model.workload.batch}"


def _level(verdict: str, *, enforced: bool) -> str:
    return "failure" if enforced and verdict in _FAILING else "warning"


def _rank(verdict: str) -> int:
    return verdicts.SEVERITY.index(verdict)


def _line(text: str, model: str) -> int:
    name = re.escape(model)
    header = re.compile(rf"""\s*\[\s*(?:tool\.perfgate\.)?models\.(?:{name}|"{name}"|'{name}')\s*[.\]]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if header.match(line):
            return number
    return 1
