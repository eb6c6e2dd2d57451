"""Small ONNX models, written with ``onnx.helper``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
Dims = Sequence[int | str]


def value(name: str, dims: Dims | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def weight(name: str, *shape: int, seed: int = 0, scale: float = 0.1) -> onnx.TensorProto:
    contents = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) * np.float32(scale)
    return numpy_helper.from_array(contents, name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "net", list(inputs), list(outputs), list(weights))
    imports = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(domain, 1) for domain in domains)]
    made = helper.make_model(graph, opset_imports=imports)
    made.ir_version = IR_VERSION
    return made


def linear(*, width: int = 4, out: int = 3, batch: int | str = "N", layers: int = 1, seed: int = 0) -> onnx.ModelProto:
    """``x[batch,width]`` through ``layers`` square MatMul and Relu, and a last MatMul to ``y[batch,out]``."""
    nodes, weights, current = [], [], "x"
    for index in range(layers - 1):
        weights.append(weight(f"layers.{index}.weight", width, width, seed=seed + index))
        nodes.append(helper.make_node(
            "MatMul", [current, f"layers.{index}.weight"], [f"h{index}"], name=f"/layers/layers.{index}/MatMul"
        ))  # fmt: skip
        nodes.append(helper.make_node("Relu", [f"h{index}"], [f"r{index}"], name=f"/layers/act.{index}/Relu"))
        current = f"r{index}"
    weights.append(weight("head.weight", width, out, seed=seed + 100))
    nodes.append(helper.make_node("MatMul", [current, "head.weight"], ["y"], name="/head/MatMul"))
    return model(nodes, [value("x", [batch, width])], [value("y", [batch, out])], weights)


def residual(channels: int = 16) -> onnx.ModelProto:
    """Two convolutions and a sum with the input, named as an exporter names them: ``block.conv1``, ``block.relu``."""
    names = ["/block/conv1/Conv", "/block/relu/Relu", "/block/conv2/Conv", "/block/Add", "/block/relu_1/Relu"]
    one, two, three, four = (f"{name}_output_0" for name in names[:4])
    pads: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "block.conv1.weight"], [one], name=names[0], **pads),
        helper.make_node("Relu", [one], [two], name=names[1]),
        helper.make_node("Conv", [two, "block.conv2.weight"], [three], name=names[2], **pads),
        helper.make_node("Add", [three, "x"], [four], name=names[3]),
        helper.make_node("Relu", [four], ["y"], name=names[4]),
    ]
    shape = [1, channels, 8, 8]
    weights = [weight(f"block.conv{n}.weight", channels, channels, 3, 3, seed=n) for n in (1, 2)]
    return model(nodes, [value("x", shape)], [value("y", shape)], weights)


def unary(op: str, dims: Dims, dtype: int = TensorProto.FLOAT, *, domain: str = "", **attributes: Any):
    """One operator from ``x`` to ``y``."""
    node = helper.make_node(op, ["x"], ["y"], name="only", domain=domain, **attributes)
    return model([node], [value("x", dims, dtype)], [value("y", dims, dtype)], domains=[domain] if domain else [])


def save(made: onnx.ModelProto, path: Path, *, external: str = "") -> Path:
    """Write a model; its weights into the file ``external`` beside it if given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = (
        {"save_as_external_data": True, "location": external, "size_threshold": 0} if external else {}
    )
    onnx.save(made, str(path), **options)
    return path
