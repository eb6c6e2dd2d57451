"""Tables in the form of SkyPilot's catalogue: its own columns, ``GpuInfo`` as it is or flattened to ``GpuMemMiB``.

``TotalGpuMemMiB`` is not read: some providers' fetchers put one device's memory there, others the sum.
"""

from __future__ import annotations

import ast
import re

from benchmarks.cost.prices import names
from benchmarks.cost.prices.machine import CPU_NOT_SAID, NO_PLATFORM, PART, LeftOut, Machine

# Machines without accelerators whose CPU the provider documents: start of the name -> platform, cores a vCPU.
_CPUS = {("nebius", "cpu-d3"): ("epyc-9654", 0.5), ("oci", "VM.Standard.E4"): ("epyc-7j13", 0.5),
         ("oci", "VM.Standard.E5"): ("epyc-9j14", 0.5)}  # fmt: skip


def row(cells: dict[str, str], provider: str, cores: dict[str, int]) -> Machine:
    """Devices of one row. Raises LeftOut."""
    vcpus, ram = _number(cells["vCPUs"]), _number(cells["MemoryGiB"])
    accelerator = cells["AcceleratorName"].strip()
    if not accelerator:
        return _cpu(cells["InstanceType"], provider, vcpus, ram, cores)
    count = _number(cells["AcceleratorCount"])
    if count is None or count < 1 or not count.is_integer():
        raise LeftOut(PART)
    return Machine(
        platform=names.platform(accelerator, provider, cells["InstanceType"]),
        count=int(count),
        device_gib=_device_gib(cells),
        vcpus=vcpus,
        ram_gib=ram,
    )


def _cpu(instance: str, provider: str, vcpus: float | None, ram: float | None, cores: dict[str, int]) -> Machine:
    for (who, start), (platform, cores_a_vcpu) in _CPUS.items():
        if who == provider and instance.startswith(start) and vcpus:
            if platform not in cores:
                raise LeftOut(NO_PLATFORM)
            share = vcpus * cores_a_vcpu / cores[platform]
            return Machine(platform=platform, share=share, vcpus=vcpus, ram_gib=ram)
    raise LeftOut(CPU_NOT_SAID)


def _device_gib(cells: dict[str, str]) -> float | None:
    mib = _number(cells.get("GpuMemMiB", ""))
    if mib is None and cells.get("GpuInfo", "").startswith("{"):
        text = re.sub(r"\bnull\b", "None", cells["GpuInfo"])
        mib = float(ast.literal_eval(text)["Gpus"][0]["MemoryInfo"]["SizeInMiB"])
    return None if mib is None else mib / 1024


def _number(text: str) -> float | None:
    return float(text) if text.strip() else None
