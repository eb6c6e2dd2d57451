"""Costs from short descriptions. Numbers hang together: prices times times, intensities against ridges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfgate.records.cost import (
    MEMORY_BOUND,
    ROOFLINE,
    SINGLE,
    Answer,
    CostReport,
    Missed,
    Point,
    Requirements,
    RooflineOperator,
    RooflineSummary,
    SideCost,
    WorkloadCost,
)
from perfgate.records.hardware import ON_DEMAND, Excluded, Offer, PriceTable
from perfgate.records.report import ModelResult

TABLES = (
    PriceTable(provider="aws", date="2026-07-20", source="shipped with perfgate", offers=812),
    PriceTable(provider="gcp", date="2026-08-03", source="shipped with perfgate", offers=640),
)


def offer(platform: str = "l4", usd: float = 0.805, **fields: Any) -> Offer:
    """A machine with one L4 unless given."""
    values: dict[str, Any] = {
        "provider": "aws",
        "region": "us-east-1",
        "instance": "g6.xlarge",
        "platform": platform,
        "count": 1,
        "usd_per_hour": usd,
        "terms": ON_DEMAND,
        "date": "2026-07-20",
        "source": "shipped with perfgate",
    }
    return Offer(**{**values, **fields})


def point(rented: Offer | None = None, step_ns: float = 18e6, *, batch: int = 32, **fields: Any) -> Point:
    """One configuration; money and throughput follow from the price and the step time."""
    rented = rented or offer()
    devices = fields.get("devices", rented.count)
    items_per_s = batch * devices / (step_ns / 1e9)
    values: dict[str, Any] = {
        "offer": rented,
        "devices": devices,
        "batch": batch,
        "dtype": "bfloat16",
        "compile": "eager",
        "form": SINGLE,
        "step_ns": step_ns,
        "low_ns": step_ns / 1.3,
        "high_ns": step_ns * 1.3,
        "source": ROOFLINE,
        "memory_bytes": 6 * 2**30,
        "free_bytes": 20 * 2**30,
        "utilisation": 0.12,
        "items_per_s": items_per_s,
        "usd_per_1k_steps": rented.usd_per_hour / 3600 * 1000 * batch / items_per_s,
        "usd_per_1m_items": rented.usd_per_hour / 3600 * 1e6 / items_per_s,
        "bound": MEMORY_BOUND,
        "why": "memory bound at I = 19.1 < 403 FLOP/B",
        "energy_j_per_item": 0.04,
    }
    return Point(**{**values, **fields})


def front() -> tuple[Point, ...]:
    """Four configurations that nothing beats, the cheapest first."""
    l40s = offer("l40s", 1.86, instance="g6e.xlarge")
    h100 = offer("h100-sxm", 6.88, instance="p5.4xlarge")
    pair = offer("l40s", 4.2, count=2, provider="gcp", instance="g2-pair-24", region="us-central1", date="2026-08-03")
    return (
        point(offer(), 18e6, utilisation=0.121),
        point(l40s, 9e6, utilisation=0.19, knee=True),
        point(pair, 9.2e6, utilisation=0.21, form="data"),
        point(h100, 4.4e6, utilisation=0.26, energy_j_per_item=None),
    )


def answer(*points: Point, **fields: Any) -> Answer:
    """An optimum whose front is ``points``, the first the cheapest, unless given."""
    points = points or front()
    values: dict[str, Any] = {
        "candidates": 3_120,
        "feasible": 412,
        "front": points,
        "cheapest": points[0],
        "sources": {ROOFLINE: 3_120},
        "tables": TABLES,
    }
    return Answer(**{**values, **fields})


def operator(name: str = "layer3.0.conv2", flop: int = 462_422_016, moved: int = 5_000_000, **fields: Any) -> Any:
    """Kernels under the roof of :func:`roof`; the bound follows from it."""
    pi, beta = 121e12, 300e9
    values: dict[str, Any] = {
        "kind": "convolution",
        "dtype": "bfloat16",
        "calls": 6,
        "flop": flop,
        "bytes": moved,
        "intensity": flop / moved if moved else 0.0,
        "bound": "compute" if flop / pi > moved / beta else "memory",
        "bound_ns": max(flop / pi, moved / beta) * 1e9,
        "share": 0.1,
    }
    return RooflineOperator(name=name, **{**values, **fields})


def roof(step_ns: float | None = 15.02e6, **fields: Any) -> RooflineSummary:
    """A training step of 785 GFLOP and 41 GB on an L4: memory bound at I = 19.1 < 403."""
    pi, beta, flop, intensity = 121e12, 300e9, 50e9, 19.1
    attainable = min(pi, beta * intensity)
    bound_ns = flop / attainable * 1e9
    values: dict[str, Any] = {
        "device": "l4",
        "measured": True,
        "flop_per_s": pi,
        "bandwidth_bytes_per_s": beta,
        "ridge": pi / beta,
        "intensity": intensity,
        "attainable_flop_per_s": attainable,
        "bound": "memory",
        "bound_ns": bound_ns,
        "achieved_flop_per_s": None if step_ns is None else flop / step_ns * 1e9,
        "share": None if step_ns is None else bound_ns / step_ns,
        "operators": (
            operator("layer4.*.conv2", 9_000_000_000, 14_000_000, share=0.31),
            operator("layer3.*.conv2", 5_000_000_000, 120_000_000, share=0.24),
            operator("bn1/batch_norm", 40_000_000, 100_000_000, kind="normalisation", share=0.2),
            operator("relu", 0, 60_000_000, kind="elementwise", share=0.15),
            operator("fc", 4_096_000, 8_200_000, kind="matmul", calls=1, share=0.04),
        ),
    }
    return RooflineSummary(**{**values, **fields})


def side(found: Answer | None = None, step_ns: float = 15.02e6, **fields: Any) -> SideCost:
    """A side on a runner of $0.805 an hour with 32 items a step."""
    usd = 0.805 / 3600 * step_ns / 1e9
    values: dict[str, Any] = {
        "roofline": roof(step_ns),
        "runner_step_ns": step_ns,
        "runner_usd_per_1k_steps": 1e3 * usd,
        "runner_usd_per_1m_items": 1e6 / 32 * usd,
    }
    return SideCost(answer=found or answer(), **{**values, **fields})


def unpriced(found: Answer | None = None, **fields: Any) -> SideCost:
    """A side on a runner that has no price."""
    return side(found, runner_usd_per_1k_steps=None, runner_usd_per_1m_items=None, usd_per_month=None, **fields)


def workload_cost(entry: ModelResult, base: SideCost | None, head: SideCost | None, **fields: Any) -> WorkloadCost:
    """The cost of a workload of the report, which asks for 20 ms."""
    values: dict[str, Any] = {"requirements": Requirements(max_step_ns=20e6)}
    return WorkloadCost(model=entry.model, key=entry.key, base=base, head=head, **{**values, **fields})


def cost_report(*workloads: WorkloadCost, **fields: Any) -> CostReport:
    """A runner whose price is declared."""
    values: dict[str, Any] = {
        "runner_usd_per_hour": 0.805,
        "runner_price": "aws/g6.xlarge in us-east-1 of 2026-07-20",
        "tables": TABLES,
        "excluded": (
            Excluded(what="spot offers", reason="terms are on-demand and own", count=611),
            Excluded(what="offers", reason="price outside of 0.2 to 5 times the median of its platform", count=3),
        ),
    }
    return CostReport(workloads=workloads, **{**values, **fields})


def infeasible(nearest: Point | None = None) -> Answer:
    """Nothing meets the limit; one H100 comes nearest."""
    nearest = nearest or point(offer("h100-sxm", 6.88, instance="p5.4xlarge"), 26.1e6)
    missed = Missed(constraint="max_step_time", value=33.9e6, limit=20e6, text="step time 33.9 ms > 20 ms")
    return Answer(
        candidates=3_120, feasible=0, nearest=nearest, missed=(missed,), sources={ROOFLINE: 3_120}, tables=TABLES
    )


def tied() -> Answer:
    """L4, A10G and a slice that the intervals cannot tell apart."""
    cheap, *others = front()
    a10g = point(offer("a10g", 1.006, instance="g5.xlarge"), 15.1e6, utilisation=0.11, tie=1)
    slice_ = point(offer("a10", 0.454, share=0.5, instance="NV18ads_A10_v5", provider="azure"), 32e6, tie=1)
    return answer(replace(cheap, tie=1), *others, tied=(a10g, slice_))
