"""Builders of real records and measurements, and the jobs that other processes run in these tests."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from perfgate.records import metrics
from perfgate.records.baseline import BaselineRecord
from perfgate.records.evidence import (
    Block,
    CiRun,
    Environment,
    Measurements,
    Pair,
    Revision,
    RunInfo,
    SideEvidence,
    SideSamples,
    WorkloadEvidence,
)
from perfgate.records.policy import Policy
from perfgate.records.protocol import Digest, Probe, Software
from perfgate.records.workload import Workload
from perfgate.store.identity import short_hash
from perfgate.store.open import open_store

SOFTWARE = {"python": "3.11.9", "torch": "2.6.0", "threads": "1"}
HARDWARE = {"cpu": "Example 9000", "cores": "8"}
RESNET = Workload(model="resnet", mode="infer", batch=8, dtype="float32", device="cpu", compile="eager")


def commit(number: int) -> str:
    """A full commit id; the same number gives the same id."""
    return hashlib.sha1(str(number).encode("ascii")).hexdigest()


def a_record(at: int = 1, *, latency: float = 13.9e6, **fields: Any) -> BaselineRecord:
    """A well-formed base record of RESNET at ``commit(at)``."""
    values: dict[str, Any] = {
        "model_key": "resnet",
        "workload": RESNET,
        "namespace": "base",
        "commit": commit(at),
        "hardware_id": "cpu-1",
        "software_id": short_hash(SOFTWARE),
        "run_nonce": f"run-{at}",
        "recorded_at": "2025-01-31T12:00:00Z",
        "metrics": {"latency": latency, "peak_memory": 0.0},
        "units": {"latency": "ns", "peak_memory": "byte"},
        "samples": {"latency": (latency, latency + 1)},
        "hardware": HARDWARE,
        "software": SOFTWARE,
        "structure": {"Conv2d": 20, "layers": [{"in": 3, "share": 0.5}]},
        "files": ("models/resnet.py",),
        "run_id": "77",
        "attempt": 1,
    }
    return BaselineRecord(**(values | fields))


def with_metric(record: BaselineRecord, name: str, value: float) -> BaselineRecord:
    """``record`` with one metric more, in its registered unit."""
    return dataclasses.replace(
        record,
        metrics=record.metrics | {name: value},
        units=record.units | {name: metrics.metric(name).unit},
    )


def a_digest(checksum: str = "c0ffee") -> Digest:
    return Digest(checksum=checksum, layout=("0 float32[8,3,32,32]", "mask bool[8]"))


def a_probe(**fields: Any) -> Probe:
    values: dict[str, Any] = {
        "exact": {"params": 100.0, "flop": 8.18e9},
        "inputs": a_digest(),
        "outputs": a_digest("0ff1ce"),
        "files": ("models/resnet.py", "models/blocks.py"),
        "items": 8,
        "structure": {"Conv2d": 20},
    }
    return Probe(**(values | fields))


def a_side(**fields: Any) -> SideEvidence:
    software = Software(versions={"torch": "2.6.0"}, threads=2, flags={"tf32": "off"})
    values: dict[str, Any] = {"status": "ok", "probes": (a_probe(), a_probe()), "software": software}
    return SideEvidence(**(values | fields))


def a_part(*samples_ns: int, **fields: Any) -> SideSamples:
    block = Block(
        samples_ns=samples_ns or (10, 20, 30),
        spans_ns={"token": tuple(sample // 2 for sample in samples_ns or (10, 20, 30))},
        cpu_ns=50,
        wall_ns=100,
        energy_j=6.0,
    )
    values: dict[str, Any] = {"blocks": (block,), "first_step_ns": 500, "peak_bytes": 4096, "items": 8}
    return SideSamples(**(values | fields))


def a_pair(index: int = 0, *, base: SideSamples | None = None, head: SideSamples | None = None, void: str = "") -> Pair:
    return Pair(
        index=index,
        round=index,
        order="ABBA",
        base=base or a_part(10, 20, 30),
        head=head or a_part(20, 40, 60),
        void=void,
    )


def measured(**fields: Any) -> WorkloadEvidence:
    values: dict[str, Any] = {"workload": RESNET, "base": a_side(), "head": a_side(), "pairs": (a_pair(),)}
    return WorkloadEvidence(**(values | fields))


def measurements(*workloads: WorkloadEvidence, ci: CiRun | None = None) -> Measurements:
    return Measurements(
        format=1,
        run=RunInfo(nonce="n0", perfgate="0.1.0", started_at="2025-01-31T12:00:00Z", ci=ci),
        base=Revision(sha=commit(1)),
        head=Revision(sha=commit(2)),
        environment=Environment(hardware_id="cpu-1", hardware=HARDWARE, conditions={"governor": "performance"}),
        policy=Policy(source="defaults"),
        workloads=workloads or (measured(),),
    )


def ci_run(event: str, **fields: Any) -> CiRun:
    values: dict[str, Any] = {"repository": "o/r", "run_id": "77", "attempt": 2, "workflow": "perf", "event": event}
    return CiRun(**(values | fields))


def write_five(url: str, writer: int) -> None:
    """Runs in another process: opens the store, which may not exist yet, and records five times."""
    with open_store(url) as store:
        for number in range(5):
            store.record([a_record(at=number, run_nonce=f"writer-{writer}")])


def write_same(url: str) -> None:
    """Runs in several processes at once: all record the same content."""
    with open_store(url) as store:
        store.record([a_record(at=number) for number in range(5)])


def tree_bytes(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder`` with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
