from __future__ import annotations

import errno
import importlib.metadata
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from perfgate.bench.session import HEAD, Side
from perfgate.errors import MeasuringError
from perfgate.pipeline import place_gate
from perfgate.pipeline.place_candidates import PlaceRequest
from perfgate.pipeline.working_tree import PLACEMENTS_FILE
from perfgate.records.evidence import SideEvidence, WorkloadEvidence
from perfgate.records.graph import Totals, Traffic
from perfgate.records.placement import (
    ALWAYS,
    NEVER,
    SCHEDULED,
    Piece,
    Placement,
    PlacementPlan,
    PlacementPolicy,
)
from perfgate.records.policy import Policy
from perfgate.records.protocol import Software
from perfgate.records.workload import ModelSpec, SideConfig
from tests.pipeline.test_place_candidates import PORTS
from tests.pipeline.test_place_problem import lowered, node

SPEC = ModelSpec(name="net", entry="net:net", inputs=("float32[batch,3]",), modes=("infer", "train"))


def totals(fingerprint: str) -> Totals:
    return Totals(
        source="meta", flop=1, params=1, weight_bytes=1, traffic=Traffic(eager=1, fused=1, min=1), kernels=1,
        fingerprint=fingerprint,
    )  # fmt: skip


def evidence(fingerprint: str = "g1", torch: str = "2.14", spec: ModelSpec = SPEC, **fields: Any) -> WorkloadEvidence:
    side = SideEvidence(status="ok", totals=totals(fingerprint), software=Software(versions={"torch": torch}))
    return WorkloadEvidence(workload=spec.workloads[0], base=side, head=side, **fields)


def plan(target: str = "ort cpu", *, recommended: bool = True, alone: bool = False) -> PlacementPlan:
    """The first node on ``target`` and, unless it is ``alone``, another one elsewhere."""
    pieces = (
        Piece(target=target, library=target, device="cpu", file="0", nodes=("a",)),
        Piece(target="torch cpu", library="torch", device="cpu", file="1", nodes=("b",)),
    )
    return PlacementPlan(model="net", fingerprint="f", pieces=pieces[:1] if alone else pieces, recommended=recommended)


@dataclass(frozen=True)
class Found:
    plan: PlacementPlan | None
    answer: Placement = field(default_factory=lambda: Placement(targets=(0,), value=1.0, bound=0.5, problem="too big"))
    singles: tuple = ()
    lowered: object = field(default_factory=lambda: lowered(node("a")))
    seconds: float = 1.0


class Searches:
    """Stands in for the search: answers in turn, and what was asked."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[PlaceRequest] = []

    def __call__(self, request: PlaceRequest, _: object) -> Found:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Found(answer)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path, monkeypatch):
    def call(
        *answers: object, of: tuple[WorkloadEvidence, ...] = (evidence(),), installed: str = "", threads: int = 1,
        **policy: Any,
    ):  # fmt: skip
        searches = Searches(*answers)
        monkeypatch.setattr(place_gate, "place", searches)
        monkeypatch.setattr(place_gate, "_installed", lambda _: installed)
        head = place_gate.Head(
            side=Side(
                name=HEAD,
                checkout=tmp_path,
                repository=tmp_path,
                python="python",
                config=SideConfig(source="t", threads=threads),
            ),
            specs={"net": SPEC},
            policy=Policy(source="t", **policy),
            hardware_id="h",
            root=tmp_path,
        )
        return place_gate.searched(of, head, PORTS).workloads, searches

    return call


@pytest.mark.parametrize(
    ("when", "event", "expected"),
    [
        (ALWAYS, "pull_request", True),
        (SCHEDULED, "pull_request", False),
        (SCHEDULED, "schedule", True),
        (SCHEDULED, "workflow_dispatch", True),
        (SCHEDULED, "", False),
        (NEVER, "schedule", False),
    ],
)
def test_wanted__is_off_in_pull_requests_unless_asked_for(when, event, expected):
    policy = Policy(source="t", placement=PlacementPolicy(when=when))
    assert place_gate.wanted(policy, event) is expected
    assert not place_gate.wanted(Policy(source="t"), "pull_request")


def test_searched__a_first_recommendation_is_news_and_one_target_is_none(run, tmp_path):
    (told,), _ = run(plan())
    assert told.changed
    (tmp_path / PLACEMENTS_FILE).unlink()
    # The second best single target, which turned out to be the best, is one target too.
    for other in (plan(recommended=False), plan(alone=True)):
        (told,), _ = run(other)
        assert told.plan is not None
        assert not told.changed
        (tmp_path / PLACEMENTS_FILE).unlink()


def test_searched__the_same_graph_is_not_searched_again(run):
    (first,), _ = run(plan())
    (again,), searches = run()
    assert searches.asked == []
    assert again.reused
    assert again.plan == first.plan
    assert not again.changed


@pytest.mark.parametrize(
    ("answer", "changed"),
    [
        (plan(), False),
        (plan("ov cpu"), True),
        (plan(recommended=False), True),
        (plan("ov cpu", recommended=False), True),
        (plan("ov cpu", alone=True), True),
    ],
)
def test_searched__a_changed_graph_is_and_only_another_answer_is_news(run, answer, changed):
    run(plan())
    (told,), searches = run(answer, of=(evidence("g2"),))
    assert len(searches.asked) == 1
    assert told.previous == plan()
    assert told.changed is changed


@pytest.mark.parametrize(
    "other",
    [
        {"of": (evidence(torch="2.15"),)},
        {"placement": PlacementPolicy(libraries=("x",))},
        {"installed": "openvino 2027"},
        {"threads": 2},
    ],
)
def test_searched__other_software_or_rules_are_another_question(run, other):
    run(plan())
    (told,), searches = run(plan("ov cpu"), **other)
    assert len(searches.asked) == 1
    assert told.previous is None


def test_installed__names_libraries_with_their_versions_and_fails_softly():
    told = place_gate._installed(sys.executable).splitlines()
    assert f"torch {importlib.metadata.version('torch')}" in told
    assert told == sorted(told)
    assert place_gate._installed("/nowhere/python") == ""


def test_searched__a_full_disk_ends_nothing(run):
    (told,), _ = run(OSError(errno.ENOSPC, "No space left on device"))
    assert told.reason == "not searched: No space left on device"


def test_searched__what_fails_is_said_and_ends_nothing(run, tmp_path):
    (told,), _ = run(MeasuringError("torch.export cannot take it"))
    assert (told.reason, told.plan, told.changed) == ("torch.export cannot take it", None, False)
    assert not (tmp_path / PLACEMENTS_FILE).exists()
    (told,), _ = run(None)
    assert told.reason == "no placement keeps the limits: too big"


def test_searched__a_broken_file_costs_a_search_and_nothing_else(run, tmp_path):
    run(plan())
    file = tmp_path / PLACEMENTS_FILE
    for text in ("{", '{"format": 99, "plans": {}}', "[]", "\x00"):
        file.write_text(text)
        (told,), searches = run(plan())
        assert len(searches.asked) == 1
        assert told.plan == plan()
    (again,), _ = run()
    assert again.reused


def test_searched__only_what_infers_eagerly_on_a_head_that_ran(run):
    train = replace(evidence(), workload=SPEC.workloads[1])
    compiled = evidence(spec=replace(SPEC, compile=("default",)))
    failed = replace(evidence(), head=SideEvidence(status="failed"))
    found, searches = run(of=(train, compiled, failed, replace(evidence(), informative=True)))
    assert (found, searches.asked) == ((), [])


def test_searched__takes_its_share_of_the_budget_and_says_what_did_not_fit(run):
    _, searches = run(plan(), budget_s=1000.0)
    assert searches.asked[0].budget_s == pytest.approx(200.0)
    (told,), searches = run(budget_s=100.0, of=(evidence("g3"),))
    assert searches.asked == []
    assert told.reason == "not searched: the time for placement is less than 30 s"
    _, searches = run(plan(), of=(evidence("g4"),), placement=PlacementPolicy(budget_s=77.0))
    assert searches.asked[0].budget_s == pytest.approx(77.0)


def test_searched__the_request_is_the_workload_as_it_was_measured(run):
    _, searches = run(plan())
    (asked,) = searches.asked
    assert asked.spec.workloads == (SPEC.workloads[0],)
    assert [one.name for one in asked.devices] == ["cpu"]
    assert asked.side.name == HEAD
