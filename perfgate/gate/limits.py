"""Floor 3, gate. Policy, model, hardware and metric in; the limit, ceiling and mode in force out.

The most specific place that speaks wins: a model's hardware override, the model, the policy's hardware
override, the policy's own limits, then the registry of metrics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfgate.records.cost import CostReport
from perfgate.records.evidence import Environment
from perfgate.records.metrics import EXACT, NOISY, SPAN_PREFIX, Metric, metric
from perfgate.records.policy import ENFORCE, REPORT, Limits, Policy
from perfgate.records.workload import Workload

# CUDA's caching allocator rounds segments up to 2 MiB: a peak that moves by less has not changed.
CUDA_PEAK_GRAIN_BYTES = 2 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What is in force for one metric of one model on one kind of hardware.

    ``relative`` is a share (None: not gated relatively), ``ceiling`` a maximum in the metric's unit (None: none),
    ``enforced`` False: its verdict is shown and never fails the run.
    """

    relative: float | None
    ceiling: float | None
    enforced: bool

    @property
    def gated(self) -> bool:
        """Whether anything at all is decided by this metric."""
        return self.relative is not None or self.ceiling is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The policy with everything that judging one row needs beside it.

    ``alpha`` is one comparison's share of the run's false-alarm rate; ``hardware`` see :func:`hardware_names`;
    ``cost`` has the runner's price (None: nothing is known of money).
    """

    policy: Policy
    alpha: float
    hardware: tuple[str, ...] = ()
    cost: CostReport | None = None

    def limit(self, model: str, metric_name: str) -> Limit:
        """What is in force for a metric of a model on this run's hardware."""
        return limit_of(self.policy, model, metric_name, self.hardware)


def pairs_per_unit(policy: Policy) -> int:
    """How many pairs make one independent unit: those of a round, unless the policy declares them independent."""
    return 1 if policy.independent_pairs else policy.pairs_per_round


def hardware_names(environment: Environment) -> tuple[str, ...]:
    """Texts that a hardware override's key is looked for in: the hardware id first, then every stable fact."""
    return (environment.hardware_id, *environment.hardware.values())


def limit_of(policy: Policy, model: str, metric_name: str, hardware: tuple[str, ...] = ()) -> Limit:
    """The limit, ceiling and mode of ``metric_name`` (``latency``, ``span:NAME``, ...) for ``model`` on ``hardware``.

    ``hardware`` comes from :func:`hardware_names`. An override's key matches as a whole word in any case: ``l4`` is
    found in ``NVIDIA L4`` and not in ``NVIDIA L40S``. A policy that base does not have enforces nothing.
    """
    layers = tuple(_layers(policy, model, hardware))
    ceiling = next((layer.ceilings[metric_name] for layer in layers if metric_name in layer.ceilings), None)
    mode = next((found for layer in layers if (found := _mode(layer, metric_name))), policy.mode)
    return Limit(
        relative=_relative(policy, layers, metric_name),
        ceiling=ceiling,
        enforced=mode != REPORT and policy.has_base,
    )


def definition(metric_name: str) -> Metric:
    """The registry's entry; a count that the registry does not know is exact, shown, and has no limit of its own."""
    try:
        return metric(metric_name)
    except KeyError:
        return Metric(name=metric_name, label=metric_name, kind=EXACT, unit="count")


def kind_of(metric_name: str, workload: Workload) -> str:
    """``noisy``, ``exact`` or ``shown``: peak memory is a noisy high-water mark on the CPU and exact on CUDA."""
    if metric_name == "peak_memory" and workload.device != "cpu":
        return EXACT
    return definition(metric_name).kind


def tolerance_of(metric_name: str, relative: float) -> float:
    """The tolerance that :func:`perfgate.stats.sequential.decide` needs for a limit, since its log ratios are
    positive when worse: a fall by ``relative`` is a rise of the inverse by relative / (1 - relative)."""
    if not definition(metric_name).larger_is_better:
        return relative
    return relative / (1 - relative) if relative < 1 else math.inf


def _layers(policy: Policy, model: str, hardware: tuple[str, ...]) -> Iterator[Limits]:
    for limits in (policy.models.get(model), policy.limits):
        if limits is not None:
            yield from (below for key, below in limits.hardware.items() if _names(key, hardware))
            yield limits


def _names(key: str, hardware: tuple[str, ...]) -> bool:
    word = re.compile(rf"(?<![a-z0-9]){re.escape(key.casefold())}(?![a-z0-9])")
    return any(word.search(text.casefold()) for text in hardware)


def _mode(layer: Limits, metric_name: str) -> str | None:
    mode = layer.metric_modes.get(metric_name, layer.mode)
    return mode if mode in (ENFORCE, REPORT) else None


def _relative(policy: Policy, layers: tuple[Limits, ...], metric_name: str) -> float | None:
    for layer in layers:
        if metric_name in layer.relative:
            return layer.relative[metric_name]
    known = definition(metric_name)
    if metric_name in ("latency", "energy") or metric_name.startswith(SPAN_PREFIX):
        return policy.tolerance
    # Peak memory and the counts have limits of their own; what the registry only shows stays ungated.
    return known.default_limit if known.kind in (NOISY, EXACT) else None
