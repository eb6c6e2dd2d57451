"""timm's models without weights, by name: ``timm_models:resnet50``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.counting.zoo.limits import limit_memory

timm: Any = importlib.import_module("timm")


def __getattr__(name: str) -> Callable[[], Any]:
    if name.startswith("_") or not timm.is_model(name):
        msg = f"timm has no model {name!r}"
        raise AttributeError(msg)

    def build() -> Any:
        limit_memory()
        return timm.create_model(name, pretrained=False)

    return build
