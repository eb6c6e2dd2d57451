"""Retries and refusals, against the stand-in; no test waits."""

import pytest

from perfgate.errors import GitHubError
from perfgate.github.client import RefusedError, connect
from tests.github.helpers import HEAD
from tests.github.standin.server import Fault


def head_of(gateway):
    return gateway.call("reading", lambda: gateway.repo.get_pull(7).head.sha, permission="pull-requests: read")


def test_call__goes_on_after_one_server_error(stand_in, gateway, waits):
    stand_in.faults.append(Fault("GET", "/pulls/7", 503))
    assert head_of(gateway) == HEAD
    assert waits == [1.0]


def test_call__gives_up_after_four_attempts(stand_in, gateway, waits):
    stand_in.faults.append(Fault("GET", "/pulls/7", 502, times=9))
    with pytest.raises(GitHubError, match="reading: GitHub answered 502 after 4 attempts"):
        head_of(gateway)
    assert waits == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("status", [403, 429])
def test_call__waits_as_long_as_it_is_told(stand_in, gateway, waits, status):
    stand_in.faults.append(Fault("GET", "/pulls/7", status, "secondary rate limit", {"Retry-After": "17"}))
    assert head_of(gateway) == HEAD
    assert waits == [17.0]


def test_call__does_not_wait_for_an_hour(stand_in, gateway, waits):
    stand_in.faults.append(Fault("GET", "/pulls/7", 429, headers={"Retry-After": "3600"}))
    with pytest.raises(GitHubError, match="429"):
        head_of(gateway)
    assert waits == []


def test_call__rate_limit_reset_is_read_by_githubs_clock(stand_in, gateway, waits):
    # The stand-in's Date header is now; the reset lies in 1970, so by GitHub's clock it is over.
    stand_in.faults.append(
        Fault("GET", "/pulls/7", 403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "60"})
    )
    assert head_of(gateway) == HEAD
    assert waits == [1.0]


def test_call__forbidden_is_not_tried_again(stand_in, gateway, waits):
    stand_in.forbidden.append(("GET", "/pulls/7"))
    with pytest.raises(RefusedError) as caught:
        head_of(gateway)
    assert "add `pull-requests: read` to the job's `permissions:`" in str(caught.value)
    assert "two jobs" in str(caught.value)
    assert waits == []
    assert len(stand_in.requests) == 1


def test_call__no_server_at_all(environ, waits):
    gateway = connect({**environ, "GITHUB_API_URL": "http://127.0.0.1:9"}, sleep=waits.append)
    with pytest.raises(GitHubError, match="no answer"):
        head_of(gateway)
    assert len(waits) == 3


def test_connect__sends_the_token_in_a_header_only(stand_in, gateway):
    head_of(gateway)
    assert stand_in.authorization == [f"token {stand_in.token}"] or stand_in.authorization == [
        f"Bearer {stand_in.token}"
    ]
    assert stand_in.token not in str(stand_in.requests)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"INPUT_TOKEN": ""}, "no token"), ({"GITHUB_REPOSITORY": "models"}, "OWNER/NAME")],
)
def test_connect__says_what_is_missing(environ, changes, said):
    with pytest.raises(GitHubError, match=said):
        connect({**environ, **changes})


def test_connect__falls_back_to_github_token(stand_in, environ, waits):
    gateway = connect({**environ, "INPUT_TOKEN": "", "GITHUB_TOKEN": stand_in.token}, sleep=waits.append)
    assert head_of(gateway) == HEAD


@pytest.mark.parametrize(
    ("api", "host", "path"),
    [
        ("https://api.github.com", "api.github.com", "/repos/octo/models"),
        ("https://ghe.corp/api/v3", "ghe.corp", "/api/v3/repos/octo/models"),
        ("https://api.acme.ghe.com/", "api.acme.ghe.com", "/repos/octo/models"),
    ],
)
def test_connect__uses_the_address_that_the_runner_gives(environ, api, host, path):
    gateway = connect({**environ, "GITHUB_API_URL": api})
    requester = gateway.repo.requester
    assert requester.hostname == host
    assert requester.base_url.rstrip("/") == api.rstrip("/")
    assert gateway.server_url == "https://github.example"
