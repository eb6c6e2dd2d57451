"""The registry of metrics: one line each, the only place that knows kind, unit and direction."""

from __future__ import annotations

from dataclasses import dataclass

NOISY = "noisy"
EXACT = "exact"
SHOWN = "shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """``default_limit`` None: shown unless the policy gives a limit. ``larger_is_better`` flips the direction."""

    name: str
    label: str
    kind: str
    unit: str
    default_limit: float | None = None
    larger_is_better: bool = False


_ALL = (
    Metric(name="latency", label="step time", kind=NOISY, unit="ns", default_limit=0.03),
    Metric(name="energy", label="energy per item", kind=NOISY, unit="joule", default_limit=0.03),
    # What latency costs on this runner, where its price is known; a month where a volume is declared too.
    Metric(name="cost", label="cost per 1 M items", kind=NOISY, unit="usd"),
    Metric(name="monthly_cost", label="cost per month", kind=NOISY, unit="usd"),
    # Noisy on the CPU (resident high-water mark), exact on CUDA (allocator peak): see evidence.
    Metric(name="peak_memory", label="peak memory", kind=NOISY, unit="byte", default_limit=0.01),
    Metric(name="flop", label="F", kind=EXACT, unit="flop", default_limit=0.01),
    Metric(name="traffic", label="M eager", kind=EXACT, unit="byte", default_limit=0.01),
    Metric(name="weight_bytes", label="weights", kind=EXACT, unit="byte", default_limit=0.01),
    Metric(name="params", label="parameters", kind=EXACT, unit="count"),
    Metric(name="operators", label="operator calls", kind=EXACT, unit="count"),
    Metric(name="graph_breaks", label="graph breaks", kind=EXACT, unit="count"),
    Metric(name="latency_p90", label="step time p90", kind=SHOWN, unit="ns"),
    Metric(name="latency_p99", label="step time p99", kind=SHOWN, unit="ns"),
    Metric(name="throughput", label="throughput", kind=SHOWN, unit="item/s", larger_is_better=True),
    Metric(name="first_step", label="first step", kind=SHOWN, unit="ns"),
    Metric(name="utilisation", label="share of CPU time", kind=SHOWN, unit="ratio", larger_is_better=True),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}

SPAN_PREFIX = "span:"


def metric(name: str) -> Metric:
    """The definition of ``name``; ``span:NAME`` is the time of a span yielded by a step. Raises KeyError."""
    if name.startswith(SPAN_PREFIX):
        label = name.removeprefix(SPAN_PREFIX)
        return Metric(name=name, label=label, kind=NOISY, unit="ns", default_limit=0.03)
    return METRICS[name]
