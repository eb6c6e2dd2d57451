"""Floor 3, worker. Everything that is found out about an ONNX model without timing it.

In: an opened, warm workload in a process that is never timed. Out: ``Probe``. Parameters, F and M are not here: the
parent reads the file itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perfgate.records.protocol import Open, Probe
from perfgate.worker.onnx import profiling
from perfgate.worker.onnx.digest import digest
from perfgate.worker.onnx.inputs import Feeds
from perfgate.worker.onnx.sessions import Maker
from perfgate.worker.preparing import Side
from perfgate.worker.timing import WarmUp

_PEAK = "peak_memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What opening has made and seen; ``outputs`` of the first call, in the model's order."""

    maker: Maker
    session: Any
    feeds: Feeds
    outputs: list[Any]
    first_step_ns: int
    warm: WarmUp


def probe(request: Open, side: Side, found: Found) -> Probe:
    """Digests, files, notes and the profile of one process."""
    feeds = found.feeds
    given = digest((feeds.paths[name], array) for name, array in feeds.arrays.items())
    # By place: exporters name outputs anew each time.
    outputs = digest((f"[{place}]", value) for place, value in enumerate(found.outputs))
    observed = profiling.observe(found.maker, feeds, items=request.workload.batch, step_ns=found.warm.step_ns)
    exact: dict[str, float] = {}
    missing: tuple[str, ...] = ()
    if found.maker.ordinal is not None and observed.peak_bytes is None:
        missing = (_PEAK,)
    elif observed.peak_bytes is not None:
        exact[_PEAK] = observed.peak_bytes
    notes = list(observed.notes)
    if outputs.nonfinite:
        notes.append(f"the outputs hold {outputs.nonfinite} NaN or infinite values")
    if given.nonfinite:
        notes.append(f"the inputs hold {given.nonfinite} NaN or infinite values")
    return Probe(
        exact=exact,
        inputs=given,
        outputs=outputs,
        files=side.opened.used(side.request, lambda name: side.graph.belongs(name, request.spec.modules)),
        not_counted=missing,
        notes=tuple(notes),
        items=request.workload.batch,
        first_step_ns=found.first_step_ns,
        step_ns=found.warm.step_ns,
        structure={"inputs": {name: _text(array) for name, array in feeds.arrays.items()}},
        profile=observed.profile,
    )


def _text(array: Any) -> str:
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"
