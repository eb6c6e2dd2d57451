"""Floor 3, github. One Markdown text in; the pull request's one sticky comment created, updated or replaced.

A comment is ours if its last line is our marker *and* our own account wrote it. The marker alone proves nothing: anyone
can quote it. It also carries which run wrote the comment and what that run decided.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfgate.github.checks import fit
from perfgate.github.client import Gateway, RefusedError
from perfgate.github.events import Event

if TYPE_CHECKING:
    from github.IssueComment import IssueComment

EDIT, RECREATE, NOTIFY, OFF = "edit", "recreate", "notify", "off"
MODES = (EDIT, RECREATE, NOTIFY, OFF)
"""``edit``: always the same comment. ``recreate``: a new one each time. ``notify``: a new one when the verdict changed,
since GitHub tells nobody about an edit. ``off``: none."""

MAX_BODY = 65_536  # characters; GitHub's limit
_PERMISSION = "pull-requests: write"
_MARKER = re.compile(
    r"<!-- perfgate:comment head=([0-9a-f]{40}|-) run=([0-9]{1,20}|-)/([0-9]{1,9}) verdict=([a-z-]{1,40}) -->"
)
_ANY_MARKER = re.compile(r"<!-- perfgate:[^\n]*-->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """``outcome``: ``created``, ``updated``, ``recreated``, or ``skipped`` with the reason in ``reason``."""

    outcome: str
    url: str = ""
    reason: str = ""


def marker(event: Event, verdict: str) -> str:
    """The comment's last line."""
    run_id = event.ci.run_id if re.fullmatch(r"[0-9]{1,20}", event.ci.run_id) else "-"
    return f"<!-- perfgate:comment head={event.head or '-'} run={run_id}/{event.ci.attempt} verdict={verdict} -->"


def body_of(text: str, event: Event, verdict: str) -> str:
    """``text`` with the marker as its last line, within GitHub's limit."""
    lines = text.rstrip().split("\n")
    while lines and (not lines[-1].strip() or _ANY_MARKER.fullmatch(lines[-1].strip())):
        lines.pop()
    mark = marker(event, verdict)
    return f"{fit(chr(10).join(lines), MAX_BODY - len(mark) - 2)}\n\n{mark}"


def post(gateway: Gateway, event: Event, text: str, *, verdict: str, mode: str = EDIT) -> Posted:
    """Write ``text`` as the sticky comment of ``event``'s pull request.

    RefusedError without harm (outcome ``skipped``): no pull request, mode ``off``, the live head is not the event's any
    more, or a newer run of the same head has written already. Further comments of ours are deleted.
    Raises :class:`~perfgate.github.client.RefusedError` for a missing permission, GitHubError if GitHub fails.
    """
    if mode not in MODES:
        msg = f"comment-mode {mode!r} is none of {', '.join(MODES)}"
        raise ValueError(msg)
    number = event.pull_request
    if number is None or mode == OFF:
        return Posted(outcome="skipped", reason="no pull request" if number is None else "comment-mode is off")
    body = body_of(text, event, verdict)
    login = _login(gateway)

    def write() -> Posted:
        # Everything in one piece that may be repeated: a lost answer is found again as our own comment.
        live = gateway.repo.get_pull(number).head.sha
        if live != event.head:
            return Posted(outcome="skipped", reason=f"the pull request has moved on to {live[:7]}")
        issue = gateway.repo.get_issue(number)
        mine = [comment for comment in issue.get_comments() if _is_ours(comment, login)]
        if any(_is_newer(comment, event) for comment in mine):
            return Posted(outcome="skipped", reason="a newer run has already reported on this head")
        if mine and not _wants_new(mine[0], mode, verdict, body):
            mine[0].edit(body)
            for extra in mine[1:]:
                extra.delete()
            return Posted(outcome="updated", url=mine[0].html_url)
        # First the new one, then the old ones away: at no time is there none.
        created = issue.create_comment(body)
        for old in mine:
            old.delete()
        return Posted(outcome="recreated" if mine else "created", url=created.html_url)

    return gateway.call(f"commenting on pull request {number}", write, permission=_PERMISSION)


def _login(gateway: Gateway) -> str:
    """The token's own account, empty where it may not be asked for (every ``GITHUB_TOKEN``)."""
    try:
        return gateway.call("reading the token's account", gateway.login)
    except RefusedError:
        return ""


def _last_line(comment: IssueComment) -> re.Match[str] | None:
    lines = (comment.body or "").rstrip().splitlines()
    return _MARKER.fullmatch(lines[-1].strip()) if lines else None


def _is_ours(comment: IssueComment, login: str) -> bool:
    author = comment.user
    if author is None or _last_line(comment) is None:
        return False
    # Without a known account only bots remain: no person can write as one.
    return author.login == login if login else author.type == "Bot"


def _is_newer(comment: IssueComment, event: Event) -> bool:
    found = _last_line(comment)
    if found is None or found[1] != event.head or found[2] == "-" or not event.ci.run_id.isdigit():
        return False
    return (int(found[2]), int(found[3])) > (int(event.ci.run_id), event.ci.attempt)


def _wants_new(comment: IssueComment, mode: str, verdict: str, body: str) -> bool:
    found = _last_line(comment)
    if comment.body == body or mode == EDIT or found is None:
        return False
    return mode == RECREATE or found[4] != verdict
