"""Floor 3, graph. What goes between the gate and the process that reads an ONNX file for it.

In and out: JSON by ``perfgate.wire``, the request on standard input, the reply on standard output.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.records.graph import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Arguments of ``read.trace``; ``root`` empty: none."""

    path: str
    inputs: object = None
    batch: int = 1
    root: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The trace, or one sentence that says why there is none."""

    trace: Trace | None = None
    error: str = ""
