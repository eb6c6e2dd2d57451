"""Floor 3, worker. A torch module -> a flat graph of ATen operators with its weights, as torch.export gives it.

In: the module, its arguments. Out: ``torch.fx.GraphModule`` whose constants are folded. Raises WorkerError where
torch.export refuses, with its own reason.

Operators that compute libraries have kernels for (linear, attention, layer norm, LSTM, ...) stay whole; everything
else is decomposed into torch's core operators.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from perfgate.worker.failures import refuse
from perfgate.worker.inputs import Arguments
from perfgate.worker.placing import folding

_KEPT = """
    linear scaled_dot_product_attention layer_norm group_norm batch_norm instance_norm rms_norm gelu silu mish
    elu hardswish hardsigmoid hardtanh relu6 leaky_relu softplus softmax log_softmax lstm gru rnn_tanh rnn_relu
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d matmul max_pool1d max_pool2d
    max_pool3d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d upsample_nearest2d
    upsample_bilinear2d upsample_bicubic2d pixel_shuffle embedding grid_sampler cumsum
"""
_SHOWN = 300


def export(module: Any, arguments: Arguments, name: str) -> Any:
    """The exported program, decomposed. Raises WorkerError, ``unsupported``."""
    if not isinstance(module, torch.nn.Module):
        message = (
            f"models.{name}: entry returned a {type(module).__name__}, and only a torch.nn.Module can be taken apart; "
            "return a module"
        )
        refuse("unsupported", "build", message)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(module, arguments.args, arguments.kwargs or None, strict=False)
            return program.run_decompositions(_table())
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        shown = reason if len(reason) <= _SHOWN else f"{reason[: _SHOWN - 3]}..."
        message = (
            f"models.{name}: torch.export cannot take this model ({shown}); placement needs a model without control "
            "flow that depends on values and without packed quantised weights: rewrite that part, or leave this model "
            "out of placement"
        )
        refuse("unsupported", "build", message)


def _table() -> Any:
    make = getattr(torch.export, "default_decompositions", None)
    if make is None:  # before 2.5
        return None
    table = make()
    for name in _KEPT.split():
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            table.pop(getattr(packet, overload), None)
    return table


def flat(program: Any) -> Any:
    """The program's graph with weights as attributes, without guards, constants folded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = program.module()
    graph = module.graph
    for node in list(graph.nodes):
        if node.op == "call_module" and str(node.target).startswith("_guards"):
            graph.erase_node(node)
    folding.fold_normalisation(module)
    folding.fold_constants(module)
    graph.eliminate_dead_code(lambda node: node.op == "placeholder" or folding.has_effect(node))
    module.recompile()
    return module
