"""Floor 3, github. What publishing takes from the base revision, read through the API: no checkout, nothing executed.

Limits come from the base, and which commit that is must not be taken from the artifact: the pull request's own code
wrote that. So the merge base and the files at it are asked of GitHub. Needs ``contents: read``.
"""

from __future__ import annotations

import base64
from functools import partial

from perfgate.errors import GitHubError
from perfgate.github.client import Gateway
from perfgate.github.events import Event

POLICY_FILES = ("perfgate.toml", "pyproject.toml")
_PERMISSION = "contents: read"
_REGULAR = frozenset({"100644", "100755"})


def base_sha(gateway: Gateway, event: Event) -> str | None:
    """The commit that ``event.head`` is compared with, None if there is none.

    For a pull request the merge base of its head and base branch, for every other event the event's own base.
    Raises GitHubError.
    """
    if event.pull_request is None or event.base is None or event.head is None:
        return event.base
    base, head = event.base, event.head
    return gateway.call(
        f"finding the merge base of {base[:7]} and {head[:7]}",
        lambda: gateway.repo.compare(base, head).merge_base_commit.sha,
        permission=_PERMISSION,
    )


def policy_files(gateway: Gateway, sha: str, names: tuple[str, ...] = POLICY_FILES) -> dict[str, str]:
    """Name -> text of those of ``names`` that exist at the top level of commit ``sha``, as ``config.load`` takes them.

    The commit's tree is listed first: a token that may not read gets an error, never the answer "no policy".
    Raises GitHubError, also where a name is no regular file or not UTF-8.
    """
    what = f"reading {' and '.join(names)} at {sha[:7]}"
    tree = gateway.call(what, lambda: gateway.repo.get_git_tree(sha).tree, permission=_PERMISSION)
    files = {}
    for entry in tree:
        if entry.path not in names:
            continue
        if entry.mode not in _REGULAR:
            msg = f"{entry.path} at {sha[:7]}: not a regular file; replace the link or folder by one"
            raise GitHubError(msg)
        content = gateway.call(what, partial(_blob, gateway, entry.sha), permission=_PERMISSION)
        try:
            files[entry.path] = content.decode("utf-8")
        except ValueError:
            msg = f"{entry.path} at {sha[:7]}: not UTF-8; save it as UTF-8"
            raise GitHubError(msg) from None
    return files


def _blob(gateway: Gateway, sha: str) -> bytes:
    return base64.b64decode(gateway.repo.get_git_blob(sha).content)
