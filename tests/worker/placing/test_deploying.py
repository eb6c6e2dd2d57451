"""Deployed folders: they run without perfgate, with the model's own arguments, and give the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

import torch

from perfgate import wire
from perfgate.records.placement import PlacementPlan, Target
from perfgate.records.placing import Build, Part
from perfgate.records.workload import Workload
from perfgate.worker.failures import WorkerError
from perfgate.worker.placing import deploying, trials
from perfgate.worker.placing.deployed import placed
from perfgate.worker.placing.libraries.registry import Registry
from tests.worker.placing import models

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

WORKLOAD = Workload(model="net", mode="infer", batch=1, dtype="float32", device="cpu", compile="eager")
LIBRARIES = ("torch-onednn", "onnxruntime", "openvino", "torch-native")


@pytest.fixture(scope="module")
def registry():
    return Registry(torch_model=True)


def targets(registry):
    return tuple(
        Target(name=f"{name} cpu 1", library=name, device="cpu", threads=1)
        for name in LIBRARIES
        if name in registry.usable
    )


def mixed(model, registry, folder, parts=None):
    known = targets(registry)
    if parts is None:
        parts = [Part(target=known[n % len(known)].name, nodes=(n,)) for n in range(len(model.parts.nodes))]
    request = Build(parts=tuple(parts), targets=known, folder=str(folder), predicted_s=0.001)
    return deploying.build(model, registry, request, WORKLOAD)


@pytest.mark.parametrize("net", ["Residual", "Attention", "Chain", "Tied", "Recurrent"])
def test_build__a_library_for_each_node_gives_the_models_own_results(registry, lowered, tmp_path, net):
    module, args, kwargs = models.made(net)
    model = lowered(net)
    built = mixed(model, registry, tmp_path / "plan")
    assert built.plan.difference <= built.plan.tolerance
    assert len(built.differences) == len(model.parts.nodes)
    deployed = placed.load(tmp_path / "plan")
    with torch.no_grad():
        wanted = module(*args, **kwargs)
        got = deployed(*args, **kwargs)
    assert type(got) is type(wanted)
    torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-5)


def test_build__a_folder_runs_in_an_interpreter_without_perfgate(registry, lowered, tmp_path):
    model = lowered("Attention")
    mixed(model, registry, tmp_path / "plan")
    code = f"""
import sys
sys.modules["perfgate"] = None
sys.path.insert(0, {str(tmp_path / "plan")!r})
import placed
assert "torch" not in sys.modules
model = placed.load()
inputs, wanted = placed.stored(model.folder, "torch")
got = model(inputs[0], mask=inputs[1])
assert sorted(got) == ["hidden", "pooled"], got
assert max(map(placed.difference, got.values(), wanted)) < 1e-4
assert placed.check(model.folder, calls=2) == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "within the tolerance" in done.stdout


def test_build__check_fails_where_results_are_others(registry, lowered, tmp_path, capsys):
    model = lowered("Chain")
    mixed(model, registry, tmp_path / "plan")
    kept = torch.load(tmp_path / "plan" / "inputs.pt")
    kept["outputs"] = [value + 1 for value in kept["outputs"]]
    torch.save(kept, tmp_path / "plan" / "inputs.pt")
    assert placed.check(tmp_path / "plan", calls=1) == 1
    assert "BEYOND" in capsys.readouterr().out


def test_build__plan_json_is_a_plan(registry, lowered, tmp_path):
    model = lowered("Residual")
    known = targets(registry)
    parts = [Part(target=known[0].name, nodes=(0, 1, 2)), Part(target=known[1].name, nodes=(3, 4))]
    mixed(model, registry, tmp_path / "plan", parts)
    plan = wire.loads(PlacementPlan, (tmp_path / "plan" / "plan.json").read_text())
    assert [piece.nodes for piece in plan.pieces] == [("stem.0", "one.0", "two.0"), ("mean", "head")]
    assert plan.fingerprint == model.fingerprint
    assert plan.predicted_s == 0.001
    assert plan.software[known[0].library]
    assert plan.pieces[0].inputs == plan.inputs
    assert plan.pieces[1].outputs == plan.outputs
    assert all((tmp_path / "plan" / piece.file).is_file() for piece in plan.pieces)
    sources = [file.read_text() for file in (tmp_path / "plan").rglob("*.py")]
    assert len(sources) > 5
    assert not any("Floor 3" in text or "import perfgate" in text or "from perfgate" in text for text in sources)


def test_build__wrong_arguments_are_told(registry, lowered, tmp_path):
    mixed(lowered("Attention"), registry, tmp_path / "plan")
    deployed = placed.load(tmp_path / "plan")
    _, (x,), kwargs = models.made("Attention")
    with pytest.raises(placed.PlacedError, match="this plan was made for float32"):
        deployed(x[:1], **kwargs)
    with pytest.raises(placed.PlacedError, match="expected mask, found nothing"):
        deployed(x)
    with pytest.raises(placed.PlacedError, match="expected 1 positional values, found 2"):
        deployed(x, x, **kwargs)


def test_build__state_goes_on_from_call_to_call(registry, lowered, tmp_path):
    module, (x,), _ = models.made("Counting")
    model = lowered("Counting")
    name = targets(registry)[0].name
    nodes = range(len(model.parts.nodes))
    mixed(model, registry, tmp_path / "plan", [Part(target=name, nodes=(n,)) for n in nodes])
    deployed = placed.load(tmp_path / "plan")
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(deployed(x), module(x))


def test_build__results_are_not_overwritten_by_the_next_call(registry, lowered, tmp_path):
    if "openvino" not in registry.usable:
        pytest.skip(registry.missing("openvino"))
    model = lowered("Chain")
    last = len(model.parts.nodes) - 1
    parts = [
        Part(target="torch-onednn cpu 1", nodes=tuple(range(last))),
        Part(target="openvino cpu 1", nodes=(last,)),
    ]
    mixed(model, registry, tmp_path / "plan", parts)
    deployed = placed.load(tmp_path / "plan")
    _, (x,), _ = models.made("Chain")
    first = deployed(x)
    kept = first.clone()
    deployed(x * 2)
    assert torch.equal(first, kept)


def test_stream__results_are_those_of_calls_in_their_order(registry, lowered, tmp_path):
    model = lowered("Chain")
    # The first piece runs for the next request before the last one has read what it made for this one.
    mixed(model, registry, tmp_path / "plan")
    deployed = placed.load(tmp_path / "plan")
    module, (x,), _ = models.made("Chain")
    requests = [x * number for number in range(1, 9)]
    for ahead in (0, 1, 20):
        got = list(deployed.stream(iter(requests), ahead))
        with torch.no_grad():
            torch.testing.assert_close(got, [module(one) for one in requests], rtol=1e-3, atol=1e-5)
    assert list(deployed.stream([])) == []


def test_stream__keyword_arguments_are_those_of_all_requests(registry, lowered, tmp_path):
    mixed(lowered("Attention"), registry, tmp_path / "plan")
    deployed = placed.load(tmp_path / "plan")
    module, (x,), kwargs = models.made("Attention")
    got = list(deployed.stream([(x,), (x * 2,)], **kwargs))
    with torch.no_grad():
        torch.testing.assert_close(got, [module(x, **kwargs), module(x * 2, **kwargs)], rtol=1e-3, atol=1e-5)


def test_stream__a_bad_request_is_told_and_one_may_leave_early(registry, lowered, tmp_path):
    mixed(lowered("Chain"), registry, tmp_path / "plan")
    deployed = placed.load(tmp_path / "plan")
    _, (x,), _ = models.made("Chain")
    results = deployed.stream([x, x, x[:1], x])
    assert [next(results).shape for _ in range(2)] == [x.shape] * 2
    with pytest.raises(placed.PlacedError, match="this plan was made for"):
        next(results)
    results = deployed.stream(x for _ in range(1000))
    assert next(results).shape == x.shape
    results.close()
    with torch.no_grad():
        torch.testing.assert_close(deployed(x), models.made("Chain")[0](x), rtol=1e-3, atol=1e-5)


def test_stream__no_more_than_so_many_requests_are_taken_before_a_result(registry, lowered, tmp_path):
    mixed(lowered("Chain"), registry, tmp_path / "plan")
    deployed = placed.load(tmp_path / "plan")
    _, (x,), _ = models.made("Chain")
    taken, given = [], []

    def requests():
        for number in range(6):
            taken.append(number)
            yield x

    for _ in deployed.stream(requests(), 2):
        given.append(len(taken))
    assert given == [2, 3, 4, 5, 6, 6]


def test_stream__requests_may_come_in_the_same_memory(registry, lowered, tmp_path):
    mixed(lowered("Chain"), registry, tmp_path / "plan")
    deployed = placed.load(tmp_path / "plan")
    module, (x,), _ = models.made("Chain")
    buffer = torch.empty_like(x)

    def requests():
        for number in range(1, 7):
            buffer.copy_(x * number)
            yield buffer

    got = list(deployed.stream(requests(), 6))
    with torch.no_grad():
        torch.testing.assert_close(got, [module(x * number) for number in range(1, 7)], rtol=1e-3, atol=1e-5)


def test_stream__nothing_else_is_asked_of_the_model_meanwhile(registry, lowered, tmp_path):
    mixed(lowered("Chain"), registry, tmp_path / "plan")
    deployed = placed.load(tmp_path / "plan")
    _, (x,), _ = models.made("Chain")
    results = deployed.stream([x] * 5)
    first = next(results)
    with pytest.raises(placed.PlacedError, match="finish or close it first"):
        deployed(x)
    with pytest.raises(placed.PlacedError, match="finish or close it first"):
        next(deployed.stream([x]))
    results.close()
    torch.testing.assert_close(deployed(x), first)


def test_stream__works_in_a_process_that_was_forked(registry, lowered, tmp_path, monkeypatch):
    mixed(lowered("Chain"), registry, tmp_path / "plan")
    deployed = placed.load(tmp_path / "plan")
    _, (x,), _ = models.made("Chain")
    (first,) = deployed.stream([x])
    # None of the threads comes along: what is given to them is never done.
    for thread in deployed._workers.values():
        thread.shutdown()
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    (again,) = deployed.stream([x])
    torch.testing.assert_close(first, again)


def test_stream__what_fails_in_a_piece_is_raised(registry, lowered, tmp_path):
    mixed(lowered("Chain"), registry, tmp_path / "plan")
    deployed = placed.load(tmp_path / "plan")
    _, (x,), _ = models.made("Chain")

    def broken(values):
        message = "no memory"
        raise RuntimeError(message)

    kept = deployed.runners[1].run
    deployed.runners[1].run = broken
    # Many on their way: those that have not begun when it is told are left.
    with pytest.raises(RuntimeError, match="no memory"):
        list(deployed.stream([x] * 500, 400))
    deployed.runners[1].run = kept
    results = deployed.stream((x for _ in range(500)), 400)
    first = next(results)
    results.close()
    torch.testing.assert_close(deployed(x), first)


def test_build__parts_have_to_be_in_order_and_complete(registry, lowered, tmp_path):
    model = lowered("Chain")
    name = targets(registry)[0].name
    with pytest.raises(WorkerError, match="in order of execution"):
        mixed(model, registry, tmp_path / "p", [Part(target=name, nodes=(1, 2, 3)), Part(target=name, nodes=(0,))])
    with pytest.raises(WorkerError, match="each belongs to one part"):
        mixed(model, registry, tmp_path / "p", [Part(target=name, nodes=(0, 1))])
    with pytest.raises(WorkerError, match="no target 'nowhere'"):
        mixed(model, registry, tmp_path / "p", [Part(target="nowhere", nodes=(0, 1, 2, 3))])


def test_build__a_piece_beyond_its_tolerance_is_named(registry, lowered, tmp_path, monkeypatch):
    model = lowered("Chain")
    allowed = trials.tolerance
    monkeypatch.setattr(trials, "tolerance", lambda one, wanted: allowed(one, wanted) - (one.name == "torch-native"))
    parts = [
        Part(target="torch-onednn cpu 1", nodes=(0, 1)),
        Part(target="torch-native cpu 1", nodes=(2, 3)),
    ]
    with pytest.raises(WorkerError, match="torch-native cpu 1 does not run the piece sigmoid to pow"):
        mixed(model, registry, tmp_path / "plan", parts)


def test_load__a_folder_that_is_damaged_says_so(registry, lowered, tmp_path):
    mixed(lowered("Chain"), registry, tmp_path / "plan")
    plan = json.loads((tmp_path / "plan" / "plan.json").read_text())
    plan["pieces"].reverse()
    (tmp_path / "plan" / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(placed.PlacedError):
        placed.load(tmp_path / "plan")
    (tmp_path / "plan" / "plan.json").write_text("{")
    with pytest.raises(placed.PlacedError, match="cannot be read"):
        placed.load(tmp_path / "plan")


def test_steps__values_are_let_go_after_their_last_reader():
    pieces = [
        {"file": "a", "inputs": ["x"], "outputs": ["y"]},
        {"file": "b", "inputs": ["y", "x"], "outputs": ["z", "unread"]},
    ]
    made = placed.steps(["x"], pieces, ["z"])
    names = dict(enumerate(["x", "y", "z", "unread"]))
    assert [[names[slot] for slot in last] for _, _, last in made.pieces] == [[], ["x", "y", "unread"]]
    with pytest.raises(placed.PlacedError, match="before it is made"):
        placed.steps(["x"], pieces[::-1], ["z"])
