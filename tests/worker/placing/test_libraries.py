"""Compute libraries on pieces of real models: what they say, and that they compute the same."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import types

import pytest

pytest.importorskip("torch")

import torch

from perfgate.records.placement import Target
from perfgate.worker.placing import trials
from perfgate.worker.placing.deployed.loaders import onnxruntime_piece
from perfgate.worker.placing.libraries import base, environment
from perfgate.worker.placing.libraries.onnxruntime import CUDA, Onnxruntime
from perfgate.worker.placing.libraries.registry import Registry

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

NAMES = ("torch-onednn", "torch-native", "onnxruntime", "openvino")


@pytest.fixture(scope="module")
def registry():
    return Registry(torch_model=True)


def target(library, threads=1):
    return Target(name=f"{library} cpu {threads}", library=library, device="cpu", threads=threads)


def usable(registry, name):
    if name not in registry.usable:
        pytest.skip(registry.missing(name))
    return registry.usable[name]


def tried(model, nodes, library, folder):
    parts = model.piece(nodes)
    values = model.capture([*parts.inputs, *parts.outputs])
    piece = model.piece(nodes, values)
    wanted = [values[name] for name in piece.outputs]
    return trials.attempt(piece, library, target(library.name), wanted, folder=folder, alone=True)


@pytest.mark.parametrize("net", ["Residual", "Attention", "Chain"])
def test_libraries__every_one_gives_the_reference(registry, lowered, tmp_path, net):
    model = lowered(net)
    for name in NAMES:
        if name in registry.usable:
            trial = tried(model, range(len(model.parts.nodes)), registry.usable[name], tmp_path / "tried")
            assert trial.answer.reason == "", (name, trial.answer)
            assert trial.difference <= registry.usable[name].tolerance


@pytest.mark.slow
def test_libraries__the_compiler_gives_the_reference(registry, lowered, tmp_path):
    library = usable(registry, "inductor")
    trial = tried(lowered("Chain"), [2], library, tmp_path / "tried")
    assert trial.answer.reason == "", trial.answer
    assert trial.answer.how == "trial compile"
    assert library.compiler


def test_libraries__how_they_were_asked_is_told(registry, lowered, tmp_path):
    model = lowered("Residual")
    runtime = tried(model, [0], usable(registry, "onnxruntime"), tmp_path / "a").answer.how
    assert "CPUExecutionProvider takes" in runtime
    assert "query_model" in tried(model, [0], usable(registry, "openvino"), tmp_path / "b").answer.how


def test_libraries__state_is_torchs_own(registry, lowered, tmp_path):
    model = lowered("Counting")
    index = next(n for n, node in enumerate(model.parts.nodes) if node.state)
    assert tried(model, [index], usable(registry, "torch-onednn"), tmp_path / "a").answer.reason == ""
    refused = tried(model, [index], usable(registry, "onnxruntime"), tmp_path / "b")
    assert "keeps total from call to call" in refused.answer.reason
    assert refused.runner is None


def test_libraries__native_kernels_leave_the_switch_as_it_was(registry, lowered, tmp_path):
    trial = tried(lowered("Residual"), [0], usable(registry, "torch-native"), tmp_path / "a")
    before = torch.backends.mkldnn.enabled
    seen = []
    inner = trial.runner._module

    def watched(*values):
        seen.append(torch.backends.mkldnn.enabled)
        return inner(*values)

    trial.runner._module = watched
    trial.call()
    assert seen == [False]
    assert torch.backends.mkldnn.enabled is before


# https://github.com/microsoft/onnxruntime/pull/13021: pools of two libraries fought for the same cores.
def test_libraries__each_piece_has_its_own_threads(registry, lowered, tmp_path):
    model = lowered("Chain")
    library = usable(registry, "torch-onednn")
    node = model.parts.nodes[1]
    piece = model.piece([1], model.capture([*node.inputs, *node.outputs]))
    before = torch.get_num_threads()
    made = library.build(piece, tmp_path)
    runners = {n: base.runner(library, made, n, alone=True) for n in (1, 2)}
    try:
        for threads in (1, 2, 1):
            runners[threads].run(piece.examples)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_onnxruntime__threads_spin_only_where_no_other_library_wants_the_processors(registry, lowered, tmp_path):
    library = usable(registry, "onnxruntime")
    model = lowered("Chain")
    node = model.parts.nodes[1]
    made = library.build(model.piece([1], model.capture([*node.inputs, *node.outputs])), tmp_path)
    for threads, alone, spinning in ((2, True, "1"), (2, False, "0"), (1, True, "0")):
        options = base.runner(library, made, threads, alone=alone).session.get_session_options()
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == spinning
        assert options.intra_op_num_threads == threads


def test_libraries__results_that_differ_are_a_reason(registry, lowered, tmp_path):
    model = lowered("Chain")
    library = usable(registry, "torch-onednn")
    node = model.parts.nodes[1]
    values = model.capture([*node.inputs, *node.outputs])
    piece = model.piece([1], values)
    wrong = [values[name] * 1.01 for name in piece.outputs]
    trial = trials.attempt(piece, library, target(library.name), wrong, folder=tmp_path / "t", alone=True)
    assert trial.runner is None
    assert "differ from the reference by 0.0099" in trial.answer.reason


def test_libraries__one_onnx_file_serves_several(registry, lowered, tmp_path):
    usable(registry, "onnxruntime")
    model = lowered("Residual")
    node = model.parts.nodes[0]
    piece = model.piece([0], model.capture([*node.inputs, *node.outputs]))
    first = piece.onnx()
    before = first.stat().st_mtime_ns
    assert piece.onnx() == first
    assert first.stat().st_mtime_ns == before


def test_tolerance__is_wider_for_fewer_bits(registry):
    library = registry.usable["torch-onednn"]
    wide = trials.tolerance(library, [torch.ones(1)])
    narrow = trials.tolerance(library, [torch.ones(1, dtype=torch.bfloat16)])
    assert wide == library.tolerance
    assert narrow > 100 * wide


def test_worst__is_relative_to_the_largest_value_and_sees_what_is_not_finite():
    wanted = torch.tensor([100.0, 1.0])
    assert trials.worst([wanted + 1], [wanted]) == pytest.approx(0.01)
    assert trials.worst([wanted.numpy() + 1], [wanted.numpy()]) == pytest.approx(0.01)
    assert trials.worst([torch.tensor([float("nan"), 1.0])], [wanted]) == float("inf")
    both = torch.tensor([float("inf"), 1.0])
    assert trials.worst([both], [both]) == 0
    assert trials.worst([wanted[:1]], [wanted]) == float("inf")
    assert trials.worst([], [wanted]) == float("inf")
    assert trials.worst([torch.tensor([True, False])], [torch.tensor([True, True])]) == 1


def test_registry__says_what_is_missing_and_why(registry):
    reasons = {one.name: one.missing for one in registry.found}
    assert reasons["torch-onednn"] == ""
    if not torch.cuda.is_available():
        assert "CUDAExecutionProvider" in reasons["onnxruntime-cuda"] or "not installed" in reasons["onnxruntime-cuda"]
        assert "onnxruntime-cuda" not in registry.usable
    assert "no library 'tract'" in registry.missing("tract")


class FakeSession:
    def __init__(self, shares, providers):
        self._shares = shares
        self._providers = providers

    def get_providers(self):
        return self._providers

    def get_provider_graph_assignment_info(self):
        class Part:
            def __init__(self, name, count):
                self.ep_name = name
                self._count = count

            def get_nodes(self):
                return list(range(self._count))

        return [Part(name, count) for name, count in self._shares]


# https://github.com/microsoft/onnxruntime/issues/29669: a provider took 0.7 % of the nodes, and nobody was told.
@pytest.mark.parametrize(
    ("shares", "providers", "reason"),
    [
        ([("CPUExecutionProvider", 5)], [CUDA, "CPUExecutionProvider"], "took 0 of 5 operators"),
        ([], ["CPUExecutionProvider"], "did not load"),
        ([(CUDA, 4), ("CPUExecutionProvider", 1)], [CUDA, "CPUExecutionProvider"], ""),
    ],
)
def test_onnxruntime__a_provider_that_takes_no_operator_is_refused(
    monkeypatch, registry, lowered, shares, providers, reason
):
    usable(registry, "onnxruntime")
    runtime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(runtime, "get_available_providers", lambda: [CUDA, "CPUExecutionProvider"])
    monkeypatch.setattr(runtime, "InferenceSession", lambda *_a, **_k: FakeSession(shares, providers))
    model = lowered("Residual")
    node = model.parts.nodes[0]
    answer = Onnxruntime("onnxruntime-cuda", CUDA, "cuda:0").takes(
        model.piece([0], model.capture([*node.inputs, *node.outputs]))
    )
    if reason:
        assert reason in answer.reason
    else:
        assert answer.reason == ""
        assert "takes 4 of 5" in answer.how


def distribution(folder, name):
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("onnxruntime/__init__.py,,\n")
    (info / "top_level.txt").write_text("onnxruntime\n")


# https://github.com/intel/onnxruntime/issues/865: of two distributions the last one wins.
def test_environment__two_distributions_of_onnxruntime_are_an_error(monkeypatch, tmp_path):
    distribution(tmp_path / "a", "onnxruntime")
    monkeypatch.setattr("sys.path", [str(tmp_path / "a")])
    assert environment.conflict() == ""
    distribution(tmp_path / "a", "onnxruntime-openvino")
    said = environment.conflict()
    assert "onnxruntime, onnxruntime-openvino" in said
    assert "pip uninstall" in said


def test_environment__a_conflict_takes_the_library_away(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(environment, "_owners", lambda: ["onnxruntime", "onnxruntime-gpu"])
    found = Registry(torch_model=True)
    assert "onnxruntime-gpu" in found.missing("onnxruntime")
    assert any("onnxruntime-gpu" in one for one in found.problems)


def test_others__a_broken_entry_point_is_named(monkeypatch):
    point = importlib.metadata.EntryPoint(name="bad", value="no_such_module:make", group=base.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    libraries, problems = base.others([])
    assert libraries == []
    assert "entry point bad = no_such_module:make" in problems[0]


class FakeBinding:
    def __init__(self, log):
        self._log = log

    def bind_ortvalue_input(self, name, value):
        self._log.append(("input", name, value))

    def bind_output(self, name, kind, ordinal):
        self._log.append(("output", name, kind, ordinal))

    def get_outputs(self):
        return ["on the device"]

    def synchronize_outputs(self):
        self._log.append(("wait",))


class FakeDeviceSession:
    def __init__(self, log):
        self._log = log

    def get_inputs(self):
        return [types.SimpleNamespace(name="a")]

    def io_binding(self):
        return FakeBinding(self._log)

    def run_with_iobinding(self, binding):
        self._log.append(("run",))


def test_onnxruntime__on_an_accelerator_results_stay_there_until_they_are_wanted():
    log = []

    class OrtValue:
        @staticmethod
        def ortvalue_from_numpy(array, kind, ordinal):
            log.append(("upload", array.shape, kind, ordinal))
            return "uploaded"

    runtime = types.SimpleNamespace(OrtValue=OrtValue)
    runner = onnxruntime_piece.DeviceRunner(runtime, FakeDeviceSession(log), ["unused", "a"], ["y"], "cuda", 1)
    assert runner.memory == "ortvalue cuda:1"
    assert runner.run(["left away", runner.place(torch.ones(2, 3))]) == ["on the device"]
    runner.wait()
    assert log == [
        ("upload", (2, 3), "cuda", 1),
        ("input", "a", "uploaded"),
        ("output", "y", "cuda", 1),
        ("run",),
        ("wait",),
    ]


def test_openvino__reports_its_use_to_nobody_and_starts_no_process():
    pytest.importorskip("openvino")
    code = """
import sys, multiprocessing
from perfgate.worker.placing.deployed.loaders import openvino_piece
def never(self):
    raise AssertionError("a process was started")
multiprocessing.Process.start = never
assert "CPU" in openvino_piece.runtime().Core().available_devices
assert sys.modules["openvino_telemetry"] is None
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_onnxruntime__reports_its_use_to_nobody_and_writes_nothing_at_home(tmp_path):
    pytest.importorskip("onnxruntime")
    code = (
        "from perfgate.worker.placing.deployed.loaders import onnxruntime_piece as piece; piece.runtime().__version__"
    )
    kept = {
        name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**kept, "HOME": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*")) == []
