"""Floor 3, github. A judged ``Report`` and its rendered texts in; check run, annotations and sticky comment out.

Publishing never changes a verdict: what GitHub refuses becomes a warning, what GitHub cannot do just now becomes
``PublishResult.error``, and everything else is still posted.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.errors import EXIT_PASS, GitHubError, MeasuringError
from perfgate.github import annotate, comments
from perfgate.github.checks import Check, start_check
from perfgate.github.client import Gateway, RefusedError
from perfgate.github.events import Event
from perfgate.records.report import ERROR, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Markdown: the comment (a marker is added as its last line), and the check run's summary."""

    comment: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """What came of it. ``check``: the posted conclusion, empty if none was; ``error``: GitHub failed somewhere."""

    comment: comments.Posted
    check: str
    warnings: tuple[str, ...] = ()
    error: GitHubError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    conclusion: str
    title: str
    summary: str
    comment: str
    verdict: str
    annotations: tuple[annotate.Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """Why there is no verdict, in the form of a check run. ``exit_code`` 0: that is as it should be."""

    conclusion: str
    title: str
    message: str
    exit_code: int


def publish(
    report: Report,
    texts: Texts,
    event: Event,
    gateway: Gateway,
    *,
    check: Check | None = None,
    config: tuple[str, str] | None = None,
    comment_mode: str = comments.EDIT,
) -> PublishResult:
    """Complete the check run with ``report`` and write the comment; can be repeated without harm.

    ``check`` comes from :func:`perfgate.github.checks.check_run`, opened before judging; None opens it here.
    ``config`` is path and text of the configuration file that annotations point into.
    Raises nothing of GitHub's making: see :class:`PublishResult`.
    """
    path, text = config or ("perfgate.toml", "")
    content = _Content(
        conclusion=report.check,
        title=report.title,
        summary=texts.summary,
        comment=texts.comment,
        verdict=report.verdict,
        annotations=annotate.of_report(report, path=path, text=text),
    )
    return _post(content, event, gateway, check, comment_mode)


def publish_unjudged(
    unjudged: Unjudged, event: Event, gateway: Gateway, *, check: Check | None = None, comment_mode: str = comments.EDIT
) -> PublishResult:
    """Say in the check run, and where something went wrong in the comment, that nothing was judged.

    So neither a required check waits for ever, nor does the comment go on showing an older verdict.
    """
    content = _Content(
        conclusion=unjudged.conclusion,
        title=unjudged.title,
        summary=unjudged.message,
        comment=f"### perfgate: {unjudged.title}\n\n{unjudged.message}",
        verdict=ERROR,
    )
    return _post(content, event, gateway, check, comment_mode if unjudged.exit_code else comments.OFF)


def why_unmeasured(event: Event, measure_result: str) -> Unjudged:
    """What it means that there are no measurements.

    ``measure_result`` is ``needs.measure.result`` of the workflow: ``success``, ``failure``, ``cancelled``,
    ``skipped`` or empty. Only a fork's pull request, and a draft that the workflow skips, may go unmeasured; anything
    else is a failure, since otherwise leaving out the measuring job would be a way past the gate.
    """
    if event.is_fork:
        return Unjudged(
            conclusion="neutral",
            title="not measured: pull request from a fork",
            message="Code of forks does not run on the measuring machine. A maintainer can push the branch to this "
            "repository to have it measured.",
            exit_code=EXIT_PASS,
        )
    if event.draft and measure_result == "skipped":
        return Unjudged(
            conclusion="neutral",
            title="not measured: draft",
            message="The workflow does not measure drafts. It runs when the pull request is ready for review.",
            exit_code=EXIT_PASS,
        )
    how = {
        "cancelled": "was cancelled or ran past its time limit",
        "skipped": "was skipped by the workflow's own condition",
        "success": "succeeded but left no measurements.json in its artifact",
    }.get(measure_result, "failed before it had measurements")
    return Unjudged(
        conclusion="failure",
        title="not judged",
        message=f"The measuring job {how}. Read its log, then re-run it.",
        exit_code=MeasuringError.exit_code,
    )


def _post(content: _Content, event: Event, gateway: Gateway, check: Check | None, mode: str) -> PublishResult:
    warnings: list[str] = []
    error: GitHubError | None = None
    posted = comments.Posted(outcome="skipped", reason="GitHub did not take it")
    # The comment first: the check's end is what people and merge queues wait for, so all is there by then.
    try:
        posted = comments.post(gateway, event, content.comment, verdict=content.verdict, mode=mode)
    except RefusedError as refused:
        warnings.append(str(refused))
    except GitHubError as failed:
        error = failed
    try:
        check = check or start_check(gateway, event)
        check.complete(content.conclusion, content.title, content.summary, content.annotations)
    except GitHubError as failed:
        error = error or failed
    if check is not None:
        warnings.extend(check.warnings)
    return PublishResult(comment=posted, check=check.conclusion if check else "", warnings=tuple(warnings), error=error)
