"""Floor 3, worker. What ONNX Runtime raises, in words for people. Standard library only.

In: its exceptions, whose texts name its own source files. Out: ``WorkerError``, or an ordinary exception with one
clear line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from perfgate.worker.failures import MAX_MESSAGE, refuse

# "[ONNXRuntimeError] : 1 : FAIL : ", and "/src/x.cc:46 void f(int) " in front of the sentence itself.
_CODE = re.compile(r"^\[ONNXRuntimeError\]\s*:\s*\d+\s*:\s*\w+\s*:\s*")
_SOURCE = re.compile(r"\S+\.(?:cc|cpp|cu|cuh|h):\d+\s.*?\)\s+(?=[A-Z])")
_MEMORY = re.compile(r"Failed to allocate memory|out of memory|bad_alloc|bad allocation|OrtMalloc", re.IGNORECASE)
_UNKNOWN = re.compile(
    r"is not a registered function/op|No Op registered for|No opset import for domain"
    r"|Could not find an implementation for|NOT_IMPLEMENTED"
)
_OPERATORS = (
    "this ONNX Runtime has no such operator, and libraries of custom operators cannot be loaded: export the model with "
    "standard operators, or install a newer onnxruntime in setup"
)


class OnnxRuntimeError(RuntimeError):
    """ONNX Runtime failed in a step; the text is one line."""


def sentence(error: BaseException, checkout: str) -> str:
    """One line without error codes, source files and the checkout's path."""
    text = " ".join(str(error).split()).replace(f"{checkout}/", "")
    text = _SOURCE.sub("", _CODE.sub("", text).replace(" failed:", " failed: "))
    return text[:MAX_MESSAGE] or type(error).__name__


def in_a_step(error: Exception, checkout: str) -> Exception:
    """What a step raises instead: MemoryError where memory was lacking."""
    text = sentence(error, checkout)
    return MemoryError(text) if _MEMORY.search(text) else OnnxRuntimeError(text)


@contextmanager
def building(what: str, checkout: str) -> Iterator[None]:
    """Turn whatever a session's creation raises into a WorkerError that begins with ``what``."""
    try:
        yield
    except Exception as error:
        text = sentence(error, checkout)
        if _MEMORY.search(text):
            refuse("oom", "build", f"{what}: {text}")
        if _UNKNOWN.search(f"{error}"):
            refuse("unsupported", "build", f"{what}: {text}; {_OPERATORS}")
        refuse("raised", "build", f"{what}: {text}")
