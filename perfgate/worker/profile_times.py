"""Floor 3, worker. Events of a profile -> time by module, operator and phase.

In: host events with perfgate's marks, device events, paths of the modules. Out: one table for each step.

Every nanosecond of a step on the host is given to exactly one entry. Time inside an operator belongs to the
outermost operator around it that was called in the same module; time between operators belongs to ``PYTHON`` of the
innermost module. Only the wait for the devices belongs to nobody. Other threads (autograd's, of a backward pass on an
accelerator) count for themselves, and the thread that waits for them meanwhile does not.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER
from perfgate.worker.profile_events import ANNOTATION, FUNCTION, DeviceEvent, HostEvent
from perfgate.worker.profile_ranges import MODULE, OWN, STEP, WAIT

# Host time between operators, in the terms of the user: Python, numpy, sleeping, autograd's own bookkeeping.
PYTHON = "python"

_ENGINE = "autograd::engine::"
_ACCUMULATE = "AccumulateGrad"
_UPDATE = "Optimizer."
# Operators that only keep the profiler's own accounts.
_PROFILER = "profiler::"
# Events that change where time goes, also inside of an operator.
_MARKS = (OWN, _ENGINE, _UPDATE)


class Key(NamedTuple):
    """What times are summed by. ``op`` is an outermost operator, or ``PYTHON``."""

    module: str
    op: str
    phase: str


@dataclass(slots=True)
class Sums:
    """One step's part of a key, in ns. ``calls``: of the operator; for ``PYTHON`` of the module, node or update."""

    calls: int = 0
    host: int = 0
    device: int = 0


@dataclass(slots=True)
class StepTimes:
    """One step: ``waited`` of the ``end - start`` ns went by waiting for the devices."""

    start: int
    end: int
    waited: int = 0
    sums: dict[Key, Sums] = field(default_factory=dict)

    def sum_of(self, key: Key) -> Sums:
        """The sums of ``key``, new ones the first time."""
        found = self.sums.get(key)
        if found is None:
            found = self.sums[key] = Sums()
        return found


class _Frame:
    """An event that has begun.

    ``inner``: ns that inner events account for; ``elsewhere``: end of the last event of another thread that this
    one waited for; ``called``: inside of a module's call; ``waits``: the time is nobody's.
    """

    __slots__ = ("called", "elsewhere", "end", "inner", "key", "start", "step", "waits")

    def __init__(self, step: StepTimes, start: int, end: int, key: Key) -> None:
        self.step = step
        self.start = start
        self.end = end
        self.key = key
        self.inner = 0
        self.elsewhere = start
        self.called = False
        self.waits = False

    def close(self) -> None:
        """Give what no inner event accounts for to the key."""
        own = max(0, self.end - self.start - self.inner)
        if self.waits:
            self.step.waited += own
        else:
            self.step.sum_of(self.key).host += own

    def wait_for(self, other: _Frame) -> None:
        """This one's thread does not count while another one works for it."""
        begin = max(other.start, self.elsewhere)
        end = min(other.end, self.end)
        if end > begin:
            self.inner += end - begin
            self.elsewhere = end


class _Origins:
    """Which module a forward operator ran in, by thread and sequence number."""

    def __init__(self) -> None:
        self._modules: dict[tuple[int, int], str] = {}
        self._numbers: dict[int, list[int]] = {}

    def put(self, thread: int, number: int, module: str) -> None:
        # An operator that makes no node has the number of the node that comes next: the last one wins.
        if (thread, number) not in self._modules:
            bisect.insort(self._numbers.setdefault(thread, []), number)
        self._modules[thread, number] = module

    def get(self, thread: int, number: int) -> str:
        found = self._modules.get((thread, number))
        if found is None:
            # A node without an operator of its own belongs to the operator before it.
            numbers = self._numbers.get(thread, [])
            before = bisect.bisect_right(numbers, number)
            found = self._modules[thread, numbers[before - 1]] if before else ""
        return found


class _Sweep:
    """All events in order of their start; one stack of frames for each thread.

    ``owners``: step and key of those events whose ids are ``wanted``.
    """

    def __init__(self, paths: Sequence[str], main: int, wanted: frozenset[int]) -> None:
        self.steps: list[StepTimes] = []
        self.owners: dict[int, tuple[StepTimes, Key]] = {}
        self._wanted = wanted
        self._paths = paths
        self._main: list[_Frame] = []
        self._stacks: dict[int, list[_Frame]] = {main: self._main}
        self._origins = _Origins()
        self._last_node: dict[int, str] = {}
        self._went_back = False

    def take(self, event: HostEvent) -> None:
        """The next event. Those outside of a step are dropped."""
        if event.name.startswith(_PROFILER):
            return
        stack = self._stacks.setdefault(event.thread, [])
        _pop(self._main, event.start)
        _pop(stack, event.start)
        if event.name == STEP:
            self._begin_step(event)
        elif stack and stack[-1].key.op != PYTHON and not event.name.startswith(_MARKS):
            # Most events: operators that an operator calls, whose time is the outer one's anyway.
            self._remember(event, stack[-1].step, stack[-1].key)
        elif stack:
            outer = stack[-1]
            # Ends are rounded: an inner event may seem to last a little longer than what it lies in.
            frame = self._frame(event, outer, min(event.end, outer.end))
            outer.inner += frame.end - frame.start
            stack.append(frame)
        elif self._main and (event.name.startswith(_ENGINE) or _is_operator(event)):
            waiting = self._main[-1]
            frame = self._frame(event, waiting, event.end)
            waiting.wait_for(frame)
            stack.append(frame)

    def finish(self) -> None:
        """No more events."""
        for stack in self._stacks.values():
            _pop(stack, None)

    def _begin_step(self, event: HostEvent) -> None:
        self._went_back = False
        key = Key("", PYTHON, FORWARD)
        step = StepTimes(event.start, event.end)
        step.sum_of(key).calls += 1
        self.steps.append(step)
        self._main.append(_Frame(step, event.start, event.end, key))
        self._remember(event, step, key)

    def _frame(self, event: HostEvent, outer: _Frame, end: int) -> _Frame:
        key = self._operator(event, outer) if _is_operator(event) else self._surroundings(event, outer.key)
        calls_module = event.name.startswith(MODULE)
        frame = _Frame(outer.step, event.start, max(event.start, end), key)
        frame.called = outer.called or calls_module
        frame.waits = event.name == WAIT
        if calls_module or key != outer.key:
            frame.step.sum_of(key).calls += 1
        self._remember(event, frame.step, key)
        return frame

    def _remember(self, event: HostEvent, step: StepTimes, key: Key) -> None:
        if event.id in self._wanted:
            self.owners[event.id] = (step, key)
        if event.sequence >= 0 and event.forward_thread == 0:
            self._origins.put(event.thread, event.sequence, key.module)

    def _operator(self, event: HostEvent, outer: _Frame) -> Key:
        phase = outer.key.phase
        if phase == FORWARD and self._went_back and not outer.called and event.sequence < 0:
            # Clipping gradients and the like, without autograd between the backward pass and the update.
            phase = OPTIMIZER
        return Key(outer.key.module, event.name, phase)

    def _surroundings(self, event: HostEvent, outer: Key) -> Key:
        """The key of an event that is no outermost operator: a module, a node, the update, or just what is around."""
        name = event.name
        if name.startswith(MODULE):
            return Key(self._paths[int(name[len(MODULE) :])], PYTHON, outer.phase)
        if name.startswith(_ENGINE):
            return Key(self._node_module(event, outer.module), PYTHON, BACKWARD)
        if event.scope == ANNOTATION and name.startswith(_UPDATE):
            return Key("", PYTHON, OPTIMIZER)
        return outer

    def _node_module(self, event: HostEvent, otherwise: str) -> str:
        self._went_back = True
        if event.sequence >= 0:
            module = self._origins.get(event.forward_thread, event.sequence)
        elif event.name.endswith(_ACCUMULATE):
            # A gradient is added up right after it was made.
            module = self._last_node.get(event.thread, otherwise)
        else:
            module = otherwise
        self._last_node[event.thread] = module
        return module


def _pop(stack: list[_Frame], until: int | None) -> None:
    while stack and (until is None or stack[-1].end <= until):
        stack.pop().close()


def _is_operator(event: HostEvent) -> bool:
    return event.scope == FUNCTION and "::" in event.name and not event.name.startswith((_ENGINE, OWN))


def attribute(host: Sequence[HostEvent], device: Sequence[DeviceEvent], paths: Sequence[str]) -> tuple[StepTimes, ...]:
    """One table for each step that is marked in ``host``; ``paths`` are what the marks of modules count in."""
    ordered = sorted(host, key=lambda event: (event.start, -event.end, event.id))
    main = next((event.thread for event in ordered if event.name == STEP), 0)
    sweep = _Sweep(paths, main, frozenset(kernel.launched_by for kernel in device))
    for event in ordered:
        sweep.take(event)
    sweep.finish()
    for kernel in device:
        owner = sweep.owners.get(kernel.launched_by) or _by_time(sweep.steps, kernel)
        if owner is not None:
            step, key = owner
            step.sum_of(key).device += kernel.end - kernel.start
    return tuple(sweep.steps)


def _by_time(steps: Sequence[StepTimes], kernel: DeviceEvent) -> tuple[StepTimes, Key] | None:
    for step in steps:
        if step.start <= kernel.start < step.end:
            return step, Key("", PYTHON, FORWARD)
    return None
