"""Builders for the tests of bench: sides, specifications and plans from a few words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from perfgate.bench.nvml import Gpu, Gpus, NoGpus
from perfgate.bench.progress import NullProgress, Progress
from perfgate.bench.session import Options, Session, Side, Work
from perfgate.records.evidence import Block, Pair, SideEvidence, SideSamples
from perfgate.records.policy import Plan
from perfgate.records.protocol import Digest, Probe
from perfgate.records.workload import ModelSpec, SideConfig, Workload

FAKE_WORKER = Path(__file__).with_name("fake_worker.py")
PLAN = Plan(comparisons=1, alpha=0.05, looks=(5, 8), pairs_per_round=1, block_ns=5_000_000, groups=1, seed=7)


def spec(name: str = "m", *, module: str = "models", timeout_s: float = 20.0, **script: Any) -> ModelSpec:
    return ModelSpec(name=name, entry=f"{module}:{name}", inputs=script, timeout_s=timeout_s)


def workload(name: str = "m", device: str = "cpu") -> Workload:
    return Workload(model=name, mode="infer", batch=1, dtype="float32", device=device, compile="eager")


def plan(**changes: Any) -> Plan:
    return replace(PLAN, **changes)


def known(step_ns: int = 1_000_000) -> SideEvidence:
    digest = Digest(checksum="0")
    probe = Probe(exact={}, inputs=digest, outputs=digest, step_ns=step_ns, first_step_ns=step_ns)
    return SideEvidence(status="ok", probes=(probe, probe))


def work(base: ModelSpec, head: ModelSpec | None = None, **changes: Any) -> Work:
    device = base.device[0]
    made = Work(
        workload=workload(base.name, device), base_spec=base, head_spec=head or base, base=known(), head=known(),
        tolerances={"latency": 0.03},
    )  # fmt: skip
    return replace(made, **changes)


def session(tmp_path: Path, *, progress: Progress | None = None, gpus: Gpus | None = None, **options: Any) -> Session:
    """A session of two sides whose workers are the scripted fake."""
    sides = {}
    for name in ("base", "head"):
        checkout = tmp_path / name
        checkout.mkdir(exist_ok=True)
        config = SideConfig(source=name)
        sides[name] = Side(name=name, checkout=checkout, repository=tmp_path, python=sys.executable, config=config)
    given = {"grace_s": 0.3, "lock_dir": tmp_path / "locks", "lock_wait_s": 5.0, "hang_s": 20.0, **options}
    return Session(
        sides,
        run_dir=tmp_path / "run",
        options=Options(**given),
        progress=progress or NullProgress(),
        shim=FAKE_WORKER,
        gpus=gpus or NoGpus(),
    )


def samples(latency_ns: float, **changes: Any) -> SideSamples:
    block = Block(samples_ns=(int(latency_ns),) * 5)
    return replace(SideSamples(blocks=(block, block), first_step_ns=1, peak_bytes=2**20), **changes)


def make_pair(base_ns: float = 1e6, head_ns: float = 1e6, *, index: int = 0, number: int = 1, void: str = "") -> Pair:
    return Pair(index=index, round=number, order="ABBA", base=samples(base_ns), head=samples(head_ns), void=void)


def descendants() -> list[int]:
    """Living processes below this one: what a test may not leave."""
    return [
        process.pid for process in psutil.Process().children(recursive=True) if process.status() != psutil.STATUS_ZOMBIE
    ]


CARD = Gpu(index=0, uuid="GPU-00000000-0000-0000-0000-000000000001", name="fake", memory_bytes=2**30)


class FakeGpus(NoGpus):
    """One card whose figures a test sets; ``clocks`` are handed out in turn."""

    def __init__(self, **facts) -> None:
        super().__init__()
        self.facts = facts
        self.energies = iter(facts.get("energy", ()))

    def all(self):
        return (CARD,)

    def sm_clock_mhz(self, uuid):
        clock = self.facts.get("clock")
        return clock() if callable(clock) else clock

    def throttle(self, uuid):
        return self.facts.get("throttle", ())

    def energy_j(self, uuid):
        return next(self.energies, None)

    def processes(self, uuid):
        found = self.facts.get("processes")
        return found() if callable(found) else found


@dataclass
class Steps:
    """A progress that keeps what it was told, and may do something at a step."""

    seen: list[tuple[str, int, int, float | None]] = field(default_factory=list)
    at: Callable[[str], None] = lambda _: None

    def step(self, text: str, done: int, total: int, seconds_left: float | None) -> None:
        self.seen.append((text, done, total, seconds_left))
        self.at(text)
