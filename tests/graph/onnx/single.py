"""Models of one operator."""

from __future__ import annotations

from tests.graph.onnx.models import FLOAT, model, node, untyped, value


def one(op, inputs, shapes, constants=(), *, outputs="y", opset=17, domain="", elements=None, **attributes):
    """A model of one operator."""
    elements = elements or {}
    return model(
        [node(op, inputs, outputs, domain, **attributes)],
        [value(name, shape, elements.get(name, FLOAT)) for name, shape in shapes.items()],
        [untyped(name) for name in outputs.split()],
        constants,
        opset=opset,
        domains=(domain,) if domain else (),
    )
