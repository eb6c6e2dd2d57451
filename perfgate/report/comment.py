"""The pull request comment and the job summary: ``Report`` -> Markdown within GitHub's size limits."""

from __future__ import annotations

import re
from collections.abc import Callable

from perfgate.records.report import Report
from perfgate.report import escape, templates
from perfgate.report.fit import fit, size
from perfgate.report.view import NO_LINKS, Links, View, build

# The sticky comment is found by this line, always the last one. Escaped text cannot contain it: it has no "<".
MARKER = "<!-- perfgate:comment:v1 -->"

COMMENT_LIMIT = 65_536
SUMMARY_LIMIT = 1_048_576
_SMALLEST_LIMIT = 1_000
_SUMMARY_OPERATORS = 50
_SUMMARY_FRONTS = 20

_BLANK_LINES = re.compile(r"\n{3,}")
_ANY_MARKER = re.compile(r"<!--\s*perfgate:.*?-->", re.DOTALL)


def comment(
    report: Report,
    *,
    links: Links = NO_LINKS,
    limit: int = COMMENT_LIMIT,
    user_template: str | None = None,
) -> str:
    """The comment, shorter than ``limit`` both in characters and in UTF-8 bytes; :data:`MARKER` is its last line.

    ``user_template`` is Jinja2 source that extends ``comment.md.j2``, rendered in a sandbox. Raises ConfigError if
    it is wrong, ValueError for a limit below 1 000.
    """

    def render(view: View) -> str:
        context = {"report": report, "view": view, "links": view.links}
        if user_template is None:
            return templates.render("comment.md.j2", context)
        return templates.render_user(user_template, context)

    return _limited(build(report, links), render, limit - 1, tail=f"\n{MARKER}\n")


def summary(report: Report, *, links: Links = NO_LINKS, limit: int = SUMMARY_LIMIT) -> str:
    """The job summary, shorter than ``limit`` UTF-8 bytes. Raises ValueError for a limit below 1 000."""

    def render(view: View) -> str:
        return templates.render("summary.md.j2", {"report": report, "view": view, "links": view.links})

    view = build(report, links, operator_rows=_SUMMARY_OPERATORS, most_fronts=_SUMMARY_FRONTS)
    return _limited(view, render, limit - 1, tail="")


def _limited(view: View, render: Callable[[View], str], limit: int, *, tail: str) -> str:
    if limit < _SMALLEST_LIMIT - 1:
        msg = f"a limit of {limit + 1} leaves no room for a report; give at least {_SMALLEST_LIMIT}"
        raise ValueError(msg)

    def tidy(candidate: View) -> str:
        text = _ANY_MARKER.sub("", render(candidate))
        return _BLANK_LINES.sub("\n\n", text).strip("\n") + "\n" + tail

    return fit(view, tidy, limit) or _bare(view, limit, tail)


def _bare(view: View, limit: int, tail: str) -> str:
    """Verdict and link alone: what is left when a template, or the sentences themselves, are too long."""
    address = escape.url(view.links.full_report)
    link = f"[Full report]({address})\n" if address else "report.html has the full report.\n"
    for keep in (200, 60, 10):
        heading = f"### {view.icon} {view.lead}: {escape.md(view.title, keep)}\n\n"
        if size(heading + link + tail) <= limit:
            return heading + link + tail
    return f"### {view.icon} {view.lead}\n{tail}"
