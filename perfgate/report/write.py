"""All outputs of a run. :func:`texts` is pure; :func:`write` puts its result into a folder."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from perfgate.errors import ConfigError, PerfgateError
from perfgate.records.evidence import Measurements
from perfgate.records.report import Report
from perfgate.report.comment import comment, summary
from perfgate.report.document import report_json
from perfgate.report.html import page
from perfgate.report.view import NO_LINKS, Links

__all__ = ["NO_LINKS", "Links", "Outputs", "texts", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The text of each output."""

    comment: str
    summary: str
    html: str
    json: str


def texts(
    report: Report,
    measurements: Measurements,
    links: Links = NO_LINKS,
    *,
    user_template: str | None = None,
) -> Outputs:
    """Every output, all from one ``report``. Raises ConfigError if ``user_template`` is wrong."""
    return Outputs(
        comment=comment(report, links=links, user_template=user_template),
        summary=summary(report, links=links),
        html=page(report, measurements, links=links),
        json=report_json(report),
    )


def write(
    report: Report,
    measurements: Measurements,
    directory: Path,
    *,
    links: Links = NO_LINKS,
    user_template: str | None = None,
) -> Outputs:
    """Write report.json, comment.md, summary.md and report.html into ``directory``, which is made if needed.

    Every file appears whole or not at all. A file that cannot be written does not keep the others from
    it, nor does a wrong ``user_template`` (the built-in comment is written then): the
    PerfgateError or ConfigError is raised when all has been tried.
    """
    wrong_template: ConfigError | None = None
    try:
        outputs = texts(report, measurements, links, user_template=user_template)
    except ConfigError as error:
        wrong_template = error
        outputs = texts(report, measurements, links)
    files = {
        "report.json": outputs.json,
        "comment.md": outputs.comment,
        "summary.md": outputs.summary,
        "report.html": outputs.html,
    }
    problems = [problem for name, text in files.items() if (problem := write_file(directory / name, text))]
    if problems:
        raise PerfgateError("\n".join(problems))
    if wrong_template:
        raise wrong_template
    return outputs


def unwritable(path: Path) -> str:
    """Why nothing can be written to ``path`` ("/dev/null is no folder"), as far as that can be told without writing;
    else an empty string.

    For answers that take minutes: a fault of the place should not wait for them.
    """
    try:
        parent = path.absolute().parent
        while not parent.exists() and parent != parent.parent:
            parent = parent.parent
        if not parent.is_dir():
            return f"{parent} is no folder"
    except OSError as error:
        return str(error.strerror)
    if not os.access(parent, os.W_OK | os.X_OK):
        return f"{parent} is not writable"
    return ""


def write_file(path: Path, text: str) -> str:
    """Put ``text`` at ``path`` in one step; the problem and its remedy as one line, or an empty string."""
    # Beside the target, since a rename is one step only within a file system.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(text, encoding="utf-8", newline="\n")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return f"{path}: cannot be written: {reason}; free the space or name a writable folder with --out"
    return ""
