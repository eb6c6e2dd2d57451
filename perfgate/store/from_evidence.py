"""Room ``store``: measurements become records; facts only, whatever the verdict will be.

In: :class:`~perfgate.records.evidence.Measurements`. Out: one record for each side and workload that
ran. Which namespace a record belongs to is decided here, once.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from perfgate.records import metrics
from perfgate.records.baseline import NAMESPACE_BASE, BaselineRecord
from perfgate.records.evidence import CiRun, Measurements, Pair, SideEvidence, SideSamples, WorkloadEvidence
from perfgate.records.protocol import Digest, Software
from perfgate.store import structure
from perfgate.store.identity import short_hash
from perfgate.store.summary import exact_values, noisy_values
from perfgate.store.valid import NAMESPACE_LOCAL, NAMESPACE_UNMERGED, cap_samples

_DEFAULT_BRANCH_EVENTS = ("push", "schedule", "workflow_dispatch", "release")
# schedule runs on the default branch only, release names a tag: there is no branch to compare.
_BRANCH_EVENTS = ("push", "workflow_dispatch")
_QUEUE_REF = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([1-9][0-9]*)-[0-9a-f]+")
_LAYOUT = re.compile(r"(\w+)\[([0-9, ]*)\]$")
_BITS = re.compile(r"(?:float|bfloat|int|uint|complex|qint|quint)(\d+)")


def records_of(
    measurements: Measurements, *, model_key_prefix: str = "", default_branch: str = ""
) -> tuple[BaselineRecord, ...]:
    """Records of both sides of every workload that ran, base first, in the order of the file.

    ``model_key_prefix`` is put before the model's name as it is, for example ``owner/name:`` in a
    database that many repositories share. ``default_branch`` is the branch whose pushes are baselines;
    empty: every pushed branch's are, which is harmless where workflows run on the default branch only.

    Namespaces: ``local`` outside CI; ``pr/N`` for both sides of a pull request or of its turn in a
    merge queue, since nothing that ran beside unmerged code may become a baseline; ``base`` for push,
    schedule, workflow_dispatch and release on the default branch; ``unmerged`` for all else. A second look
    with the pull request's own bench code (``informative``) is not recorded: its numbers belong to
    another bench.
    """
    space = namespace(measurements.run.ci, default_branch)
    records = []
    for evidence in measurements.workloads:
        if evidence.informative:
            continue
        for name in ("base", "head"):
            side = _Side(name, getattr(evidence, name), evidence)
            if side.facts.status == "ok":
                records.append(_record(measurements, side, model_key_prefix, space))
    return tuple(records)


def namespace(ci: CiRun | None, default_branch: str = "") -> str:
    """Where this run's records belong; see :func:`records_of`."""
    if ci is None:
        return NAMESPACE_LOCAL
    if ci.pull_request is not None:
        return f"pr/{ci.pull_request}"
    queued = _QUEUE_REF.fullmatch(ci.ref)
    if queued:
        return f"pr/{queued[1]}"
    if ci.event not in _DEFAULT_BRANCH_EVENTS:
        return NAMESPACE_UNMERGED
    if default_branch and ci.event in _BRANCH_EVENTS and ci.ref != f"refs/heads/{default_branch}":
        return NAMESPACE_UNMERGED
    return NAMESPACE_BASE


def software_facts(software: Software | None) -> dict[str, str]:
    """Versions, threads and ``flag:NAME`` of an interpreter, flat; empty where nothing is known."""
    if software is None:
        return {}
    facts = dict(software.versions)
    facts |= {"threads": str(software.threads), "interop_threads": str(software.interop_threads)}
    facts |= {f"flag:{name}": value for name, value in software.flags.items()}
    return facts


def input_bytes(digest: Digest) -> int | None:
    """Bytes of all tensors that ``digest`` lists; None if a line of its layout is not understood."""
    total = 0
    for line in digest.layout:
        match = _LAYOUT.search(line)
        bits = _bits(match[1]) if match else None
        if match is None or bits is None:
            return None
        count = 1
        for dimension in match[2].split(","):
            count *= int(dimension) if dimension.strip() else 1
        total += count * bits // 8
    return total


def _bits(dtype: str) -> int | None:
    if dtype == "bool":
        return 8
    match = _BITS.match(dtype)
    return int(match[1]) if match else None


class _Side(NamedTuple):
    """One side of one workload: its name, its facts and where they come from."""

    name: str
    facts: SideEvidence
    evidence: WorkloadEvidence

    def samples(self) -> tuple[SideSamples, ...]:
        """This side's part of every pair that counts, in time order."""
        counted: tuple[Pair, ...] = tuple(pair for pair in self.evidence.pairs if not pair.void)
        return tuple(getattr(pair, self.name) for pair in counted)


def _record(measurements: Measurements, side: _Side, prefix: str, space: str) -> BaselineRecord:
    run, ci, environment = measurements.run, measurements.run.ci, measurements.environment
    workload, probes = side.evidence.workload, side.facts.probes
    software = software_facts(side.facts.software)
    threads = side.facts.software.threads if side.facts.software else 1
    noisy, raw = noisy_values(side.samples(), threads=threads)
    # Exact values go last: peak memory is noisy on the CPU, and an exact count where a device reports it.
    values = noisy | exact_values(probes)
    resources = {"device": workload.device, "threads": str(threads)}
    resources |= {f"condition:{name}": value for name, value in environment.conditions.items()}
    return BaselineRecord(
        model_key=prefix + workload.model,
        workload=workload,
        namespace=space,
        commit=getattr(measurements, side.name).sha,
        hardware_id=environment.hardware_id,
        software_id=short_hash(software),
        run_nonce=run.nonce,
        recorded_at=run.finished_at or run.started_at,
        metrics=values,
        units={name: metrics.metric(name).unit for name in values},
        samples={name: cap_samples(samples) for name, samples in raw.items()},
        hardware=dict(environment.hardware),
        software=software,
        fingerprint=None if side.facts.totals is None else side.facts.totals.fingerprint,
        structure=_structure(side.facts, workload.compile),
        input_bytes=input_bytes(probes[0].inputs) if probes else None,
        input_checksum=_agreed(tuple(probe.inputs.checksum for probe in probes)),
        output_checksum=_agreed(tuple(probe.outputs.checksum for probe in probes)),
        hyper_parameters={"batch": str(workload.batch), "items": str(probes[0].items if probes else workload.batch)},
        resources=resources,
        utilisation=values.get("utilisation"),
        files=tuple(sorted({file for probe in probes for file in probe.files})),
        repository=ci.repository if ci else None,
        run_id=ci.run_id if ci else None,
        attempt=ci.attempt if ci else None,
        workflow=ci.workflow if ci else None,
        event=ci.event if ci else None,
        pull_request=ci.pull_request if ci else None,
    )


def _structure(facts: SideEvidence, compile_: str) -> object:
    """What an estimator may learn from: modules by class, and what the step's kernels do."""
    own = facts.probes[0].structure if facts.probes else None
    if facts.totals is None or not isinstance(own, dict | None):
        return own
    return {**(own or {}), **structure.of_totals(facts.totals, compile_)}


def _agreed(values: tuple[str, ...]) -> str | None:
    """The value that all processes gave; None where they differ or there are none."""
    return values[0] if len(set(values)) == 1 else None
