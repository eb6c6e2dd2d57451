"""The profile that a worker's probe brings along."""

# mypy: allow-subclassing-any
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER  # noqa: E402
from tests.worker.helpers import make_open, must_open, must_prepare, prepare, started, write_files  # noqa: E402
from tests.worker.profiled import (  # noqa: E402
    MARKS,
)

pytestmark = MARKS

MODEL = """
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = self.one(x)
            print("between")
            return self.two(x)
"""


@pytest.fixture(scope="module")
def factory(shim, tmp_path_factory):
    checkout = write_files(tmp_path_factory.mktemp("profiled") / "co", {"net.py": MODEL})
    with started(shim, tmp_path_factory.mktemp("logs") / "log") as worker:
        must_prepare(worker, prepare(checkout, "net", "torch._dynamo"))
        yield worker


@pytest.mark.parametrize(("mode", "phases"), [("infer", {FORWARD}), ("train", {FORWARD, BACKWARD, OPTIMIZER})])
def test_probe__has_a_profile(factory, mode, phases):
    probe = must_open(factory, make_open("net:Net", probe=True, mode=mode)).probe

    assert probe is not None
    assert probe.profile is not None
    assert {time.phase for time in probe.profile.times} == phases
    assert ("two", "aten::linear") in {(time.module, time.op) for time in probe.profile.times}
    assert probe.breaks == ()
    assert "graph_breaks" not in probe.exact
    assert not any("profile" in note for note in probe.notes)


def test_probe__a_compiled_model_is_profiled_as_it_was_written(factory):
    probe = must_open(factory, make_open("net:Net", probe=True, compile_="default")).probe

    assert probe is not None
    assert probe.profile is not None
    assert ("two", "aten::linear") in {(time.module, time.op) for time in probe.profile.times}
    assert any("profiled uncompiled" in note for note in probe.notes)
    assert probe.breaks == ('net.py:11: call of print(): print("between")',)
    assert probe.exact["graph_breaks"] == 1


def test_open__a_process_that_is_timed_is_not_profiled(factory):
    assert must_open(factory, make_open("net:Net")).probe is None
