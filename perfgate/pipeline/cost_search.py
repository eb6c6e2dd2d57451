"""The cheapest hardware for one model: what ``perfgate cost`` does. The model is counted, nothing is timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from perfgate.bench import machine as this_machine
from perfgate.config import cost_options, prices
from perfgate.cost import filters, fleet, optimise
from perfgate.cost.posing import items_per_month
from perfgate.cost.runner import recognised
from perfgate.cost.times import RooflineTimes, Times
from perfgate.cost.ways import EAGER
from perfgate.errors import MeasuringError, UsageError
from perfgate.hardware import catalogue
from perfgate.pipeline.cost import market_of
from perfgate.pipeline.count import CountRequest, count_grid
from perfgate.pipeline.request import Ports
from perfgate.pipeline.roofline import known
from perfgate.pipeline.working_tree import ESTIMATOR_FILE, configuration
from perfgate.records.cost import Answer, CostPolicy, Prices, Requirements, Volume, Way
from perfgate.records.fleet import FleetPlan, Load
from perfgate.records.hardware import Market, MeasuredRoofline


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRequest:
    """``given``: keys of ``[cost]`` from the command line, which go before the configuration's.

    ``batches``, ``dtypes``, ``compiles`` empty: the configuration's own. ``private``: prices that no file in the
    repository holds. ``load``: also plan a fleet for it; one without ``items_per_s`` is the job of the requirements.
    """

    count: CountRequest
    given: Mapping[str, object] = field(default_factory=dict)
    batches: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()
    compiles: tuple[str, ...] = (EAGER,)
    private: Prices = field(default_factory=Prices)
    load: Load | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """``requirements`` and ``volume`` as they were in force; ``ways`` what was counted.

    ``usd_per_month`` of the cheapest configuration at ``volume``, whose steps are those of the first way.
    """

    model: str
    answer: Answer
    requirements: Requirements
    volume: Volume | None
    ways: tuple[Way, ...]
    usd_per_month: float | None = None
    plan: FleetPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What hardware is looked for with: the counted ways, all offers, requirements and volume in force, and times.

    ``warnings``: what was there to be used and was not.
    """

    ways: tuple[Way, ...]
    market: Market
    requirements: Requirements
    volume: Volume | None
    times: Times
    prices: Prices
    warnings: tuple[str, ...] = ()


def posed(request: CostRequest, ports: Ports) -> Problem:
    """The problem of a request, its model counted. Raises UsageError, ConfigError and MeasuringError."""
    config = configuration(request.count.root, request.count.config_file)
    rules = config.policy.cost if config is not None else CostPolicy()
    own = rules.models.get(request.count.entry)
    asked = cost_options.read(request.given, rules.of(request.count.entry))
    everything = prices.merged(rules.prices, request.private)
    market = market_of(everything, datetime.now(UTC).isoformat())
    # Counting a large model takes minutes: a name that nobody knows is said before.
    filters.check_names(market, asked.requirements, catalogue.platforms())
    ways = _ways(request, ports)
    times, warnings = _times(request, ports)
    return Problem(
        market=market,
        ways=ways,
        requirements=asked.requirements,
        volume=asked.volume or (None if own is None else own.volume),
        times=times,
        prices=everything,
        warnings=warnings,
    )


def _times(request: CostRequest, ports: Ports) -> tuple[Times, tuple[str, ...]]:
    """The estimator that a gate or `perfgate estimate fit` left here, before the roofline; and warnings."""
    roofline = RooflineTimes(measured=_measured(request, ports))
    path = request.count.root / ESTIMATOR_FILE
    if not path.exists():
        return roofline, ()
    # Only where there is a model to load: importing scikit-learn takes longer than the whole search.
    from perfgate.pipeline import estimator_file
    from perfgate.pipeline.times import EstimatedTimes

    try:
        return EstimatedTimes(estimator_file.read(path), roofline), ()
    except UsageError as error:
        return roofline, (f"times are the roofline's and measured ones, since the estimator cannot be used: {error}",)


def search(request: CostRequest, ports: Ports) -> Found:
    """The optimum for every counted way together. Raises UsageError, ConfigError and MeasuringError."""
    problem = posed(request, ports)
    ways, market, times, volume = problem.ways, problem.market, problem.times, problem.volume
    ports.progress.step("Searching", 0, 0, None)
    answer = optimise.optimise(ways, market, problem.requirements, times, volume=volume)
    answer = replace(answer, warnings=(*problem.warnings, *answer.warnings))
    plan = None
    if request.load is not None:
        load, one = _fleet(request.load, problem.requirements)
        points = optimise.machines(ways, market, one, times, volume=volume)
        plan = fleet.plan(points, load, egress_usd_per_gib=problem.prices.egress_usd_per_gib)
    return Found(
        model=request.count.entry,
        answer=answer,
        requirements=problem.requirements,
        volume=volume,
        ways=ways,
        usd_per_month=_monthly(answer, items_per_month(volume, ways[0])),
        plan=plan,
    )


def _monthly(answer: Answer, items: float | None) -> float | None:
    best = answer.cheapest
    return None if best is None or items is None else items * best.usd_per_1m_items / 1e6


def _fleet(load: Load, requirements: Requirements) -> tuple[Load, Requirements]:
    """The load, and what each machine of the fleet must meet: rate and deadline are the fleet's, not a machine's."""
    one = replace(requirements, min_throughput=None, job_items=None, deadline_s=None)
    if load.items_per_s is not None:
        return load, one
    if requirements.job_items is None or requirements.deadline_s is None:
        msg = "--fleet needs --job-items and --deadline, or write --serve for a load without end"
        raise UsageError(msg)
    return replace(load, items=requirements.job_items, deadline_s=requirements.deadline_s), one


def _ways(request: CostRequest, ports: Ports) -> tuple[Way, ...]:
    counted = count_grid(request.count, ports, batches=request.batches, dtypes=request.dtypes)
    if not any(graph.totals.kernels for _, graph in counted):
        msg = f"{request.count.entry}: one step runs no operator that takes time, so there is nothing to price"
        raise MeasuringError(msg)
    return tuple(
        Way(
            mode=workload.mode,
            batch=workload.batch,
            dtype=workload.dtype,
            compile=compile_,
            totals=graph.totals,
            items=graph.totals.batch,
        )
        for workload, graph in counted
        for compile_ in request.compiles
    )


def _measured(request: CostRequest, ports: Ports) -> dict[str, MeasuredRoofline]:
    """Probes of this very machine, under the names of its platforms."""
    environment = this_machine.environment(ports.environ)
    found: dict[str, MeasuredRoofline] = {}
    for one in known(request.count.root, environment.hardware_id):
        device = recognised(environment.hardware, one.device)
        if device is not None:
            found[device.platform.name] = one
    return found
