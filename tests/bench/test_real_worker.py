"""The session with the real worker and a tiny torch model."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest

from perfgate.bench.nvml import NoGpus
from perfgate.bench.progress import NullProgress
from perfgate.bench.session import Options, Session, Side, Work
from perfgate.records.workload import ModelSpec, SideConfig
from tests.bench.helpers import descendants, plan

pytestmark = pytest.mark.torch

MODEL = """
import time
import torch
from torch import nn

def small():
    return nn.Sequential(*(nn.Linear(256, 256) for _ in range(LAYERS)))

class Sleeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        time.sleep(600 if self.calls > CALLS else 0.001)
        return x
"""


@pytest.fixture
def make_session(tmp_path):
    pytest.importorskip("torch")

    def make(base: str, head: str, **options) -> Session:
        sides = {}
        for name, text in (("base", base), ("head", head)):
            checkout = tmp_path / name
            checkout.mkdir()
            (checkout / "tiny_models.py").write_text(text, encoding="utf-8")
            sides[name] = Side(
                name=name, checkout=checkout, repository=tmp_path / "repository", python=sys.executable,
                config=SideConfig(source=name), tracked={"tiny_models": "tiny_models.py"},
            )  # fmt: skip
        given = {"warmup_min_ns": 20_000_000, "probe_processes": 1, "lock_dir": tmp_path, **options}
        return Session(
            sides, run_dir=tmp_path / "run", options=Options(**given), progress=NullProgress(), gpus=NoGpus()
        )

    return make


def _spec(entry: str = "small", **changes) -> ModelSpec:
    made = ModelSpec(name=entry, entry=f"tiny_models:{entry}", inputs=["float32[batch,256]"], timeout_s=60.0)
    return replace(made, **changes)


def _work(spec: ModelSpec, facts: dict, **changes) -> Work:
    workload = spec.workloads[0]
    made = Work(
        workload=workload, base_spec=spec, head_spec=spec, base=facts["base"][workload.key],
        head=facts["head"][workload.key], tolerances={"latency": 0.03, "peak_memory": 0.01},
    )  # fmt: skip
    return replace(made, **changes)


def test_session__more_layers_are_slower(make_session):
    text = MODEL.replace("CALLS", "10**9")
    with make_session(text.replace("LAYERS", "4"), text.replace("LAYERS", "8")) as running:
        facts = running.probe({"base": {"small": _spec()}, "head": {"small": _spec()}})
        (evidence,) = running.compare([_work(_spec(), facts, max_pairs=2)], plan(), 100)
    base, head = evidence.base, evidence.head
    assert (base.status, head.status) == ("ok", "ok"), (base.failure, head.failure)
    assert head.probes[0].exact["params"] == 2 * base.probes[0].exact["params"]
    assert base.probes[0].files == ("tiny_models.py",)
    assert len(base.probes) == 1
    assert evidence.end == "n_max"
    for pair in evidence.pairs:
        if not pair.void:
            slow = sorted(s for block in pair.head.blocks for s in block.samples_ns)
            fast = sorted(s for block in pair.base.blocks for s in block.samples_ns)
            assert slow[len(slow) // 2] > fast[len(fast) // 2]
            assert pair.base.peak_bytes is not None
    assert descendants() == []


def test_session__forward_that_hangs_while_timed(make_session):
    text = MODEL.replace("LAYERS", "2")
    # Warm-up and probing stay below the limit; the timed blocks reach it.
    sides = (text.replace("CALLS", "10**9"), text.replace("CALLS", "80"))
    spec = _spec("Sleeper")
    with make_session(*sides, block_hang_s=1.0) as running:
        facts = running.probe({"base": {"Sleeper": spec}, "head": {"Sleeper": spec}})
        begun = time.monotonic()
        (evidence,) = running.compare([_work(spec, facts)], plan(groups=2), 100)
        spent = time.monotonic() - begun
    assert (evidence.end, evidence.base.status, evidence.head.status) == ("failed", "ok", "failed")
    assert evidence.head.failure is not None
    assert evidence.head.failure.kind == "hung"
    assert spent < 60


def test_session__head_that_does_not_import(make_session):
    text = MODEL.replace("LAYERS", "2").replace("CALLS", "10**9")
    with make_session(text, "import no_such_module\n") as running:
        facts = running.probe({"base": {"small": _spec()}, "head": {"small": _spec()}})
    (base,), (head,) = facts["base"].values(), facts["head"].values()
    assert base.status == "ok"
    assert head.failure is not None
    assert "no_such_module" in head.failure.message
