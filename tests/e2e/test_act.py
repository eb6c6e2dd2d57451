"""The documented workflow, run by act on events of every kind, against the stand-in for GitHub.

Everything of ours is real: action, launcher, command line, worker, model. GitHub is the OpenAPI-checked stand-in, and
its own actions (checkout, artifacts) are small ones that do the same to local folders.
"""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.e2e.world import CONFIG, MODEL, REPOSITORY, World
from tests.github.helpers import pull_request_payload
from tests.github.standin.server import StandIn
from tests.github.standin.spec import UnavailableError

pytestmark = [pytest.mark.slow, pytest.mark.torch]

REPO = {"full_name": REPOSITORY, "default_branch": "main", "private": False}


@pytest.fixture
def world(tmp_path):
    if not (Path(sys.executable).parent / "act").exists():
        pytest.skip("act is not installed: pip install -e .[dev]")
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed in the interpreter of the tests")
    try:
        server = StandIn(repository=REPOSITORY)
    except UnavailableError as error:
        pytest.skip(str(error))
    yield World(tmp_path, server)
    server.close()
    assert server.problems == []


@pytest.fixture
def base(world):
    return world.commit(net_py=MODEL.format(layers=2), perfgate_toml=CONFIG)


def pull_request(world, base, head, **changes):
    world.stand_in.pulls[7] = (base, head)
    payload = pull_request_payload(pull_request__base__sha=base, pull_request__head__sha=head, **changes)
    return world.act("pull_request", payload)


def only(things):
    (thing,) = things.values()
    return thing


def newest(world):
    return list(world.stand_in.runs.values())[-1]


def test_pull_request__regression_is_red_and_reported_and_the_next_run_updates_the_comment(world, base):
    """B14 and B37: through the real composite action a regression ends red, and is reported before."""
    world.git("switch", "--quiet", "--create", "topic")
    slow = world.commit(net_py=MODEL.format(layers=4))

    first = pull_request(world, base, slow)

    assert first.jobs == {"measure": "success", "publish": "failure"}, first.log
    assert first.code == 1
    check, comment = only(world.stand_in.runs), only(world.stand_in.comments)
    assert (check.name, check.head_sha, check.conclusion) == ("perfgate", slow, "failure")
    assert check.history[0] == ("in_progress", None)
    assert [note["annotation_level"] for note in check.annotations if "F regression" in note["title"]] == ["failure"]
    assert "net" in comment.body.splitlines()[0]
    assert first.outputs["verdict"] == "regression"
    assert int(first.outputs["regressions"]) >= 1
    assert "net" in first.summary
    report = json.loads((world.folder / "artifacts-101/perfgate-report-1/report.json").read_text(encoding="utf-8"))
    assert (report["verdict"], report["base"]["sha"], report["head"]["sha"]) == ("regression", base, slow)
    assert world.stand_in.token not in first.log

    world.git("checkout", "--quiet", base, "--", "net.py")
    mended = world.commit(README_md="about\n")
    second = pull_request(world, base, mended)

    assert second.jobs == {"measure": "success", "publish": "success"}, second.log
    assert only(world.stand_in.comments) is comment
    assert f"head={mended} run=102/1 " in comment.body.splitlines()[-1]
    assert (newest(world).head_sha, newest(world).conclusion) == (mended, "success")


def test_pull_request__measuring_that_fails_is_not_judged_and_said(world, base):
    world.git("switch", "--quiet", "--create", "topic")
    broken = world.commit(perfgate_toml="version = 1\nmodles = 3\n")

    outcome = pull_request(world, base, broken)

    assert outcome.jobs == {"measure": "failure", "publish": "failure"}, outcome.log
    assert (only(world.stand_in.runs).conclusion, only(world.stand_in.runs).head_sha) == ("failure", broken)
    assert "not judged" in only(world.stand_in.comments).body
    assert only(world.stand_in.runs).output["title"] == "not judged"


def test_pull_request__of_a_fork_is_not_measured_and_ends_neutral(world, base):
    world.git("switch", "--quiet", "--create", "topic")
    head = world.commit(net_py=MODEL.format(layers=4))

    outcome = pull_request(world, base, head, pull_request__head__repo={"id": 99})

    assert outcome.jobs.get("publish") == "success", outcome.log
    assert "measure" not in outcome.jobs or outcome.jobs["measure"] == "skipped"
    assert (only(world.stand_in.runs).conclusion, only(world.stand_in.runs).head_sha) == ("neutral", head)
    assert world.stand_in.comments == {}
    assert not list(world.folder.glob("artifacts-*/perfgate-measurements-*"))


def test_push_and_merge_group__end_with_a_finished_check_on_their_head(world, base):
    head = world.commit(README_md="about\n")
    push = {"ref": "refs/heads/main", "before": base, "after": head, "repository": REPO}
    group = {"action": "checks_requested", "merge_group": {"base_sha": base, "head_sha": head}, "repository": REPO}
    for event, payload in (("push", push), ("merge_group", group)):
        outcome = world.act(event, payload)
        assert outcome.jobs == {"measure": "success", "publish": "success"}, outcome.log
        assert (newest(world).head_sha, newest(world).conclusion) == (head, "success")
    assert len(world.stand_in.runs) == 2
    assert world.stand_in.comments == {}


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("workflow_dispatch", {"ref": "refs/heads/main", "inputs": None, "repository": REPO}),
        ("schedule", {"schedule": "17 3 * * 1-5", "repository": REPO}),
    ],
)
def test_other_events__record_head_and_end_with_a_finished_check(world, base, event, payload):
    outcome = world.act(event, payload)
    assert outcome.jobs == {"measure": "success", "publish": "success"}, outcome.log
    check = only(world.stand_in.runs)
    assert (check.head_sha, check.status) == (base, "completed")
    assert check.conclusion in {"success", "neutral"}
