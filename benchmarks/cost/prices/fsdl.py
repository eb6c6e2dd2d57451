"""The table of GPU clouds of the Full Stack (2025-03): no regions, few names of machines, no dates by row.

Prices of machines that a newer list of the same provider has are left out. Where a cloud does not name its machines,
the name is made of what the row says (``2x-a6000-8vcpu``).
"""

from __future__ import annotations

import re

from benchmarks.cost.prices import names
from benchmarks.cost.prices.azure import machine as azure_machine
from benchmarks.cost.prices.machine import LeftOut, Machine

_PROVIDERS = {
    "AWS": "aws", "Azure": "azure", "GCP": "gcp", "Lambda": "lambda", "Oracle Cloud": "oci", "Datacrunch": "verda",
    "Latitude.sh": "latitude", "Cudo Compute": "cudo", "Oblivus Cloud": "oblivus",
}  # fmt: skip
_GIB = re.compile(r"\((\d+) ?GB\)")


def provider(cloud: str) -> str:
    """One word, lower case."""
    return _PROVIDERS.get(cloud, re.sub(r"\W", "", cloud.lower()))


def row(cells: dict[str, str]) -> tuple[str, Machine]:
    """Name of the machine and its devices. Raises LeftOut."""
    who = provider(cells["Cloud"])
    accelerator = _GIB.sub("", cells["GPU Type"]).removeprefix("Quadro ").strip()
    count = int(cells["GPUs"])
    name = _name(who, cells, accelerator, count)
    if who == "azure":
        return name, azure_machine(name)
    known = names.platform(_with_memory(accelerator, cells["GPU Type"]), who, name)
    gib = _GIB.search(cells["GPU Type"])
    return name, Machine(
        platform=known,
        count=count,
        device_gib=float(gib[1]) if gib else None,
        vcpus=_number(cells["vCPUs"]),
        ram_gib=_number(cells["RAM"]),
    )


def _with_memory(accelerator: str, text: str) -> str:
    """A100 has two sizes of memory, and its name has to say which."""
    return f"{accelerator} 80GB" if accelerator == "A100" and "80" in text else accelerator


def _name(who: str, cells: dict[str, str], accelerator: str, count: int) -> str:
    name = cells["Name"].strip()
    if who == "azure":
        return f"Standard_{name.replace(' ', '_')}"
    if who == "gcp" and name.startswith("n1-"):
        # One host type carries several kinds of GPU: the list's price is of both together.
        return f"{name}+{count}x{accelerator.lower()}"
    if name:
        return re.sub(r"\s+", "-", name)
    slug = re.sub(r"\W+", "-", accelerator.lower()).strip("-")
    vcpus = cells["vCPUs"].strip()
    return f"{count}x-{slug}-{vcpus}vcpu" if vcpus else f"{count}x-{slug}"


def _number(text: str) -> float | None:
    """None for an empty cell and for a range (``4-6``)."""
    try:
        return float(text)
    except ValueError:
        return None


def unreliable(cells: dict[str, str]) -> str:
    """Why this row cannot be right whatever it means, or nothing."""
    if not cells["On-demand"].strip():
        return "no price of the machine"
    if cells["Cloud"] == "Lambda":
        return "replaced by a newer list"
    return ""


__all__ = ["LeftOut", "provider", "row", "unreliable"]
