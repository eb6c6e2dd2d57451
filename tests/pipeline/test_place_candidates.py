from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfgate.bench.session import HEAD, Side
from perfgate.bench.workers import WorkerFailed
from perfgate.errors import MeasuringError
from perfgate.pipeline import place_candidates, place_measure, place_problem
from perfgate.pipeline.place_candidates import Candidate, PlaceRequest
from perfgate.pipeline.place_measure import Raced
from perfgate.pipeline.request import Ports
from perfgate.records.placement import (
    LATENCY,
    MEMORY,
    THROUGHPUT,
    Device,
    Piece,
    Placement,
    PlacementPlan,
    Problem,
    Single,
)
from perfgate.records.placing import Build, Built, Part, WholeTime
from perfgate.records.protocol import Failed
from perfgate.records.workload import ModelSpec, SideConfig
from tests.pipeline.test_place_problem import CPU, lowered, node, profiled

SPEC = ModelSpec(name="net", entry="net:net", modes=("infer",))
PROFILED = profiled({(one, name): 1.0 for one in "pqr" for name in "ab"}, {"a": 1.0, "b": 1.0})
POSED = place_problem.problem(lowered(node("p"), node("q", 0), node("r", 1)), PROFILED, CPU, objective="latency")
BEST = WholeTime(target="a", seconds=3.0, low_s=2.9, high_s=3.1)


class Silent:
    def step(self, *_: object) -> None:
        pass


PORTS = Ports(progress=Silent(), environ={})


class Deployer:
    """Builds nothing and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[Build] = []

    def build(self, request: Build) -> Built:
        self.asked.append(request)
        pieces = tuple(
            Piece(target=part.target, library=part.target, device="cpu", file=f"{n}", nodes=tuple(map(str, part.nodes)))
            for n, part in enumerate(request.parts)
        )
        plan = PlacementPlan(model="", fingerprint="f", pieces=pieces, best_single=request.best_single)
        return Built(plan=plan, step_s=0.5)


def request(**fields: Any) -> PlaceRequest:
    folder = Path("/nowhere")
    side = Side(name=HEAD, checkout=folder, repository=folder, python="python", config=SideConfig(source="test"))
    values: dict[str, Any] = {
        "side": side,
        "spec": SPEC,
        "workload": SPEC.workloads[0],
        "devices": CPU,
    }
    return PlaceRequest(**{**values, **fields})


def deployed(
    *answers: Placement, posed: Problem = POSED, best: WholeTime | None = BEST, **fields: Any
) -> tuple[list[Candidate], Deployer]:
    placer = Deployer()
    found, problems = place_candidates.deployed(
        placer,  # type: ignore[arg-type]
        request(**fields), posed, PROFILED, answers, best, Path("/tmp/x"), PORTS,
    )  # fmt: skip
    assert problems == []
    return found, placer


class Refusing(Deployer):
    """Cannot build placements of more than one piece."""

    def build(self, request: Build) -> Built:
        if len(request.parts) > 1:
            raise WorkerFailed(HEAD, Failed(kind="unsupported", phase="build", message="it differs"), told=self.told)
        return super().build(request)

    told = True


def test_deployed__a_placement_that_cannot_be_built_takes_nothing_from_the_others():
    answers = [Placement(targets=(0, 0, 1), value=1.0), Placement(targets=(1, 1, 1), value=2.0)]
    asked = (request(), POSED, PROFILED, answers, BEST, Path("/tmp/x"), PORTS)
    found, problems = place_candidates.deployed(Refusing(), *asked)  # type: ignore[arg-type]
    assert [(one.name, one.folder.name) for one in found] == [("a", "deployed-0"), ("placement 2", "deployed-2")]
    assert problems == ["placement 1 cannot be deployed: it differs"]
    dead = Refusing()
    dead.told = False
    with pytest.raises(WorkerFailed):
        place_candidates.deployed(dead, *asked)  # type: ignore[arg-type]


def raced(low: float, high: float, *, certain: bool) -> Raced:
    return Raced(plan_s=2.0, other_s=2.5, low_s=1.9, high_s=2.1, faster=(low, high), certain=certain, pairs=8)


def test_deployed__the_best_single_target_is_always_the_first():
    found, placer = deployed(Placement(targets=(0, 0, 0), value=3.0))
    assert [(one.name, one.single, one.runner_up) for one in found] == [("a", True, False), ("b", False, True)]
    assert [part.nodes for part in placer.asked[0].parts] == [(0, 1, 2)]


def test_deployed__the_second_best_target_only_where_nothing_mixed_is_worth_it():
    found, _ = deployed(Placement(targets=(0, 0, 1), value=2.0))
    assert [(one.name, one.runner_up) for one in found] == [("a", False), ("placement 1", False)]
    # Nor one that does not keep a limit of memory, however fast it is.
    singles = (Single(target="a", value=3.0), Single(target="b", value=None))
    found, _ = deployed(Placement(targets=(0, 0, 0), value=3.0, singles=singles))
    assert [one.name for one in found] == ["a"]


def test_deployed__the_second_best_target_where_nothing_mixed_can_be_deployed():
    answers = [Placement(targets=(0, 0, 1), value=1.0)]
    asked = (request(), POSED, PROFILED, answers, BEST, Path("/tmp/x"), PORTS)
    found, problems = place_candidates.deployed(Refusing(), *asked)  # type: ignore[arg-type]
    assert [(one.name, one.runner_up) for one in found] == [("a", False), ("b", True)]
    assert problems == ["placement 1 cannot be deployed: it differs"]


@pytest.mark.parametrize("objective", [THROUGHPUT, MEMORY])
def test_deployed__the_best_target_has_a_value_though_its_nodes_were_not_timed(objective):
    untimed = replace(POSED, nodes=tuple(replace(one, seconds=(None, 1.0), memory_bytes=10.0) for one in POSED.nodes))
    found, _ = deployed(Placement(targets=(1, 1, 1), value=1e9), posed=untimed, objective=objective)
    assert found[0].value == (30.0 if objective == MEMORY else BEST.seconds)


def test_chosen__the_second_best_target_is_the_best_if_it_is_certainly_faster():
    first, second = deployed(Placement(targets=(0, 0, 0), value=3.0))[0]
    for sure, name in ((True, "b"), (False, "a")):
        tried = [first, replace(second, raced=raced(-0.2, -0.1, certain=sure))]
        plan = place_candidates.chosen(request(), tried, BEST)
        assert plan is not None
        assert plan == place_candidates.advised(request(), tried, BEST)
        assert ([piece.target for piece in plan.pieces], plan.recommended) == ([name], sure)
        assert (plan.best_single, plan.single_s) == ("a", 2.5)


def test_chosen__the_best_single_target_has_its_own_time_deployed():
    first, second = deployed(Placement(targets=(0, 0, 0), value=3.0))[0]
    plan = place_candidates.chosen(request(), [first, replace(second, raced=raced(0.1, 0.2, certain=False))], BEST)
    assert plan is not None
    # With as wide an interval as that of the pairs.
    assert plan.measured_s == 2.5
    assert plan.low_s is not None
    assert plan.high_s is not None
    assert plan.low_s < 2.5 < plan.high_s
    assert plan.high_s / plan.low_s == pytest.approx(2.1 / 1.9)
    assert plan.predicted_s == BEST.seconds


def test_deployed__only_what_promises_to_be_faster():
    found, placer = deployed(Placement(targets=(0, 0, 1), value=2.0), Placement(targets=(0, 1, 1), value=2.999))
    assert [one.name for one in found] == ["a", "placement 1"]
    assert placer.asked[1].parts == (Part(target="a", nodes=(0, 1)), Part(target="b", nodes=(2,)))
    assert len({one.folder for one in placer.asked}) == 2


def test_deployed__another_single_target_than_the_fastest_is_a_candidate_too():
    found, _ = deployed(Placement(targets=(1, 1, 1), value=2.0))
    assert [part.target for part in found[1].parts] == ["b"]


# https://github.com/microsoft/onnxruntime/issues/8812: what counts is the deployed session, not the sum of operators.
def test_chosen__is_recommended_only_if_it_is_certainly_faster():
    first, mixed = deployed(Placement(targets=(0, 0, 1), value=2.0))[0]
    sure = place_candidates.chosen(request(), [first, replace(mixed, raced=raced(-0.2, -0.1, certain=True))], BEST)
    assert sure is not None
    assert (sure.recommended, sure.measured_s, sure.single_s, sure.faster) == (True, 2.0, 2.5, (-0.2, -0.1))
    assert (sure.model, sure.best_single, sure.predicted_s) == ("net", "a", 2.0)
    unsure = place_candidates.chosen(request(), [first, replace(mixed, raced=raced(-0.2, 0.1, certain=False))], BEST)
    assert unsure is not None
    assert not unsure.recommended


def test_chosen__of_several_the_fastest_that_was_measured():
    first, one, two = deployed(Placement(targets=(0, 0, 1), value=1.0), Placement(targets=(0, 1, 1), value=2.0))[0]
    found = place_candidates.chosen(
        request(),
        [
            first,
            replace(one, raced=raced(-0.1, 0.1, certain=False)),
            replace(two, raced=raced(-0.3, -0.2, certain=True)),
        ],
        BEST,
    )
    assert found is not None
    assert [piece.nodes for piece in found.pieces] == [("0",), ("1", "2")]


def test_chosen__without_a_mixed_candidate_the_single_target_with_its_own_time():
    only, _ = deployed(Placement(targets=(0, 0, 0), value=3.0))[0]
    found = place_candidates.chosen(request(), [only], BEST)
    assert found is not None
    assert (found.measured_s, found.low_s, found.high_s, found.recommended) == (3.0, 2.9, 3.1, False)
    assert place_candidates.chosen(request(), [], BEST) is None


def test_advised__is_the_best_single_target_unless_the_other_is_recommended():
    first, mixed = deployed(Placement(targets=(0, 0, 1), value=2.0))[0]
    for sure, pieces in ((True, 2), (False, 1)):
        tried = [first, replace(mixed, raced=raced(-0.2, -0.1, certain=sure))]
        found = place_candidates.advised(request(), tried, BEST)
        assert found is not None
        assert len(found.pieces) == pieces
        assert found.recommended is sure
        shown = place_candidates.chosen(request(), tried, BEST)
        assert shown is not None
        assert len(shown.pieces) == 2
    assert place_candidates.advised(request(), [], BEST) is None


def test_advised__a_pipeline_has_to_be_measured_too():
    posed = replace(POSED, objective=THROUGHPUT)
    found, _ = deployed(Placement(targets=(0, 0, 1), value=2.0), posed=posed, objective=THROUGHPUT)
    plan = place_candidates.advised(request(objective=THROUGHPUT), found, BEST)
    assert plan is not None
    assert (len(plan.pieces), plan.recommended) == (1, False)
    sure = [found[0], replace(found[1], raced=raced(-0.2, -0.1, certain=True))]
    plan = place_candidates.advised(request(objective=THROUGHPUT), sure, BEST)
    assert plan is not None
    assert (len(plan.pieces), plan.recommended) == (2, True)


def test_deployed__where_no_target_keeps_the_limits_alone_the_answer_is_all_there_is():
    found, _ = deployed(Placement(targets=(0, 0, 1), value=2.0), best=None)
    assert [(one.name, one.single) for one in found] == [("placement 1", False)]
    assert place_candidates.raced(request(), found, Path(), PORTS, until=0.0) == tuple(found)
    plan = place_candidates.advised(request(), found, None)
    assert plan is not None
    assert (plan.recommended, plan.best_single, plan.single_s) == (True, "", None)
    # What the process that built it saw, which was one request at a time.
    assert plan.measured_s == found[0].built.step_s == 0.5
    plan = place_candidates.advised(request(objective=THROUGHPUT), found, None)
    assert plan is not None
    assert (plan.recommended, plan.measured_s) == (True, None)
    for limit_s, kept in ((0.6, True), (0.4, False)):
        plan = place_candidates.advised(request(objective=MEMORY, latency_s=limit_s), found, None)
        assert plan is not None
        assert plan.recommended is kept


TWO = (Device(name="cpu"), Device(name="far"))
HELD = replace(
    POSED,
    objective=MEMORY,
    latency_s=10.0,
    devices=TWO,
    targets=(POSED.targets[0], replace(POSED.targets[1], device="far")),
    nodes=tuple(replace(one, memory_bytes=100.0) for one in POSED.nodes),
)


@pytest.mark.parametrize(("slowest", "recommended"), [(9.0, True), (11.0, False)])
def test_chosen__least_memory_is_recommended_where_the_limit_is_kept(slowest, recommended):
    asked = request(objective=MEMORY, latency_s=10.0, devices=TWO)
    found, _ = deployed(Placement(targets=(0, 0, 1), value=200.0), posed=HELD, objective=MEMORY)
    first, mixed = found
    assert (first.value, mixed.value) == (300.0, 200.0)
    assert mixed.predicted_s == pytest.approx(3.0, abs=1e-3)
    slower = replace(raced(0.5, 0.6, certain=False), high_s=slowest)
    plan = place_candidates.chosen(asked, [first, replace(mixed, raced=slower)], BEST)
    assert plan is not None
    assert plan.recommended is recommended


def test_deployed__what_holds_as_much_as_the_best_single_target_is_not_worth_measuring():
    found, _ = deployed(Placement(targets=(1, 1, 1), value=300.0), posed=HELD, objective=MEMORY)
    assert [one.single for one in found] == [True]


@pytest.mark.parametrize(
    ("objective", "step_s", "requests"),
    [(LATENCY, 0.01, 1), (THROUGHPUT, 0.001, 16), (THROUGHPUT, 0.01, 10), (THROUGHPUT, 9.0, 4)],
)
def test_raced__what_is_pipelined_is_timed_with_many_requests(monkeypatch, objective, step_s, requests):
    asked = []

    def race(*_: object, **fields: Any) -> Raced:
        asked.append(fields["requests"])
        return raced(-0.2, -0.1, certain=True)

    monkeypatch.setattr(place_measure, "race", race)
    found, _ = deployed(Placement(targets=(0, 0, 1), value=2.0), objective=objective)
    found = [replace(found[0], predicted_s=step_s), found[1]]
    place_candidates.raced(request(objective=objective), found, Path(), PORTS, until=0.0)
    assert asked == [requests]


def test_raced__each_against_the_first_within_what_is_left(monkeypatch):
    calls = []

    def race(plan: Path, other: Path, **fields: Any) -> Raced:
        calls.append((plan.name, other.name, fields["budget_s"]))
        return raced(-0.2, -0.1, certain=True)

    monkeypatch.setattr(place_measure, "race", race)
    found, _ = deployed(Placement(targets=(0, 0, 1), value=1.0), Placement(targets=(0, 1, 1), value=1.0))
    done = place_candidates.raced(request(), found, Path(), PORTS, until=0.0)
    assert [call[:2] for call in calls] == [("deployed-1", "deployed-0"), ("deployed-2", "deployed-0")]
    assert all(call[2] == pytest.approx(0.25 * 300.0) for call in calls)
    assert [one.raced is not None for one in done] == [False, True, True]


def test_raced__one_that_cannot_be_measured_takes_nothing_from_the_others(monkeypatch):
    def race(plan: Path, *_: Any, **__: Any) -> Raced:
        if plan.name == "deployed-1":
            msg = "hung"
            raise MeasuringError(msg)
        return raced(-0.2, -0.1, certain=True)

    monkeypatch.setattr(place_measure, "race", race)
    found, _ = deployed(Placement(targets=(0, 0, 1), value=1.0), Placement(targets=(0, 1, 1), value=1.0))
    done = place_candidates.raced(request(), found, Path(), PORTS, until=0.0)
    assert [(one.problem, one.raced is not None) for one in done] == [("", False), ("hung", False), ("", True)]
    plan = place_candidates.chosen(request(), done, BEST)
    assert plan is not None
    assert [piece.nodes for piece in plan.pieces] == [("0",), ("1", "2")]
