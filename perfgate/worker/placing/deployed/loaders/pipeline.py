"""Floor 3, worker. Requests one after another, each device at work on another one of them. No perfgate.

In: a model in pieces and its requests. Out: their results in order. A device has one thread, which takes what is ready
in the order in which it became so; a request goes through its pieces in the order of the plan.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor, wait
from typing import Any


def threads(devices: Iterable[str]) -> dict[str, Executor]:
    """One for each device; they begin with the first request and end with the process."""
    return {device: ThreadPoolExecutor(1, f"placed-{device}") for device in dict.fromkeys(devices)}


def stream(model: Any, workers: Mapping[str, Executor], requests: Iterable[Any], ahead: int) -> Iterator[list[Any]]:
    """Results of flat requests in their order; ``ahead``: how many are on their way at most.

    What goes wrong with a request is raised where its results would come, and no other one begins. Nothing is on its
    way any more when this ends or is closed.
    """
    line = [workers[piece["device"]] for piece in model.plan["pieces"]]
    stopped = threading.Event()
    waiting: deque[Future[list[Any]]] = deque()
    source = iter(requests)
    try:
        while True:
            while len(waiting) >= ahead:
                yield waiting.popleft().result()
            try:
                waiting.append(_begun(model, line, next(source), stopped))
            except StopIteration:
                break
            except Exception as error:
                waiting.append(_failed(error))
                break
        while waiting:
            yield waiting.popleft().result()
    finally:
        stopped.set()
        wait(waiting)


def _begun(model: Any, line: list[Executor], given: Any, stopped: threading.Event) -> Future[list[Any]]:
    done: Future[list[Any]] = Future()
    # The next request may overwrite what a later piece of this one has not read yet.
    course = model.begin(given, keeps=True)

    def go_on(place: int) -> None:
        if stopped.is_set():
            # Not cancel(): wait() does not see that.
            done.set_exception(CancelledError())
            return
        try:
            model.advance(course, place)
            if place + 1 == len(line):
                done.set_result(model.finish(course))
                return
            if line[place + 1] is not line[place]:
                # Else the next device would stand still until this one has done what it was given meanwhile, too.
                model.runners[place].wait()
            line[place + 1].submit(go_on, place + 1)
        except BaseException as error:
            done.set_exception(error)

    line[0].submit(go_on, 0)
    return done


def _failed(error: Exception) -> Future[list[Any]]:
    done: Future[list[Any]] = Future()
    done.set_exception(error)
    return done
