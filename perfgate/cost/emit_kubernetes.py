"""Floor 3, cost. What is asked for as a fragment of a pod: resources of its container, and which nodes may run it.

In: an :class:`Ask`. Out: YAML. Fields are those of the core/v1 PodSpec; labels are the well-known ones of Kubernetes,
those of the cloud, and of the vendors' label writers (GPU feature discovery of NVIDIA, the node labeller of AMD).
"""

from __future__ import annotations

import math
from typing import Any

from perfgate.cost import emit_yaml
from perfgate.cost.emit_facts import ARM64, Ask, gib
from perfgate.records.hardware import GPU, TPU

INSTANCE = "node.kubernetes.io/instance-type"
REGION = "topology.kubernetes.io/region"
# Of a node's processors: what stays for the kubelet and what runs on every node.
_SYSTEM_SHARE = 0.1

# Providers whose nodes have the label of their type, and whose types in the price lists are what the label says.
_CLOUDS = ("aws", "azure", "gcp")
_SPOT = {
    "aws": ("eks.amazonaws.com/capacityType", "SPOT"),
    "azure": ("kubernetes.azure.com/scalesetpriority", "spot"),
    "gcp": ("cloud.google.com/gke-spot", "true"),
}
_GKE = {
    "k80": "nvidia-tesla-k80", "p100-pcie-16gb": "nvidia-tesla-p100", "p4": "nvidia-tesla-p4", "t4": "nvidia-tesla-t4",
    "v100-sxm-16gb": "nvidia-tesla-v100", "l4": "nvidia-l4", "a100-sxm-40gb": "nvidia-tesla-a100",
    "a100-sxm-80gb": "nvidia-a100-80gb", "h100-sxm": "nvidia-h100-80gb", "h200-sxm": "nvidia-h200-141gb",
    "b200-sxm": "nvidia-b200", "gb200": "nvidia-gb200", "rtx-pro-6000": "nvidia-rtx-pro-6000",
}  # fmt: skip
_GKE_TPU = {
    "tpu-v4": "tpu-v4-podslice", "tpu-v5e": "tpu-v5-lite-podslice", "tpu-v5p": "tpu-v5p-slice",
    "tpu-v6e": "tpu-v6e-slice", "tpu-v7x": "tpu7x",
}  # fmt: skip
# Shapes of the chips of one host.
_FLAT, _CUBE = {1: "1x1", 4: "2x2", 8: "2x4"}, {4: "2x2x1"}
_TOPOLOGY = {"tpu-v4": _CUBE, "tpu-v5e": _FLAT, "tpu-v5p": _CUBE, "tpu-v6e": _FLAT, "tpu-v7x": _CUBE}
# Cards whose driver's name is not the first of the catalogue's with the maker before it.
_PRODUCTS = {
    "h100-sxm": "NVIDIA-H100-80GB-HBM3", "b300-sxm": "NVIDIA-B300-SXM6-AC",
    "mi300x": "AMD_Instinct_MI300X_OAM", "mi325x": "AMD_Instinct_MI325X_OAM",
    "mi350x": "AMD_Instinct_MI350X_OAM", "mi355x": "AMD_Instinct_MI355X_OAM",
}  # fmt: skip


def text(ask: Ask) -> str:
    """The fragment, below comments that say what it stands for."""
    comments = [ask.summary, "merge into the pod template of a Job or a Deployment"]
    if ask.spot and ask.offer.provider not in _SPOT:
        comments.append("the price is for a machine that may be taken away: select such nodes by a label of yours")
    return emit_yaml.document({"spec": spec(ask)}, *comments)


def spec(ask: Ask) -> dict[str, Any]:
    """The PodSpec without image and command."""
    found: dict[str, Any] = {}
    if ask.time_s is not None:
        found["activeDeadlineSeconds"] = math.floor(ask.time_s)
    if selector := node_selector(ask):
        found["nodeSelector"] = selector
    if tolerations := _tolerations(ask):
        found["tolerations"] = tolerations
    found["containers"] = [{"name": ask.name, "resources": _resources(ask)}]
    return found


def resource(ask: Ask) -> str:
    """The name under which the device plugin offers the accelerator; empty for a processor."""
    if not ask.devices:
        return ""
    whole = ask.whole
    if whole.vendor == "nvidia":
        return f"nvidia.com/mig-{ask.mig}" if ask.mig else "nvidia.com/gpu"
    if whole.kind == GPU and whole.vendor == "intel":
        # The cards of before Battlemage have the older driver.
        return "gpu.intel.com/xe" if whole.name.startswith("arc-b") else "gpu.intel.com/i915"
    makers = {"amd": "amd.com/gpu", "intel": "habana.ai/gaudi", "google": "google.com/tpu"}
    return makers.get(whole.vendor, "aws.amazon.com/neuron")


def node_selector(ask: Ask) -> dict[str, str]:
    """Labels that a node must have: its accelerator, else its type, and where it stands."""
    offer = ask.offer
    found: dict[str, str] = {}
    if ask.devices and not ask.fraction:
        found |= _accelerator(ask)
    if not found and offer.provider in _CLOUDS:
        found[INSTANCE] = offer.instance.partition("+")[0]
    if ask.arch == ARM64 or not found:
        found["kubernetes.io/arch"] = "arm64" if ask.arch == ARM64 else "amd64"
    if offer.region and offer.provider in _CLOUDS:
        found[REGION] = offer.region
    if ask.spot and offer.provider in _SPOT:
        key, value = _SPOT[offer.provider]
        found[key] = value
    return found


def _accelerator(ask: Ask) -> dict[str, str]:
    whole, on_gke = ask.whole, ask.offer.provider == "gcp"
    if whole.kind == TPU:
        found = {"cloud.google.com/gke-tpu-accelerator": _GKE_TPU[whole.name]} if whole.name in _GKE_TPU else {}
        if found and (topology := _TOPOLOGY[whole.name].get(ask.machine_devices)):
            found["cloud.google.com/gke-tpu-topology"] = topology
        return found
    if on_gke and whole.name in _GKE:
        mega = ask.offer.instance.startswith("a3-mega")
        return {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb" if mega else _GKE[whole.name]}
    if whole.vendor == "nvidia" and product(ask):
        # A MIG node keeps the product of its card, with the plugin's strategy "mixed".
        return {"nvidia.com/gpu.product": product(ask)}
    if whole.vendor == "amd" and product(ask):
        return {"amd.com/gpu.product-name": product(ask)}
    return {}


def product(ask: Ask) -> str:
    """The device's name as its driver says it, in the form of the label; empty: nobody knows it."""
    whole = ask.whole
    if whole.name in _PRODUCTS:
        return _PRODUCTS[whole.name]
    name = next(iter(whole.names), "")
    if whole.vendor == "amd":
        return f"AMD {name}".replace(" ", "_") if name else ""
    older = name.startswith(("Tesla", "Quadro"))
    return (name if older else f"NVIDIA {name}").replace(" ", "-") if name else ""


def _tolerations(ask: Ask) -> list[dict[str, str]]:
    """Taints of accelerators that managed clusters set on their nodes, and of spot nodes on Azure."""
    found = []
    if ask.devices:
        key = "nvidia.com/gpu" if ask.mig else resource(ask)
        found.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    if ask.spot and ask.offer.provider == "azure":
        key, value = _SPOT["azure"]
        found.append({"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"})
    return found


def _resources(ask: Ask) -> dict[str, Any]:
    memory = f"{gib(ask.host_bytes)}Gi"
    requests: dict[str, str] = {"memory": memory}
    if ask.cpus:
        # No limit on processors: what nobody else uses is free to take.
        requests = {"cpu": f"{max(100, 100 * math.floor(10 * ask.cpus * (1 - _SYSTEM_SHARE)))}m", **requests}
    limits = {"memory": memory}
    if ask.devices:
        # An extended resource is never overcommitted: request and limit are one.
        requests[resource(ask)] = limits[resource(ask)] = str(ask.devices)
    return {"requests": requests, "limits": limits}
