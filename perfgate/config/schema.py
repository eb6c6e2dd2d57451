"""Floor 2, config. The shape of ``perfgate.toml``: every key with its kind, default and meaning.

In: nothing. Out: the pydantic tables, and :func:`all_keys`, which the documentation is tested against.
A default is written as a user would write it and is read by the same reader.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from perfgate.config import cost_values as c
from perfgate.config import values as v
from perfgate.config.cost_schema import CostTable, ModelCostTable
from perfgate.config.tables import REQUIRED, Table, key

Mode = Literal["enforce", "report"]


def _limit_table(value: object) -> object:
    return value if isinstance(value, dict) else {"limit": value}


class LimitTable(Table):
    """``metric = "1%"`` is short for ``metric = {limit = "1%"}``."""

    limit: v.LimitShare = key(None, "share or `false`", "the relative limit; `false`: shown, not gated")
    mode: Mode | None = key(None, "`enforce` or `report`", "mode for this metric alone")


MetricLimits = dict[v.MetricName, Annotated[LimitTable, BeforeValidator(_limit_table)]]


class Bounds(Table):
    """Limits and ceilings; the same keys in ``[gate]``, in a model and in a model's ``on`` table."""

    limits: MetricLimits = key({}, "table of metric -> share, `false` or table", "relative limits by metric")
    max_latency: v.DurationNs | None = key(None, "duration", "ceiling of the step time", alias="max")
    max_energy: v.EnergyJ | None = key(None, "energy", "ceiling of the energy per item")
    max_peak_memory: v.Bytes | None = key(None, "size", "ceiling of the peak memory")
    max_flop: v.Count | None = key(None, "number", "ceiling of F, in FLOP (2 x MAC)")
    max_traffic: v.Bytes | None = key(None, "size", "ceiling of the memory traffic of one step")
    max_weight_bytes: v.Bytes | None = key(None, "size", "ceiling of the weights' size")
    max_params: v.Count | None = key(None, "number", "ceiling of the number of parameters")
    max_operators: v.Count | None = key(None, "number", "ceiling of the number of operator calls")
    max_graph_breaks: v.Count | None = key(None, "number", "ceiling of the number of graph breaks")
    max_cost: c.Usd | None = key(None, "US dollars", "ceiling of the cost of 1 M items on the runner")
    max_monthly_cost: c.Usd | None = key(None, "US dollars", "ceiling of the cost of a month at the declared volume")


class HardwareTable(Bounds):
    """``[models.NAME.on."HARDWARE"]``: other bounds on one kind of machine."""

    mode: Mode | None = key(None, "`enforce` or `report`", "mode of this model on this hardware")


class ModelTable(Bounds):
    """``[models.NAME]``."""

    entry: v.Entry | None = key(
        None, "`module:callable` or `.onnx` file", "returns the module (or callable) to measure, or an ONNX model"
    )
    inputs: Any = key(None, "list or table of input specifications", "random inputs; a table gives keyword inputs")
    make_inputs: v.Reference | None = key(None, "`module:callable`", "makes the inputs instead of `inputs`")
    step: v.Reference | None = key(None, "`module:callable`", "any callable as one step, for mode `step`")
    loss: v.Reference | None = key(None, "`module:callable`", "loss for mode `train`")
    optimizer: v.Reference | None = key(None, "`module:callable`", "optimiser for mode `train`")
    train_mode: bool = key(default=False, kind="boolean", meaning="keep the module's `training` flags in mode `infer`")
    modes: v.Modes | None = key(None, "list of `infer`, `train`, `step`", "what to measure")
    batch: v.Batches = key(1, "whole number or list", "batch sizes")
    dtype: v.Dtypes = key("float32", "dtype or list", "dtypes; `amp-bfloat16` is autocast")
    device: v.Devices = key("cpu", "device or list", "`cpu`, `cuda` or `cuda:N`")
    compile: v.Compiles = key(default=False, kind="boolean, mode or list", meaning="`torch.compile` and its mode")
    paths: list[v.Relative] = key([], "list of globs", "further files that touch this model")
    timeout: v.DurationNs = key("10min", "duration", "limit for one process from its start to its first step")
    mode: Mode | None = key(None, "`enforce` or `report`", "mode of this model")
    on: dict[str, HardwareTable] = key({}, "table of hardware -> table", "bounds for one kind of machine")
    cost: ModelCostTable = key({}, "table", "requirements of this model, and its volume")


class GateTable(Bounds):
    """``[gate]``: the policy."""

    mode: Mode = key("enforce", "`enforce` or `report`", "`report` never fails: it says what would have failed")
    tolerance: v.Share = key("3%", "share", "limit of latency, energy and spans that have no limit of their own")
    false_alarm_rate: v.Share = key("1%", "share", "chance of one false red for each run")
    budget: v.DurationNs = key("10min", "duration", "wall-clock time for measuring")
    # The other verdicts are red already, or must never be.
    fail_on: list[Literal["inconclusive", "no-baseline", "new"]] = key(
        [], "list of `inconclusive`, `no-baseline`, `new`", "verdicts that fail too"
    )
    on_inconclusive: Literal["pass", "block"] = key("pass", "`pass` or `block`", "check when no answer was reached")
    harness: list[v.Relative] = key([], "list of globs", "files of the bench code, taken from base on both sides")
    self_accept: bool = key(default=False, kind="boolean", meaning="the author may accept a regression")
    looks: v.Looks = key([5, 8, 12, 16, 20], "list of whole numbers", "pair counts at which a decision is tried")
    pairs_per_round: int = key(1, "whole number", "pairs that share their parent processes", ge=1, le=100)
    independent_pairs: bool = key(
        default=False, kind="boolean", meaning="pairs of one round count singly, which `calibrate` must have shown"
    )
    block: v.DurationNs = key("50ms", "duration", "length of one timed block")
    groups: int = key(2, "whole number", "ABBA groups in one pair", ge=1, le=20)
    on: dict[str, HardwareTable] = key({}, "table of hardware -> table", "bounds for one kind of machine")


class PlacementTable(Table):
    """``[placement]``."""

    when: Literal["never", "scheduled", "always"] = key(
        "scheduled", "`never`, `scheduled` or `always`", "runs that search placements; `always`: pull requests too"
    )
    devices: v.Places | None = key(
        None, "device or list", "where operators may run; without it the model's own device and `cpu`"
    )
    libraries: v.Libraries | None = key(None, "name or list", "compute libraries; without it all that are installed")
    objective: Literal["latency", "throughput", "memory"] = key(
        "latency", "`latency`, `throughput` or `memory`", "what is made least (throughput: most)"
    )
    max_step_time: v.DurationNs | None = key(None, "duration", "limit of the step time for objective `memory`")
    budget: v.DurationNs | None = key(
        None, "duration", "time for one workload's search; without it a fifth of `gate.budget`"
    )


class ConfigTable(Table):
    """The whole file."""

    version: v.Version = key(REQUIRED, "`1`", "version of this format")
    python: v.Argument = key("", "path or name", "interpreter of the worker", max_length=1000)
    pythonpath: v.Globs = key(["."], "list of folders", "put before `sys.path`, relative to each checkout")
    setup: v.Argument = key("", "shell command", "run in each checkout before measuring", max_length=10_000)
    setup_timeout: v.DurationNs = key("30min", "duration", "limit for `setup`, each side")
    threads: int | None = key(None, "whole number", "threads of a worker", ge=1, le=1024)
    store: v.StoreUrl | None = key(None, "URL", "baseline database")
    gate: GateTable = key({}, "table", "the policy")
    operators: dict[v.OperatorName, v.Formula] = key(
        {}, "table of operator -> formula", "FLOP of custom operators (`docs/counting.md`)"
    )
    cost: CostTable = key({}, "table", "where the models could run, and what that costs")
    placement: PlacementTable = key({}, "table", "which operator runs where")
    models: dict[v.ModelName, ModelTable] = key({}, "table of name -> table", "what is measured")


# Keys of the design that a later version reads: told apart from typing errors.
LATER = frozenset({"hardware", "assets", "proxy", "ranks"})

PLACEHOLDERS = {
    "limits": "METRIC", "models": "NAME", "on": "HARDWARE", "operators": "OPERATOR",
    "prices": "NAME", "price_factor": "OFFER", "egress_usd_per_gib": "PROVIDER",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One documented key. ``default`` is as written in TOML, None where there is none; ``path`` has placeholders."""

    path: tuple[str, ...]
    kind: str
    default: object
    required: bool
    meaning: str


def names(table: type[Table]) -> dict[str, FieldInfo]:
    """The keys of ``table`` as users write them."""
    return {info.alias or name: info for name, info in table.model_fields.items()}


def inner(info: FieldInfo) -> tuple[type[Table] | None, bool]:
    """The table below a key, if there is one, and whether names that the user picks come in between."""
    annotation = info.annotation
    if typing.get_origin(annotation) is dict:
        item = typing.get_args(annotation)[1]
        if typing.get_origin(item) is Annotated:
            item = typing.get_args(item)[0]
        return (item, True) if isinstance(item, type) and issubclass(item, Table) else (None, True)
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation, False
    return None, False


def all_keys(table: type[Table] = ConfigTable, path: tuple[str, ...] = ()) -> Iterator[Key]:
    """Every key of the format, depth first; user-chosen names are NAME, METRIC and HARDWARE."""
    for name, info in names(table).items():
        below, named = inner(info)
        place = (*path, name)
        if below is LimitTable or (below is None and named):
            yield _describe((*place, PLACEHOLDERS[name]), info)
        elif below is not None:
            yield from all_keys(below, (*place, PLACEHOLDERS[name]) if named else place)
        else:
            yield _describe(place, info)


def _describe(path: tuple[str, ...], info: FieldInfo) -> Key:
    extra = info.json_schema_extra
    kind = str(extra["kind"]) if isinstance(extra, dict) else ""
    required = info.is_required()
    default = None if required or path[-1] in PLACEHOLDERS.values() else info.default
    return Key(path=path, kind=kind, default=default, required=required, meaning=info.description or "")
