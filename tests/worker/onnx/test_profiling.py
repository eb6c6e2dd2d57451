"""Times of single operators: real profiles, and invented ones where the machine has no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from perfgate.records.graph import Profile  # noqa: E402
from perfgate.worker.onnx import file, profiling  # noqa: E402
from perfgate.worker.onnx.file import Node  # noqa: E402
from perfgate.worker.onnx.fusions import Origin, Origins  # noqa: E402
from perfgate.worker.onnx.inputs import Feeds  # noqa: E402
from perfgate.worker.onnx.profiling import Observed, observe  # noqa: E402
from perfgate.worker.onnx.sessions import Maker  # noqa: E402
from perfgate.worker.onnx.source import Source  # noqa: E402
from tests.worker.onnx import models  # noqa: E402
from tests.worker.onnx.fake_runtime import CPU, CUDA, FakeRuntime  # noqa: E402


def maker(path: Path, runtime: object = onnxruntime, *, device: str = "cpu", nbytes: int = 1) -> Maker:
    source = Source(path=path, contents=file.read(path), nbytes=nbytes)
    return Maker(runtime=runtime, source=source, key="net", device=device, threads=1, checkout=str(path.parent))


def profiled(made, tmp_path: Path, **arrays: np.ndarray) -> Profile:
    path = models.save(made, tmp_path / "net.onnx")
    feeds = Feeds(arrays=dict(arrays), paths={})
    observed = observe(maker(path), feeds, items=1, step_ns=1_000_000)
    assert observed.notes == ()
    assert observed.profile is not None
    return observed.profile


def places(profile: Profile) -> set[tuple[str, str]]:
    return {(time.module, time.op) for time in profile.times}


def test_observe__operators_in_the_users_terms(tmp_path: Path):
    profile = profiled(models.linear(layers=3, width=64), tmp_path, x=np.ones((2, 64), np.float32))
    assert places(profile) == {
        ("layers.0", "ai.onnx::MatMul"), ("layers.act.0", "ai.onnx::Relu"), ("layers.1", "ai.onnx::MatMul"),
        ("layers.act.1", "ai.onnx::Relu"), ("head", "ai.onnx::MatMul"),
    }  # fmt: skip
    assert profile.steps == 20
    assert {time.calls for time in profile.times} == {1}
    assert all(time.device_ns is None and time.host_ns >= 0 for time in profile.times)
    assert sum(time.host_ns for time in profile.times) <= profile.step_ns
    # Neither the profile nor the optimised graph stays anywhere.
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_observe__fused_operators_count_as_those_that_do_the_work(tmp_path: Path):
    """ONNX Runtime merges Conv, Add and Relu, and names the result after the value that the last of them makes."""
    profile = profiled(models.residual(), tmp_path, x=np.ones((1, 16, 8, 8), np.float32))
    convolutions = {place for place in places(profile) if place[1] == "ai.onnx::Conv"}
    assert convolutions == {("block.conv1", "ai.onnx::Conv"), ("block.conv2", "ai.onnx::Conv")}
    # What the optimiser adds of its own (other layouts) stands at a place of the user's too.
    assert all(module.startswith("block") for module, _ in places(profile))


def test_observe__unnamed_operators(tmp_path: Path):
    made = models.linear(layers=2, width=16)
    for node in made.graph.node:
        node.name = ""
    profile = profiled(made, tmp_path, x=np.ones((2, 16), np.float32))
    assert {op for _, op in places(profile)} == {"ai.onnx::MatMul", "ai.onnx::Relu"}


def test_observe__loop_has_no_time_of_its_body(tmp_path: Path):
    """Otherwise the body's work would count twice."""
    body_nodes = [
        helper.make_node("MatMul", ["carried", "w"], ["product"], name="/body/MatMul"),
        helper.make_node("Identity", ["going"], ["on"], name="/body/Identity"),
    ]
    body = helper.make_graph(
        body_nodes,
        "body",
        [models.value("i", [], TensorProto.INT64), models.value("going", [], TensorProto.BOOL),
         models.value("carried", [128, 128])],
        [models.value("on", [], TensorProto.BOOL), models.value("product", [128, 128])],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], name="/loop/Loop", body=body)
    count = numpy_helper.from_array(np.array(8, np.int64), "count")
    made = models.model(
        [loop], [models.value("x", [128, 128])], [models.value("y", [128, 128])],
        [count, models.weight("w", 128, 128, scale=0.001)],
    )  # fmt: skip
    profile = profiled(made, tmp_path, x=np.ones((128, 128), np.float32))
    times = {(time.module, time.op): time for time in profile.times}
    inner = times["body", "ai.onnx::MatMul"]
    assert inner.calls == 8
    assert inner.host_ns + times["loop", "ai.onnx::Loop"].host_ns <= profile.step_ns


def test_observe__step_that_takes_too_long_is_not_repeated(tmp_path: Path):
    path = models.save(models.linear(), tmp_path / "net.onnx")
    observed = observe(maker(path), Feeds(arrays={}, paths={}), items=1, step_ns=31_000_000_000)
    assert observed == Observed(notes=("operators were not timed one by one: a step takes 31 s",))


def test_observe__no_memory_for_a_second_session(tmp_path: Path):
    path = models.save(models.linear(), tmp_path / "net.onnx")
    observed = observe(maker(path, nbytes=2**60), Feeds(arrays={}, paths={}), items=1, step_ns=1)
    assert observed.profile is None
    assert "memory for a second session" in observed.notes[0]


def test_observe__what_goes_wrong_is_a_note(tmp_path: Path):
    path = models.save(models.linear(), tmp_path / "net.onnx")
    observed = observe(maker(path), Feeds(arrays={}, paths={}), items=1, step_ns=1)
    assert observed.profile is None
    assert "OnnxRuntimeError" in observed.notes[0]


def event(name: str, start: float, length: float, provider: str, memory: int | None = None) -> dict[str, Any]:
    details: dict[str, Any] = {"op_name": name, "provider": provider}
    if memory is not None:
        details["mem_bytes_in_use"] = str(memory)
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": start, "dur": length, "args": details}


def on_cuda(runs: int, *events: tuple[str, str, int | None], cold: int = 10**9) -> list[dict[str, Any]]:
    """A profile of ``runs`` inferences; the first two have ``cold`` bytes more in use."""
    found: list[dict[str, Any]] = [{"cat": "Session", "name": "model_loading_uri", "ts": 0, "dur": 5}]
    for run in range(runs):
        start = 100.0 * (run + 1)
        for place, (name, provider, memory) in enumerate(events):
            more = cold if run < 2 else 0
            found.append(event(name, start + place * 10, 5, provider, None if memory is None else memory + more))
            found.append({**found[-1], "name": f"{name}_fence_after", "dur": 0})
        found.append({"cat": "Session", "name": "model_run", "ts": start, "dur": 90})
    return found


def observe_on_cuda(tmp_path: Path, *events: tuple[str, str, int | None]) -> Observed:
    runtime = FakeRuntime(has=[CUDA, CPU])
    runtime.events = lambda runs: on_cuda(runs, *events)
    path = models.save(models.linear(), tmp_path / "net.onnx")
    feeds = Feeds(arrays={"x": np.ones((2, 4), np.float32)}, paths={})
    observed = observe(maker(path, runtime, device="cuda:0"), feeds, items=2, step_ns=10**9)
    (session,) = runtime.sessions
    assert session.options.enable_profiling
    assert not session.options.optimized_model_filepath
    assert session.runs == 5
    return observed


def test_observe__gpu_memory_is_that_of_warm_inferences(tmp_path: Path):
    observed = observe_on_cuda(tmp_path, ("MatMul", CUDA, 500), ("Conv", CUDA, 700), ("Relu", CUDA, 600))
    assert observed.peak_bytes == 700
    # Launch times say nothing of the work.
    assert observed.profile is None
    assert observed.notes == ("operators were not timed one by one: ONNX Runtime times only their launch on a GPU",)


def test_observe__release_that_does_not_tell_of_memory(tmp_path: Path):
    assert observe_on_cuda(tmp_path, ("MatMul", CUDA, None)).peak_bytes is None


def test_observe__operators_that_fell_back_to_the_host_are_named(tmp_path: Path):
    events = (("MatMul", CUDA, 5), ("NonZero", CPU, 10**9), ("Relu", CUDA, 6), ("NonZero", CPU, None))
    observed = observe_on_cuda(tmp_path, *events)
    assert observed.notes[-1] == ("2 of 4 operator calls ran on the CPU, for which CUDA has no kernel: NonZero")
    # The host's arena is another one.
    assert observed.peak_bytes == 6


def node(name: str, op_type: str, inputs: str, outputs: str, *, module: str = "", domain: str = "") -> Node:
    return Node(
        name=name, op_type=op_type, domain=domain, module=module, inputs=tuple(inputs.split()),
        outputs=tuple(outputs.split()),
    )  # fmt: skip


FILE = (
    node("down", "Conv", "x wd", "shortcut", module="down"),
    node("conv", "Conv", "x w", "c", module="conv"),
    node("sum", "Add", "c shortcut", "s", module="block"),
    node("relu", "Relu", "s", "r", module="relu"),
    node("matmul", "MatMul", "r m", "p", module="fc"),
    node("bias", "Add", "p b", "y", module="fc"),
    node("norm", "LayerNormalization", "y g", "z", module="ln"),
)


@pytest.mark.parametrize(
    ("name", "op_type", "expected"),
    [
        ("relu", "Relu", Origin("relu", "ai.onnx::Relu")),
        ("matmul/MatMulAddFusion", "Gemm", Origin("fc", "ai.onnx::MatMul")),
        ("matmul/MatMulScaleFusion//MatmulTransposeFusion/", "FusedMatMul", Origin("fc", "ai.onnx::MatMul")),
        ("fused conv", "FusedConv", Origin("conv", "ai.onnx::Conv")),
        ("shortcut_nchwc", "Conv", Origin("down", "ai.onnx::Conv")),
        ("c_bn_nchwc", "Conv", Origin("conv", "ai.onnx::Conv")),
        # Its place is all that the optimised graph tells.
        ("SkipLayerNormalization_token_3", "SkipLayerNormalization", Origin("ln", "ai.onnx::LayerNormalization")),
        ("gemm_input_reshape", "Reshape", Origin("fc", "ai.onnx::Reshape")),
        ("ReorderInput", "ReorderInput", Origin("conv", "com.microsoft.nchwc::ReorderInput")),
        ("nobody_knows", "Thing", Origin("", "ai.onnx::Thing")),
    ],
)
def test_origins__names_of_the_optimiser(name, op_type, expected):
    optimised = (
        node("ReorderInput", "ReorderInput", "x", "reordered", domain="com.microsoft.nchwc"),
        node("c_nchwc", "Conv", "reordered w", "inner", domain="com.microsoft.nchwc"),
        node("gemm_input_reshape", "Reshape", "r", "flat"),
        node("matmul/MatMulAddFusion", "Gemm", "flat m b", "y"),
        node("SkipLayerNormalization_token_3", "SkipLayerNormalization", "y r", "z", domain="com.microsoft"),
    )
    assert Origins(FILE, optimised).of(name, op_type) == expected


def test_origins__each_operator_is_found_once():
    """Conv, Add and Relu in one: the other convolution above the sum has run by itself."""
    origins = Origins(FILE)
    assert origins.of("shortcut_nchwc", "Conv") == Origin("down", "ai.onnx::Conv")
    assert origins.of("r_nchwc", "Conv") == Origin("conv", "ai.onnx::Conv")
    # The same node in the next inference.
    assert origins.of("r_nchwc", "Conv") == Origin("conv", "ai.onnx::Conv")


def test_runs_of__operators_belong_to_the_inference_that_they_lie_in():
    events = [*on_cuda(3, ("a", CPU, None), ("b", CPU, None)), event("between", 195, 2, CPU)]
    runs = profiling.runs_of(events)
    assert [[found.name for found in run.events] for run in runs] == [["a", "b"]] * 3


def test_runs_of__inner_time_is_taken_from_the_operator_around_it():
    events = [
        {"cat": "Session", "name": "model_run", "ts": 0, "dur": 100},
        event("inner", 20, 30, CPU),
        event("outer", 10, 80, CPU),
        event("innermost", 25, 10, CPU),
        event("next", 92, 5, CPU),
    ]
    (run,) = profiling.runs_of(events)
    own = {found.name: found.length_us - found.inner_us for found in run.events}
    assert own == {"outer": 50, "inner": 20, "innermost": 10, "next": 5}
