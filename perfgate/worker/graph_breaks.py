"""Floor 3, worker. Where torch.compile stopped compiling a model, and why.

In: a compiled workload in a process that is never timed. Out: one sentence for each place. torch's own counters give
a number without places, and leave out branches on a tensor's values and functions that are given up as a whole. So
one step is translated anew, by a compiler that only listens.
"""

from __future__ import annotations

import dataclasses
import linecache
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch

from perfgate.records.protocol import Open
from perfgate.worker import stepping, timing
from perfgate.worker.device import Devices
from perfgate.worker.inputs import Arguments
from perfgate.worker.loading import Loaded
from perfgate.worker.preparing import Side
from perfgate.worker.stepping import GeneratorStep, Step

_MOST = 10
_MAX_CODE = 80
_MAX_CAUSE = 120

_LOGGERS = tuple(f"torch._dynamo.{part}.__graph_breaks" for part in ("symbolic_convert", "convert_frame"))
_LOGGED = re.compile(r"user code at (?P<file>[^\n]+?):(?P<line>\d+)\n(?:Graph Break )?Reason: (?P<text>.*)", re.DOTALL)
_INSTALLED = re.compile(r".*/(?:site-packages|dist-packages|lib/python[\d.]+)/")

# The compiler's own words differ from release to release; these causes are called the same in all of them.
_CAUSES: tuple[tuple[str, str], ...] = (
    (r"generic_jump|data-dependent (?:branching|jump)|dynamic control flow", "branch on the values of a tensor"),
    (r"graph_break\(\)|function graph_break in file", "call of torch._dynamo.graph_break()"),
    (r"builtin operator `([\w.]+)`", "call of {}()"),
    (r"^builtin: (\w+)", "call of {}()"),
    (r"(?:unsupported|trace the)(?: Python)? builtin `?([\w.]+?)\.?(?:`|\.\s|\s|$)", "call of {}()"),
    (r"Tensor\.(item|tolist)\b", "call of Tensor.{}()"),
    (r"tensor for (tolist) must", "call of Tensor.{}()"),
    (r"dynamic shape operator.*?\b(aten\.\w+)", "the shape of the result of {} depends on values"),
    (r"disable.*?<function ([\w.<>]+) at", "call of {}(), which is kept from being compiled"),
    (r"skip function (\w+) in file", "call of {}()"),
)


@dataclass(frozen=True, slots=True)
class Break:
    """One stop: the user's frames as ``(file, line, code)``, innermost last, and torch's own words."""

    frames: tuple[tuple[str, int, str], ...]
    text: str

    @property
    def place(self) -> tuple[str, int]:
        """File and line of the innermost frame."""
        return self.frames[-1][:2] if self.frames else ("", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaks:
    """``count`` of all stops in one step, and at most ten sentences on them, in order of appearance.

    A stop counts once for each function whose graph it ends, as in torch's own counters: a caller's and the callee's.
    """

    count: int | None = None
    sentences: tuple[str, ...] = ()


class Listener(logging.Handler):
    """Hears of stops twice: in the compiler's log, and with each graph that ended early.

    Older releases log no branch on a tensor's values, and no graph ends where nothing came before the stop.
    """

    def __init__(self) -> None:
        super().__init__()
        self.breaks: list[Break] = []

    def emit(self, record: logging.LogRecord) -> None:
        """One stop in the log, whose exception, if any, is being handled right now."""
        with suppress(Exception):
            error = sys.exc_info()[1]
            stack = getattr(error, "real_stack", None)
            if stack:
                self.breaks.append(Break(_frames(stack), str(getattr(error, "msg", error))))
                return
            found = _LOGGED.search(record.getMessage())
            if found:
                file, line = found["file"], int(found["line"])
                self.breaks.append(Break(((file, line, linecache.getline(file, line)),), found["text"]))

    def compile(self, graph: Any, _inputs: Any) -> Callable[..., Any]:
        """A backend for torch.compile: runs the graph as it is."""
        with suppress(Exception):
            reason = graph.compile_subgraph_reason
            if reason is not None and reason.graph_break:
                heard = Break(_frames(reason.user_stack), str(reason.reason))
                if all(known.place != heard.place for known in self.breaks):
                    self.breaks.append(heard)
        run: Callable[..., Any] = graph.forward
        return run


def _frames(stack: Any) -> tuple[tuple[str, int, str], ...]:
    return tuple((str(frame.filename), int(frame.lineno or 0), str(frame.line or "")) for frame in stack)


def find(
    request: Open, side: Side, loaded: Loaded, arguments: Arguments, step: Step, devices: Devices, notes: list[str]
) -> Breaks:
    """Stops in one step of a compiled workload; nothing for one that is not compiled.

    Everything compiled so far is forgotten. Where the step cannot be run once more, the count is torch's own and
    ``notes`` says so.
    """
    if request.workload.compile == "eager":
        return Breaks()
    counted = timing.graph_breaks()
    before = _counters()
    listener = Listener()
    try:
        with _listening(listener):
            compiled: Any = torch.compile(loaded.plain, backend=listener.compile)
            if loaded.module is not None:
                compiled.training = loaded.module.training
            again = stepping.make_step(request, side, dataclasses.replace(loaded, model=compiled), arguments)
            again.inference = step.inference
            if isinstance(again, GeneratorStep):
                again.sync = devices.sync
            with again.context():
                again.call()
                devices.sync()
    except Exception as error:
        notes.append(f"places of graph breaks are not known: {type(error).__name__} when the step was compiled again")
        return Breaks(count=counted)
    seen = _counters() - before
    unseen = Counter(heard.text for heard in listener.breaks) - seen
    sentences = dict.fromkeys(sentence(heard, side.request.checkout) for heard in listener.breaks)
    return Breaks(count=max(counted or 0, seen.total() + unseen.total()), sentences=tuple(sentences)[:_MOST])


def _counters() -> Counter[str]:
    counters = timing.dynamo_counters()
    return Counter() if counters is None else Counter(counters.get("graph_break", {}))


@contextmanager
def _listening(listener: Listener) -> Iterator[None]:
    dynamo: Any = sys.modules["torch._dynamo"]
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    dynamo.reset()
    try:
        for logger in loggers:
            logger.addHandler(listener)
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(listener)
            logger.setLevel(level)
            logger.propagate = propagate
        dynamo.reset()


def sentence(heard: Break, checkout: str) -> str:
    """``net/model.py:31: call of print(): print(x.shape)``, without any absolute path.

    The place is the innermost line of the checkout's own files, or else of whatever library it was.
    """
    cause = _cause(heard.text)
    if not heard.frames:
        return cause
    roots = {f"{root}/" for root in (checkout, os.path.realpath(checkout)) if root}
    own = [(_relative(file, roots), line, code) for file, line, code in heard.frames]
    inside = [(file, line, code) for file, line, code in own if file]
    if inside:
        file, line, code = inside[-1]
    else:
        file, line, code = heard.frames[-1]
        file = _INSTALLED.sub("", file) if _INSTALLED.match(file) else os.path.basename(file)  # noqa: PTH119
    code = " ".join(code.split())
    shown = code if len(code) <= _MAX_CODE else f"{code[: _MAX_CODE - 3]}..."
    return f"{file}:{line}: {cause}" + (f": {shown}" if shown else "")


def _relative(file: str, roots: set[str]) -> str:
    """``file`` within the checkout; empty where it is none of its own files."""
    if _INSTALLED.match(file):
        return ""
    for path in (file, os.path.realpath(file)):
        for root in roots:
            if path.startswith(root):
                return path[len(root) :]
    return ""


def _cause(text: str) -> str:
    """Why, in a few words: the known causes by name, anything else by the first line of torch's text."""
    said = re.split(r"\n\s*Hint:|\n\s*Developer debug context:", text.strip(), maxsplit=1)[0].strip("'\" \n")
    for pattern, words in _CAUSES:
        found = re.search(pattern, said, re.DOTALL | re.IGNORECASE)
        if found:
            return words.format(*found.groups())
    first = said.splitlines()[0] if said else "no reason is given"
    # Addresses differ from run to run, and folders of this machine mean nothing to the reader.
    first = re.sub(r"\s*\bat 0x[0-9a-fA-F]+", "", first)
    first = re.sub(r"/[^\s:'\"]*/", "", first)
    return first if len(first) <= _MAX_CAUSE else f"{first[: _MAX_CAUSE - 3]}..."
