"""Floor 3, estimator. The training set as a table, and tables as training sets.

In: examples, or a CSV or JSON Lines file. Out: a pandas frame with the columns of :data:`COLUMNS`, or examples.

A line of JSON Lines is an :class:`Example` as it is, with every group of kernels. A row of CSV has the step's kernels
summed by kind, which costs some accuracy: products of different shapes become one average kernel. Where a row has
``kernels`` (JSON, a list of groups), that counts and the sums are not needed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from perfgate import wire
from perfgate.errors import UsageError
from perfgate.estimator import features, plausible
from perfgate.records.estimate import TARGETS, Example, Machine
from perfgate.records.graph import KernelGroup

# Column -> (unit, meaning). Columns that end in ``.*`` are many, one for each key.
COLUMNS: dict[str, tuple[str, str]] = {
    "model": ("text", "name of the model"),
    "group": ("text", "what is held out together: a family; default: the model"),
    "mode": ("text", "infer, train or step; default: infer"),
    "dtype": ("text", "as in perfgate.toml; default: float32"),
    "compile": ("text", "eager, or the mode of torch.compile; default: eager"),
    "batch": ("count", "batch size; default: 1"),
    "items": ("count", "items of one step; default: the batch"),
    "machine": ("text", "platform, or a name of one's own"),
    "machine_kind": ("text", "gpu, cpu, tpu or accelerator; default: gpu"),
    "bandwidth_bytes_per_s": ("byte/s", "beta of the machine; 0: unknown"),
    "memory_bytes": ("byte", "memory of the machine; 0: unknown"),
    "clock_mhz": ("MHz", "clock of the machine; 0: unknown"),
    "flop_per_s.*": ("FLOP/s", "pi of the machine by dtype (flop_per_s.float16), dense"),
    "threads": ("count", "compute threads; 0 on accelerators"),
    "software": ("text", "as torch 2.14.1"),
    "weight_bytes": ("byte", "parameters and buffers"),
    "peak_activation_bytes": ("byte", "largest sum of tensors alive that the step makes; empty: not counted"),
    "hyper_parameter.*": ("text", "optimizer, precision, accumulation, ..."),
    "resource.*": ("number", "cache_bytes, disk_bytes, input_bytes, ...: recorded, not learned from"),
    "recorded_at": ("text", "UTC, ISO 8601"),
    "flop.*": ("FLOP", "of one step by kind of kernel (flop.convolution); FLOP = 2 x MAC"),
    "bytes.*": ("byte", "moved in one step by kind of kernel"),
    "written_bytes.*": ("byte", "part of bytes.* that is written"),
    "constant_bytes.*": ("byte", "part of bytes.* that does not grow with the batch: weights and their gradients"),
    "calls.*": ("count", "kernels of one step by kind"),
    "kernels": ("JSON", "groups of equal kernels; instead of the five above"),
    **{
        target: (unit, f"measured {meaning}; empty: not measured")
        for target, unit, meaning in zip(
            TARGETS,
            ("ns", "byte", "joule", "share"),
            ("step time", "peak memory", "energy of one step", "utilisation, 0 to 1"),
            strict=True,
        )
    },
}
_TEXTS = {"group": "", "mode": "infer", "dtype": "float32", "compile": "eager", "software": "", "recorded_at": ""}
_SUMS = ("flop", "bytes", "written_bytes", "constant_bytes", "calls")
_MACHINE = ("bandwidth_bytes_per_s", "memory_bytes", "clock_mhz")
# Of a name in a message.
_LONGEST = 60


def frame(examples: Sequence[Example], *, kernels: bool = False) -> pd.DataFrame:
    """One row an example, with the columns of :data:`COLUMNS`.

    ``kernels``: also as JSON, without which :func:`examples` gets averages back.
    """
    return pd.DataFrame([_row(one, kernels=kernels) for one in examples])


def structure(examples: Sequence[Example]) -> pd.DataFrame:
    """What the regressors see: FLOP, bytes and calls of one step by class of kernels, as ``dense convolution FLOP``."""
    matrix, names = features.matrix(examples)
    return pd.DataFrame(matrix, columns=list(names), index=[one.model for one in examples])


def examples(path: Path) -> list[Example]:
    """The examples of a CSV or JSON Lines file (by its ending).

    Raises:
        UsageError: Names the line and the column of the first fault.
    """
    if path.suffix.lower() not in {".csv", ".jsonl", ".ndjson"}:
        msg = f"{path}: the ending says no format; name a .csv file or a .jsonl file (JSON Lines)"
        raise UsageError(msg)
    found = _from_lines(path) if path.suffix.lower() != ".csv" else _from_table(path)
    plausible.check_units(found, str(path))
    return found


def _from_table(path: Path) -> list[Example]:
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        msg = f"{path}: cannot be read ({_reason(error)}); name a UTF-8 CSV file with a line of column names"
        raise UsageError(msg) from None
    _check_columns(path, [str(name) for name in table.columns])
    return [
        _from_row({str(name): value for name, value in row.items()}, f"{path} line {number}")
        for number, row in enumerate(table.to_dict("records"), 2)
    ]


def write_lines(examples_: Sequence[Example], path: Path) -> None:
    """JSON Lines that :func:`examples` reads back exactly."""
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{json.dumps(wire.to_tree(one, lean=True))}\n" for one in examples_)


def _row(example: Example, *, kernels: bool) -> dict[str, object]:
    machine = example.machine
    row: dict[str, object] = {name: getattr(example, name) for name in ("model", *_TEXTS, "batch", "items", "threads")}
    row |= {"machine": machine.name, "machine_kind": machine.kind}
    row |= {name: getattr(machine, name) for name in _MACHINE}
    row |= {f"flop_per_s.{dtype}": rate for dtype, rate in machine.flop_per_s.items()}
    row |= {"weight_bytes": example.weight_bytes, "peak_activation_bytes": example.peak_activation_bytes}
    row |= {f"hyper_parameter.{name}": value for name, value in example.hyper_parameters.items()}
    row |= {f"resource.{name}": value for name, value in example.resources.items()}
    for group in example.kernels:
        values = (group.flop, group.bytes, group.written_bytes, group.weight_bytes, 1)
        for name, value in zip(_SUMS, values, strict=True):
            key = f"{name}.{group.kind}"
            row[key] = int(str(row.get(key, 0))) + value * group.calls
    if kernels:
        row["kernels"] = json.dumps([wire.to_tree(group, lean=True) for group in example.kernels])
    return row | {target: example.targets.get(target) for target in TARGETS}


def _from_lines(path: Path) -> list[Example]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path}: cannot be read ({_reason(error)}); name a UTF-8 file with one JSON object a line"
        raise UsageError(msg) from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            example = wire.loads(Example, line)
        except wire.WireError as error:
            msg = f"{path} line {number}: {error}; a line is one example as `perfgate estimate fit --write` makes it"
            raise UsageError(msg) from None
        found.append(_checked(example, f"{path} line {number}"))
    return found


def _check_columns(path: Path, names: Sequence[str]) -> None:
    for name in names:
        known = name in COLUMNS or f"{name.partition('.')[0]}.*" in COLUMNS
        if not known:
            short = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."
            free = f"resource.{short} is free"
            if len(names) == 1 and any(sign in name for sign in ";\t"):
                free = "separate columns by commas"
            msg = f"{path}: unknown column {short!r}; docs/estimator.md lists the columns, {free}"
            raise UsageError(msg)
    lacking = [name for name in ("model", "machine") if name not in names]
    if lacking:
        msg = f"{path}: column {lacking[0]!r} is missing; docs/estimator.md lists the columns"
        raise UsageError(msg)


def _from_row(row: Mapping[str, str], where: str) -> Example:
    texts = {name: row.get(name, "") or default for name, default in _TEXTS.items()}
    for name in ("model", "machine"):
        if not row.get(name):
            msg = f"{where}: {name} is empty"
            raise UsageError(msg)
    rates = {name: _number(value, where, f"flop_per_s.{name}") for name, value in _keyed(row, "flop_per_s").items()}
    machine = Machine(
        name=row["machine"],
        kind=row.get("machine_kind") or "gpu",
        flop_per_s=rates,
        bandwidth_bytes_per_s=_cell(row, "bandwidth_bytes_per_s", where, 0.0),
        memory_bytes=_whole(row, "memory_bytes", where, 0),
        clock_mhz=_cell(row, "clock_mhz", where, 0.0),
    )
    batch = _whole(row, "batch", where, 1)
    peak = row.get("peak_activation_bytes")
    example = Example(
        **{**texts, "group": texts["group"] or row["model"]},
        model=row["model"],
        batch=batch,
        items=_whole(row, "items", where, batch),
        machine=machine,
        kernels=_kernels(row, where, texts["dtype"]),
        threads=_whole(row, "threads", where, 0),
        weight_bytes=_whole(row, "weight_bytes", where, 0),
        peak_activation_bytes=_whole(row, "peak_activation_bytes", where, 0) if peak else None,
        hyper_parameters=_keyed(row, "hyper_parameter"),
        resources={name: _number(text, where, f"resource.{name}") for name, text in _keyed(row, "resource").items()},
        targets={target: _number(row[target], where, target) for target in TARGETS if row.get(target)},
    )
    return _checked(example, where)


def _kernels(row: Mapping[str, str], where: str, dtype: str) -> tuple[KernelGroup, ...]:
    if row.get("kernels"):
        try:
            tree = json.loads(row["kernels"])
            return tuple(wire.from_tree(KernelGroup, one) for one in tree)
        except (ValueError, TypeError) as error:
            msg = f"{where}: kernels: {error}; write a JSON list of groups, or leave it empty and give flop.KIND, ..."
            raise UsageError(msg) from None
    kinds = sorted({kind for name in _SUMS for kind in _keyed(row, name)})
    found = []
    for kind in kinds:
        sums = {name: _cell(row, f"{name}.{kind}", where, 0.0) for name in _SUMS}
        calls = max(1, round(sums["calls"]))
        if not any(sums.values()):
            continue
        found.append(
            KernelGroup(
                name=kind,
                kind=kind,
                dtype=dtype.removeprefix("amp-"),
                flop=round(sums["flop"] / calls),
                bytes=round(sums["bytes"] / calls),
                calls=calls,
                written_bytes=round(sums["written_bytes"] / calls),
                weight_bytes=round(sums["constant_bytes"] / calls),
            )
        )
    return tuple(found)


def _checked(example: Example, where: str) -> Example:
    plausible.check(example, where)
    return example


def _keyed(row: Mapping[str, str], name: str) -> dict[str, str]:
    return {key.partition(".")[2]: value for key, value in row.items() if key.startswith(f"{name}.") and value != ""}


def _cell(row: Mapping[str, str], name: str, where: str, default: float) -> float:
    text = row.get(name, "")
    return _number(text, where, name) if text else default


def _whole(row: Mapping[str, str], name: str, where: str, default: int) -> int:
    """A count. Bytes and items may be written as 1e9."""
    value = _cell(row, name, where, float(default))
    if not value.is_integer() or value > plausible.MOST:
        msg = f"{where}: {name} is {row.get(name)!r}; write a whole number up to {plausible.MOST:.2g}"
        raise UsageError(msg)
    return int(value)


def _number(text: str, where: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        msg = f"{where}: {name} is {text!r}; write a number that is not negative, or leave it empty"
        raise UsageError(msg)
    return value


def _reason(error: Exception) -> str:
    return error.strerror or "no such file" if isinstance(error, OSError) else str(error).splitlines()[0]
