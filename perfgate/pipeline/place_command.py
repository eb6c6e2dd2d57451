"""``perfgate place``: a model of the working tree in; a plan, or a deployed folder, out."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfgate import wire
from perfgate.bench import machine, nvml
from perfgate.bench.sampling import free_bytes
from perfgate.errors import UsageError
from perfgate.pipeline.count import CountRequest, specification
from perfgate.pipeline.place import Placed, place
from perfgate.pipeline.place_apply import apply
from perfgate.pipeline.place_candidates import PlaceRequest
from perfgate.pipeline.request import Ports
from perfgate.pipeline.working_tree import configuration, working_side
from perfgate.records.placement import Device, PlacementPlan, PlacementPolicy
from perfgate.records.placing import Built
from perfgate.records.workload import SideConfig
from perfgate.report.write import unwritable, write_file

_BUDGET_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """Empty and None: the configuration's ``[placement]``. ``memory``: device -> bytes that may be held there."""

    count: CountRequest
    devices: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    objective: str = ""
    latency_s: float | None = None
    budget_s: float | None = None
    memory: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0


def placed(request: CommandRequest, ports: Ports) -> Placed:
    """Profile, search, deploy and measure. Raises UsageError, ConfigError and MeasuringError."""
    with tempfile.TemporaryDirectory(prefix="perfgate-") as folder:
        return place(_request(request, ports, Path(folder)), ports)


def deployed(request: CommandRequest, plan: PlacementPlan, folder: Path, ports: Ports) -> Built:
    """Deploy ``plan`` into ``folder``. Raises as :func:`placed`."""
    count = request.count
    asked = replace(
        count,
        entry=count.entry or plan.model,
        inputs=count.inputs or plan.given,
        batch=count.batch or plan.batch,
        dtype=count.dtype or plan.dtype,
    )
    with tempfile.TemporaryDirectory(prefix="perfgate-") as scratch:
        return apply(_request(replace(request, count=asked), ports, Path(scratch)), plan, folder, ports)


def check_out(path: Path) -> None:
    """Raise UsageError where :func:`save` could not write: before minutes are spent."""
    if reason := unwritable(path):
        msg = f"--out {path}: cannot be written: {reason}; name another place"
        raise UsageError(msg)


def save(plan: PlacementPlan, path: Path) -> None:
    """Write a plan. Raises UsageError."""
    if problem := write_file(path, wire.dumps(plan, indent=1) + "\n"):
        msg = f"--out {problem}"
        raise UsageError(msg)


def read(path: Path) -> PlacementPlan:
    """A plan that :func:`save` wrote. Raises UsageError."""
    try:
        return wire.loads(PlacementPlan, path.read_bytes())
    except OSError as error:
        msg = f"--apply {path}: cannot be read ({error.strerror}); name the file that perfgate place --out wrote"
        raise UsageError(msg) from None
    except wire.WireError as error:
        msg = f"--apply {path}: {error}; name a file that perfgate place --out of this version wrote"
        raise UsageError(msg) from None


def _request(asked: CommandRequest, ports: Ports, folder: Path) -> PlaceRequest:
    count = asked.count
    config = configuration(count.root, count.config_file)
    rules = config.policy.placement if config is not None else PlacementPolicy()
    spec = specification(replace(count, mode="infer"), config)
    (workload,) = spec.workloads
    side = config.side if config is not None else SideConfig(source="command line")
    python = count.python or side.python or count.fallback_python
    names = asked.devices or rules.devices or tuple(dict.fromkeys((workload.device, "cpu")))
    objective = asked.objective or rules.objective
    latency_s = asked.latency_s if asked.latency_s is not None else rules.latency_s
    _check(asked, names, objective, latency_s)
    return PlaceRequest(
        side=working_side(count.root, side, ports, python=python, folder=folder),
        spec=spec,
        workload=workload,
        devices=devices(names, asked.memory, ports),
        libraries=asked.libraries or rules.libraries,
        threads=asked.threads or (side.threads or machine.default_threads(),),
        objective=objective,
        latency_s=latency_s,
        budget_s=asked.budget_s or rules.budget_s or _BUDGET_S,
        seed=asked.seed,
        given=count.inputs,
        called=count.entry,
    )


def devices(names: tuple[str, ...], memory: Mapping[str, int], ports: Ports) -> tuple[Device, ...]:
    """With the memory that may be used: what is given, else what is free on a card now."""
    cards = [name for name in names if name != "cpu"]
    free = free_bytes(cards, nvml.connect(), dict(ports.environ)) if cards else {}
    return tuple(Device(name=name, memory_bytes=memory.get(name, free.get(name))) for name in names)


def _check(asked: CommandRequest, names: tuple[str, ...], objective: str, latency_s: float | None) -> None:
    if objective == "memory" and latency_s is None:
        msg = "--objective memory needs --max-step-time: the least memory without a limit takes for ever"
        raise UsageError(msg)
    if asked.latency_s is not None and objective != "memory":
        msg = f"--max-step-time is the limit of --objective memory, and the objective is {objective}; leave it out"
        raise UsageError(msg)
    strange = sorted(set(asked.memory) - set(names))
    if strange:
        msg = f"--memory {strange[0]}: no such device among {', '.join(names)}; name it with --devices too"
        raise UsageError(msg)
