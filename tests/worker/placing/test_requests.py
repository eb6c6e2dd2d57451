"""A real worker process: a torch and an ONNX model from ``Lower`` to a folder that runs."""

# mypy: allow-subclassing-any
from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

from onnx import TensorProto, helper

from perfgate.graph.onnx import pieces
from perfgate.records.placement import Target
from perfgate.records.placing import Advanced, Build, Built, Lower, Lowered, Part, Profiled, ProfileNodes, Wanted
from perfgate.records.protocol import ONNXRUNTIME, Failed
from perfgate.records.workload import ModelSpec, Workload
from tests.worker.helpers import make_open, must_open, must_prepare, prepare, started, write_files
from tests.worker.onnx.models import model, save, value, weight

pytestmark = pytest.mark.torch

NET = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(6, 6)
            self.last = torch.nn.Linear(6, 2)

        def forward(self, x):
            return self.last(torch.tanh(self.first(x)))

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(6, 6)
            self.register_buffer("total", torch.zeros(6))

        def forward(self, x):
            self.total.add_(self.first(x).sum(0))
            return torch.tanh(self.total)

    class Loop(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x
"""


def workload(**changes):
    values = {"mode": "infer", "batch": 3, "dtype": "float32", "device": "cpu", "compile": "eager", **changes}
    return Workload(model="net", **values)


def lower(folder, entry, inputs=("float32[batch,6]",), **changes):
    spec = ModelSpec(name="net", entry=entry, inputs=inputs)
    return Lower(workload=workload(**changes), spec=spec, folder=str(folder))


def ask(child, request, folder):
    """As the parent does: what is wanted is written, and the request repeated until all of it is done."""
    served = 0
    while isinstance(reply := child.ask(request), (Wanted, Advanced)):
        if isinstance(reply, Wanted):
            pieces.serve(reply, folder)
            served += 1
            assert served < 4
    return reply


def targets(*names):
    return tuple(Target(name=name, library=name, device="cpu", threads=1) for name in names)


def test_torch__from_lower_to_a_folder_that_runs(shim, tmp_path):
    write_files(tmp_path / "checkout", {"net.py": NET})
    with started(shim, tmp_path / "log") as factory:
        must_prepare(factory, prepare(tmp_path / "checkout", "net"))
        child = factory.fork()
        early = child.ask(ProfileNodes(targets=()))
        assert isinstance(early, Failed)
        assert "before Lower" in early.message
        lowered = ask(child, lower(tmp_path / "work", "net:Net"), tmp_path / "work")
        assert isinstance(lowered, Lowered), lowered
        assert [node.name for node in lowered.nodes] == ["first", "tanh", "last"]
        assert lowered.framework == "torch"
        chosen = targets("torch-onednn", "torch-native")
        profiled = ask(child, ProfileNodes(targets=chosen, budget_s=10.0), tmp_path / "work")
        assert isinstance(profiled, Profiled), profiled
        assert profiled.measured == 6
        parts = (Part(target="torch-native", nodes=(0,)), Part(target="torch-onednn", nodes=(1, 2)))
        built = ask(child, Build(parts=parts, targets=chosen, folder=str(tmp_path / "plan")), tmp_path / "work")
        assert isinstance(built, Built), built
        again = child.ask(lower(tmp_path / "work", "net:Net"))
        assert "one process places one model" in again.message
    done = subprocess.run(
        [sys.executable, str(tmp_path / "plan" / "placed.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 pieces: torch-native, torch-onednn" in done.stdout
    # What the gate does: the folder is a side, whose model is timed like any other.
    with started(shim, tmp_path / "log") as factory:
        must_prepare(factory, prepare(tmp_path / "plan", "placed"))
        opened = must_open(factory, make_open("placed:load", ("float32[batch,6]",), batch=3))
    assert opened.step_ns > 0


def test_torch__a_state_begins_where_the_reference_began(shim, tmp_path):
    write_files(tmp_path / "checkout", {"net.py": NET})
    with started(shim, tmp_path / "log") as factory:
        must_prepare(factory, prepare(tmp_path / "checkout", "net"))
        child = factory.fork()
        lowered = ask(child, lower(tmp_path / "work", "net:Sum"), tmp_path / "work")
        assert [bool(node.state) for node in lowered.nodes] == [False, True], lowered
        parts = tuple(Part(target="torch-onednn", nodes=(n,)) for n in range(2))
        request = Build(parts=parts, targets=targets("torch-onednn"), folder=str(tmp_path / "plan"))
        built = ask(child, request, tmp_path / "work")
    assert isinstance(built, Built), built
    assert built.plan.difference is not None
    assert built.plan.difference < 1e-5


@pytest.mark.parametrize(
    ("entry", "changes", "message"),
    [
        ("net:Loop", {}, "torch.export cannot take this model"),
        ("net:Net", {"mode": "train"}, "mode train cannot be placed"),
        ("net:Net", {"dtype": "amp-bfloat16"}, "write dtype = 'bfloat16'"),
    ],
)
def test_torch__what_cannot_be_placed_is_told_in_one_message(shim, tmp_path, entry, changes, message):
    write_files(tmp_path / "checkout", {"net.py": NET})
    with started(shim, tmp_path / "log") as factory:
        must_prepare(factory, prepare(tmp_path / "checkout", "net"))
        reply = factory.fork().ask(lower(tmp_path / "work", entry, **changes))
    assert isinstance(reply, Failed)
    assert reply.kind == "unsupported"
    assert message in reply.message


def onnx_file(path):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="/first/MatMul"),
        helper.make_node("Add", ["a", "b1"], ["b"], name="/first/Add"),
        helper.make_node("Softmax", ["b"], ["c"], name="/soft/Softmax"),
        helper.make_node("MatMul", ["c", "w2"], ["d"], name="/last/MatMul"),
        helper.make_node("ReduceSum", ["b"], ["s"], name="/total/ReduceSum"),
    ]
    weights = [weight("w1", 6, 8), weight("b1", 8), weight("w2", 8, 2)]
    made = model(
        nodes, [value("x", ["batch", 6])], [value("d", ["batch", 2]), value("s", None, TensorProto.FLOAT)], weights
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.SerializeToString())


def test_onnx__from_lower_to_a_folder_that_runs_without_torch(shim, tmp_path):
    pytest.importorskip("onnxruntime")
    onnx_file(tmp_path / "checkout" / "net.onnx")
    with started(shim, tmp_path / "log", role="child") as child:
        must_prepare(child, prepare(tmp_path / "checkout", frameworks=(ONNXRUNTIME,)))
        lowered = ask(child, lower(tmp_path / "work", "net.onnx"), tmp_path / "work")
        assert isinstance(lowered, Lowered), lowered
        assert sorted((node.name, node.kind) for node in lowered.nodes) == [
            ("first", "matmul"), ("last", "matmul"), ("soft", "softmax"), ("total", "reduction"),
        ]  # fmt: skip
        names = [one.name for one in lowered.libraries if not one.missing]
        assert not any(name.startswith("torch") for name in names)
        chosen = targets(*names)
        profiled = ask(child, ProfileNodes(targets=chosen, budget_s=20.0), tmp_path / "work")
        assert isinstance(profiled, Profiled), profiled
        assert profiled.measured == 4 * len(chosen), profiled.supports
        parts = tuple(Part(target=names[n % len(names)], nodes=(n,)) for n in range(4))
        built = ask(child, Build(parts=parts, targets=chosen, folder=str(tmp_path / "plan")), tmp_path / "work")
        assert isinstance(built, Built), built
    code = f"""
import sys
sys.modules["torch"] = None
sys.modules["perfgate"] = None
sys.path.insert(0, {str(tmp_path / "plan")!r})
import placed
model = placed.load()
(x,), wanted = placed.stored(model.folder, "onnxruntime")
for got in (model(x), model(x=x)):
    assert len(got) == 2
    assert max(map(placed.difference, got, wanted)) < 1e-5
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_onnx__sizes_that_depend_on_the_data_are_no_part_of_a_plan(shim, tmp_path):
    pytest.importorskip("onnxruntime")
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("NonZero", ["b"], ["i"]),
        helper.make_node("Transpose", ["i"], ["j"]),
        helper.make_node("GatherND", ["b", "j"], ["v"]),
        helper.make_node("Sigmoid", ["v"], ["y"]),
    ]
    made = model(nodes, [value("x", ["batch", 6])], [value("y", ["found"])])
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "net.onnx").write_bytes(made.SerializeToString())
    with started(shim, tmp_path / "log", role="child") as child:
        must_prepare(child, prepare(tmp_path / "checkout", frameworks=(ONNXRUNTIME,)))
        lowered = ask(child, lower(tmp_path / "work", "net.onnx"), tmp_path / "work")
        assert isinstance(lowered, Lowered), lowered
        assert len(lowered.nodes) >= 3
        parts = tuple(Part(target="onnxruntime", nodes=(n,)) for n in range(len(lowered.nodes)))
        request = Build(parts=parts, targets=targets("onnxruntime"), folder=str(tmp_path / "plan"))
        built = ask(child, request, tmp_path / "work")
    assert isinstance(built, Built), built
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path / "plan")!r})
import numpy as np
import placed
run = placed.load()
for positive in (0, 3, 18):
    x = -np.ones((3, 6), dtype=np.float32)
    x.reshape(-1)[:positive] = 1
    (got,) = run(x)
    assert got.shape == (positive,), got.shape
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_onnx__weights_in_a_file_of_their_own_and_a_scalar_between_pieces(shim, tmp_path):
    pytest.importorskip("onnxruntime")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("ReduceSum", ["a"], ["s"], keepdims=0),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("Pow", ["b", "s"], ["y"]),
    ]
    made = model(nodes, [value("x", ["batch", 64])], [value("y", ["batch", 64]), value("s", [])], [weight("w", 64, 64)])
    save(made, tmp_path / "checkout" / "net.onnx", external="net.weights")
    with started(shim, tmp_path / "log", role="child") as child:
        must_prepare(child, prepare(tmp_path / "checkout", frameworks=(ONNXRUNTIME,)))
        asked = lower(tmp_path / "work", "net.onnx", inputs=("float32[batch,64]",))
        lowered = ask(child, asked, tmp_path / "work")
        assert isinstance(lowered, Lowered), lowered
        parts = tuple(Part(target="onnxruntime", nodes=(n,)) for n in range(len(lowered.nodes)))
        assert len(parts) >= 3
        request = Build(parts=parts, targets=targets("onnxruntime"), folder=str(tmp_path / "plan"))
        built = ask(child, request, tmp_path / "work")
    assert isinstance(built, Built), built
    code = """
import placed
model = placed.load()
(x,), wanted = placed.stored(model.folder, "onnxruntime")
got = model(x)
assert [one.shape for one in got] == [one.shape for one in wanted] == [(3, 64), ()], got
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path / "plan"
    )
    assert done.returncode == 0, done.stderr
