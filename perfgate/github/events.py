"""Floor 3, github. Environment of a workflow run and its event file in, one frozen :class:`Event` out.

Which commits are compared follows the event: a pull request's own head (never the temporary merge
commit in ``GITHUB_SHA``) against its base, a merge group's head and base, a push's ``before`` and ``after``.
Every other event, known or not, records HEAD and judges nothing, so that no event makes a run fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfgate.errors import UsageError
from perfgate.records.baseline import NAMESPACE_BASE
from perfgate.records.evidence import CiRun

NAMESPACE_OTHER = "local"
"""Recorded, yet never a baseline: neither on the default branch nor of a pull request."""

MAX_EVENT_BYTES = 26_214_400  # GitHub caps a webhook's payload at 25 MB.

_SHA = re.compile(r"[0-9a-f]{40}")
_ZEROS = "0" * 40
_QUEUE_REF = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-(\d+)-[0-9a-f]{40}")
_DEPENDABOT = frozenset({"dependabot[bot]", "dependabot-preview[bot]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What started this run, and what it asks for.

    ``base`` and ``head`` are 40 hexadecimal digits or None (no such commit). For a pull request ``base`` is
    the base branch's commit in the event; the merge base is computed by whoever holds the history.
    ``is_fork``: the head is not this repository's own, or cannot be shown to be; it is not measured by default.
    ``private`` None: the event does not say. ``gated``: the verdict may fail the run.
    ``record_as`` is the namespace of the baseline database: ``base``, ``pr/N`` or ``local``.
    """

    name: str
    action: str
    repository: str
    base: str | None
    head: str | None
    pull_request: int | None
    is_fork: bool
    private: bool | None
    default_branch: str
    ci: CiRun
    gated: bool
    record_as: str
    draft: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The part of an event that depends on its kind."""

    base: str | None = None
    head: str | None = None
    pull_request: int | None = None
    is_fork: bool = False
    gated: bool = False
    record_as: str = NAMESPACE_OTHER
    draft: bool = False


def read(environ: Mapping[str, str]) -> Event:
    """The event of the workflow run described by ``environ`` (``GITHUB_*`` variables).

    Raises UsageError that names the variable or the event file and key at fault. An event that perfgate
    does not know is no error.
    """
    name = _required(environ, "GITHUB_EVENT_NAME")
    repository = _required(environ, "GITHUB_REPOSITORY")
    path = _required(environ, "GITHUB_EVENT_PATH")
    payload = _Payload(_load(Path(path)), path)
    reader = {"pull_request": _pull_request, "merge_group": _merge_group, "push": _push}.get(name, _other)
    default_branch = payload.text("repository.default_branch")
    target = reader(payload, environ, default_branch)
    ci = CiRun(
        repository=repository,
        run_id=environ.get("GITHUB_RUN_ID", ""),
        attempt=_attempt(environ),
        workflow=environ.get("GITHUB_WORKFLOW", ""),
        event=name,
        pull_request=target.pull_request,
        ref=environ.get("GITHUB_REF", ""),
    )
    private = payload.find("repository.private")
    return Event(
        name=name,
        action=payload.text("action"),
        repository=repository,
        base=target.base,
        head=target.head,
        pull_request=target.pull_request,
        is_fork=target.is_fork,
        private=private if isinstance(private, bool) else None,
        default_branch=default_branch,
        ci=ci,
        gated=target.gated,
        record_as=target.record_as,
        draft=target.draft,
    )


@dataclass(frozen=True, slots=True)
class _Payload:
    """The event file's tree; a value of the wrong type counts as absent, a malformed commit is an error."""

    tree: dict[str, Any]
    path: str

    def find(self, key: str) -> Any:
        node: Any = self.tree
        for part in key.split("."):
            if not isinstance(node, dict):
                return None
            node = node.get(part)
        return node

    def text(self, key: str) -> str:
        value = self.find(key)
        return value if isinstance(value, str) else ""

    def sha(self, key: str) -> str | None:
        """The commit under ``key``, None where it is null or all zeros ("no such commit")."""
        value = self.find(key)
        if value is None or value == _ZEROS:
            return None
        if not isinstance(value, str) or not _SHA.fullmatch(value):
            msg = f"event file {self.path}: {key} is not a commit of 40 hexadecimal digits; re-run the workflow"
            raise UsageError(msg)
        return value

    def required_sha(self, key: str) -> str:
        value = self.sha(key)
        if value is None:
            msg = f"event file {self.path}: {key} is missing; run perfgate on the event file that GitHub wrote"
            raise UsageError(msg)
        return value


def _pull_request(payload: _Payload, environ: Mapping[str, str], default_branch: str) -> _Target:
    del environ, default_branch
    number = payload.find("pull_request.number")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        msg = f"event file {payload.path}: pull_request.number is missing; run perfgate on GitHub's own event file"
        raise UsageError(msg)
    return _Target(
        base=payload.required_sha("pull_request.base.sha"),
        head=payload.required_sha("pull_request.head.sha"),
        pull_request=number,
        is_fork=_is_fork(payload),
        gated=payload.text("action") != "closed",
        record_as=f"pr/{number}",
        draft=payload.find("pull_request.draft") is True,
    )


def _is_fork(payload: _Payload) -> bool:
    """True unless the head is shown to be this repository's own.

    Repositories are compared by id: names can be taken over, and a deleted fork is null. Whoever started the
    run (``GITHUB_ACTOR``) is not asked, since anyone can re-run or push on top of another's branch.
    """
    head, base = payload.find("pull_request.head.repo.id"), payload.find("pull_request.base.repo.id")
    if not isinstance(head, int) or not isinstance(base, int) or head != base:
        return True
    return payload.text("pull_request.user.login") in _DEPENDABOT


def _merge_group(payload: _Payload, environ: Mapping[str, str], default_branch: str) -> _Target:
    del environ, default_branch
    queued = _QUEUE_REF.fullmatch(payload.text("merge_group.head_ref"))
    return _Target(
        base=payload.required_sha("merge_group.base_sha"),
        head=payload.required_sha("merge_group.head_sha"),
        gated=payload.text("action") != "destroyed",
        record_as=f"pr/{queued[1]}" if queued else NAMESPACE_OTHER,
    )


def _push(payload: _Payload, environ: Mapping[str, str], default_branch: str) -> _Target:
    if payload.find("deleted") is True:
        return _Target()
    ref = payload.text("ref")
    if not ref.startswith("refs/heads/"):
        return _other(payload, environ, default_branch)  # a tag: ``after`` may be the tag object, not a commit
    before, after = payload.sha("before"), payload.required_sha("after")
    on_default = bool(default_branch) and ref == f"refs/heads/{default_branch}"
    return _Target(
        base=before,
        head=after,
        gated=before is not None,
        record_as=NAMESPACE_BASE if on_default else NAMESPACE_OTHER,
    )


def _other(payload: _Payload, environ: Mapping[str, str], default_branch: str) -> _Target:
    del payload
    sha = environ.get("GITHUB_SHA", "")
    on_default = bool(default_branch) and environ.get("GITHUB_REF", "") == f"refs/heads/{default_branch}"
    return _Target(
        head=sha if _SHA.fullmatch(sha) and sha != _ZEROS else None,
        record_as=NAMESPACE_BASE if on_default else NAMESPACE_OTHER,
    )


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        msg = f"environment variable {name} is not set; run this inside GitHub Actions, or use `perfgate run`"
        raise UsageError(msg)
    return value


def _attempt(environ: Mapping[str, str]) -> int:
    text = environ.get("GITHUB_RUN_ATTEMPT", "1")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 1


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_EVENT_BYTES + 1)
    except OSError as error:
        msg = f"event file {path}: cannot be read ({error.strerror}); GITHUB_EVENT_PATH must name the event's JSON file"
        raise UsageError(msg) from None
    if len(content) > MAX_EVENT_BYTES:
        msg = f"event file {path}: larger than {MAX_EVENT_BYTES} bytes; that is no event of GitHub's"
        raise UsageError(msg)
    try:
        tree = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        msg = f"event file {path}: not JSON ({error}); GITHUB_EVENT_PATH must name the event's JSON file"
        raise UsageError(msg) from None
    if not isinstance(tree, dict):
        msg = f"event file {path}: holds no JSON object; GITHUB_EVENT_PATH must name the event's JSON file"
        raise UsageError(msg)
    return tree
