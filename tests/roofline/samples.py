"""Platforms, kernels and probes with round numbers."""

from __future__ import annotations

from perfgate.records.cost import Device
from perfgate.records.graph import KernelGroup
from perfgate.records.hardware import MeasuredRoofline, Platform

TERA, GIGA = 1e12, 1e9


def platform(name: str = "round", **more) -> Platform:
    """1 TFLOP/s in float32, 4 in float16, 8 in int8; 100 GB/s. Ridge in float32: 10 FLOP/B."""
    fields = {
        "label": name.title(),
        "vendor": "nvidia",
        "kind": "gpu",
        "peak_flop_per_s": {"float32": TERA, "float16": 4 * TERA, "int8": 8 * TERA},
        "bandwidth_bytes_per_s": 100 * GIGA,
        "memory_bytes": 2**34,
    }
    return Platform(name=name, **{**fields, **more})


def device(share: float = 1.0, **more) -> Device:
    return Device(platform=platform(**more), share=share)


def kernel(flop: int = 0, moved: int = 0, **more) -> KernelGroup:
    fields = {"name": "fc", "kind": "matmul" if flop else "pointwise", "dtype": "float32"}
    return KernelGroup(flop=flop, bytes=moved, **{**fields, **more})


def probe(bandwidth: float = 80 * GIGA, **rates: float) -> MeasuredRoofline:
    return MeasuredRoofline(
        device="cuda:0",
        label="Round",
        flop_per_s=rates,
        bandwidth_bytes_per_s=bandwidth,
        probe_bytes=2**30,
        measured_at="2026-11-30T00:00:00Z",
    )
