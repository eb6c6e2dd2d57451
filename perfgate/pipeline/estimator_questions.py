"""Questions to the estimator from models: counted here, asked of this machine and of platforms of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfgate.bench import machine as this_machine
from perfgate.config.load import Config
from perfgate.cost import ways
from perfgate.cost.ways import EAGER
from perfgate.errors import MeasuringError
from perfgate.hardware import catalogue
from perfgate.pipeline.count import CountRequest, count_grid
from perfgate.pipeline.examples import CPU_DEVICE, of_hardware, of_platform
from perfgate.pipeline.request import Ports
from perfgate.pipeline.roofline import known
from perfgate.pipeline.working_tree import configuration
from perfgate.records.cost import CostPolicy, Way
from perfgate.records.estimate import Estimate, Example, Machine
from perfgate.records.graph import Totals
from perfgate.records.hardware import CPU
from perfgate.records.workload import Workload

# Names of machines beside those of platforms.
HERE, ALL = "here", "all"
_ENGINES = ("torch ", "onnxruntime ")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRequest:
    """What is asked of each model in ``models``: a configured one, ``module:callable`` or an ``.onnx`` file.

    ``count``: the request of one of them, ``entry`` aside. ``batches``, ``dtypes`` empty: those of the configuration.
    ``devices``: platforms, ``here`` (this machine, on the workload's own device) or ``all``; empty: those of
    ``[cost]``, else ``here``. ``threads`` of processors; empty: this machine's as configured, elsewhere all cores.
    """

    models: tuple[str, ...]
    count: CountRequest
    batches: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()
    compiles: tuple[str, ...] = (EAGER,)
    devices: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    machine: Machine
    threads: int


def questions(request: QuestionRequest, ports: Ports) -> list[Example]:
    """A question for each model, machine and setting, in this order. Raises UsageError, ConfigError, MeasuringError."""
    config = configuration(request.count.root, request.count.config_file)
    # Counting a large model takes minutes: names that nobody knows are said before.
    named = {model: _devices(request, model, config) for model in request.models}
    found: list[Example] = []
    for model, devices in named.items():
        count = replace(request.count, entry=model)
        counted = count_grid(count, ports, batches=request.batches, dtypes=request.dtypes)
        if not any(graph.totals.kernels for _, graph in counted):
            msg = f"{model}: one step runs no operator that takes time, so there is nothing to estimate"
            raise MeasuringError(msg)
        for device in devices:
            for workload, graph in counted:
                for place in _places(request, device, workload, config, ports.environ):
                    found += [_question(workload, graph.totals, one, place) for one in request.compiles]
    return found


def fits(memory: Estimate | None, memory_bytes: int | None, headroom: float) -> bool | None:
    """Whether the upper end of peak memory leaves a device's head-room free; None where nobody can say."""
    if memory is None or not memory_bytes:
        return None
    return memory.high <= memory_bytes * (1 - headroom)


def headroom(request: QuestionRequest, model: str) -> float:
    """Share of a device's memory that has to stay free for ``model``, by the configuration."""
    rules = _rules(configuration(request.count.root, request.count.config_file))
    return rules.of(model).memory_headroom


def _rules(config: Config | None) -> CostPolicy:
    return config.policy.cost if config is not None else CostPolicy()


def _devices(request: QuestionRequest, model: str, config: Config | None) -> Sequence[str]:
    asked = request.devices or _rules(config).of(model).devices or (HERE,)
    found: list[str] = []
    for name in asked:
        if name == ALL:
            found += [one.name for one in catalogue.platforms().values() if not one.part_of]
        else:
            found.append(name if name == HERE else catalogue.find(name).name)
    return tuple(dict.fromkeys(found))


def _places(
    request: QuestionRequest, device: str, workload: Workload, config: Config | None, environ: Mapping[str, str]
) -> list[_Place]:
    """The machine with each number of threads; accelerators have none."""
    if device != HERE:
        platform = catalogue.find(device)
        machine = of_platform(platform)
        wanted = request.threads or (platform.cores or 0,)
        return [_Place(machine=machine, threads=one) for one in (wanted if platform.kind == CPU else (0,))]
    environment = this_machine.environment(environ)
    probes = known(request.count.root, environment.hardware_id)
    own = config.side.threads if config is not None else None
    wanted = request.threads or (own or this_machine.default_threads(),)
    return [
        _Place(
            machine=of_hardware(environment.hardware, environment.hardware_id, workload.device, threads, probes),
            threads=threads if workload.device == CPU_DEVICE else 0,
        )
        for threads in (wanted if workload.device == CPU_DEVICE else wanted[:1])
    ]


def _question(workload: Workload, totals: Totals, compile_: str, place: _Place) -> Example:
    way = Way(mode=workload.mode, batch=workload.batch, dtype=workload.dtype, compile=compile_, totals=totals)
    return Example(
        model=workload.model,
        group=workload.model,
        mode=workload.mode,
        dtype=workload.dtype,
        compile=compile_,
        batch=workload.batch,
        items=totals.batch,
        machine=place.machine,
        kernels=ways.kernels(way),
        threads=place.threads,
        # What runs an ONNX file is not known from it.
        software=totals.software if totals.software.startswith(_ENGINES) else "",
        weight_bytes=totals.weight_bytes,
        peak_activation_bytes=totals.peak_activation_bytes,
        hyper_parameters={"batch": str(workload.batch), "items": str(totals.batch)},
    )
