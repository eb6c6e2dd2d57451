"""Floor 3, github. Environment in, a :class:`Gateway` to one repository's API out.

Only addresses that the runner provides are used (``GITHUB_API_URL``), so GitHub Enterprise and ``*.ghe.com`` need no
setting; proxies and private certificates come from the usual variables (``HTTPS_PROXY``, ``REQUESTS_CA_BUNDLE``).
The token comes from the environment, never from arguments, and appears in no message.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

from perfgate import __version__
from perfgate.errors import GitHubError

if TYPE_CHECKING:
    from github import GithubException
    from github.Repository import Repository

T = TypeVar("T")

DEFAULT_API_URL = "https://api.github.com"
DEFAULT_SERVER_URL = "https://github.com"
ATTEMPTS = 4
MAX_WAIT_S = 120.0
TIMEOUT_S = 20
_FIRST_WAIT_S = 1.0


class RefusedError(GitHubError):
    """The token may not do this (403), or GitHub hides the thing from it (404); never a reason to judge otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """One repository's API; the rest of the room sends every request through :meth:`call`.

    ``login`` asks for the token's own account; ``server_url`` is where people's links point, without a final slash.
    """

    repo: Repository
    login: Callable[[], str]
    server_url: str
    sleep: Callable[[float], None] = field(repr=False)

    def call(self, what: str, function: Callable[[], T], *, permission: str = "") -> T:
        """``function()``, again after 5xx, 429 and throttling: at most 4 times and 2 minutes of waiting in all.

        ``function`` must be safe to repeat, since an answer can be lost after the work was done. ``what`` says in
        messages what was tried; ``permission`` is the line of ``permissions:`` that it needs.
        Raises :class:`RefusedError` for 403 and 404, GitHubError for all else.
        """
        from github import GithubException

        waited = 0.0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return function()
            except GithubException as error:
                wait = _wait_s(error, attempt)
                if wait is None:
                    raise _explain(what, error, permission) from None
                reason = f"GitHub answered {error.status}"
            except OSError as error:  # requests' exceptions: no route, reset, timed out
                wait, reason = _FIRST_WAIT_S * 2 ** (attempt - 1), f"no answer ({type(error).__name__})"
            if attempt == ATTEMPTS or waited + wait > MAX_WAIT_S:
                msg = f"{what}: {reason} after {attempt} attempts and {waited:.0f} s; re-run the job later"
                raise GitHubError(msg)
            self.sleep(wait)
            waited += wait
        raise AssertionError(what)


def connect(environ: Mapping[str, str], *, sleep: Callable[[float], None] = time.sleep) -> Gateway:
    """A gateway to ``GITHUB_REPOSITORY`` at ``GITHUB_API_URL`` with the token in ``INPUT_TOKEN`` or ``GITHUB_TOKEN``.

    Sends nothing yet. Raises GitHubError if there is no token or no repository.
    """
    import github

    token = environ.get("INPUT_TOKEN") or environ.get("GITHUB_TOKEN") or ""
    if not token:
        msg = "no token: give the action's input `token`, or set GITHUB_TOKEN in the step's `env:`"
        raise GitHubError(msg)
    name = environ.get("GITHUB_REPOSITORY", "")
    if name.count("/") != 1:
        msg = f"GITHUB_REPOSITORY: {name!r} is not OWNER/NAME; run this inside GitHub Actions"
        raise GitHubError(msg)
    api = github.Github(
        base_url=(environ.get("GITHUB_API_URL") or DEFAULT_API_URL).rstrip("/"),
        auth=github.Auth.Token(token),
        user_agent=f"perfgate/{__version__}",
        timeout=TIMEOUT_S,
        per_page=100,
        # Retries and pauses are ours (see Gateway.call): PyGithub's own sleep for as long as GitHub says.
        retry=None,
        seconds_between_requests=0,
        seconds_between_writes=0,
        lazy=True,
    )

    def login() -> str:
        return api.get_user().login

    server_url = (environ.get("GITHUB_SERVER_URL") or DEFAULT_SERVER_URL).rstrip("/")
    return Gateway(repo=api.get_repo(name), login=login, server_url=server_url, sleep=sleep)


def _wait_s(error: GithubException, attempt: int) -> float | None:
    """Seconds to wait before trying again, None where trying again cannot help."""
    headers = {key.lower(): value for key, value in (error.headers or {}).items()}
    asked = _seconds(headers.get("retry-after"))
    if error.status in (403, 429):
        if asked is not None:
            return asked
        if headers.get("x-ratelimit-remaining") == "0":
            return _until_reset(headers)
        return _FIRST_WAIT_S * 2 ** (attempt - 1) if error.status == 429 else None
    if error.status >= 500:
        return asked if asked is not None else _FIRST_WAIT_S * 2 ** (attempt - 1)
    return None


def _until_reset(headers: Mapping[str, str]) -> float:
    """Seconds until the rate limit opens, by GitHub's clock and not the runner's: the two may disagree by minutes."""
    reset = _seconds(headers.get("x-ratelimit-reset"))
    try:
        now = parsedate_to_datetime(headers.get("date", "")).timestamp()
    except ValueError:
        return MAX_WAIT_S + 1
    return MAX_WAIT_S + 1 if reset is None else max(0.0, reset - now) + 1


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None


def _explain(what: str, error: GithubException, permission: str) -> GitHubError:
    data = error.data
    reason = str(data.get("message", "")) if isinstance(data, dict) else ""
    said = f"GitHub answered {error.status}" + (f" ({reason[:200]})" if reason else "")
    if error.status in (403, 404):
        add = f"add `{permission}` to the job's `permissions:`" if permission else "check the token's permissions"
        return RefusedError(
            f"{what}: {said}; {add}. A pull request from a fork has a read-only token whatever they say: "
            "see the workflow of two jobs in docs/github.md"
        )
    if error.status == 401:
        return GitHubError(f"{what}: {said}; the token is wrong or has expired, pass `token: ${{{{ github.token }}}}`")
    return GitHubError(f"{what}: {said}; re-run the job, and report it if it stays")
