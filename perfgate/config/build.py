"""Floor 2, config. Validated tables in, the records that travel out: ``SideConfig`` and ``Policy``."""

from __future__ import annotations

from perfgate.config import cost_build, inputs, schema
from perfgate.records.metrics import METRICS
from perfgate.records.placement import PlacementPolicy
from perfgate.records.policy import Limits, Policy
from perfgate.records.workload import ModelSpec, SideConfig

_NS_PER_S = 1e9


def side(table: schema.ConfigTable, *, source: str) -> SideConfig:
    """How to run the revision that ``table`` was read from."""
    return SideConfig(
        source=source,
        models={name: _model(name, model) for name, model in table.models.items()},
        python=table.python,
        pythonpath=tuple(table.pythonpath),
        setup=table.setup,
        setup_timeout_s=table.setup_timeout / _NS_PER_S,
        threads=table.threads,
        operators=dict(table.operators),
    )


def policy(table: schema.ConfigTable, *, source: str, sha: str | None) -> Policy:
    """The rules of ``[gate]``, ``[cost]`` and ``[placement]``, with the models' own."""
    gate = table.gate
    return Policy(
        source=source,
        sha=sha,
        mode=gate.mode,
        tolerance=gate.tolerance,
        false_alarm_rate=gate.false_alarm_rate,
        budget_s=gate.budget / _NS_PER_S,
        limits=_bounds(gate, None),
        models={name: _bounds(model, model.mode) for name, model in table.models.items()},
        fail_on=tuple(gate.fail_on),
        on_inconclusive=gate.on_inconclusive,
        harness=tuple(gate.harness),
        self_accept=gate.self_accept,
        looks=tuple(gate.looks),
        pairs_per_round=gate.pairs_per_round,
        independent_pairs=gate.independent_pairs,
        block_ns=round(gate.block),
        groups=gate.groups,
        cost=cost_build.policy(table.cost, {name: model.cost for name, model in table.models.items()}),
        placement=_placement(table.placement),
    )


def _placement(table: schema.PlacementTable) -> PlacementPolicy:
    return PlacementPolicy(
        when=table.when,
        devices=tuple(table.devices or ()),
        libraries=tuple(table.libraries or ()),
        objective=table.objective,
        latency_s=None if table.max_step_time is None else table.max_step_time / _NS_PER_S,
        budget_s=None if table.budget is None else table.budget / _NS_PER_S,
    )


def _model(name: str, table: schema.ModelTable) -> ModelSpec:
    modes = table.modes or (["step"] if table.step else ["infer"])
    return ModelSpec(
        name=name,
        entry=table.entry or "",
        inputs=() if table.inputs is None else inputs.freeze(table.inputs),
        make_inputs=table.make_inputs or "",
        step=table.step or "",
        loss=table.loss or "",
        optimizer=table.optimizer or "",
        train_mode=table.train_mode,
        modes=tuple(modes),
        batch=tuple(table.batch),
        dtype=tuple(table.dtype),
        device=tuple(table.device),
        compile=tuple(table.compile),
        paths=tuple(table.paths),
        timeout_s=table.timeout / _NS_PER_S,
    )


def _bounds(table: schema.GateTable | schema.ModelTable, mode: str | None) -> Limits:
    # The mode of [gate] itself is Policy.mode, so none is given here.
    hardware = {name: _limits(bounds, bounds.mode) for name, bounds in table.on.items()}
    return _limits(table, mode, hardware)


def _limits(table: schema.Bounds, mode: str | None, hardware: dict[str, Limits] | None = None) -> Limits:
    # A table that only sets the mode inherits the limit, so "not given" must not become "shown".
    relative = {name: item.limit for name, item in table.limits.items() if "limit" in item.model_fields_set}
    ceilings = {name: getattr(table, f"max_{name}", None) for name in METRICS}
    return Limits(
        mode=mode,
        relative=relative,
        ceilings={name: value for name, value in ceilings.items() if value is not None},
        metric_modes={name: item.mode for name, item in table.limits.items() if item.mode is not None},
        hardware=hardware or {},
    )
