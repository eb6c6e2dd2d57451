"""Everything that publishing posts, against the stand-in."""

import pytest

from perfgate.github import annotate
from perfgate.github.checks import check_run
from perfgate.github.publish import Texts, publish, publish_unjudged, why_unmeasured
from tests.github.helpers import BASE, HEAD, make_ci, make_event, make_model, make_report, make_row
from tests.github.standin.server import Fault

EVENT = make_event()
TEXTS = Texts(comment="### slower", summary="| table |")
REPORT = make_report(make_model(make_row()))


def only(things):
    (thing,) = things.values()
    return thing


def test_publish__comment_check_and_annotations(stand_in, gateway):
    with check_run(gateway, EVENT) as check:
        result = publish(
            REPORT, TEXTS, EVENT, gateway, check=check, config=("perfgate.toml", "version = 1\n[models.resnet50]\n")
        )
    run = only(stand_in.runs)
    assert (result.comment.outcome, result.check, result.warnings, result.error) == ("created", "failure", (), None)
    assert (run.head_sha, run.conclusion, run.output["title"], run.output["summary"]) == (
        HEAD,
        "failure",
        REPORT.title,
        "| table |",
    )
    (note,) = run.annotations
    assert (note["path"], note["start_line"], note["annotation_level"]) == ("perfgate.toml", 2, "failure")
    assert note["message"] == "step time: 10.0 ms → 12.0 ms, +20.0 % (+15.0 % to +25.0 %), limit 3 %"
    assert only(stand_in.comments).body.startswith("### slower\n")


def test_publish__twice_leaves_one_comment(stand_in, gateway):
    for attempt in (1, 2):
        publish(REPORT, TEXTS, make_event(ci=make_ci(attempt=attempt)), gateway)
    assert len(stand_in.comments) == 1
    assert [run.conclusion for run in stand_in.runs.values()] == ["failure", "failure"]


def test_publish__forbidden_comment_is_a_warning_and_the_check_is_there(stand_in, gateway):
    stand_in.forbidden.append(("POST", "/comments"))
    result = publish(REPORT, TEXTS, EVENT, gateway)
    assert (result.comment.outcome, result.check, result.error) == ("skipped", "failure", None)
    assert "pull-requests: write" in result.warnings[0]


def test_publish__read_only_token_warns_twice_and_fails_nowhere(stand_in, gateway):
    stand_in.forbidden += [("POST", ""), ("PATCH", "")]
    result = publish(REPORT, TEXTS, EVENT, gateway)
    assert (result.check, result.error, len(result.warnings)) == ("", None, 2)


def test_publish__a_failing_comment_is_an_error_and_the_check_is_there(stand_in, gateway):
    stand_in.faults.append(Fault("POST", "/comments", 500, times=99))
    result = publish(REPORT, TEXTS, EVENT, gateway)
    assert result.error is not None
    assert result.error.exit_code == 5
    assert only(stand_in.runs).conclusion == "failure"


def test_publish__a_moved_head_keeps_the_check_and_skips_the_comment(stand_in, gateway):
    stand_in.pulls[7] = (BASE, "d" * 40)
    result = publish(REPORT, TEXTS, EVENT, gateway)
    assert (result.comment.outcome, result.check) == ("skipped", "failure")
    assert (only(stand_in.runs).head_sha, stand_in.comments) == (HEAD, {})


def test_publish__merge_group_has_a_check_and_no_comment(stand_in, gateway):
    result = publish(REPORT, TEXTS, make_event(name="merge_group", pull_request=None), gateway)
    assert (result.comment.outcome, result.check) == ("skipped", "failure")
    assert stand_in.comments == {}


@pytest.mark.parametrize(
    ("changes", "measured", "conclusion", "code"),
    [
        ({"is_fork": True}, "skipped", "neutral", 0),
        ({"draft": True}, "skipped", "neutral", 0),
        ({"draft": True}, "failure", "failure", 3),
        ({}, "skipped", "failure", 3),
        ({}, "failure", "failure", 3),
        ({}, "cancelled", "failure", 3),
        ({}, "success", "failure", 3),
        ({}, "", "failure", 3),
    ],
)
def test_why_unmeasured__only_forks_and_drafts_may_go_unmeasured(changes, measured, conclusion, code):
    unjudged = why_unmeasured(make_event(**changes), measured)
    assert (unjudged.conclusion, unjudged.exit_code) == (conclusion, code)


def test_publish_unjudged__replaces_an_older_verdict(stand_in, gateway):
    publish(make_report(verdict="pass", check="success"), Texts(comment="### all fine", summary="s"), EVENT, gateway)
    later = make_event(ci=make_ci(run_id="78"))
    publish_unjudged(why_unmeasured(later, "failure"), later, gateway)
    assert only(stand_in.comments).body.startswith("### perfgate: not judged\n\nThe measuring job failed")
    assert [run.conclusion for run in stand_in.runs.values()] == ["success", "failure"]


def test_publish_unjudged__a_fork_gets_a_neutral_check_and_no_comment(stand_in, gateway):
    fork = make_event(is_fork=True)
    publish_unjudged(why_unmeasured(fork, "skipped"), fork, gateway)
    assert only(stand_in.runs).conclusion == "neutral"
    assert stand_in.comments == {}


# -- annotations, without a server -----------------------------------------------------------------------------------


def test_of_report__worst_first_and_only_what_is_gated():
    report = make_report(
        make_model(make_row(verdict="inconclusive"), model="a"),
        make_model(
            make_row(), make_row(metric="flop", verdict="pass"), make_row(metric="energy", gated=False), model="b"
        ),
        make_model(make_row(), model="c", informative=True),
    )
    notes = annotate.of_report(report)
    assert [(note.level, note.title) for note in notes] == [
        ("failure", "b · train · b32: step time regression"),
        ("warning", "a · train · b32: step time inconclusive"),
    ]


def test_of_report__report_mode_only_warns():
    report = make_report(make_model(make_row()), would_fail=True, exit_code=0, check="neutral")
    assert [note.level for note in annotate.of_report(report)] == ["warning"]
    assert [note.level for note in annotate.of_report(make_report(make_model(make_row(enforced=False))))] == ["warning"]


def test_of_report__a_model_without_rows_is_named_with_its_reason():
    report = make_report(make_model(model="gone", verdict="missing", reasons=("head has no model gone",)))
    (note,) = annotate.of_report(report)
    assert (note.title, note.message) == ("gone · train · b32: missing", "head has no model gone")


def test_of_report__is_bounded():
    report = make_report(*(make_model(make_row(), model=f"m{n}") for n in range(annotate.LIMIT + 50)))
    assert len(annotate.of_report(report)) == annotate.LIMIT


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("[models.net]", 3),
        ('[models."net"]', 3),
        ("[tool.perfgate.models.net]", 3),
        ("[models.net.limits]", 3),
        ("[models.network]", 1),
    ],
)
def test_of_report__points_at_the_models_table(header, line):
    report = make_report(make_model(make_row(), model="net"))
    (note,) = annotate.of_report(report, path="p.toml", text=f"version = 1\n\n{header}\nx = 1\n")
    assert (note.path, note.line) == ("p.toml", line)


def test_targets__names_each_regression_once():
    report = make_report(
        make_model(
            make_row(),
            make_row(),
            make_row(metric="flop", verdict="missing"),
            make_row(metric="energy", verdict="pass"),
        )
    )
    assert annotate.targets(report) == ("resnet50/train/latency", "resnet50/train/flop")
