"""Events of every kind, from their files."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.errors import UsageError
from perfgate.github import events
from tests.github.helpers import BASE, HEAD, MERGE, REPOSITORY, make_environ, pull_request_payload

REPO = {"full_name": REPOSITORY, "default_branch": "main", "private": True}
PUSH = {"ref": "refs/heads/main", "before": BASE, "after": HEAD, "repository": REPO}


def read(tmp_path, name, payload, **more):
    return events.read(make_environ(tmp_path, name, payload, **more))


def test_read__pull_request_takes_the_head_and_not_the_merge_commit(tmp_path):
    event = read(tmp_path, "pull_request", pull_request_payload(), GITHUB_SHA=MERGE)
    assert (event.base, event.head) == (BASE, HEAD)
    assert (event.pull_request, event.record_as, event.gated, event.is_fork) == (7, "pr/7", True, False)
    assert (event.ci.run_id, event.ci.attempt, event.ci.pull_request, event.private) == ("77", 1, 7, False)


@pytest.mark.parametrize(
    "changes",
    [
        {"pull_request__head__repo": None},
        {"pull_request__head__repo": {"id": 12}},
        {"pull_request__head__repo": {"full_name": REPOSITORY}},
        {"pull_request__base__repo": {}, "pull_request__head__repo": {}},
        {"pull_request__user": {"login": "dependabot[bot]"}},
    ],
)
def test_read__what_is_not_shown_to_be_our_own_is_a_fork(tmp_path, changes):
    event = read(tmp_path, "pull_request", pull_request_payload(**changes), GITHUB_ACTOR="owner")
    assert event.is_fork
    assert event.record_as == "pr/7"


def test_read__draft_and_closed(tmp_path):
    assert read(tmp_path, "pull_request", pull_request_payload(pull_request__draft=True)).draft
    assert not read(tmp_path, "pull_request", pull_request_payload(action="closed")).gated


def test_read__merge_group(tmp_path):
    queue = f"refs/heads/gh-readonly-queue/main/pr-41-{BASE}"
    payload = {
        "action": "checks_requested",
        "merge_group": {"base_sha": BASE, "head_sha": HEAD, "head_ref": queue},
        "repository": REPO,
    }
    event = read(tmp_path, "merge_group", payload)
    assert (event.base, event.head, event.gated) == (BASE, HEAD, True)
    assert (event.pull_request, event.record_as) == (None, "pr/41")


@pytest.mark.parametrize(
    ("changes", "base", "record_as", "gated"),
    [
        ({}, BASE, "base", True),
        ({"before": "0" * 40}, None, "base", False),
        ({"ref": "refs/heads/topic"}, BASE, "local", True),
    ],
)
def test_read__push(tmp_path, changes, base, record_as, gated):
    event = read(tmp_path, "push", {**PUSH, **changes})
    assert (event.base, event.head, event.record_as, event.gated) == (base, HEAD, record_as, gated)


def test_read__push_of_a_tag_records_the_commit_and_not_the_tag_object(tmp_path):
    event = read(
        tmp_path,
        "push",
        {**PUSH, "ref": "refs/tags/v1", "before": "0" * 40},
        GITHUB_SHA=MERGE,
        GITHUB_REF="refs/tags/v1",
    )
    assert (event.base, event.head, event.record_as, event.gated) == (None, MERGE, "local", False)


def test_read__push_that_deletes_a_branch_has_nothing_to_do(tmp_path):
    event = read(tmp_path, "push", {**PUSH, "deleted": True, "after": "0" * 40})
    assert (event.head, event.gated) == (None, False)


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("schedule", {"schedule": "17 3 * * 1-5", "repository": REPO}),
        ("workflow_dispatch", {"inputs": None, "ref": "refs/heads/main", "repository": REPO}),
        ("release", {"action": "published", "release": {"tag_name": "v1"}, "repository": REPO}),
        ("repository_dispatch", {"action": "go", "client_payload": {}, "repository": REPO}),
        ("workflow_run", {"action": "completed", "workflow_run": {"head_sha": HEAD}, "repository": REPO}),
        ("issue_comment", {"action": "created", "comment": {"body": "/perfgate"}, "repository": REPO}),
        ("pull_request_target", {**pull_request_payload(), "repository": REPO}),
        ("something_new", {"repository": REPO}),
    ],
)
def test_read__other_events_record_head_and_judge_nothing(tmp_path, name, payload):
    event = read(tmp_path, name, payload, GITHUB_SHA=MERGE)
    assert (event.base, event.head, event.gated, event.record_as) == (None, MERGE, False, "base")
    assert event.pull_request is None


def test_read__other_event_off_the_default_branch_is_no_baseline(tmp_path):
    assert read(tmp_path, "workflow_dispatch", {"repository": REPO}, GITHUB_REF="refs/heads/topic").record_as == "local"
    assert read(tmp_path, "schedule", {}, GITHUB_REF="refs/heads/main").record_as == "local"


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ("{", "not JSON"),
        ("[]", "no JSON object"),
        ("\udcff", "not JSON"),
        (pull_request_payload(pull_request__head={"sha": "main"}), "pull_request.head.sha is not a commit"),
        (pull_request_payload(pull_request__base={}), "pull_request.base.sha is missing"),
        (pull_request_payload(pull_request__number="7"), "pull_request.number is missing"),
        ({"action": "opened"}, "pull_request.number is missing"),
    ],
)
def test_read__malformed_file_is_named(tmp_path, payload, said):
    path = tmp_path / "event.json"
    environ = make_environ(tmp_path, "pull_request", {})
    text = payload if isinstance(payload, str) else json.dumps(payload)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError) as caught:
        events.read(environ)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_read__missing_file_and_variables(tmp_path):
    environ = make_environ(tmp_path, "push", PUSH)
    for name in ("GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_REPOSITORY"):
        with pytest.raises(UsageError, match=name):
            events.read({**environ, name: ""})
    with pytest.raises(UsageError, match=r"nowhere\.json"):
        events.read({**environ, "GITHUB_EVENT_PATH": str(tmp_path / "nowhere.json")})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["sha", "repo", "id", "user", "login", "x"]), inner)
    ),
    max_leaves=8,
)


@given(
    name=st.sampled_from(["pull_request", "merge_group", "push", "schedule"]),
    payload=st.dictionaries(
        st.sampled_from(["action", "pull_request", "merge_group", "ref", "before", "after", "deleted", "repository"]),
        _JSON,
    ),
)
def test_read__any_json_object_is_read_or_refused(tmp_path_factory, name, payload):
    folder = tmp_path_factory.mktemp("event")
    # Anything but a UsageError fails the test: that is the claim.
    with contextlib.suppress(UsageError):
        assert events.read(make_environ(folder, name, payload)).name == name
