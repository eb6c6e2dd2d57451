"""Floor 3, gate. Policy and the cells of a run in; the test that is fixed before measuring out.

M counts every gated noisy comparison of the whole run, so that ``false_alarm_rate`` holds for the run and not
for each row. What is exact cannot raise a false alarm and is not in M; throughput at a fixed batch is
latency read the other way and shares its comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from perfgate.gate import money
from perfgate.gate.limits import kind_of, limit_of, pairs_per_unit, tolerance_of
from perfgate.records.metrics import METRICS, NOISY, SHOWN, SPAN_PREFIX
from perfgate.records.policy import Plan, Policy
from perfgate.records.workload import Workload
from perfgate.stats.sequential import looks_and_alphas


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A workload as planning sees it: the spans that a probe saw, and whether energy can be read on its device."""

    workload: Workload
    spans: tuple[str, ...] = ()
    energy: bool = False


def make_plan(policy: Policy, cells: Iterable[Cell], *, seed: int, hardware: tuple[str, ...] = ()) -> Plan:
    """The plan for all ``cells`` of the run, over all shards; ``hardware`` comes from ``limits.hardware_names``.

    ``looks`` grow by one where the last of the policy's could never say regression at so many comparisons.
    """
    count = max(1, sum(comparisons(policy, cell, hardware) for cell in cells))
    alpha = policy.false_alarm_rate / count
    looks = looks_and_alphas(policy.looks, alpha, pairs_per_round=pairs_per_unit(policy))
    return Plan(
        comparisons=count,
        alpha=alpha,
        looks=tuple(look.n for look in looks),
        pairs_per_round=policy.pairs_per_round,
        block_ns=policy.block_ns,
        groups=policy.groups,
        seed=seed,
        independent_pairs=policy.independent_pairs,
    )


def tolerances(
    policy: Policy,
    workload: Workload,
    *,
    spans: tuple[str, ...] = (),
    energy: bool = False,
    hardware: tuple[str, ...] = (),
) -> dict[str, float]:
    """Metric -> tolerance for ``stats.decide`` of each gated noisy comparison of ``workload``."""
    found = {}
    for name in _compared(policy, workload, spans=spans, energy=energy):
        relative = limit_of(policy, workload.model, name, hardware).relative
        if relative is not None:
            found[name] = tolerance_of(name, relative)
    return found


def comparisons(policy: Policy, cell: Cell, hardware: tuple[str, ...] = ()) -> int:
    """How many chances of a false red one cell adds to M: one per relative limit and one per ceiling."""
    names = _compared(policy, cell.workload, spans=cell.spans, energy=cell.energy)
    limits = [limit_of(policy, cell.workload.model, name, hardware) for name in names]
    return sum((limit.relative is not None) + (limit.ceiling is not None) for limit in limits)


def noisy_candidates(workload: Workload, *, spans: tuple[str, ...], energy: bool) -> tuple[str, ...]:
    """Metrics of ``workload`` that only statistics can compare, in the order of the report, gated or not."""
    names = ["latency"]
    if energy:
        names.append("energy")
    names += money.METRICS
    if kind_of("peak_memory", workload) == NOISY:
        names.append("peak_memory")
    names += [SPAN_PREFIX + name for name in sorted(set(spans))]
    # Percentiles, first step and utilisation are noisy too, and only compared where the policy asks for it.
    names += [name for name, known in METRICS.items() if known.kind == SHOWN and name != "throughput"]
    return tuple(names)


def _compared(policy: Policy, workload: Workload, *, spans: tuple[str, ...], energy: bool) -> Iterator[str]:
    """The candidates that ``policy`` has a use for. Money counts where the price may only be known when judging."""
    for name in noisy_candidates(workload, spans=spans, energy=energy):
        if name not in money.METRICS or money.declared(policy, workload.model, name):
            yield name
