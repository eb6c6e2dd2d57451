"""The session with the real worker and a tiny torch model."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from perfgate.bench.nvml import NoGpus
from perfgate.bench.progress import NullProgress, Progress
from perfgate.bench.session import Options, Session, Side, Work
from perfgate.records.evidence import SideEvidence
from perfgate.records.workload import ModelSpec, SideConfig
from tests.bench.helpers import descendants, known, plan

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


def build(folder: Path, base: str, head: str, progress: Progress, **options) -> Session:
    """A session over two checkouts whose module ``tiny_models`` has the given texts."""
    sides = {}
    for name, text in (("base", base), ("head", head)):
        checkout = folder / name
        checkout.mkdir()
        (checkout / "tiny_models.py").write_text(text, encoding="utf-8")
        sides[name] = Side(
            name=name, checkout=checkout, repository=folder / "repository", python=sys.executable,
            config=SideConfig(source=name), tracked={"tiny_models": "tiny_models.py"},
        )  # fmt: skip
    given = {"warmup_min_ns": 20_000_000, "probe_processes": 1, "lock_dir": folder, **options}
    return Session(sides, run_dir=folder / "run", options=Options(**given), progress=progress, gpus=NoGpus())


@pytest.fixture
def make_session(tmp_path):
    pytest.importorskip("torch")
    return lambda base, head, **options: build(tmp_path, base, head, NullProgress(), **options)


def unknown(spec: ModelSpec) -> dict[str, dict[str, SideEvidence]]:
    return {side: {workload.key: known() for workload in spec.workloads} for side in ("base", "head")}


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


KILLED = """
import sys
from pathlib import Path
from tests.bench import test_real_worker as real

class Said:
    def step(self, text, done, total, seconds_left):
        if "pair 1 of" in text:
            Path(sys.argv[1], "begun").touch()

folder = Path(sys.argv[1])
text = real.MODEL.replace("LAYERS", "2").replace("CALLS", "10**9")
spec = real._spec("Sleeper")
with real.build(folder, text, text, Said()) as running:
    running.compare([real._work(spec, real.unknown(spec), tolerances={}, max_pairs=1000)], real.plan(groups=500), 1e6)
"""


def test_session__killed_parent_leaves_no_worker_not_even_a_stopped_one(tmp_path):
    pytest.importorskip("torch")
    parent = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=Path(__file__).parents[2])
    try:
        _until(lambda: (tmp_path / "begun").exists() and len(_stopped(tmp_path)) > 0)
    finally:
        parent.kill()
        parent.wait()
    _until(lambda: _workers(tmp_path) == [])
    assert _workers(tmp_path) == []


def _workers(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if str(folder / "run" / "shim") in (process.info["cmdline"] or ()):
            found.append(process)
    return found


def _stopped(folder: Path) -> list[psutil.Process]:
    return [process for process in _workers(folder) if process.status() == psutil.STATUS_STOPPED]


def _until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
