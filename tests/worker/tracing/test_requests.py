"""The trace of an opened workload, as a probe brings it."""

from __future__ import annotations

import dataclasses

import pytest

from perfgate.records.protocol import Opened
from tests.worker.helpers import make_open, must_prepare, opened, prepare, started, write_files
from tests.worker.tracing.reading import ops, places

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

FILES = {
    "net.py": """
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = nn.Linear(4, 8)
                self.norm = nn.BatchNorm1d(8)
                self.decoder = nn.Linear(8, 2)

            def forward(self, x):
                return self.decoder(torch.relu(self.norm(self.encoder(x))))

        class Picky(nn.Module):
            '''Runs in a real step only.'''

            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                self.steps = 0

            def forward(self, x):
                if x.is_meta or torch.overrides._get_current_function_mode():
                    raise RuntimeError("I am being watched")
                return self.layer(x)

        class Compiles(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                self.inner = torch.compile(lambda x: self.layer(x) @ x.t(), backend="eager")

            def forward(self, x):
                return self.inner(x)

        def spans(model, x):
            for _ in range(2):
                y = model.encoder(x)
                yield "encode"
            model.decoder(torch.relu(y))
            yield "decode"
            y.neg()
            return 12

        def plain(model, x):
            return model(x).sum()

        GLOBAL = nn.Linear(4, 4)

        def modelless(x):
            return GLOBAL(x)

        class Pipeline:
            def __init__(self):
                self.unet = nn.Linear(4, 4)

            def __call__(self, x):
                return self.unet(x)

        def loss(output, x):
            return (output - x[:, :2]).abs().mean()

        def adam(parameters):
            return torch.optim.Adam(parameters)
        """,
}


@pytest.fixture(scope="module")
def factory(tmp_path_factory, shim):
    checkout = write_files(tmp_path_factory.mktemp("traced"), FILES)
    with started(shim, checkout.parent / f"{checkout.name}.log") as worker:
        must_prepare(worker, prepare(checkout, "net"))
        yield worker


def probed(factory, entry, *, real=False, **options):
    request = dataclasses.replace(make_open(entry, probe=True, **options), real=real)
    child, reply = opened(factory, request)
    child.close()
    assert isinstance(reply, Opened), reply
    return reply.probe


def test_probe__brings_the_trace_and_counts_nothing_itself(factory):
    probe = probed(factory, "net:Net", batch=3)

    assert probe.trace.source == "meta"
    assert places(probe.trace) == [
        ("addmm", "encoder"),
        ("native_batch_norm", "norm"),
        ("relu", ""),
        ("addmm", "decoder"),
    ]
    assert probe.trace.batch == 3
    assert (probe.trace.parameters, probe.trace.weight_bytes) == (probe.exact["params"], probe.exact["weight_bytes"])
    assert not {"flop", "operators", "traffic"} & (probe.exact.keys() | set(probe.not_counted))


def test_probe__traces_on_real_tensors_when_told_to(factory):
    probe = probed(factory, "net:Net", real=True)
    assert (probe.trace.source, probe.trace.notes) == ("real", ())
    assert ops(probe.trace) == ["addmm", "native_batch_norm", "relu", "addmm"]


def test_probe__training_with_loss_and_optimizer_of_the_users_own(factory):
    trace = probed(factory, "net:Net", mode="train", loss="net:loss", optimizer="net:adam").trace

    assert trace.source == "meta"
    assert {"sub", "abs", "mean"} <= set(ops(trace, "forward"))
    assert {"addcdiv_", "addcmul_"} <= set(ops(trace, "optimizer"))
    assert ("native_batch_norm_backward", "norm") in places(trace, "backward")


def test_probe__spans_of_a_generator_step(factory):
    trace = probed(factory, "net:Net", mode="step", step="net:spans").trace

    assert [(call.op.split("::")[1], call.span) for call in trace.calls] == [
        ("addmm", "encode"),
        ("addmm", "encode"),
        ("relu", "decode"),
        ("addmm", "decode"),
        ("neg", ""),
    ]
    assert trace.batch == 12


def test_probe__steps_with_and_without_a_model(factory):
    assert ops(probed(factory, "net:Net", mode="step", step="net:plain").trace)[-1] == "sum"
    trace = probed(factory, "", mode="step", step="net:modelless").trace
    assert places(trace) == [("addmm", "GLOBAL")]
    assert {value.name for value in trace.values if value.role == "parameter"} == {"GLOBAL.weight", "GLOBAL.bias"}


def test_probe__an_entry_that_is_no_module(factory):
    trace = probed(factory, "net:Pipeline").trace
    assert (trace.source, places(trace), trace.parameters) == ("meta", [("addmm", "unet")], 20)


@pytest.mark.parametrize(("dtype", "casts"), [("bfloat16", 0), ("amp-bfloat16", 5)])
def test_probe__precision(factory, dtype, casts):
    trace = probed(factory, "net:Net", dtype=dtype).trace
    assert trace.source == "meta"
    assert ops(trace).count("_to_copy") == casts
    assert {trace.values[call.operands["mat1"][0]].dtype for call in trace.calls if "addmm" in call.op} == {"bfloat16"}


def test_probe__what_cannot_be_traced_is_measured_all_the_same(factory):
    probe = probed(factory, "net:Picky")

    assert probe.trace is None
    assert {"flop", "traffic", "operators"} <= set(probe.not_counted)
    assert "the step could not be traced: RuntimeError: I am being watched" in probe.notes
    assert probe.exact["params"] == 20


def test_probe__compiled_parts_are_traced_as_written(factory):
    trace = probed(factory, "net:Compiles").trace
    assert places(trace) == [("addmm", "layer"), ("mm", "")]
