"""From what the workers traced to what is counted: F, M and operators of each side, and what changed between them.

Traces and profiles are large and stay here: what is kept are exact metrics, totals and the difference.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfgate.errors import PerfgateError
from perfgate.graph.build import build
from perfgate.graph.difference import compare
from perfgate.graph.onnx import isolated
from perfgate.graph.operators import table
from perfgate.records.evidence import SideEvidence, WorkloadEvidence
from perfgate.records.graph import Graph, OperatorTime, Profile, Trace
from perfgate.records.protocol import Probe
from perfgate.records.workload import ModelSpec, Workload
from perfgate.stats import pairs as pair_statistics

COUNTED = ("flop", "traffic", "operators")

Facts = dict[str, dict[str, SideEvidence]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideGraphs:
    """One side's graph of every counted workload, by ``workload.key``, and its merged profiles."""

    graphs: dict[str, Graph] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)


def count_side(
    facts: Mapping[str, SideEvidence],
    specs: Mapping[str, ModelSpec],
    formulas: Mapping[str, str],
    checkout: Path | None,
) -> tuple[dict[str, SideEvidence], SideGraphs]:
    """``facts`` with counts in place of traces, and the graphs. ``checkout`` holds the ONNX files."""
    found = SideGraphs()
    counted = {}
    workloads = {w.key: (w, spec) for spec in specs.values() for w in spec.workloads}
    for key, side in facts.items():
        if side.status != "ok" or key not in workloads:
            counted[key] = replace(side, probes=tuple(map(_lean, side.probes)))
            continue
        workload, spec = workloads[key]
        if spec.is_onnx and checkout is not None:
            traces, note = _of_file(spec, workload, spec.inputs or _given(side), checkout)
            traces = traces * len(side.probes)
        else:
            traces, note = [probe.trace for probe in side.probes], ""
        counted[key] = _count(side, traces, note, formulas, key, found)
        profiles = [probe.profile for probe in side.probes if probe.profile is not None]
        if profiles:
            found.profiles[key] = merged(profiles)
    return counted, found


def formulas_of(base: Mapping[str, str], head: Mapping[str, str]) -> dict[str, str]:
    """The users' formulas that count both sides: base's, and head's for operators that nobody else can count.

    One set for both: else head could make its own FLOP small by a formula.
    """
    added = {name: text for name, text in head.items() if table.lookup(name) is None}
    return {**added, **base}


def _given(side: SideEvidence) -> object:
    """The inputs that an ONNX model was really run with, where the configuration does not say them."""
    structure = side.probes[0].structure if side.probes else None
    return structure.get("inputs") if isinstance(structure, dict) else None


def _of_file(spec: ModelSpec, workload: Workload, inputs: object, checkout: Path) -> tuple[list[Trace | None], str]:
    path = checkout / spec.entry
    try:
        trace = isolated.trace(path, inputs or None, batch=workload.batch, root=checkout, timeout_s=spec.timeout_s)
    except PerfgateError as error:
        # The checkout's path means nothing to a reader, and differs between the sides.
        return [None], str(error).replace(f"{checkout}/", "")
    return [trace], ""


def _count(
    side: SideEvidence,
    traces: list[Trace | None],
    note: str,
    formulas: Mapping[str, str],
    key: str,
    found: SideGraphs,
) -> SideEvidence:
    graphs: dict[int, Graph] = {}
    probes = []
    for probe, trace in zip(side.probes, traces, strict=True):
        if trace is None:
            missing = dict.fromkeys((*probe.not_counted, *COUNTED))
            notes = (*probe.notes, f"operators could not be counted: {note}") if note else probe.notes
            probes.append(replace(_lean(probe), not_counted=tuple(missing), notes=notes))
            continue
        if id(trace) not in graphs:
            graphs[id(trace)] = build(trace, formulas)
        graph = graphs[id(trace)]
        found.graphs.setdefault(key, graph)
        probes.append(_with_counts(probe, graph))
    first = found.graphs.get(key)
    return replace(side, probes=tuple(probes), totals=None if first is None else first.totals)


def _with_counts(probe: Probe, graph: Graph) -> Probe:
    totals = graph.totals
    exact = {name: float(value) for name, value in probe.exact.items()}
    # As they are read back from a file, so that a report made again is the same to the byte.
    counts = {"flop": totals.flop, "traffic": totals.traffic.eager, "operators": totals.kernels}
    exact |= {name: float(value) for name, value in counts.items()}
    exact.setdefault("params", float(totals.params))
    exact.setdefault("weight_bytes", float(totals.weight_bytes))
    notes = dict.fromkeys((*probe.notes, *totals.notes))
    return replace(_lean(probe), exact=exact, notes=tuple(notes))


def _lean(probe: Probe) -> Probe:
    return replace(probe, trace=None, profile=None)


def merged(profiles: Iterable[Profile]) -> Profile:
    """One profile of several processes: each operator's smallest time, since whatever disturbs only adds."""
    profiles = tuple(profiles)
    times: dict[tuple[str, str, str], list[OperatorTime]] = {}
    for profile in profiles:
        for time in profile.times:
            times.setdefault((time.module, time.op, time.phase), []).append(time)
    return Profile(
        times=tuple(
            replace(
                seen[0],
                host_ns=min(time.host_ns for time in seen),
                device_ns=min((time.device_ns for time in seen if time.device_ns is not None), default=None),
            )
            for seen in times.values()
        ),
        steps=sum(profile.steps for profile in profiles),
        step_ns=min(profile.step_ns for profile in profiles),
    )


def traced_differently(base: SideGraphs, head: SideGraphs) -> dict[str, str]:
    """Workload key -> the side that has to be traced on real tensors too, where only the other one was."""
    found = {}
    for key in base.graphs.keys() & head.graphs.keys():
        sources = (base.graphs[key].totals.source, head.graphs[key].totals.source)
        if sources == ("meta", "real"):
            found[key] = "base"
        elif sources == ("real", "meta"):
            found[key] = "head"
    return found


def with_difference(evidence: WorkloadEvidence, base: SideGraphs, head: SideGraphs) -> WorkloadEvidence:
    """``evidence`` with what changed from operator to operator; as it was where a side has no graph."""
    key = evidence.workload.key
    if key not in base.graphs or key not in head.graphs:
        return evidence
    base_ns, head_ns = pair_statistics.side_values(evidence.pairs, "latency")
    ratios = pair_statistics.log_ratios(evidence.pairs, "latency")
    difference = compare(
        base.graphs[key],
        head.graphs[key],
        base_profile=base.profiles.get(key),
        head_profile=head.profiles.get(key),
        base_step_ns=statistics.median(base_ns) if base_ns and head_ns else None,
        ratio=math.exp(statistics.fmean(ratios)) if ratios else None,
        ratio_spread=statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0.0,
    )
    return replace(evidence, difference=difference)
