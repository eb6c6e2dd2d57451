"""Values that published hardware tables get wrong, as facts: where, what they say, and which mistake it is.

Each row is what one real table says of one device (2024 to 2026 editions); ``wrong`` maps the wrong fields to the
diagnoses that are right. Fields of a row that are not in ``wrong`` are right.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.hardware.rows import (
    BINARY,
    BOARD,
    COLUMN,
    DEVICE,
    DIE,
    DIFFERS,
    HALF,
    IMPLAUSIBLE,
    SPARSE,
    UNIT,
    UNSUPPORTED,
    VECTOR,
    Row,
    row,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownError:
    """One row of the table ``source``."""

    source: str
    row: Row
    wrong: dict[str, str]


def _error(source: str, item: Row, **wrong: str) -> KnownError:
    return KnownError(source=source, row=item, wrong=wrong)


KNOWN_ERRORS = (
    # E17 https://github.com/pytorch/pytorch/pull/182023: sparse rates and the A100's tf32 for the H100.
    _error(
        "PyTorch inductor",
        row("NVIDIA H100", "h100-sxm", float16=1979, bfloat16=1979, tf32=156, bandwidth_gb_s=3350, memory_gib=80),
        float16=SPARSE,
        bfloat16=SPARSE,
        tf32=DEVICE,
    ),
    _error(
        "PyTorch inductor",
        row("NVIDIA L4", "l4", float32=30.3, float16=242, bandwidth_gb_s=3350, memory_gib=24),
        float16=SPARSE,
        bandwidth=DEVICE,
    ),
    # E19 https://github.com/Lightning-AI/pytorch-lightning/issues/21677: H100 NVL and H200 sparse, H100 SXM dense.
    _error(
        "Lightning",
        row("h200 sxm1", "h200-sxm", float32=67, tf32=990, float16=2000, bfloat16=2000, int8=4000),
        tf32=SPARSE,
        float16=SPARSE,
        bfloat16=SPARSE,
        int8=SPARSE,
    ),
    _error(
        "Lightning",
        row("h100 nvl", "h100-nvl", float32=133.8, tf32=989.4, float16=1978.8, bfloat16=1978.8, int8=3957.8),
        float32=BOARD,
        tf32=SPARSE,
        float16=SPARSE,
        bfloat16=SPARSE,
        int8=SPARSE,
    ),
    _error("Lightning", row("h100 sxm", "h100-sxm", float32=66.9, bfloat16=989.4, int8=1978.9)),
    _error("Lightning", row("rtx 3090", "rtx-3090", float32=35.6, float16=35.6, int8=284), float16=VECTOR),
    _error("Lightning", row("rtx 4090", "rtx-4090", float32=82.6, float16=82.6, int8=660.6), float16=VECTOR),
    _error("Lightning", row("a6000", "rtx-a6000", tf32=77.4, bfloat16=38.7, int8=309.7), bfloat16=VECTOR),
    _error(
        "Lightning",
        row("a10g", "a10g", float32=31.2, tf32=62.5, float16=125, bfloat16=125, int8=250),
        tf32=DEVICE,
        float16=DEVICE,
        bfloat16=DEVICE,
        int8=DEVICE,
    ),
    _error("Lightning", row("rtx 2080 ti", "rtx-2080-ti", float16=28.5), float16=VECTOR),
    _error("llm-analysis", row("v100-sxm-16gb", "v100-sxm-16gb", float16=125, memory_gib=32), memory=DEVICE),
    _error("llm-analysis", row("a10", "a10", float16=125, bandwidth_gb_s=600, memory_gib=28), memory=IMPLAUSIBLE),
    _error("llm-analysis", row("mi210", "mi210", float16=181, int8=362), int8=DEVICE),
    _error("gpu_poor", row("A4000", "rtx-a4000", bandwidth_gb_s=768, memory_gib=16), bandwidth=DEVICE),
    # 1000 GB/s is no figure of any P100: that it differs is all that can be said.
    _error(
        "gpu_poor",
        row("P100", "p100-pcie-16gb", bandwidth_gb_s=1000, memory_gib=12),
        bandwidth=DIFFERS,
        memory=DEVICE,
    ),
    _error("LLM-Viewer", row("nvidia_H100", "h100-sxm", bandwidth_gb_s=3072), bandwidth=BINARY),
    _error("LLM-Viewer", row("intel_13900k", "core-i9-13900k", float16=1.38, bandwidth_gb_s=89.6), float16=UNSUPPORTED),
    _error(
        "TechPowerUp",
        row("Radeon Instinct MI300X", "mi300x", float32=81.72, bandwidth_gb_s=10300, memory_gib=192, power_w=750),
        float32=HALF,
        bandwidth=IMPLAUSIBLE,
    ),
    _error(
        "TechPowerUp",
        row("Radeon Instinct MI325X", "mi325x", bandwidth_gb_s=10300, memory_gib=288, power_w=1000),
        bandwidth=IMPLAUSIBLE,
        memory=DEVICE,
    ),
    _error("TechPowerUp", row("B200", "b200-sxm", bandwidth_gb_s=4100, memory_gib=90), bandwidth=DIE, memory=DIE),
    _error("TechPowerUp", row("B300", "b300-sxm", bandwidth_gb_s=4100, memory_gib=144), bandwidth=DIE, memory=DIE),
    _error("TechPowerUp", row("Tesla K80", "k80", float32=4.113, memory_gib=12, power_w=300), power=BOARD),
    # No GTX 750 in the catalogue: the row alone must do.
    _error("mlco2", row("GTX 750", float32=1111, power_w=250), float32=UNIT),
    _error(
        "mlco2",
        row("Quadro P6000", "quadro-p6000", float32=12.63, float16=197.4, memory_gib=24, power_w=250),
        float16=UNIT,
    ),
    _error(
        "mlco2",
        row("H100 SXM", "h100-sxm", float32=989, float16=1979, memory_gib=80, power_w=700),
        float32=COLUMN,
        float16=SPARSE,
    ),
    _error("mlco2", row("H100 NVL", "h100-nvl", float32=835, float16=1671), float32=COLUMN, float16=SPARSE),
    _error("mlco2", row("L40S", "l40s", float32=183, float16=362.05, power_w=350), float32=COLUMN),
    _error("mlco2", row("L4", "l4", float32=31.33, float16=31.33), float16=VECTOR),
    _error("mlco2", row("RTX A5000", "rtx-a5000", float32=27.8, float16=27.8), float16=VECTOR),
    _error("mlco2", row("Tesla V100-PCIE-16GB", "v100-pcie-16gb", float32=14.13, float16=28.26), float16=VECTOR),
    _error("mlco2", row("Titan RTX", "titan-rtx", float32=16.31, float16=32.63), float16=VECTOR),
    _error("mlco2", row("TPUv2 Chip", "tpu-v2", bfloat16=45, memory_gib=64), memory=BOARD),
    _error("mlco2", row("TPUv3 Chip", "tpu-v3", bfloat16=90, memory_gib=128), bfloat16=DIFFERS, memory=BOARD),
)
