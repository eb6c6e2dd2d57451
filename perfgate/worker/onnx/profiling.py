"""Floor 3, worker. Times of single operators, as ONNX Runtime's own profile tells them.

In: a maker of sessions, and inputs. Out: ``Profile`` with places and operators in the user's terms, what the profile
knows of memory, and where operators ran. In a process that is never timed, with a session of its own: taking times
slows it down.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfgate.protobuf import MalformedError
from perfgate.records.graph import OperatorTime, Profile
from perfgate.worker.failures import WorkerError
from perfgate.worker.onnx import file, steps
from perfgate.worker.onnx.file import Node
from perfgate.worker.onnx.fusions import Origins
from perfgate.worker.onnx.inputs import Feeds
from perfgate.worker.onnx.sessions import CPU, CUDA, Maker

_FEWEST, _MOST = 3, 20
_BUDGET_NS = 2_000_000_000
_LONGEST_STEP_NS = 30_000_000_000
# The first runs reserve memory.
_WARM = 2
# The optimised graph is written with its weights to a temporary folder.
_LARGEST_GRAPH = 2**28
_KERNEL = "_kernel_time"
_RUN = "model_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """``profile`` None: not had, and a note says why. ``peak_bytes``: see :func:`_peak`."""

    profile: Profile | None = None
    peak_bytes: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Event:
    """One operator's call: times in us as ONNX Runtime gives them; ``inner_us`` is that of operators inside it."""

    name: str
    op_type: str
    provider: str
    start_us: float
    length_us: float
    memory: int | None
    inner_us: float = 0.0


@dataclass(slots=True, kw_only=True)
class Run:
    """One inference and the operators in it, in order."""

    start_us: float
    length_us: float
    events: list[Event] = field(default_factory=list)


def observe(maker: Maker, feeds: Feeds, *, items: int, step_ns: int) -> Observed:
    """Profile a few warm inferences. Whatever goes wrong is a note."""
    if step_ns > _LONGEST_STEP_NS:
        return Observed(notes=(f"operators were not timed one by one: a step takes {step_ns / 1e9:.0f} s",))
    if 2 * maker.source.nbytes > _free_bytes():
        return Observed(notes=("operators were not timed one by one: there is no memory for a second session",))
    count = max(_FEWEST, min(_MOST, _BUDGET_NS // max(step_ns, 1)))
    try:
        with tempfile.TemporaryDirectory(prefix="perfgate-") as folder:
            runs, optimised = _profiled(maker, feeds, Path(folder), items=items, count=count)
    except WorkerError as failure:
        return Observed(notes=(f"operators were not timed one by one: {failure.failed.message}",))
    except Exception as error:
        return Observed(notes=(f"operators were not timed one by one: {type(error).__name__}",))
    if not runs:
        return Observed(notes=("operators were not timed one by one: the profile holds no inference",))
    warm = runs[min(_WARM, len(runs) - 1) :]
    if maker.ordinal is None:
        return Observed(profile=_summed(warm, Origins(maker.source.contents.nodes, optimised)))
    # There the host's times are those of launching, which say nothing of the work.
    notes = ("operators were not timed one by one: ONNX Runtime times only their launch on a GPU",)
    return Observed(peak_bytes=_peak(warm), notes=(*notes, *_placement(warm[-1])))


def _profiled(maker: Maker, feeds: Feeds, folder: Path, *, items: int, count: int) -> tuple[list[Run], list[Node]]:
    graph = folder / "optimised.onnx"
    session = _session(maker, folder / "profile", graph)
    step = steps.make(maker.runtime, session, feeds, maker.ordinal, items=items, checkout=maker.checkout)
    for _ in range(_WARM + count):
        step.call()
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    optimised: list[Node] = []
    with contextlib.suppress(OSError, MalformedError):
        optimised = file.read(graph).nodes
    return runs_of(events), optimised


def _session(maker: Maker, prefix: Path, graph: Path) -> Any:
    """With the optimised graph written down if that is possible: it tells what became of the file's operators."""
    if maker.ordinal is None and maker.source.nbytes <= _LARGEST_GRAPH:
        with contextlib.suppress(WorkerError):
            return maker.make(profile=prefix, optimised=graph)
    return maker.make(profile=prefix)


def runs_of(events: list[dict[str, Any]]) -> list[Run]:
    """The inferences of a profile, which is a list of Chrome trace events."""
    runs = [
        Run(start_us=float(event["ts"]), length_us=float(event["dur"]))
        for event in events
        if event.get("cat") == "Session" and event.get("name") == _RUN
    ]
    runs.sort(key=lambda run: run.start_us)
    kernels = sorted(filter(None, map(_event, events)), key=lambda event: (event.start_us, -event.length_us))
    waiting = iter(runs)
    current = next(waiting, None)
    for event in kernels:
        while current is not None and event.start_us > current.start_us + current.length_us:
            current = next(waiting, None)
        if current is not None and event.start_us >= current.start_us:
            current.events.append(event)
    for run in runs:
        _nest(run.events)
    return runs


def _event(event: dict[str, Any]) -> Event | None:
    name = str(event.get("name", ""))
    if event.get("cat") != "Node" or not name.endswith(_KERNEL):
        return None
    details: dict[str, Any] = event.get("args") or {}
    memory = str(details.get("mem_bytes_in_use", ""))
    return Event(
        name=name.removesuffix(_KERNEL),
        op_type=str(details.get("op_name", "")),
        provider=str(details.get("provider", "")),
        start_us=float(event["ts"]),
        length_us=float(event["dur"]),
        memory=int(memory) if memory.isdecimal() else None,
    )


def _nest(events: list[Event]) -> None:
    """An If or Loop lasts as long as the operators in it: their time is theirs alone."""
    open_events: list[Event] = []
    for event in events:
        while open_events and event.start_us >= open_events[-1].start_us + open_events[-1].length_us:
            open_events.pop()
        if open_events:
            open_events[-1].inner_us += event.length_us
        open_events.append(event)


def _summed(runs: list[Run], origins: Origins) -> Profile:
    """Median over the inferences of each operator's own time at each place."""
    times: dict[tuple[str, str], list[float]] = {}
    calls: Counter[tuple[str, str]] = Counter()
    for number, run in enumerate(runs):
        for key, own_us in _own_times(run, origins):
            seen = times.setdefault(key, [0.0] * len(runs))
            seen[number] += own_us
            # Loops may go round more often in one inference than in another; the last one counts.
            calls[key] += number == len(runs) - 1
    return Profile(
        times=tuple(
            OperatorTime(
                module=module, op=op, calls=max(1, calls[module, op]), host_ns=1e3 * statistics.median(per_run)
            )
            for (module, op), per_run in times.items()
        ),
        steps=len(runs),
        step_ns=1e3 * statistics.median(run.length_us for run in runs),
    )


def _own_times(run: Run, origins: Origins) -> Iterator[tuple[tuple[str, str], float]]:
    for event in run.events:
        origin = origins.of(event.name, event.op_type)
        yield (origin.module, origin.op), max(0.0, event.length_us - event.inner_us)


def _peak(runs: list[Run]) -> int | None:
    """The most that ONNX Runtime's arena on the GPU had handed out after an operator of a warm inference.

    Weights and planned buffers are in it; scratch space that an operator gives back before it ends is not. None
    where this release does not tell.
    """
    known = [e.memory for run in runs for e in run.events if e.provider == CUDA and e.memory is not None]
    return max(known, default=None)


def _placement(run: Run) -> tuple[str, ...]:
    """CUDA has no kernel for some operators: they run on the host, with copies before and after them."""
    on_host = Counter(event.op_type for event in run.events if event.provider == CPU)
    if not on_host:
        return ()
    names = ", ".join(name for name, _ in on_host.most_common(5))
    total = sum(on_host.values())
    return (f"{total} of {len(run.events)} operator calls ran on the CPU, for which CUDA has no kernel: {names}",)


def _free_bytes() -> float:
    """Memory that the system can still give; without limit where it does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024.0
    return float("inf")
