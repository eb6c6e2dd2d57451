"""Names that price lists give accelerators -> platforms of the catalogue.

Where a list does not say whether a card is SXM or PCIe, the provider's own documentation has to; where it does not
either, the row is left out.
"""

from __future__ import annotations

import re

from benchmarks.cost.prices.machine import CPU_NOT_SAID, FORM_NOT_SAID, NO_PLATFORM, LeftOut

# Texts without blanks, hyphens and underscores, in lower case.
_PLAIN = {
    "k80": "k80", "m60": "m60", "p4": "p4", "p40": "p40", "t4": "t4", "t4g": "t4g", "l4": "l4", "l40": "l40",
    "l40s": "l40s", "a2": "a2", "a10": "a10", "a10g": "a10g", "a16": "a16", "a30": "a30", "a40": "a40",
    "a4000": "rtx-a4000", "rtxa4000": "rtx-a4000", "a5000": "rtx-a5000", "rtxa5000": "rtx-a5000",
    "a6000": "rtx-a6000", "rtxa6000": "rtx-a6000", "rtxa2000": "rtx-a2000",
    "rtx6000": "quadro-rtx-6000", "rtx5000": "quadro-rtx-5000", "rtx4000": "quadro-rtx-4000",
    "rtx6000ada": "rtx-6000-ada", "rtxpro6000": "rtx-pro-6000", "rtxpro6000blackwell": "rtx-pro-6000",
    "rtx3060": "rtx-3060", "rtx3060ti": "rtx-3060-ti", "rtx3070": "rtx-3070", "rtx3090": "rtx-3090",
    "rtx4090": "rtx-4090", "rtx5090": "rtx-5090", "3080ti": "rtx-3080-ti",
    "v10016gb": "v100-sxm-16gb", "v10032gb": "v100-sxm-32gb", "a10040gb": "a100-sxm-40gb", "a10080gb": "a100-sxm-80gb",
    "h100sxm": "h100-sxm", "h200": "h200-sxm", "b200": "b200-sxm", "b300": "b300-sxm", "gh200": "gh200",
    "gb200": "gb200", "gb300": "gb300", "h100hgx": "h100-sxm", "h100pcie": "h100-pcie",
    "a10080gpcie": "a100-pcie-80gb", "a10080gpcienvlink": "a100-pcie-80gb", "h10080gpcie": "h100-pcie",
    "h10080gpcienvlink": "h100-pcie", "h10080gsxm5": "h100-sxm",
    "mi300x": "mi300x", "mi355x": "mi355x", "gaudi1": "gaudi", "inferentia1": "inferentia1",
    "inferentia2": "inferentia2", "trainium1": "trainium1", "v520": "v520",
}  # fmt: skip
# Where the list is silent on the form, the provider's documentation says it.
_FORMS = {
    ("aws", "a100"): "a100-sxm-40gb", ("aws", "h100"): "h100-sxm",
    ("gcp", "v100"): "v100-sxm-16gb", ("gcp", "p100"): "p100-pcie-16gb",
    ("azure", "v100"): "v100-pcie-16gb", ("azure", "p100"): "p100-pcie-16gb",
    ("oci", "v100"): "v100-sxm-16gb", ("oci", "a100"): "a100-sxm-40gb", ("oci", "h100"): "h100-sxm",
    ("oci", "a10080gb"): "a100-sxm-80gb", ("nebius", "h100"): "h100-sxm",
    ("verda", "v100"): "v100-sxm-16gb", ("verda", "h100"): "h100-sxm", ("verda", "a10080gb"): "a100-sxm-80gb",
    ("lambda", "v100"): "v100-sxm-16gb", ("lambda", "a10080gb"): "a100-sxm-80gb",
}  # fmt: skip
# Two forms are on the market, and only the pairs above say which.
_AMBIGUOUS = ("v100", "p100", "a100", "a10040gb", "a10080gb", "h100", "h200", "v10016gb", "v10032gb")
_SURE = ("aws", "azure", "gcp", "oci", "nebius", "verda", "lambda")


def platform(text: str, provider: str, instance: str = "") -> str:
    """The platform of an accelerator's name. Raises LeftOut."""
    key = re.sub(r"[\s_()-]", "", text.lower())
    if not key:
        raise LeftOut(CPU_NOT_SAID)
    if provider == "lambda" and key in ("a100", "h100"):
        return _by_instance(key, instance)
    found = _FORMS.get((provider, key))
    if found:
        return found
    if key in _AMBIGUOUS and (provider not in _SURE or key not in _PLAIN):
        raise LeftOut(FORM_NOT_SAID)
    if key not in _PLAIN:
        raise LeftOut(NO_PLATFORM)
    return _PLAIN[key]


def _by_instance(key: str, instance: str) -> str:
    forms = {"_sxm4": "a100-sxm-40gb", "_sxm5": "h100-sxm", "_pcie": "h100-pcie"}
    for mark, found in forms.items():
        if mark in instance:
            return found
    if key == "a100":
        # Lambda names the form only where it has both: boxes of eight are HGX boards, the others PCIe cards.
        return "a100-sxm-40gb" if instance.startswith("gpu_8x") else "a100-pcie-40gb"
    raise LeftOut(FORM_NOT_SAID)
