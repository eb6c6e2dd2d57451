"""The sticky comment, against the stand-in."""

import pytest

from perfgate.errors import GitHubError
from perfgate.github import comments
from perfgate.github.client import RefusedError, connect
from tests.github.helpers import BASE, HEAD, make_ci, make_event
from tests.github.standin.server import BOT, Fault

EVENT = make_event()


def bodies(stand_in):
    return [comment.body for comment in stand_in.comments.values()]


def test_post__creates_then_updates(stand_in, gateway):
    first = comments.post(gateway, EVENT, "one", verdict="pass")
    second = comments.post(gateway, make_event(ci=make_ci(run_id="78")), "two", verdict="regression")
    assert (first.outcome, second.outcome, first.url) == ("created", "updated", second.url)
    (body,) = bodies(stand_in)
    assert body.startswith("two\n\n<!-- perfgate:comment ")
    assert body.endswith(f"head={HEAD} run=78/1 verdict=regression -->")


@pytest.mark.parametrize("count", [35, 101, 250])
def test_post__finds_its_comment_on_the_last_page(stand_in, gateway, count):
    for number in range(count - 1):
        stand_in.add_comment(7, f"talk {number}")
    mine = stand_in.add_comment(7, comments.body_of("old", EVENT, "pass"), BOT, "Bot")
    assert comments.post(gateway, EVENT, "new", verdict="pass").outcome == "updated"
    assert mine.body.startswith("new\n")
    assert len(stand_in.comments) == count
    pages = [
        arguments for method, path, arguments, _ in stand_in.requests if (method, path[-9:]) == ("GET", "/comments")
    ]
    assert len(pages) == -(-count // 100)


def test_post__leaves_another_users_marker_alone(stand_in, gateway):
    spoof = stand_in.add_comment(7, comments.body_of("look, all green", EVENT, "pass"), "mallory", "User")
    assert comments.post(gateway, EVENT, "real", verdict="regression").outcome == "created"
    assert spoof.body.startswith("look, all green")


def test_post__a_known_account_owns_only_its_own_comments(stand_in, gateway):
    other_bot = stand_in.add_comment(7, comments.body_of("another gate", EVENT, "pass"), "other[bot]", "Bot")
    stand_in.account = "perf-robot"
    assert comments.post(gateway, EVENT, "one", verdict="pass").outcome == "created"
    assert comments.post(gateway, EVENT, "two", verdict="pass").outcome == "updated"
    assert other_bot.body.startswith("another gate")
    assert len(stand_in.comments) == 2


def test_post__ignores_a_marker_that_is_quoted_above_the_last_line(stand_in, gateway):
    quoted = stand_in.add_comment(
        7, f"> {comments.marker(EVENT, 'pass')}\n{comments.marker(EVENT, 'pass')}\nsee above", BOT, "Bot"
    )
    assert comments.post(gateway, EVENT, "real", verdict="pass").outcome == "created"
    assert quoted.body.endswith("see above")


def test_post__refuses_when_the_head_has_moved(stand_in, gateway):
    stand_in.pulls[7] = (BASE, "d" * 40)
    posted = comments.post(gateway, EVENT, "late", verdict="pass")
    assert (posted.outcome, posted.reason) == ("skipped", "the pull request has moved on to ddddddd")
    assert stand_in.comments == {}


def test_post__an_older_run_does_not_overwrite_a_newer_one(stand_in, gateway):
    comments.post(gateway, make_event(ci=make_ci(run_id="99", attempt=2)), "newer", verdict="pass")
    late = comments.post(gateway, make_event(ci=make_ci(run_id="99", attempt=1)), "older", verdict="pass")
    assert late.outcome == "skipped"
    assert bodies(stand_in)[0].startswith("newer")


def test_post__removes_its_own_doubles(stand_in, gateway):
    for text in ("a", "b"):
        stand_in.add_comment(7, comments.body_of(text, EVENT, "pass"), BOT, "Bot")
    comments.post(gateway, EVENT, "c", verdict="pass")
    assert [body[0] for body in bodies(stand_in)] == ["c"]


def test_post__no_second_comment_when_the_answer_to_the_first_was_lost(stand_in, gateway, waits):
    stand_in.faults.append(Fault("POST", "/issues/7/comments", 502, after=True))
    posted = comments.post(gateway, EVENT, "once", verdict="pass")
    assert posted.outcome == "updated"
    assert len(stand_in.comments) == 1
    assert waits == [1.0]


def test_post__notify_makes_a_new_comment_only_when_the_verdict_changes(stand_in, gateway):
    outcomes = [
        comments.post(gateway, make_event(ci=make_ci(run_id=run)), f"run {run}", verdict=verdict, mode="notify").outcome
        for run, verdict in (("1", "pass"), ("2", "pass"), ("3", "regression"))
    ]
    assert outcomes == ["created", "updated", "recreated"]
    assert len(stand_in.comments) == 1
    methods = [method for method, path, _, _ in stand_in.requests if "/comments" in path and method != "GET"]
    assert methods[-2:] == ["POST", "DELETE"]


def test_post__recreate_and_off(stand_in, gateway):
    comments.post(gateway, EVENT, "one", verdict="pass", mode="recreate")
    assert comments.post(gateway, EVENT, "two", verdict="pass", mode="recreate").outcome == "recreated"
    assert comments.post(gateway, EVENT, "three", verdict="pass", mode="off").outcome == "skipped"
    assert [body[:3] for body in bodies(stand_in)] == ["two"]


def test_post__no_pull_request(stand_in, gateway):
    assert comments.post(gateway, make_event(pull_request=None), "x", verdict="pass").outcome == "skipped"
    assert stand_in.requests == []


def test_post__unknown_mode(gateway):
    with pytest.raises(ValueError, match="edit, recreate, notify, off"):
        comments.post(gateway, EVENT, "x", verdict="pass", mode="shout")


def test_post__forbidden_names_the_permission(stand_in, gateway):
    stand_in.forbidden.append(("POST", "/comments"))
    with pytest.raises(RefusedError, match=r"pull-requests: write.*docs/github\.md"):
        comments.post(gateway, EVENT, "x", verdict="pass")


def test_post__an_overlong_text_is_cut_and_keeps_its_marker(stand_in, gateway):
    comments.post(gateway, EVENT, "| 🐌 |\n" * 20_000, verdict="pass")
    (body,) = bodies(stand_in)
    assert len(body) <= 65_536
    assert body.splitlines()[-1] == comments.marker(EVENT, "pass")
    assert "Cut here at GitHub's limit" in body
    comments.post(gateway, EVENT, "short", verdict="pass")
    assert len(stand_in.comments) == 1


def test_body_of__replaces_a_marker_that_the_text_brings():
    body = comments.body_of("text\n<!-- perfgate:comment:v1 -->\n", EVENT, "pass")
    assert body == f"text\n\n{comments.marker(EVENT, 'pass')}"


def test_post__a_wrong_token_is_an_error_without_the_token(stand_in, environ, waits):
    gateway = connect({**environ, "INPUT_TOKEN": "ghs_SECRETSECRET"}, sleep=waits.append)
    with pytest.raises(GitHubError) as caught:
        comments.post(gateway, EVENT, "x", verdict="pass")
    assert "401" in str(caught.value)
    assert "SECRET" not in str(caught.value) + repr(gateway)
