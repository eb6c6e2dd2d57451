"""Floor 3, worker. Any exception of the user's code -> one ``Failed`` record.

In: an exception and the phase it fell in. Out: kind, one line for people, the traceback's end. No torch.
"""

from __future__ import annotations

import re
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from perfgate.records.protocol import Failed

MAX_MESSAGE = 500
MAX_TRACE = 8_000
_TRACE_LINES = 20

_SHIM = str(Path(__file__).resolve().parents[2])
_CONTEXTLIB = contextmanager.__code__.co_filename

_NETWORK_MODULES = ("urllib", "urllib3", "requests", "httpx", "http", "huggingface_hub", "aiohttp")
_NETWORK_NAMES = ("URLError", "HTTPError", "ConnectionError", "ConnectError", "ConnectTimeout", "OfflineModeIsEnabled",
                  "LocalEntryNotFoundError", "MaxRetryError", "NewConnectionError")  # fmt: skip
_NO_DOWNLOADS = "downloads are not allowed while measuring: make the weights local, or build with weights=None"

_HINTS = (
    (r"Expected more than 1 value per channel when training",
     "batch normalisation cannot train on one value per channel: use a larger batch or input"),
    (r"not implemented for '?(Half|BFloat16)'?",
     "this operator has no kernel for that dtype on this device: use float32 or an amp- dtype"),
    (r"Cannot re-initialize CUDA in forked subprocess",
     "CUDA was initialised while the modules were imported: do it inside the functions instead"),
)  # fmt: skip


class WorkerError(Exception):
    """Carries the ``Failed`` that answers the request."""

    def __init__(self, failed: Failed) -> None:
        self.failed = failed
        super().__init__(failed.message)


def refuse(kind: str, phase: str, message: str) -> NoReturn:
    """Raise a failure found by perfgate itself; ``message`` ends in what to do next."""
    # Not cut to MAX_MESSAGE: it may name two long paths, and its end is the remedy.
    raise WorkerError(Failed(kind=kind, phase=phase, message=" ".join(message.split()))) from None


@contextmanager
def phase(name: str, checkout: str, *, kind: str = "raised") -> Iterator[None]:
    """Turn whatever the user's code raises inside into :class:`WorkerError` of this phase.

    ``kind`` is used for ordinary exceptions; leaving by ``sys.exit`` and lack of memory have their own.
    """
    try:
        yield
    except WorkerError:
        raise
    except BaseException as error:
        raise WorkerError(describe(error, name, checkout, kind=kind)) from error


def describe(error: BaseException, phase_name: str, checkout: str, *, kind: str = "raised") -> Failed:
    """The record for one exception; paths in the trace are relative to ``checkout``."""
    return Failed(
        kind=_kind(error, kind),
        phase=phase_name,
        message=_message(error),
        trace=_trace(error, checkout),
    )


def _kind(error: BaseException, otherwise: str) -> str:
    if isinstance(error, SystemExit):
        return "exited"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "oom"
    if isinstance(error, RuntimeError) and re.search(r"can't allocate memory|CUDA out of memory", _text(error)):
        return "oom"
    return otherwise


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be shown)"


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return _one_line(f"SystemExit: the code left with sys.exit({error.code!r}); a model has to return")
    text = _text(error)
    line = _one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)
    hints = [hint for pattern, hint in _HINTS if re.search(pattern, text)]
    if any(_is_network(link) for link in _chain(error)):
        hints.append(_NO_DOWNLOADS)
    # The hint is the part to act on, so the text gives way to it.
    tail = "".join(f"; {hint}" for hint in hints)
    return line[: MAX_MESSAGE - len(tail)] + tail


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 3] + "..."


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _is_network(error: BaseException) -> bool:
    if isinstance(error, (ConnectionError, socket.gaierror)):
        return True
    root = type(error).__module__.partition(".")[0]
    return root in _NETWORK_MODULES and type(error).__name__ in _NETWORK_NAMES


def _trace(error: BaseException, checkout: str) -> str:
    try:
        text = "".join(traceback.format_exception(type(error), error, _user_frames(error)))
    except Exception:
        return _message(error)
    for root in {checkout, str(Path(checkout).resolve()), _SHIM}:
        text = text.replace(f"{root}/", "")
    lines = text.rstrip().splitlines()
    tail = "\n".join(lines[-_TRACE_LINES:])
    return tail if len(tail) <= MAX_TRACE else "..." + tail[-(MAX_TRACE - 3) :]


def _user_frames(error: BaseException) -> TracebackType | None:
    """The traceback without the worker's own frames at its start; all of it if nothing else is there."""
    own = str(Path(__file__).resolve().parent)
    link = error.__traceback__
    while link is not None and link.tb_frame.f_code.co_filename.startswith((own, "<frozen importlib", _CONTEXTLIB)):
        link = link.tb_next
    return link or error.__traceback__
