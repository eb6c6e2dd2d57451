"""Sessions run where they were asked to, as they were asked to, or say that they do not."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx import TensorProto  # noqa: E402

from perfgate.worker.failures import WorkerError  # noqa: E402
from perfgate.worker.onnx import devices, faults, steps  # noqa: E402
from perfgate.worker.onnx.file import ModelFile  # noqa: E402
from perfgate.worker.onnx.inputs import Feeds  # noqa: E402
from perfgate.worker.onnx.sessions import Maker  # noqa: E402
from perfgate.worker.onnx.source import Source  # noqa: E402
from tests.worker.onnx import models  # noqa: E402
from tests.worker.onnx.fake_runtime import CPU, CUDA, FakeRuntime  # noqa: E402


def maker(path: Path, runtime: object = onnxruntime, *, device: str = "cpu", threads: int = 1) -> Maker:
    source = Source(path=path, contents=ModelFile(), nbytes=1)
    return Maker(
        runtime=runtime, source=source, key="models.net.entry = 'net.onnx'", device=device, threads=threads,
        checkout=str(path.parent),
    )  # fmt: skip


def refused(make: Maker) -> tuple[str, str]:
    with pytest.raises(WorkerError) as caught:
        make.make()
    assert caught.value.failed.phase == "build"
    return caught.value.failed.kind, caught.value.failed.message


def test_make__one_session_as_it_is_timed(tmp_path: Path):
    session = maker(models.save(models.linear(), tmp_path / "net.onnx"), threads=2).make()
    options = session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 1)
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.get_session_config_entry("session.inter_op.allow_spinning") == "0"
    assert session.get_providers() == [CPU]
    # Nothing is written beside the model.
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_make__cuda_asked_of_a_build_for_the_cpu(tmp_path: Path):
    """M47, with the real package: it would run on the CPU and say so in a warning only."""
    if CUDA in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    kind, message = refused(maker(models.save(models.linear(), tmp_path / "net.onnx"), device="cuda:0"))
    assert kind == "unsupported"
    assert "asked for CUDA, got CPU" in message
    assert f"onnxruntime {onnxruntime.__version__} of {sys.executable} has no {CUDA}" in message
    assert "install onnxruntime-gpu in setup, or write device = 'cpu'" in message


def test_make__cuda_that_could_not_be_loaded(tmp_path: Path):
    """M47: the provider is there, its libraries are not, and the session runs on the CPU without an error."""
    runtime = FakeRuntime(has=[CUDA, CPU], loads=[CPU])
    kind, message = refused(maker(tmp_path / "net.onnx", runtime, device="cuda:1"))
    assert kind == "unsupported"
    assert "asked for CUDA, got CPU" in message
    assert "could not load its CUDAExecutionProvider for cuda:1" in message
    assert "CUDA and cuDNN" in message


def test_make__cuda_by_its_number_before_the_cpu(tmp_path: Path):
    runtime = FakeRuntime(has=[CUDA, CPU])
    maker(tmp_path / "net.onnx", runtime, device="cuda:3").make()
    (session,) = runtime.sessions
    assert session.asked == [(CUDA, {"device_id": "3"}), CPU]
    assert session.path == str(tmp_path / "net.onnx")
    if "torch" not in sys.modules:
        assert runtime.calls == ["preload_dlls"]


@pytest.mark.parametrize(
    ("made", "kind", "parts"),
    [
        (models.unary("Foo", [2], domain="my.domain"), "unsupported", ["my.domain:Foo", "custom operators cannot"]),
        (models.unary("Relu", [2], TensorProto.BFLOAT16), "unsupported", ["implementation for Relu", "newer"]),
        (models.unary("Relu", [2], TensorProto.STRING), "raised", ["Type 'tensor(string)'", "Relu"]),
        (models.unary("Reshape", [2]), "raised", ["Reshape"]),
    ],
)
def test_make__models_that_cannot_run(tmp_path: Path, made, kind: str, parts: list[str]):
    given, message = refused(maker(models.save(made, tmp_path / "net.onnx")))
    assert given == kind
    assert message.startswith("models.net.entry = 'net.onnx': ")
    for part in parts:
        assert part in message
    assert str(tmp_path) not in message
    assert "ONNXRuntimeError" not in message
    assert "\n" not in message


def test_sentence__without_codes_and_source_files():
    text = (
        "[ONNXRuntimeError] : 1 : FAIL : Load model from /tmp/co/m.onnx failed:/src/core/graph/model.cc:256 "
        "onnxruntime::Model::Model(onnx::ModelProto&&, const PathString&) Unsupported model IR version: 99\n"
    )
    expected = "Load model from m.onnx failed: Unsupported model IR version: 99"
    assert faults.sentence(ValueError(text), "/tmp/co") == expected


def test_in_a_step__lack_of_memory_has_its_own_kind():
    text = "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : BFCArena::Allocate(size_t) Failed to allocate memory"
    assert isinstance(faults.in_a_step(RuntimeError(text), "/co"), MemoryError)
    other = faults.in_a_step(RuntimeError("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : bad"), "/co")
    assert isinstance(other, faults.OnnxRuntimeError)
    assert str(other) == "bad"


def feeds(array: np.ndarray) -> Feeds:
    return Feeds(arrays={"x": array}, paths={"x": "inputs[0]"})


def test_step__on_the_cpu_gives_the_outputs(tmp_path: Path):
    session = maker(models.save(models.linear(width=4, out=3), tmp_path / "net.onnx")).make()
    step = steps.make(onnxruntime, session, feeds(np.ones((2, 4), np.float32)), None, items=2, checkout="/co")
    with step.context():
        (output,) = step.fetch(step.call())
    weight = models.weight("w", 4, 3, seed=100)
    expected = np.ones((2, 4), np.float32) @ np.frombuffer(weight.raw_data, np.float32).reshape(4, 3)
    assert np.allclose(output, expected, atol=1e-6)
    assert (step.items, step.spans, step.take_spans()) == (2, (), {})


def test_step__that_fails_raises_one_line(tmp_path: Path):
    session = maker(models.save(models.linear(width=4), tmp_path / "net.onnx")).make()
    step = steps.make(onnxruntime, session, feeds(np.ones((2, 5), np.float32)), None, items=2, checkout="/co")
    with pytest.raises(faults.OnnxRuntimeError, match=r"^Got invalid dimensions for input: x .* Got: 5 Expected: 4"):
        step.call()


def test_step__on_cuda_keeps_inputs_and_outputs_there_and_waits(tmp_path: Path):
    """M01, M02: what is timed is the inference and the wait for it, not copies between the devices."""
    runtime = FakeRuntime(has=[CUDA, CPU])
    session = maker(tmp_path / "net.onnx", runtime, device="cuda:2").make()
    runtime.calls.clear()
    array = np.arange(8, dtype=np.float32).reshape(2, 4)
    step = steps.make(runtime, session, feeds(array), 2, items=2, checkout="/co")
    assert runtime.calls == ["synchronize_inputs"]
    runtime.calls.clear()
    result = step.call()
    assert runtime.calls == ["run", "synchronize_outputs"]
    runtime.calls.clear()
    first, second = step.fetch(result)
    assert runtime.calls == ["copy_outputs_to_cpu"]
    assert np.array_equal(first, array * 2)
    assert np.array_equal(second, array * 3)


def test_step__on_cuda_binds_to_the_right_card(tmp_path: Path):
    runtime = FakeRuntime(has=[CUDA, CPU])
    session = maker(tmp_path / "net.onnx", runtime, device="cuda:2").make()
    binding = session.io_binding()
    session.io_binding = lambda: binding
    steps.make(runtime, session, feeds(np.ones((2, 4), np.float32)), 2, items=2, checkout="/co")
    value = binding.inputs["x"]
    assert (value.device, value.ordinal) == ("cuda", 2)
    assert binding.outputs == {"y": ("cuda", 2), "z": ("cuda", 2)}


def test_step__on_cuda_out_of_memory(tmp_path: Path):
    runtime = FakeRuntime(has=[CUDA, CPU])
    session = maker(tmp_path / "net.onnx", runtime, device="cuda:0").make()
    step = steps.make(runtime, session, feeds(np.ones((2, 4), np.float32)), 0, items=2, checkout="/co")
    runtime.error = RuntimeError("[ONNXRuntimeError] : 1 : FAIL : CUDA failure 2: out of memory ; GPU=0")
    with pytest.raises(MemoryError, match="out of memory"):
        step.call()


class Driver:
    """The driver library's three calls, with ctypes' arguments."""

    uuid = bytes.fromhex("130961397ada8313ee08000dd8540fe1")

    def __init__(self, *, fails: str = "") -> None:
        self.fails = fails
        self.ordinal = -1

    def cuInit(self, _flags: int) -> int:  # noqa: N802
        return 100 if self.fails == "cuInit" else 0

    def cuDeviceGet(self, handle, ordinal: int) -> int:  # noqa: N802
        self.ordinal = ordinal
        handle._obj.value = ordinal
        return 0

    def cuDeviceGetUuid(self, raw, _handle) -> int:  # noqa: N802
        raw[:] = list(self.uuid)
        return 0


def test_uuid_of__sixteen_raw_bytes():
    """M23: a byte of zero is a byte."""
    driver = Driver()
    assert devices.uuid_of(1, lambda _: driver) == "13096139-7ada-8313-ee08-000dd8540fe1"
    assert driver.ordinal == 1


def test_uuid_of__no_driver_or_a_failing_one():
    def missing(_name: str) -> object:
        raise OSError("no such library")

    assert devices.uuid_of(0, missing) == ""
    assert devices.uuid_of(0, lambda _: Driver(fails="cuInit")) == ""
    assert devices.uuid_of(0, lambda _: object()) == ""


def test_used__labels_and_what_is_known_of_memory():
    host = devices.used("cpu", None)
    assert (host.labels, host.has_accelerator) == (("cpu",), False)
    assert devices.CudaDevice("cuda:0", "ab").label == "cuda:0=GPU-ab"
    card = devices.CudaDevice("cuda:0", "")
    assert (card.label, card.peak_bytes(), card.elapsed_ns()) == ("cuda:0", None, None)
