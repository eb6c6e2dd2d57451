"""One sample workload -> the record that is kept of it, and the condition again from a record.

Fields are those of a gate's record (``store/from_evidence.py``), so that one reader makes examples of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from perfgate import wire
from perfgate.bench.sampling import Taken
from perfgate.pipeline.draft import utc_now
from perfgate.records import metrics
from perfgate.records.baseline import BaselineRecord
from perfgate.records.evidence import Block, Environment
from perfgate.records.graph import Totals
from perfgate.records.protocol import Software
from perfgate.records.sampling import NAMESPACE_SAMPLE, Condition, Network
from perfgate.store import structure
from perfgate.store.from_evidence import software_facts
from perfgate.store.identity import short_hash
from perfgate.store.valid import cap_samples

# Where a record says which network it was.
_NETWORK = "network"
# Waiting for more than this share of the time makes a step longer by a third.
_DISTURBED_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all records of a run share. ``cache_bytes``: last-level caches of the CPUs; None: unknown."""

    environment: Environment
    nonce: str
    cache_bytes: int | None = None


def question(condition: Condition, totals: Totals, software: Software, around: Surroundings) -> BaselineRecord:
    """The record of a condition that did not run: all that is known without its times."""
    facts = software_facts(software)
    return BaselineRecord(
        model_key=condition.model,
        workload=condition.workload,
        namespace=NAMESPACE_SAMPLE,
        commit="",
        hardware_id=around.environment.hardware_id,
        software_id=short_hash(facts),
        run_nonce=around.nonce,
        recorded_at=utc_now(),
        hardware=dict(around.environment.hardware),
        software=facts,
        fingerprint=totals.fingerprint,
        structure={
            _NETWORK: wire.to_tree(condition.network),
            **structure.of_totals(totals, condition.compile),
        },
        hyper_parameters=_hyper_parameters(condition),
        resources={"device": condition.device, "threads": str(condition.threads)},
    )


def record_of(taken: Taken, totals: Totals, around: Surroundings, *, tracing_s: float = 0.0) -> BaselineRecord:
    """The record of a condition that ran.

    ``latency`` is the mean of steps 2 to N + 1, its raw samples are kept (capped); ``energy`` is per item and
    ``utilisation`` CPU time over wall time and threads, as in a gate's record. ``tracing_s``: what tracing and
    counting took, which is part of what the condition cost.
    """
    condition, sampled = taken.condition, taken.sampled
    asked = question(condition, totals, taken.software, around)
    values = _values(taken, totals)
    samples = {
        "latency": cap_samples([float(one) for block in taken.blocks for one in block.samples_ns]),
        "first_step": (float(sampled.first_step_ns),),
    }
    if taken.peak_bytes is not None:
        samples["peak_memory"] = (float(taken.peak_bytes),)
    own = sampled.structure if isinstance(sampled.structure, Mapping) else {}
    return replace(
        asked,
        metrics=values,
        units={name: metrics.metric(name).unit for name in values},
        samples=samples,
        structure={**own, **_tree(asked.structure)},
        input_bytes=sampled.input_bytes,
        resources={**asked.resources, **_resources(taken, around, tracing_s)},
        utilisation=values.get("utilisation"),
    )


def condition_of(record: BaselineRecord) -> Condition | None:
    """The condition that a record is of; None for what is no sample, or of another release."""
    own = record.structure
    if record.namespace != NAMESPACE_SAMPLE or not isinstance(own, Mapping):
        return None
    try:
        network = wire.from_tree(Network, own.get(_NETWORK))
        threads, accumulation = record.resources["threads"], record.hyper_parameters["accumulation"]
        condition = Condition(
            network=network,
            mode=record.workload.mode,
            batch=record.workload.batch,
            dtype=record.workload.dtype,
            device=record.workload.device,
            compile=record.workload.compile,
            threads=int(threads),
            optimizer=record.hyper_parameters.get("optimizer", ""),
            accumulation=int(accumulation),
        )
    except (wire.WireError, KeyError, ValueError):
        return None
    return condition if condition.key == record.workload.key else None


def disturbed(record: BaselineRecord) -> bool:
    """Whether other programs took the processors for so long that the times say little about this machine."""
    try:
        return float(record.resources["waited_share"]) > _DISTURBED_SHARE
    except (KeyError, ValueError):
        return False


def spent_s(record: BaselineRecord) -> float | None:
    """Seconds that the condition took in all; None where the record does not say."""
    try:
        return float(record.resources["spent_s"])
    except (KeyError, ValueError):
        return None


def _values(taken: Taken, totals: Totals) -> dict[str, float]:
    condition, blocks = taken.condition, taken.blocks
    values = {
        "latency": taken.step_ns,
        "throughput": condition.batch * 1e9 / taken.step_ns,
        "first_step": float(taken.sampled.first_step_ns),
        "flop": float(totals.flop),
        "traffic": float(totals.traffic.eager),
        "operators": float(totals.kernels),
        "params": float(taken.sampled.params),
        "weight_bytes": float(taken.sampled.weight_bytes),
    }
    wall_ns = sum(block.wall_ns for block in blocks)
    if wall_ns > 0:
        cpu_ns = sum(block.cpu_ns for block in blocks)
        values["utilisation"] = min(1.0, cpu_ns / (wall_ns * max(1, condition.threads)))
    if taken.peak_bytes is not None:
        values["peak_memory"] = float(taken.peak_bytes)
    energy = _energy(blocks, taken.inners)
    if energy is not None:
        values["energy"] = energy / condition.batch
    return values


def _energy(blocks: tuple[Block, ...], inners: tuple[int, ...]) -> float | None:
    """Joule of one step, from the blocks that were long enough for the counter; None where none was."""
    counted = [
        (block.energy_j, len(block.samples_ns) * inner)
        for block, inner in zip(blocks, inners, strict=True)
        if block.energy_j is not None
    ]
    steps = sum(number for _, number in counted)
    return sum(joule for joule, _ in counted) / steps if steps else None


def _hyper_parameters(condition: Condition) -> dict[str, str]:
    found = {
        "family": condition.network.family,
        "batch": str(condition.batch),
        "items": str(condition.batch),
        "precision": condition.dtype,
        "accumulation": str(condition.accumulation),
    }
    if condition.optimizer:
        found["optimizer"] = condition.optimizer
    return found


def _resources(taken: Taken, around: Surroundings, tracing_s: float) -> dict[str, str]:
    sizes = {
        "disk_bytes": taken.sampled.disk_bytes,
        "resting_bytes": taken.sampled.resting_bytes,
        "reserved_bytes": taken.sampled.reserved_bytes,
        "cache_bytes": around.cache_bytes,
    }
    found = {name: str(size) for name, size in sizes.items() if size is not None}
    if taken.waited_share is not None:
        found["waited_share"] = f"{taken.waited_share:.4f}"
    found |= {"steps": str(taken.steps), "spent_s": f"{taken.spent_s + tracing_s:.3f}"}
    found |= {f"condition:{name}": text for name, text in around.environment.conditions.items()}
    return found


def _tree(value: object) -> dict[str, object]:
    return {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {}
