"""Floor 3, worker. A piece that does nothing, to learn what a call of a library costs, and tensors of any size.

In: a model, for its framework. Out: a :class:`Piece` of one number in, one out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfgate.records.protocol import TORCH
from perfgate.worker.placing.model import Model
from perfgate.worker.placing.pieces import Piece

KEY = "empty"


def file(model: Model) -> Path | None:
    """Where the parent is to write it; None where torch exports it."""
    return None if model.framework == TORCH else model.folder / "cut" / KEY / "model.onnx"


def piece(model: Model) -> Piece:
    """One number in, the same out."""
    return Piece(
        key=KEY,
        name="an empty call",
        framework=model.framework,
        numbers=(),
        inputs=("x",),
        outputs=("y",),
        folder=model.folder / "cut" / KEY,
        examples=[maker(model)(1)],
        module=_module if model.framework == TORCH else None,
    )


def maker(model: Model) -> Callable[[int], Any]:
    """Gives a tensor of so many single-precision numbers."""
    if model.framework == TORCH:
        import torch

        return lambda count: torch.ones(count)  # noqa: PLW0108
    import numpy as np

    return lambda count: np.ones(count, dtype=np.float32)


def _module() -> Any:
    import torch

    graph = torch.fx.Graph()
    given = graph.placeholder("input_0")
    graph.output((graph.call_function(torch.ops.aten.clone.default, (given,)),))
    return torch.fx.GraphModule(torch.nn.Module(), graph)
