"""Floor 3, worker. torch's profiler, without its slow post-processing.

In: a call. Out: what ran on the host and on the accelerator while it lasted, as plain tuples, on every release of
torch since 2.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.autograd import profiler

# torch's own numbering of what a range is for (RecordScope), the same in all releases.
FUNCTION = 0
BACKWARD_NODE = 1
ANNOTATION = 7


class HostEvent(NamedTuple):
    """A range on the host, in ns.

    ``sequence`` is the number that a forward operator shares with its backward node, or -1; ``forward_thread`` is
    the thread of that forward operator in a backward node, and 0 outside of the backward pass. ``scope``:
    ``FUNCTION``, ``BACKWARD_NODE``, ``ANNOTATION`` (a range that somebody named) or another of torch's.
    """

    name: str
    start: int
    end: int
    thread: int
    sequence: int = -1
    forward_thread: int = 0
    id: int = 0
    scope: int = FUNCTION


class DeviceEvent(NamedTuple):
    """A kernel or copy on an accelerator, in ns; ``launched_by`` is a host event's ``id``, or 0."""

    start: int
    end: int
    launched_by: int


class Recording:
    """What one run of the profiler saw; filled when it ends."""

    def __init__(self) -> None:
        self.host: list[HostEvent] = []
        self.device: list[DeviceEvent] = []


class _Profiler(profiler.profile):  # type: ignore[misc]
    def _parse_kineto_results(self, *_args: Any, **_kwargs: Any) -> list[Any]:
        # Some releases build a Python object for each event and a tree of them as soon as the profiler stops.
        return []


@contextmanager
def recording(*, cuda: bool) -> Iterator[Recording]:
    """Profile what runs inside. Raises RuntimeError where the profiler cannot start, or was started already."""
    if not torch.autograd.kineto_available():
        message = "this build of torch has no Kineto"
        raise RuntimeError(message)
    result = Recording()
    run = _Profiler(use_device="cuda" if cuda else None, use_kineto=True)
    with _flag_put_back():
        run.__enter__()
        try:
            yield result
        finally:
            run.__exit__(None, None, None)
    _read(run.kineto_results.events(), result)


@contextmanager
def _flag_put_back() -> Iterator[None]:
    # A profiler that fails to start leaves the flag set that says it runs.
    before = getattr(profiler, "_is_profiler_enabled", None)
    try:
        yield
    finally:
        if before is not None:
            profiler._set_is_profiler_enabled(before)


def _read(events: list[Any], into: Recording) -> None:
    cpu = torch.autograd.DeviceType.CPU
    annotations: set[str] = set()
    devices: list[tuple[str, DeviceEvent]] = []
    for event in events:
        start = event.start_ns()
        end = start + event.duration_ns()
        launched_by = event.linked_correlation_id()
        if event.device_type() != cpu:
            devices.append((event.name(), DeviceEvent(start, end, launched_by)))
        # Calls of the driver's API are linked to the operator that they belong to, and lie inside of it.
        elif launched_by <= 0 and not event.is_async():
            host = _host_event(event, start, end)
            into.host.append(host)
            if host.scope == ANNOTATION:
                annotations.add(host.name)
    # An annotation is shown a second time over the kernels that were launched in it.
    into.device.extend(event for name, event in devices if name not in annotations)


def _host_event(event: Any, start: int, end: int) -> HostEvent:
    return HostEvent(
        name=event.name(),
        start=start,
        end=end,
        thread=event.start_thread_id(),
        sequence=event.sequence_nr(),
        forward_thread=event.fwd_thread_id(),
        id=event.correlation_id(),
        scope=event.scope(),
    )
