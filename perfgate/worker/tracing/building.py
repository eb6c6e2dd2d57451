"""Floor 3, worker. A model without its weights, and the count of one.

In: ``Count``. Out: ``Counted``. The model is built with large tensors that have no contents, so that one of any size
fits; where its code does not allow that, it is built as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from perfgate.records.graph import Trace
from perfgate.records.protocol import Count, Counted, Open
from perfgate.worker import loading, process, seeds
from perfgate.worker.failures import WorkerError, phase
from perfgate.worker.loading import Loaded
from perfgate.worker.preparing import Side
from perfgate.worker.tracing import compiler, kinds
from perfgate.worker.tracing.mixing import Mixer
from perfgate.worker.tracing.requests import trace


def count(request: Count, side: Side) -> Counted:
    """Trace one step of a model. Raises WorkerError with the phase in which the user's code failed."""
    # Nothing runs on the device that the step is meant for, so that none has to be here.
    wanted = request.workload.device
    asked = Open(workload=replace(request.workload, device="cpu"), spec=request.spec, seed=request.seed)
    notes: tuple[str, ...] = ()
    try:
        with without_weights():
            loaded = _load(asked, side)
            arguments = loading.make_arguments(asked, side)
            notes = loaded.notes + loading.materialise(asked, loaded, arguments)
        traced = trace(asked, side, loaded, arguments, device=wanted, weightless=True, warm=False)
    except Exception as error:
        if isinstance(error, WorkerError) and error.failed.kind not in {"raised", "inputs"}:
            raise
        notes = (f"built with its weights, since it cannot be counted without ({_short(error)})",)
        traced, more = _with_weights(asked, side, wanted)
        notes += more
    side.prove()
    return Counted(
        trace=traced, peak_rss_bytes=process.high_water_bytes(), notes=tuple(dict.fromkeys((*notes, *traced.notes)))
    )


def _short(error: Exception) -> str:
    text = error.failed.message if isinstance(error, WorkerError) else f"{type(error).__name__}: {error}"
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:197]}..."


def _with_weights(asked: Open, side: Side, wanted: str) -> tuple[Trace, tuple[str, ...]]:
    checkout = side.request.checkout
    loaded = loading.load(asked, side)
    arguments = loading.make_arguments(asked, side)
    with phase("build", checkout):
        notes = loaded.notes + loading.materialise(asked, loaded, arguments)
    with phase("probe", checkout):
        return trace(asked, side, loaded, arguments, device=wanted, warm=False), notes


def _load(asked: Open, side: Side) -> Loaded:
    """As :func:`loading.load`, but nothing is drawn, moved or compiled."""
    spec, mode = asked.spec, asked.workload.mode
    if not spec.entry:
        return loading.load(asked, side)
    entry = loading.resolve(spec.entry, f"models.{spec.name}.entry", side)
    with phase("build", side.request.checkout):
        seeds.set_all(asked.seed)
        plain = entry if isinstance(entry, torch.nn.Module) else entry()
        if not isinstance(plain, torch.nn.Module):
            # Says what is wrong with anything that cannot be called.
            return Loaded(model=plain, plain=plain, module=None) if callable(plain) else loading.load(asked, side)
        notes = loading.set_mode(plain, mode, keep=spec.train_mode)
        cast = loading.fixed_dtype(asked.workload.dtype)
        if cast is not None:
            plain.to(cast)
    return Loaded(model=plain, plain=plain, module=plain, notes=notes)


class _Weightless(TorchDispatchMode):  # type: ignore[misc]
    """Large tensors get no contents, small ones do."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._mixer = Mixer()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # See naming.Recorder.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(map(kinds.is_foreign, types)):
            return NotImplemented
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        return self._mixer.run(func, args, kwargs)


@contextmanager
def without_weights() -> Iterator[None]:
    """Models that are built inside need next to no memory."""
    with compiler.deferred(), _Weightless():
        yield
