"""Floor 3, worker. On which kind of tensors a step is traced.

In: a :class:`Job`. Out: ``Trace``. On tensors without contents where the model runs on them; else on real ones, with a
note that says why.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import torch

from perfgate.records.graph import Trace
from perfgate.worker.failures import WorkerError
from perfgate.worker.tracing.attempt import Job, attempt
from perfgate.worker.tracing.groups import NeedsDeviceError
from perfgate.worker.tracing.substitutes import FAKE, META, REAL, VALUES

# What torch says when an operator or a model asks for values that are not there.
_ASKED = ("called on meta tensors", "no data", "data-dependent", "DataDependent", "unbacked", "nonzero", "unique",
          "masked_select", "_local_scalar_dense", "is_nonzero", "aten::equal", "to numpy", "CPU int64")  # fmt: skip
_LONGEST_REASON = 160


def run(job: Job, *, real: bool = False, weightless: bool = False) -> Trace:
    """Trace a step. Raises what the model raises where nothing else is left to try.

    ``real`` does not try to do without contents; ``weightless`` tries nothing else, since there are none.
    """
    if real:
        return attempt(job, REAL)
    reason, kind = "", META
    while True:
        try:
            return attempt(job, kind, _NOTES[kind].format(reason) if reason else "")
        except WorkerError:
            raise
        except Exception as error:
            after = _after(kind, error)
            if kind == REAL or (weightless and after == REAL):
                raise
            # Where a device is needed, a fake one is as good: nothing to tell.
            if not isinstance(error, NeedsDeviceError) and (not reason or _asked_for_values(error)):
                reason = _why(error)
            kind = after


_NOTES = {
    VALUES: "traced with the values of small tensors and of integer inputs, since the model looks at them ({})",
    FAKE: "traced on fake tensors, since the model refuses meta tensors ({})",
    REAL: "traced on real tensors, since the model refuses tensors without contents ({})",
}


def _after(kind: str, error: BaseException) -> str:
    """What to try when an attempt has failed."""
    if kind == META:
        return VALUES if _asked_for_values(error) else FAKE
    if kind == VALUES and isinstance(error, NeedsDeviceError):
        return FAKE
    return REAL


def _why(error: BaseException) -> str:
    """Name of an exception, its first line, and where the user's code raised it."""
    text = str(error).strip().splitlines()
    line = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    if len(line) > _LONGEST_REASON:
        line = line[: _LONGEST_REASON - 3] + "..."
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_the_users(frame.filename):
            return f"{line}, in {frame.name}, {Path(frame.filename).name} line {frame.lineno}"
    return line


_OWN = str(Path(__file__).resolve().parents[1])
_TORCH = str(Path(torch.__file__).resolve().parent)


_PYTHON = str(Path(os.__file__).resolve().parent)


def _is_the_users(filename: str) -> bool:
    """Whether code is neither ours, torch's, nor Python's; packages that the user installed are the user's."""
    library = filename.startswith(_PYTHON) and not {"site-packages", "dist-packages"}.intersection(Path(filename).parts)
    return not (library or filename.startswith((_OWN, _TORCH, "<")))


def _asked_for_values(error: BaseException) -> bool:
    text = f"{type(error).__name__}: {error}"
    return any(phrase in text for phrase in _ASKED)
