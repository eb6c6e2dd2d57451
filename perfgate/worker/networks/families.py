"""Floor 3, worker. Which file builds which family of sample networks.

In: a :class:`~perfgate.records.sampling.Network` and a batch size. Out: a module and its inputs, on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perfgate.records import sampling
from perfgate.records.sampling import Network
from perfgate.worker.failures import refuse
from perfgate.worker.inputs import Arguments
from perfgate.worker.networks import branching, convolutional, dense, sequential


@dataclass(frozen=True, slots=True)
class _Family:
    build: Callable[[dict[str, int]], Any]
    inputs: Callable[[dict[str, int], int], tuple[Any, ...]]


_FAMILIES = {
    sampling.CONVOLUTION: _Family(convolutional.convolution, convolutional.images),
    sampling.RESIDUAL: _Family(convolutional.residual, convolutional.images),
    sampling.DEPTHWISE: _Family(convolutional.depthwise, convolutional.images),
    sampling.UNET: _Family(convolutional.unet, convolutional.images),
    sampling.BRANCHES: _Family(branching.branches, convolutional.images),
    sampling.DENSE: _Family(dense.fully_connected, dense.features),
    sampling.EMBEDDING: _Family(dense.embedding, dense.indices),
    sampling.RECURRENT: _Family(sequential.recurrent, sequential.vectors),
    sampling.ENCODER: _Family(sequential.encoder, sequential.tokens),
    sampling.DECODER: _Family(sequential.decoder, sequential.tokens),
    sampling.PATCHES: _Family(sequential.patches, convolutional.images),
}


def build(network: Network) -> Any:
    """The module. Raises WorkerError, ``unsupported``, for a family or parameters that this release does not know."""
    return _call(network, lambda family: family.build(network.parameters))


def arguments(network: Network, batch: int) -> Arguments:
    """Random inputs of one step. Raises as :func:`build` does."""
    return Arguments(args=_call(network, lambda family: family.inputs(network.parameters, batch)))


def _call(network: Network, function: Callable[[_Family], Any]) -> Any:
    family = _FAMILIES.get(network.family)
    if family is None:
        message = f"sample network: there is no family {network.family!r}; known are {', '.join(_FAMILIES)}"
        refuse("unsupported", "build", message)
    try:
        return function(family)
    except KeyError as missing:
        refuse("unsupported", "build", f"sample network {network.name}: the parameter {missing} is not there")
