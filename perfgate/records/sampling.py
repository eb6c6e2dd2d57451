"""Sample workloads: a network by its parameters, and the condition that it runs under."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from perfgate.records.workload import Workload

NAMESPACE_SAMPLE = "sample"

# Families of sample networks; ``worker/networks`` builds each, ``sampling/networks`` says which sizes they have.
CONVOLUTION = "convolution"
RESIDUAL = "residual"
DEPTHWISE = "depthwise"
UNET = "unet"
BRANCHES = "branches"
DENSE = "fully-connected"
EMBEDDING = "embedding"
RECURRENT = "recurrent"
ENCODER = "encoder"
DECODER = "decoder"
PATCHES = "patches"
FAMILIES = (
    CONVOLUTION, RESIDUAL, DEPTHWISE, UNET, BRANCHES, DENSE, EMBEDDING, RECURRENT, ENCODER, DECODER, PATCHES,
)  # fmt: skip

# Optimisers of a training step, by name.
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network that its family and a few whole numbers determine (``width``, ``depth``, ``resolution``, ...)."""

    family: str
    parameters: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``residual-1f3a5c7e9b``: equal for equal parameters, whatever their order."""
        text = json.dumps(self.parameters, sort_keys=True)
        return f"{self.family}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One network under one resource configuration, with one input size.

    ``mode`` is ``infer`` or ``train``; ``dtype``, ``device`` and ``compile`` are as in :class:`Workload`. ``threads``:
    compute threads of the process. ``optimizer`` is one of ``OPTIMIZERS`` (empty to infer); a training step runs
    ``accumulation`` times forward and backward, ``batch`` items in all, and updates the weights once.
    """

    network: Network
    mode: str
    batch: int
    dtype: str = "float32"
    device: str = "cpu"
    compile: str = "eager"
    threads: int = 1
    optimizer: str = ""
    accumulation: int = 1

    @property
    def model(self) -> str:
        """The network and all that a :class:`Workload` does not tell: ``residual-1f3a5c7e9b+2-threads+adam``."""
        parts = [self.network.name, f"{self.threads}-thread{'' if self.threads == 1 else 's'}"]
        if self.optimizer:
            parts.append(self.optimizer)
        if self.accumulation > 1:
            parts.append(f"accumulate-{self.accumulation}")
        return "+".join(parts)

    @property
    def workload(self) -> Workload:
        """What a record of this condition is kept under."""
        return Workload(
            model=self.model,
            mode=self.mode,
            batch=self.batch,
            dtype=self.dtype,
            device=self.device,
            compile=self.compile,
        )

    @property
    def key(self) -> str:
        """Stable text form: two conditions are the same if and only if their keys are."""
        return self.workload.key
