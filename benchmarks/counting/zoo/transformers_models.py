"""Models of Hugging Face transformers with random weights by name, ``transformers_models:bert``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.counting.zoo.limits import limit_memory
from benchmarks.counting.zoo.transformers_configs import EVERYTHING, Architecture

transformers: Any = importlib.import_module("transformers")
# transformers imports a model's file when its class is first asked for; a child that is forked has it already.
_CLASSES = {
    name: (getattr(transformers, each.config_class, None), getattr(transformers, each.model_class, None))
    for name, each in EVERYTHING.items()
}


def __getattr__(name: str) -> Callable[[], Any]:
    if name not in EVERYTHING:
        msg = f"there is no architecture {name!r}"
        raise AttributeError(msg)

    def build() -> Any:
        limit_memory()
        return create(name)

    return build


def create(name: str, **more: Any) -> Any:
    """The model with random weights; ``more`` goes into its configuration."""
    architecture = EVERYTHING[name]
    config_class, model_class = _CLASSES[name]
    if config_class is None or model_class is None:
        msg = f"transformers has no {architecture.config_class} or no {architecture.model_class}"
        raise RuntimeError(msg)
    return model_class(config(architecture, **more))


def config(architecture: Architecture, **more: Any) -> Any:
    """The configuration, with nested ones made too."""
    made = {key: _nested(value) for key, value in architecture.config.items()}
    return getattr(transformers, architecture.config_class)(**made, **more)


def _nested(value: Any) -> Any:
    if isinstance(value, dict) and "class" in value:
        sizes = {key: item for key, item in value.items() if key != "class"}
        return getattr(transformers, value["class"])(**sizes)
    return value
