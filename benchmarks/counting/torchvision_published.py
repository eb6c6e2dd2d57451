"""What torchvision publishes of its weights (``_ops`` in GMAC, ``num_params``), and which input that is for.

Out: :class:`Published`, one for each model, input and pair of figures; weights that share all of these are one entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

CLASSIFICATION = "classification"
QUANTIZED = "quantization"
VIDEO = "video"
SEGMENTATION = "segmentation"
DETECTION = "detection"
FLOW = "optical_flow"
TASKS = (CLASSIFICATION, QUANTIZED, VIDEO, SEGMENTATION, DETECTION, FLOW)

# torchvision gives no clip length: 16 frames reproduce every video model. Its segmentation presets resize to 520
# pixels, its detectors resize by themselves, and the figures of RAFT hold for 512 x 512.
_FRAMES = 16
_SEGMENTATION = 520
_DETECTION = 800
_FLOW = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """``variant``: how the model has to be built (see ``zoo.vision``). ``weights`` are the entries' names."""

    model: str
    task: str
    weights: tuple[str, ...]
    variant: str
    inputs: tuple[object, ...]
    size: str
    params: int
    gmac: float


def published() -> list[Published]:
    """All weights with figures, the first entry of each model first, grouped by task."""
    from torchvision.models import list_models

    found: dict[tuple[object, ...], Published] = {}
    for model in list_models():
        for entry in _entries(model):
            key = (model, entry.variant, entry.size, entry.params, entry.gmac)
            known = found.get(key)
            found[key] = entry if known is None else replace(known, weights=(*known.weights, *entry.weights))
    return sorted(found.values(), key=lambda entry: TASKS.index(entry.task))


def _entries(model: str) -> Iterator[Published]:
    from torchvision.models import get_model_weights

    for weights in get_model_weights(model):
        if "_ops" not in weights.meta:
            continue
        module = type(weights).__module__.removeprefix("torchvision.models.").partition(".")[0]
        task = module if module in TASKS else CLASSIFICATION
        inputs, size = _inputs(task, weights)
        yield Published(
            model=model,
            task=task,
            weights=(weights.name,),
            variant=_variant(model, task, weights),
            inputs=inputs,
            size=size,
            params=int(weights.meta["num_params"]),
            gmac=float(weights.meta["_ops"]),
        )


def _inputs(task: str, weights: Any) -> tuple[tuple[object, ...], str]:
    if task == VIDEO:
        height, width = weights.transforms().crop_size
        return (f"float32[1,3,{_FRAMES},{height},{width}]",), f"{_FRAMES}x{height}x{width}"
    if task == DETECTION:
        return ((f"float32[3,{_DETECTION},{_DETECTION}]",),), str(_DETECTION)
    if task == FLOW:
        image = f"float32[1,3,{_FLOW},{_FLOW}]"
        return (image, image), str(_FLOW)
    pixels = _SEGMENTATION if task == SEGMENTATION else weights.transforms().crop_size[0]
    return (f"float32[1,3,{pixels},{pixels}]",), str(pixels)


def _variant(model: str, task: str, weights: Any) -> str:
    if task == SEGMENTATION and not model.startswith("lraspp"):
        return "aux"
    pixels = weights.transforms().crop_size[0] if task == CLASSIFICATION else 0
    return str(pixels) if model.startswith("vit_") and pixels not in (0, 224) else ""
