"""ONNX models in real worker processes, over their socket."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnx
import onnxruntime

from perfgate.records.protocol import (
    ONNXRUNTIME,
    TORCH,
    Failed,
    Finish,
    Finished,
    Opened,
    Prepared,
    Probe,
    Time,
    Timed,
)
from tests.worker.helpers import (
    Started,
    make_open,
    must_open,
    must_prepare,
    opened,
    prepare,
    started,
    write_files,
)
from tests.worker.onnx import models

INPUTS = ("float32[batch,4]",)
BENCH = """
    import numpy as np

    def inputs(batch):
        return {"x": np.full((batch, 4), 0.5, np.float32)}

    def wide(batch, device):
        return (np.zeros((batch, 5), np.float32),)

    def torchs(batch):
        import torch
        return torch.ones(batch, 4)

    def raises():
        raise ValueError("no data")
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    root: Path = tmp_path_factory.mktemp("checkout")
    models.save(models.linear(layers=2), root / "models" / "net.onnx")
    models.save(models.linear(layers=2, seed=7), root / "models" / "other.onnx")
    models.save(models.linear(layers=2), root / "models" / "outside.onnx", external="net.weights")
    models.save(models.unary("Foo", [2, 4], domain="my.domain"), root / "custom.onnx")
    models.save(models.unary("RandomNormalLike", [2, 4]), root / "random.onnx")
    models.save(models.unary("Log", [2, 4]), root / "log.onnx")
    (root / "pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    (root / "text.onnx").write_text("no model")
    return write_files(root, {"bench.py": BENCH, "torch_net.py": "import torch\nnet = torch.nn.Identity\n"})


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory) -> dict[str, str]:
    """Environment in which whoever imports torch fails, whether it is installed or not."""
    folder: Path = tmp_path_factory.mktemp("blocked")
    write_files(folder, {"torch/__init__.py": "raise RuntimeError('torch must not be imported')\n"})
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def factory(shim, checkout, without_torch, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "worker.log"
    with started(shim, log, env=without_torch) as worker:
        must_prepare(worker, prepare(checkout, "bench", frameworks=(ONNXRUNTIME,)))
        yield worker


def probe_of(factory: Started, entry: str = "models/net.onnx", inputs: object = INPUTS, **options: Any) -> Probe:
    reply = must_open(factory, make_open(entry, inputs, probe=True, **options))
    assert reply.probe is not None
    return reply.probe


def failed(factory: Started, *arguments: Any, **options: Any) -> Failed:
    child, reply = opened(factory, make_open(*arguments, **options))
    child.close()
    assert isinstance(reply, Failed), reply
    assert "\n" not in reply.message
    return reply


def test_prepare__needs_no_torch_and_tells_the_runtime(shim, checkout, without_torch, tmp_path):
    with started(shim, tmp_path / "log", env=without_torch) as worker:
        reply = must_prepare(worker, prepare(checkout, "bench", "torch._dynamo", frameworks=(ONNXRUNTIME,)))
    assert reply.can_fork, reply.reason
    assert reply.software.versions["onnxruntime"] == onnxruntime.__version__
    assert "numpy" in reply.software.versions
    assert "torch" not in reply.software.versions
    assert "CPUExecutionProvider" in reply.software.flags["onnxruntime_providers"]
    assert reply.software.threads == 1


def test_open__warm_timed_and_finished(factory):
    child, reply = opened(factory, make_open("models/net.onnx", INPUTS, batch=3))
    assert isinstance(reply, Opened), reply
    assert reply.items == 3
    assert reply.devices == ("cpu",)
    assert reply.step_ns > 0
    assert reply.first_step_ns > 0
    assert reply.notes == ()
    timed = child.ask(Time(samples=4, inner=3))
    assert isinstance(timed, Timed), timed
    assert len(timed.samples_ns) == 4
    assert min(timed.samples_ns) > 0
    assert timed.items == 3
    finished = child.ask(Finish())
    assert isinstance(finished, Finished), finished
    assert finished.peak_bytes is not None
    assert finished.peak_bytes > 2**20


def test_open__fresh_child(shim, checkout, without_torch, tmp_path):
    with started(shim, tmp_path / "log", role="child", env=without_torch) as worker:
        assert isinstance(worker.ask(prepare(checkout, frameworks=(ONNXRUNTIME,))), Prepared)
        assert isinstance(worker.ask(make_open("models/net.onnx", INPUTS)), Opened)


def test_probe__digests_files_and_profile(factory):
    found = probe_of(factory)
    assert found.exact == {}
    assert found.not_counted == ()
    assert found.inputs.layout == ("inputs[0] float32[2,4]",)
    assert found.outputs.layout == ("[0] float32[2,3]",)
    assert len(found.outputs.values) == 6
    assert found.files == ("models/net.onnx",)
    assert found.items == 2
    assert found.structure == {"inputs": {"x": "float32[2,4]"}}
    assert found.profile is not None
    assert ("head", "ai.onnx::MatMul") in {(time.module, time.op) for time in found.profile.times}
    assert found.trace is None


def test_probe__equal_in_every_process_and_different_for_another_model(factory):
    one, two, other = probe_of(factory), probe_of(factory), probe_of(factory, "models/other.onnx")
    assert (one.inputs, one.outputs) == (two.inputs, two.outputs)
    assert other.inputs == one.inputs
    assert other.outputs.checksum != one.outputs.checksum
    assert probe_of(factory, seed=2).inputs.checksum != one.inputs.checksum


def test_probe__random_operators_draw_the_same_everywhere(factory):
    inputs = ("float32[2,4]",)
    one, two = (probe_of(factory, "random.onnx", inputs) for _ in range(2))
    assert one.outputs == two.outputs
    assert one.outputs.values != one.inputs.values


def test_probe__what_is_not_finite_is_noted(factory):
    found = probe_of(factory, "log.onnx", ("float32[2,4]",))
    assert found.outputs.nonfinite > 0
    assert any("NaN" in note for note in found.notes)


def test_probe__weights_beside_the_model_count_among_its_files(factory):
    assert probe_of(factory, "models/outside.onnx").files == ("models/net.weights", "models/outside.onnx")


def test_probe__make_inputs_by_name(factory):
    found = probe_of(factory, inputs=(), make_inputs="bench:inputs")
    assert set(found.inputs.values) == {0.5}
    assert found.files == ("bench.py", "models/net.onnx")


def test_probe__inputs_in_a_table(factory):
    assert probe_of(factory, inputs={"x": "float32[batch,4]"}, batch=5).outputs.layout == ("[0] float32[5,3]",)


@pytest.mark.parametrize(
    ("options", "kind", "phase", "parts"),
    [
        (
            {"entry": "models/none.onnx"},
            "import",
            "build",
            ["net.entry = 'models/none.onnx'", "head has no such"],
        ),
        ({"entry": "pointer.onnx"}, "import", "build", ["pointer.onnx is a Git LFS pointer", "install git-lfs"]),
        ({"entry": "text.onnx"}, "import", "build", ["head's file is no ONNX model", "export it again"]),
        ({"entry": "custom.onnx", "inputs": ()}, "unsupported", "build", ["my.domain:Foo", "custom operators cannot"]),
        ({"device": "cuda:0"}, "unsupported", "build", ["asked for CUDA, got CPU", "onnxruntime-gpu"]),
        ({"inputs": ()}, "inputs", "inputs", ["dimension 0 (N)", "'x'", "inputs = {x = 'float32[batch,4]'}"]),
        ({"inputs": ("int64[batch,4]",)}, "inputs", "inputs", ["another dtype", "give float32"]),
        ({"inputs": ("float32[batch,5]",)}, "inputs", "inputs", ["dimension 1 is 4 in the file and 5"]),
        ({"inputs": (), "make_inputs": "bench:wide"}, "inputs", "inputs", ["make_inputs[0]", "is 4 in the file and 5"]),
        ({"inputs": (), "make_inputs": "bench:raises"}, "raised", "inputs", ["ValueError: no data"]),
        ({"inputs": (), "make_inputs": "bench:none"}, "import", "import", ["models.net.make_inputs", "no 'none'"]),
        ({"mode": "train"}, "unsupported", "build", ["models.net.modes = 'train'", "infer only"]),
        ({"dtype": "bfloat16"}, "unsupported", "build", ["models.net.dtype = 'bfloat16'", "float32 only"]),
        ({"compile_": "default"}, "unsupported", "build", ["models.net.compile = 'default'", "eager only"]),
    ],
)
def test_open__what_cannot_run_names_place_and_remedy(factory, checkout, options, kind, phase, parts):
    if options.get("device") == "cuda:0" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    failure = failed(factory, **{"entry": "models/net.onnx", "inputs": INPUTS, **options})
    assert (failure.kind, failure.phase) == (kind, phase)
    for part in parts:
        assert part in failure.message
    assert str(checkout) not in failure.message


def test_open__weights_that_are_missing_or_lie_elsewhere(factory, checkout):
    made = models.linear(layers=2)
    path = models.save(made, checkout / "broken" / "net.onnx", external="net.data")
    (checkout / "broken" / "net.data").rename(checkout / "broken" / "moved.data")
    failure = failed(factory, "broken/net.onnx", INPUTS)
    assert failure.kind == "import"
    assert "the weights of 'layers.0.weight' lie in 'net.data', which head does not have" in failure.message
    for location in ("../broken/moved.data", str(checkout / "broken" / "moved.data")):
        text = path.read_bytes()
        other = onnx.load_model_from_string(text)
        for tensor in other.graph.initializer:
            next(entry for entry in tensor.external_data if entry.key == "location").value = location
        (checkout / "broken" / "far.onnx").write_bytes(other.SerializeToString())
        failure = failed(factory, "broken/far.onnx", INPUTS)
        assert failure.kind == "unsupported"
        assert "outside of the model's folder" in failure.message


def test_open__links_out_of_the_checkout_are_refused(factory, checkout, tmp_path):
    """Both sides would measure the one file behind the link, and no change would ever show."""
    elsewhere = models.save(models.linear(), tmp_path / "elsewhere.onnx")
    (checkout / "link.onnx").symlink_to(elsewhere)
    failure = failed(factory, "link.onnx", INPUTS)
    assert failure.kind == "foreign-code"
    assert "link.onnx is a link to" in failure.message
    assert "commit the file itself" in failure.message
    models.save(models.linear(), checkout / "linked" / "net.onnx", external="net.data")
    data = checkout / "linked" / "net.data"
    (tmp_path / "net.data").write_bytes(data.read_bytes())
    data.unlink()
    data.symlink_to(tmp_path / "net.data")
    assert failed(factory, "linked/net.onnx", INPUTS).kind == "foreign-code"


def test_open__link_inside_the_checkout(factory, checkout):
    (checkout / "inner.onnx").symlink_to("models/net.onnx")
    assert probe_of(factory, "inner.onnx").files == ("inner.onnx", "models/net.onnx")


def test_open__nothing_is_written_into_the_checkout(factory, checkout):
    before = {path: path.stat().st_mtime_ns for path in (checkout / "models").iterdir()}
    probe_of(factory)
    assert {path: path.stat().st_mtime_ns for path in (checkout / "models").iterdir()} == before


def test_prepare__interpreter_without_onnxruntime(shim, checkout, tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    with started(shim, tmp_path / "log", python=str(python)) as worker:
        reply = worker.ask(prepare(checkout, frameworks=(ONNXRUNTIME,)))
    assert isinstance(reply, Failed)
    assert (reply.kind, reply.phase) == ("unsupported", "import")
    assert "onnxruntime is not installed for " in reply.message
    assert "set python or setup in perfgate.toml" in reply.message


@pytest.mark.parametrize(
    ("code", "kind", "part"),
    [
        ("raise ImportError('libonnx.so: cannot open')", "import", "ImportError: libonnx.so: cannot open"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "import", "ended the process (SIGSEGV)"),
        ("", "import", "has no attribute 'InferenceSession'"),
        (
            "__version__ = '1.17.3'\nInferenceSession = None\ndef get_available_providers(): return []",
            "unsupported", "onnxruntime 1.17.3 is too old: perfgate measures with 1.18 or newer",
        ),
    ],
)  # fmt: skip
def test_prepare__onnxruntime_that_is_of_no_use(shim, checkout, tmp_path, code, kind, part):
    (tmp_path / "onnxruntime.py").write_text(code, encoding="utf-8")
    with started(shim, tmp_path / "log", env={"PYTHONPATH": str(tmp_path)}) as worker:
        reply = worker.ask(prepare(checkout, frameworks=(ONNXRUNTIME,)))
    assert isinstance(reply, Failed)
    assert reply.kind == kind
    assert part in reply.message


@pytest.mark.torch
def test_open__both_kinds_of_model_from_one_factory(shim, checkout, tmp_path):
    torch = pytest.importorskip("torch")
    request = prepare(checkout, "torch_net", "bench", frameworks=(ONNXRUNTIME, TORCH))
    with started(shim, tmp_path / "log") as worker:
        reply = must_prepare(worker, request)
        assert reply.can_fork, reply.reason
        assert reply.software.versions["torch"] == torch.__version__
        assert reply.software.versions["onnxruntime"] == onnxruntime.__version__
        must_open(worker, make_open("torch_net:net", INPUTS))
        found = probe_of(worker, inputs=(), make_inputs="bench:torchs")
    assert set(found.inputs.values) == {1.0}
    assert "torch_net.py" not in found.files


@pytest.mark.torch
def test_open__torch_models_do_not_need_onnxruntime(shim, checkout, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('broken')", encoding="utf-8")
    with started(shim, tmp_path / "log", env={"PYTHONPATH": str(tmp_path)}) as worker:
        must_prepare(worker, prepare(checkout, "torch_net", frameworks=(ONNXRUNTIME, TORCH)))
        must_open(worker, make_open("torch_net:net", INPUTS))
        failure = failed(worker, "models/net.onnx", INPUTS)
    assert (failure.kind, failure.phase) == ("import", "import")
    assert "ImportError: broken" in failure.message
