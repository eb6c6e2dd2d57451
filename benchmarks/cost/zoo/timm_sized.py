"""timm's models without weights at a given image size: ``timm_sized:resnet50__s288``, ``...__s288__amp``.

``amp``: under :class:`benchmarks.cost.zoo.autocast.Autocast` with float16, as timm's tables of GPUs ran;
``amp_nhwc``: that as :class:`benchmarks.cost.zoo.channels_last.ChannelsLast`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.cost.zoo.autocast import Autocasted
from benchmarks.cost.zoo.channels_last import ChannelsLast
from benchmarks.counting.zoo.limits import limit_memory

timm: Any = importlib.import_module("timm")
_AMP, _AMP_NHWC = "amp", "amp_nhwc"


def __getattr__(text: str) -> Callable[[], Any]:
    name, _, rest = text.partition("__s")
    size, _, how = rest.partition("__")
    if not size.isdigit() or how not in {"", _AMP, _AMP_NHWC} or not timm.is_model(name):
        msg = f"timm has no model {name!r}, or {text!r} is not name__sSIZE, name__sSIZE__amp or name__sSIZE__amp_nhwc"
        raise AttributeError(msg)

    def build() -> Any:
        limit_memory()
        model = timm.create_model(name, pretrained=False, **_resized(name, int(size)))
        if how == _AMP_NHWC:
            return ChannelsLast(Autocasted(model))
        return Autocasted(model) if how == _AMP else model

    return build


def _resized(name: str, size: int) -> dict[str, int]:
    """``img_size`` where a model cannot take another size than it was built for."""
    known = timm.get_pretrained_cfg(name)
    if known is None or not known.fixed_input_size or known.input_size[-1] == size:
        return {}
    return {"img_size": size}
