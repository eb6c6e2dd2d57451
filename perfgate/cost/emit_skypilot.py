"""Floor 3, cost. What is asked for as a task of SkyPilot. In: an :class:`Ask`. Out: YAML, to which ``run`` is added."""

from __future__ import annotations

from typing import Any

from perfgate.cost import emit_yaml
from perfgate.cost.emit_facts import Ask, card, gib
from perfgate.errors import UsageError
from perfgate.records.hardware import OWN

# Providers of the price lists that SkyPilot has under the same name.
CLOUDS = ("aws", "azure", "cudo", "gcp", "lambda", "nebius", "oci", "paperspace", "runpod", "verda")
# Those of them whose machines are called in its catalogue as in the price lists.
_INSTANCES = ("aws", "azure", "gcp", "lambda", "nebius")
# Providers whose lists name regions as SkyPilot does.
_REGIONS = ("aws", "azure", "gcp", "nebius")
# Names of its catalogue.
_ACCELERATORS = {
    "k80": "K80", "m60": "M60", "p4": "P4", "p100-pcie-16gb": "P100", "p100-sxm-16gb": "P100", "t4": "T4", "t4g": "T4g",
    "v100-pcie-16gb": "V100", "v100-sxm-16gb": "V100", "v100-pcie-32gb": "V100-32GB", "v100-sxm-32gb": "V100-32GB",
    "a10": "A10", "a10g": "A10G", "a40": "A40", "l4": "L4", "l40": "L40", "l40s": "L40S",
    "a100-pcie-40gb": "A100", "a100-sxm-40gb": "A100", "a100-pcie-80gb": "A100-80GB", "a100-sxm-80gb": "A100-80GB",
    "h100-pcie": "H100", "h100-sxm": "H100", "h100-nvl": "H100-NVL", "h200-sxm": "H200", "gh200": "GH200",
    "b200-sxm": "B200", "b300-sxm": "B300", "gb200": "GB200", "rtx-pro-6000": "RTXPRO6000",
    "quadro-rtx-6000": "RTX6000", "rtx-a4000": "RTXA4000", "rtx-a5000": "RTXA5000", "rtx-a6000": "RTXA6000",
    "rtx-4000-ada": "RTX4000-Ada", "rtx-6000-ada": "RTX6000-Ada", "rtx-3060": "RTX3060", "rtx-3080": "RTX3080",
    "rtx-3090": "RTX3090", "rtx-4060": "RTX4060", "rtx-4080": "RTX4080", "rtx-4090": "RTX4090", "rtx-5090": "RTX5090",
    "mi300x": "MI300X", "gaudi": "Gaudi HL-205", "inferentia1": "Inferentia", "inferentia2": "Inferentia2",
    "trainium1": "Trainium", "trainium2": "Trainium2",
}  # fmt: skip
# Of a machine that SkyPilot knows under another name than that of its device.
_BY_CLOUD = {("runpod", "h100-sxm"): "H100-SXM", ("runpod", "h200-sxm"): "H200-SXM",
             ("runpod", "a100-sxm-80gb"): "A100-80GB-SXM", ("lambda", "rtx-a6000"): "A6000"}  # fmt: skip


def text(ask: Ask) -> str:
    """The task, below comments that say what it stands for. Raises UsageError for what SkyPilot has no words for."""
    comments = [ask.summary, "add setup and run, then: sky launch FILE"]
    if ask.offer.provider not in CLOUDS and ask.offer.provider != OWN:
        comments.append(f"{ask.offer.provider} is no cloud of SkyPilot's: it will look for such a machine elsewhere")
    if ask.devices and not _exact(ask) and not _known(ask):
        comments.append(f"check that `sky show-gpus` knows the name {_accelerator(ask)}")
    return emit_yaml.document(task(ask), *comments)


def task(ask: Ask) -> dict[str, Any]:
    """The task as data. Raises as :func:`text` does."""
    return {"name": ask.name, "num_nodes": 1, "resources": _resources(ask)}


def _resources(ask: Ask) -> dict[str, Any]:
    offer = ask.offer
    found: dict[str, Any] = {}
    if offer.provider in CLOUDS:
        region = offer.region if offer.provider in _REGIONS else ""
        found["infra"] = f"{offer.provider}/{region}" if region else offer.provider
    exact = _exact(ask)
    if ask.devices and (ask.mig or ask.fraction):
        if not exact:
            msg = (
                f"SkyPilot has no name for a part of a device ({ask.platform.name}); "
                "leave it out with --devices, or use another format"
            )
            raise UsageError(msg)
    elif ask.devices and (_known(ask) or not exact):
        # A cloud rents whole machines; of one's own only what is used is asked for.
        count = ask.devices if offer.provider == OWN else ask.machine_devices
        found["accelerators"] = f"{_accelerator(ask)}:{count}"
    # On GCP the accelerators decide on the type.
    if exact and not (offer.provider == "gcp" and "accelerators" in found):
        found["instance_type"] = offer.instance
    else:
        if ask.cpus:
            found["cpus"] = f"{ask.cpus}+"
        found["memory"] = f"{gib(ask.host_bytes)}+"
    if ask.spot:
        found["use_spot"] = True
    return found


def _exact(ask: Ask) -> bool:
    """Whether the machine's type says all."""
    return ask.offer.provider in _INSTANCES and "+" not in ask.offer.instance


def _known(ask: Ask) -> str:
    """The accelerator's name in SkyPilot's catalogue, or empty."""
    if ask.offer.provider == "gcp" and ask.offer.instance.startswith("a3-mega"):
        return "H100-MEGA"
    whole = ask.whole.name
    return _BY_CLOUD.get((ask.offer.provider, whole)) or _ACCELERATORS.get(whole, "")


def _accelerator(ask: Ask) -> str:
    """That name, else one in the same manner: ``RTX3060TI``."""
    return _known(ask) or card(ask).replace("-", "").upper()
