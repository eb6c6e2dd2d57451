"""torchvision's models without weights, by the name in torchvision's registry, perhaps with a variant behind ``__``.

``vit_b_16__384``: built for 384 pixels. ``__aux``, ``__noaux``: with or without auxiliary heads. ``__int8``: quantised
(else a quantizable model is the floating-point one). ``__mask``, ``__keypoint``: a detector's head for these alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torchvision

from benchmarks.counting.zoo.limits import limit_memory

_OPTIONS: dict[str, dict[str, Any]] = {
    "aux": {"aux_loss": True},
    "noaux": {"aux_logits": False},
    "int8": {"quantize": True},
}


def __getattr__(name: str) -> Callable[[], Any]:
    model, _, variant = name.partition("__")
    if model.startswith("_") or model not in torchvision.models.list_models():
        msg = f"torchvision has no model {model!r}"
        raise AttributeError(msg)

    def build() -> Any:
        limit_memory()
        return create(model, variant)

    return build


def create(model: str, variant: str = "") -> Any:
    """The model without weights, of its backbone neither."""
    builder = torchvision.models.get_model_builder(model)
    accepted = inspect.signature(builder).parameters
    options: dict[str, Any] = {"weights": None}
    if "weights_backbone" in accepted:
        options["weights_backbone"] = None
    for word in variant.split("_") if variant else ():
        if word in _OPTIONS:
            options |= _OPTIONS[word]
        elif word.isdecimal():
            options["image_size"] = int(word)
    if model in ("googlenet", "quantized_googlenet", "inception_v3", "quantized_inception_v3"):
        # Said aloud, since torchvision warns of a slow default.
        options["init_weights"] = False
    built = builder(**options)
    if variant in ("mask", "keypoint"):
        heads = built.roi_heads
        return torch.nn.Sequential(getattr(heads, f"{variant}_head"), getattr(heads, f"{variant}_predictor"))
    return built
