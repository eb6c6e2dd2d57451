"""The check run's life, against the stand-in."""

import pytest

from perfgate.errors import GitHubError, Interrupted, MeasuringError
from perfgate.github.annotate import Annotation
from perfgate.github.checks import check_run, start_check
from tests.github.helpers import HEAD, make_ci, make_event
from tests.github.standin.server import Fault

EVENT = make_event()


def only(stand_in):
    (run,) = stand_in.runs.values()
    return run


def notes(count):
    return [
        Annotation(path="perfgate.toml", line=1, level="failure", title=f"t{n}", message=f"m{n}") for n in range(count)
    ]


def test_check_run__is_in_progress_first_and_hangs_on_the_head(stand_in, gateway):
    with check_run(gateway, EVENT) as check:
        run = only(stand_in)
        assert (run.status, run.conclusion, run.head_sha, run.name) == ("in_progress", None, HEAD, "perfgate")
        assert run.details_url == "https://github.example/octo/models/actions/runs/77/attempts/1"
        check.complete("success", "all within limits", "text")
    assert run.history == [("in_progress", None), ("completed", "success")]
    assert run.output["title"] == "all within limits"


@pytest.mark.parametrize(
    ("error", "conclusion", "said"),
    [
        (MeasuringError("measurements.json: not there; re-run"), "failure", "measurements.json: not there; re-run"),
        (KeyboardInterrupt(), "cancelled", "cancelled before it had a result"),
        (Interrupted("stopped"), "cancelled", "cancelled before it had a result"),
        (ZeroDivisionError("/home/secret"), "failure", "ended with ZeroDivisionError"),
        (SystemExit(3), "failure", "ended with SystemExit"),
    ],
)
def test_check_run__ends_with_every_error(stand_in, gateway, error, conclusion, said):
    with pytest.raises(type(error)), check_run(gateway, EVENT):
        raise error
    run = only(stand_in)
    assert (run.status, run.conclusion) == ("completed", conclusion)
    assert said in run.output["summary"]
    assert "secret" not in str(run.output)


def test_check_run__ends_when_nothing_was_decided(stand_in, gateway):
    with check_run(gateway, EVENT):
        pass
    assert (only(stand_in).conclusion, only(stand_in).output["title"]) == ("failure", "not judged")


def test_check_run__an_error_after_the_verdict_does_not_change_it(stand_in, gateway):
    def run():
        with check_run(gateway, EVENT) as check:
            check.complete("success", "fine", "text")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk"):
        run()
    assert only(stand_in).conclusion == "success"


def test_check_run__a_verdict_that_could_not_be_posted_is_posted_at_the_end(stand_in, gateway):
    stand_in.faults.append(Fault("PATCH", "/check-runs/", 502, times=4))
    with check_run(gateway, EVENT) as check, pytest.raises(GitHubError):
        check.complete("success", "fine", "text")
    assert (only(stand_in).conclusion, only(stand_in).output["title"]) == ("success", "fine")


def test_check__more_than_fifty_annotations_go_in_several_requests(stand_in, gateway):
    with check_run(gateway, EVENT) as check:
        check.complete("failure", "slow", "text", notes(120))
    run = only(stand_in)
    assert [note["title"] for note in run.annotations] == [f"t{n}" for n in range(120)]
    assert [method for method, _, _, _ in stand_in.requests].count("PATCH") == 3


def test_check__a_long_summary_is_cut(stand_in, gateway):
    with check_run(gateway, EVENT) as check:
        check.complete("failure", "t" * 400, "line\n" * 20_000)
    output = only(stand_in).output
    assert len(output["summary"]) <= 65_535
    assert len(output["title"]) == 255


def test_check__unknown_conclusion_is_refused_before_it_is_sent(stand_in, gateway):
    with pytest.raises(ValueError, match="bogus"), check_run(gateway, EVENT) as check:
        check.complete("bogus", "t", "s")
    assert only(stand_in).conclusion == "failure"


def test_start_check__takes_over_the_open_check_of_the_same_attempt(stand_in, gateway):
    start_check(gateway, EVENT)
    start_check(gateway, EVENT).complete("neutral", "t", "s")
    assert only(stand_in).conclusion == "neutral"


def test_start_check__a_new_attempt_replaces_the_old_result(stand_in, gateway):
    with check_run(gateway, EVENT) as check:
        check.complete("success", "old", "old")
    start_check(gateway, make_event(ci=make_ci(attempt=2)))
    assert [run.status for run in stand_in.runs.values()] == ["completed", "in_progress"]


def test_start_check__no_second_check_when_the_answer_was_lost(stand_in, gateway):
    stand_in.faults.append(Fault("POST", "/check-runs", 502, after=True))
    start_check(gateway, EVENT).complete("success", "t", "s")
    assert only(stand_in).conclusion == "success"


def test_start_check__forbidden_is_a_warning(stand_in, gateway):
    stand_in.forbidden.append(("POST", "/check-runs"))
    check = start_check(gateway, EVENT)
    check.complete("failure", "t", "s")
    assert (check.posted, check.conclusion, stand_in.runs) == (False, "", {})
    assert "checks: write" in check.warnings[0]


def test_start_check__no_commit(stand_in, gateway):
    check = start_check(gateway, make_event(head=None))
    assert not check.posted
    assert stand_in.requests == []
