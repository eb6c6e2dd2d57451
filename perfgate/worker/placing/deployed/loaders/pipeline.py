"""Floor 3, worker. Requests one after another, each device at work on another one of them. No perfgate.

In: a model in pieces and its requests. Out: their results in order. A device has one thread, which takes what is ready
in the order in which it became so; a request goes through its pieces in the order of the plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any


def stream(model: Any, requests: Iterable[Any], ahead: int) -> Iterator[list[Any]]:
    """Results of flat requests in their order; ``ahead``: how many are on their way at most.

    What goes wrong with a request is raised where its results would come; requests that have not begun are left.
    """
    devices = [piece["device"] for piece in model.plan["pieces"]]
    with ExitStack() as stack:
        threads = {device: ThreadPoolExecutor(1, f"placed-{device}") for device in dict.fromkeys(devices)}
        for thread in threads.values():
            stack.callback(thread.shutdown, cancel_futures=True)
        line = [threads[device] for device in devices]
        waiting: deque[Future[list[Any]]] = deque()
        for given in requests:
            waiting.append(_begun(model, line, given))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _begun(model: Any, line: list[ThreadPoolExecutor], given: Any) -> Future[list[Any]]:
    done: Future[list[Any]] = Future()
    # The next request may overwrite what a later piece of this one has not read yet.
    course = model.begin(given, keeps=True)

    def go_on(place: int) -> None:
        try:
            model.advance(course, place)
            if place + 1 < len(line):
                line[place + 1].submit(go_on, place + 1)
            else:
                model.runners[place].wait()
                done.set_result(model.finish(course))
        except BaseException as error:
            done.set_exception(error)

    line[0].submit(go_on, 0)
    return done
