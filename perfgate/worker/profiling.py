"""Floor 3, worker. Where the time of a step goes, by module and operator.

In: a warm step in a process that is never timed. Out: ``Profile``. Watching makes every operator slower, cheap ones
most of all, so that only shares of these times are used, and only to explain what clean timings have shown.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from perfgate.records.graph import OperatorTime, Profile
from perfgate.records.protocol import Open
from perfgate.worker import counting, stepping, timing
from perfgate.worker.device import Devices
from perfgate.worker.inputs import Arguments
from perfgate.worker.loading import Loaded
from perfgate.worker.preparing import Side
from perfgate.worker.profile_events import Recording, recording
from perfgate.worker.profile_ranges import STEP, WAIT, ModuleRanges, marked
from perfgate.worker.profile_times import Key, StepTimes, Sums, attribute
from perfgate.worker.stepping import GeneratorStep, Step
from perfgate.worker.timing import WarmUp

_BUDGET_NS = 2_000_000_000
_BUDGET_STEPS = 5
_LONGEST_NS = 30_000_000_000
_FEWEST, _MOST = 3, 20
# About three seconds of work to read and attribute.
_MOST_EVENTS = 500_000


def profile_workload(
    request: Open,
    side: Side,
    loaded: Loaded,
    arguments: Arguments,
    step: Step,
    devices: Devices,
    warm: WarmUp,
    notes: list[str],
) -> Profile | None:
    """:func:`profile` of an opened workload, uncompiled, for at most two seconds or five steps."""
    if warm.step_ns > _LONGEST_NS:
        notes.append(_too_long(warm.step_ns))
        return None
    if request.workload.compile != "eager":
        try:
            plain = stepping.make_step(request, side, loaded, arguments, compiled=False)
        except Exception as error:
            notes.append(_failed(error))
            return None
        plain.inference = step.inference
        if isinstance(plain, GeneratorStep):
            plain.sync = devices.sync
        step = plain
    if request.workload.compile != "eager" or timing.compilations():
        notes.append("operators were profiled uncompiled: their times explain those of the compiled step only roughly")
    budget = max(_BUDGET_NS, _BUDGET_STEPS * warm.step_ns)
    return profile(step, devices, loaded.module, budget_ns=budget, notes=notes)


def profile(step: Step, devices: Devices, module: Any, *, budget_ns: int, notes: list[str]) -> Profile | None:
    """Profile 3 to 20 steps, as many as fit into ``budget_ns``, after one that shows how long they take.

    Nothing of the model or of torch is changed but by the step itself; the random generators are put back. What
    limits the profile is added to ``notes``; whatever fails gives None and a note.
    """
    cuda = any(name.startswith("cuda") for name in devices.names)
    try:
        ranges = ModuleRanges(module)
        with _undisturbed(step, devices), ranges.installed():
            trial, elapsed = _record(step, devices, 1, cuda=cuda)
            if elapsed > _LONGEST_NS:
                notes.append(_too_long(elapsed))
                return None
            count = _affordable(budget_ns, elapsed, len(trial.host))
            seen, _ = _record(step, devices, count, cuda=cuda)
        steps = attribute(seen.host, seen.device, ranges.paths)
        if cuda and not seen.device:
            notes.append("no operator's time on the GPU is known: the profiler was not given any kernels (CUPTI)")
        return summarise(steps, on_device=bool(seen.device))
    except Exception as error:
        notes.append(_failed(error))
        return None


def summarise(steps: Sequence[StepTimes], *, on_device: bool) -> Profile:
    """Medians over the steps, the longest first. Raises ValueError without steps."""
    if not steps:
        message = "the profiler saw no step"
        raise ValueError(message)
    keys: dict[Key, None] = {}
    for step in steps:
        keys.update(dict.fromkeys(step.sums))
    times = [_operator_time(key, steps, on_device=on_device) for key in keys]
    kept = [item for item in times if item.calls or item.host_ns or item.device_ns]
    kept.sort(key=lambda item: -max(item.host_ns, item.device_ns or 0.0))
    return Profile(
        times=tuple(kept),
        steps=len(steps),
        step_ns=float(statistics.median(step.end - step.start for step in steps)),
    )


def _operator_time(key: Key, steps: Sequence[StepTimes], *, on_device: bool) -> OperatorTime:
    none = Sums()
    sums = [step.sums.get(key, none) for step in steps]
    return OperatorTime(
        module=key.module,
        op=key.op,
        phase=key.phase,
        calls=statistics.median_low(part.calls for part in sums),
        host_ns=float(statistics.median(part.host for part in sums)),
        device_ns=float(statistics.median(part.device for part in sums)) if on_device else None,
    )


def _record(step: Step, devices: Devices, count: int, *, cuda: bool) -> tuple[Recording, int]:
    """``count`` steps, and the ns of all of them."""
    devices.sync()
    with timing.quiet_collector(), step.context(), recording(cuda=cuda) as seen:
        started = time.perf_counter_ns()
        for _ in range(count):
            with marked(STEP):
                step.call()
                with marked(WAIT):
                    devices.sync()
        elapsed = time.perf_counter_ns() - started
    return seen, elapsed


def _affordable(budget_ns: int, step_ns: int, events: int) -> int:
    fitting = min(max(budget_ns // max(step_ns, 1), _FEWEST), _MOST)
    return max(1, min(fitting, _MOST_EVENTS // max(events, 1)))


@contextmanager
def _undisturbed(step: Step, devices: Devices) -> Iterator[None]:
    """Random generators are put back, spans that are profiled do not count, and nothing runs compiled."""
    gpus = [torch.device(name).index for name in devices.names if name.startswith("cuda")]
    with torch.random.fork_rng(devices=gpus), counting.uncompiled(), _waits_marked(step):
        yield


@contextmanager
def _waits_marked(step: Step) -> Iterator[None]:
    if not isinstance(step, GeneratorStep):
        yield
        return
    sync = step.sync

    def wait() -> None:
        with marked(WAIT):
            sync()

    step.sync = wait
    try:
        yield
    finally:
        step.sync = sync
        step.take_spans()


def _too_long(step_ns: int) -> str:
    return f"operators were not profiled: one step takes {step_ns / 1e9:.0f} s, more than {_LONGEST_NS / 1e9:.0f} s"


def _failed(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    # Folders of this machine mean nothing to the reader.
    text = re.sub(r"/[^\s:'\"]*/", "", lines[0])[:150] if lines else ""
    return f"operators could not be profiled: {type(error).__name__}" + (f": {text}" if text else "")
