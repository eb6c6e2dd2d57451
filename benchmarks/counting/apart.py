"""One function in a forked process of its own: with a time limit and a memory limit; what it breaks is thrown away."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.counting.zoo.limits import limit_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``value`` of the function, or in one line why there is none (``reason`` not empty)."""

    value: Any = None
    reason: str = ""


def apart(
    function: Callable[..., Any], *arguments: Any, timeout_s: float = 120.0, memory: int | None = None
) -> Outcome:
    """``function(*arguments)`` with its output thrown away; what it returns must be picklable."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    sys.stdout.flush()
    sys.stderr.flush()
    process = context.Process(target=_run, args=(theirs, function, arguments, memory))
    process.start()
    theirs.close()
    try:
        if not ours.poll(timeout_s):
            return Outcome(reason=f"no answer within {timeout_s:.0f} s")
        outcome: Outcome = ours.recv()
    except EOFError:
        process.join(5)
        return Outcome(reason=f"the process ended with status {process.exitcode}")
    else:
        return outcome
    finally:
        ours.close()
        process.kill()
        process.join()


def _run(connection: Connection, function: Callable[..., Any], arguments: tuple[Any, ...], memory: int | None) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    if "torch" in sys.modules:
        # Threads of a parallel loop are not forked, and one that had some would wait for them for ever.
        sys.modules["torch"].set_num_threads(1)
    try:
        limit_memory(memory)
        outcome = Outcome(value=function(*arguments))
    except BaseException as error:  # noqa: BLE001 - whatever other people's code raises is the answer
        outcome = Outcome(reason=one_line(error))
    connection.send(outcome)
    connection.close()


def one_line(error: BaseException, length: int = 160) -> str:
    """Type and message, clipped."""
    text = " ".join("".join(traceback.format_exception_only(error)).split())
    return text if len(text) <= length else f"{text[: length - 1]}…"
