"""Records of the baseline database -> what the estimator learns from; gates' and sample workloads' alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfgate.cost.runner import recognised
from perfgate.pipeline.sample_record import disturbed
from perfgate.records.baseline import NAMESPACE_BASE, BaselineRecord
from perfgate.records.estimate import ENERGY, PEAK_MEMORY, STEP_TIME, UTILISATION, Example, Machine
from perfgate.records.hardware import CPU, GPU, MeasuredRoofline, Platform
from perfgate.records.sampling import NAMESPACE_SAMPLE
from perfgate.store import structure
from perfgate.store.valid import NAMESPACE_LOCAL

# What may be learned from. Pull requests' records are not: anybody could write them, and nothing that ran beside
# unmerged code teaches the gate.
NAMESPACES = (NAMESPACE_BASE, NAMESPACE_SAMPLE, NAMESPACE_LOCAL)
CPU_DEVICE = "cpu"
# Target -> the metric that it is in a record.
_METRICS = {STEP_TIME: "latency", PEAK_MEMORY: "peak_memory", UTILISATION: "utilisation"}


def examples(
    records: Iterable[BaselineRecord], rooflines: Mapping[str, Sequence[MeasuredRoofline]] | None = None
) -> list[Example]:
    """One example for each record that has kernels and a step time, in order.

    ``rooflines``: hardware id -> probes made there; they go before the catalogue's rates.
    """
    found = (example(record, (rooflines or {}).get(record.hardware_id, ())) for record in records)
    return [one for one in found if one is not None]


def example(record: BaselineRecord, rooflines: Sequence[MeasuredRoofline] = ()) -> Example | None:
    """The example of one record; None where it holds no kernels or no step time, or was disturbed."""
    groups = structure.kernels(record.structure)
    step_ns = record.metrics.get("latency")
    if not groups or not step_ns or step_ns <= 0 or disturbed(record):
        return None
    workload = record.workload
    own = record.structure if isinstance(record.structure, Mapping) else {}
    items = _whole(record.hyper_parameters.get("items")) or workload.batch
    targets = {target: record.metrics[name] for target, name in _METRICS.items() if name in record.metrics}
    if "energy" in record.metrics:
        # Recorded per item, and an estimate is of a step.
        targets[ENERGY] = record.metrics["energy"] * items
    threads = _whole(record.resources.get("threads")) or 1
    return Example(
        model=record.model_key,
        group=group_of(record),
        mode=workload.mode,
        dtype=workload.dtype,
        compile=workload.compile,
        batch=workload.batch,
        items=items,
        machine=machine(record, threads, rooflines),
        kernels=groups,
        threads=threads if workload.device == CPU_DEVICE else 0,
        software=_software(record.software),
        weight_bytes=_count(own.get("weight_bytes")) or 0,
        peak_activation_bytes=_count(own.get("peak_activation_bytes")),
        hyper_parameters=dict(record.hyper_parameters),
        targets=targets,
        resources=_numbers(record),
        recorded_at=record.recorded_at,
    )


def group_of(record: BaselineRecord) -> str:
    """What is held out together: the family of a sample network, else the model, whatever repository it is in."""
    return record.hyper_parameters.get("family") or record.model_key.rpartition(":")[2]


def machine(record: BaselineRecord, threads: int, rooflines: Sequence[MeasuredRoofline] = ()) -> Machine:
    """The device of a record: its probe's rates, else the catalogue's, else none (0 where nobody knows)."""
    return of_hardware(record.hardware, record.hardware_id, record.workload.device, threads, rooflines)


def of_hardware(
    hardware: Mapping[str, str], hardware_id: str, device: str, threads: int,
    rooflines: Sequence[MeasuredRoofline] = (),
) -> Machine:  # fmt: skip
    """``device`` (``cpu``, ``cuda:N``) of a machine with the facts ``hardware``, as :func:`machine` says."""
    known = recognised(hardware, device)
    platform = None if known is None else known.platform
    share = 1.0 if known is None else known.share
    kind = CPU if device == CPU_DEVICE else GPU
    name = platform.name if platform is not None else f"{hardware_id}/{device}"
    probe = next((one for one in rooflines if one.device == device and (kind != CPU or one.threads == threads)), None)
    if probe is not None:
        return Machine(
            name=name,
            kind=kind,
            flop_per_s=dict(probe.flop_per_s),
            bandwidth_bytes_per_s=probe.bandwidth_bytes_per_s,
            memory_bytes=0 if platform is None else platform.memory_bytes or 0,
        )
    return Machine(name=name, kind=kind) if platform is None else of_platform(platform, share)


def of_platform(platform: Platform, share: float = 1.0) -> Machine:
    """A platform of the catalogue by its published peaks, or as much of it as a machine has."""
    return Machine(
        name=platform.name,
        kind=platform.kind,
        flop_per_s={dtype: rate * share for dtype, rate in platform.peak_flop_per_s.items()},
        bandwidth_bytes_per_s=platform.bandwidth_bytes_per_s * share,
        memory_bytes=platform.memory_bytes or 0,
    )


def _software(versions: Mapping[str, str]) -> str:
    for name in ("torch", "onnxruntime"):
        if name in versions:
            return f"{name} {versions[name].partition('+')[0]}"
    return ""


def _numbers(record: BaselineRecord) -> dict[str, float]:
    """Resources that are numbers (``cache_bytes``, ``disk_bytes``), and the inputs' size."""
    found = {} if record.input_bytes is None else {"input_bytes": float(record.input_bytes)}
    for name, text in record.resources.items():
        if name.endswith("_bytes") and text.isdecimal():
            found[name] = float(text)
    return found


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
