"""Floor 3, github. The check run ``perfgate``: opened as in progress before anything is judged, always completed.

It hangs on the pull request's own head, which is where people look; ``GITHUB_SHA`` of a pull request is a temporary
merge commit that they never see. A token that may not write checks costs a warning, never the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from perfgate.errors import GitHubError, Interrupted, PerfgateError
from perfgate.github.annotate import Annotation
from perfgate.github.client import Gateway, RefusedError
from perfgate.github.events import Event

if TYPE_CHECKING:
    from github.CheckRun import CheckRun

NAME = "perfgate"
CONCLUSIONS = frozenset({"success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"})
PER_REQUEST = 50  # GitHub's limit for annotations of one request
MAX_TEXT = 65_000  # characters of a check's summary; GitHub's limit is 65,535
_PERMISSION = "checks: write"


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    conclusion: str
    title: str
    summary: str
    annotations: tuple[Annotation, ...] = ()


class Check:
    """One check run from in progress to completed. Without a commit or the permission it does nothing but warn.

    ``conclusion``: what was posted, empty until then. ``warnings``: what GitHub refused, for the user.
    """

    def __init__(self, gateway: Gateway, run: CheckRun | None, warning: str = "") -> None:
        self._gateway = gateway
        self._run = run
        self._end: _End | None = None
        self.conclusion = ""
        self.warnings: list[str] = [warning] if warning else []

    @property
    def posted(self) -> bool:
        """True if the check run exists on GitHub."""
        return self._run is not None

    def complete(self, conclusion: str, title: str, summary: str, annotations: Sequence[Annotation] = ()) -> None:
        """End the check run. The first call counts: a later one, of whatever content, only makes up for it if GitHub
        did not answer then, so that a verdict is never overwritten by a later fault.

        ``summary`` is Markdown, cut at GitHub's limit. More than 50 annotations are sent in several requests, after
        the check has ended. Raises ValueError for a conclusion that GitHub does not know, GitHubError if GitHub fails.
        """
        if conclusion not in CONCLUSIONS:
            msg = f"{conclusion!r} is no conclusion of a check run; use one of {', '.join(sorted(CONCLUSIONS))}"
            raise ValueError(msg)
        self._end = self._end or _End(
            conclusion=conclusion, title=title, summary=summary, annotations=tuple(annotations)
        )
        if self._run is not None and not self.conclusion:
            self._send(self._run, self._end)

    def _send(self, run: CheckRun, end: _End) -> None:
        trees = [annotation.tree() for annotation in end.annotations]
        output: dict[str, object] = {"title": end.title[:255] or NAME, "summary": fit(end.summary) or end.title or NAME}
        first = {**output, "annotations": trees[:PER_REQUEST]}
        if not self._try(partial(run.edit, status="completed", conclusion=end.conclusion, output=first)):
            return
        self.conclusion = end.conclusion
        for start in range(PER_REQUEST, len(trees), PER_REQUEST):
            self._try(partial(run.edit, output={**output, "annotations": trees[start : start + PER_REQUEST]}))

    def _try(self, edit: Callable[[], None]) -> bool:
        try:
            self._gateway.call("completing the check run", edit, permission=_PERMISSION)
        except RefusedError as error:
            self.warnings.append(str(error))
            return False
        return True


def start_check(gateway: Gateway, event: Event) -> Check:
    """Post the check run as in progress on ``event.head``, and return it for completing.

    A check of the same run and attempt that is still open is taken over; otherwise a new one replaces, on GitHub's
    page, whatever an earlier run left there. Raises GitHubError if GitHub fails (not if it refuses).
    """
    head = event.head
    if head is None:
        return Check(gateway, None, "no check run: the event names no commit")
    identity = f"{NAME}/{event.ci.run_id}/{event.ci.attempt}"
    details = f"{gateway.server_url}/{event.repository}/actions/runs/{event.ci.run_id}/attempts/{event.ci.attempt}"
    waiting: dict[str, str | list[dict[str, str | int]]] = {
        "title": "in progress",
        "summary": "Measurements are being judged.",
    }

    def open_run() -> CheckRun:
        # Looked for first, so that repeating after a lost answer does not leave a second check open for ever.
        for run in gateway.repo.get_commit(head).get_check_runs(check_name=NAME, filter="latest"):
            if run.external_id == identity and run.status != "completed":
                return run
        return gateway.repo.create_check_run(
            NAME, head_sha=head, status="in_progress", external_id=identity, details_url=details, output=waiting
        )

    try:
        return Check(gateway, gateway.call("starting the check run", open_run, permission=_PERMISSION))
    except RefusedError as error:
        return Check(gateway, None, str(error))


@contextmanager
def check_run(gateway: Gateway, event: Event) -> Iterator[Check]:
    """:func:`start_check`, completed whatever happens inside: an error ends it as a failure "not judged", an
    interrupt as cancelled. The error goes on to the caller."""
    check = start_check(gateway, event)
    try:
        yield check
    except (KeyboardInterrupt, Interrupted):
        _end(check, "cancelled", "cancelled", "The run was cancelled before it had a result.")
        raise
    except PerfgateError as error:
        _end(check, "failure", "not judged", str(error))
        raise
    except BaseException as error:
        _end(check, "failure", "not judged", f"perfgate ended with {type(error).__name__}; the job's log has more.")
        raise
    _end(check, "failure", "not judged", "perfgate ended without a result.")


def _end(check: Check, conclusion: str, title: str, summary: str) -> None:
    try:
        check.complete(conclusion, title, summary)
    except GitHubError as error:
        check.warnings.append(str(error))  # the error that brought us here matters more


def fit(text: str, limit: int = MAX_TEXT) -> str:
    """``text`` within ``limit`` characters, cut at the end of a line and saying so."""
    if len(text) <= limit:
        return text
    note = "\n\n_Cut here at GitHub's limit; the job summary and the artifact hold the rest._"
    kept = text[: limit - len(note)]
    return kept[: kept.rfind("\n") + 1 or len(kept)] + note
