"""Floor 2, config. What must hold between keys, checked on the raw tables.

In: the tables as TOML gave them. Out: ``(place, reason, hint)`` of every broken relation.
On raw values, so that these problems are reported together with wrong types, not after them;
whatever has a wrong type is passed over here, since pydantic has named it already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perfgate.config import cost_relations, inputs

Loc = tuple[int | str, ...]
Broken = tuple[Loc, str, str]

# What has a meaning for a model that Python builds, and none for one that is read from a file.
_NOT_FOR_ONNX = ("step", "loss", "optimizer")
# Dtypes of inputs that numpy, which feeds ONNX Runtime, does not have, or ONNX Runtime does not take.
_NOT_FED = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"})


def broken(tree: dict[str, Any]) -> Iterator[Broken]:
    """All broken relations of the file."""
    models = tree.get("models")
    for name, model in models.items() if isinstance(models, dict) else ():
        if isinstance(model, dict):
            yield from _model(("models", name), model)
    yield from cost_relations.broken(tree)
    yield from _placement(tree.get("placement"))


def _placement(table: object) -> Iterator[Broken]:
    if not isinstance(table, dict):
        return
    if table.get("objective") == "memory" and "max_step_time" not in table:
        place, reason = ("placement", "max_step_time"), "missing, and objective = 'memory' needs it"
        yield place, reason, "write the step time that the model may take, as in max_step_time = '20ms'"
    elif table.get("objective", "latency") != "memory" and "max_step_time" in table:
        reason = "is a limit for objective = 'memory' alone, so it would have no effect"
        yield ("placement", "max_step_time"), reason, "remove it, or write objective = 'memory'"


def _model(place: Loc, model: dict[str, Any]) -> Iterator[Broken]:
    entry = model.get("entry")
    if isinstance(entry, str) and entry.endswith(".onnx"):
        yield from _onnx(place, model)
    else:
        yield from _python(place, model)
    if "inputs" in model and "make_inputs" in model:
        yield (*place, "make_inputs"), "inputs and make_inputs exclude each other", "keep one of them"
    if "inputs" in model:
        yield from _inputs(place, model)


def _onnx(place: Loc, model: dict[str, Any]) -> Iterator[Broken]:
    """An ONNX file is run as it is: it infers, in its own dtypes, and takes tensors only."""
    for key in _NOT_FOR_ONNX:
        if key in model:
            yield (*place, key), "has no meaning for an ONNX model, which only infers", "remove it"
    if model.get("train_mode"):
        yield (*place, "train_mode"), "has no meaning for an ONNX model, which has no modes", "remove it"
    for key, only, why in (
        ("modes", ("infer",), "an ONNX model only infers"),
        ("dtype", ("float32",), "an ONNX model keeps the dtypes of its file"),
        ("compile", (False, "eager"), "torch.compile does not know ONNX models"),
    ):
        values = model.get(key, [])
        if any(value not in only for value in (values if isinstance(values, list) else [values])):
            yield (*place, key), why, "remove it"
    if "inputs" in model:
        yield from _fed((*place, "inputs"), model["inputs"])
    elif "make_inputs" not in model and model.get("batch", 1) not in (1, [1]):
        reason = "missing, so a batch size has nothing to act on"
        yield (*place, "inputs"), reason, "write inputs = ['float32[batch,3,224,224]'], or leave batch out"


def _fed(place: Loc, tree: object) -> Iterator[Broken]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, item in items:
        if isinstance(item, (list, dict)):
            yield (*place, key), "an ONNX model takes tensors, not lists or tables of them", "write one text an input"
        elif isinstance(item, str) and item.partition("[")[0].strip() in _NOT_FED:
            dtype = item.partition("[")[0].strip()
            yield (*place, key), f"ONNX Runtime cannot be fed with {dtype}", "export the model with other inputs"


def _python(place: Loc, model: dict[str, Any]) -> Iterator[Broken]:
    has = model.keys()
    modes = modes_of(model)
    named = isinstance(modes, list)
    builds = not named or bool({"infer", "train"} & {mode for mode in modes if isinstance(mode, str)})
    if "entry" not in has and "step" not in has:
        yield (*place, "entry"), "missing", "write entry = 'package.module:callable', or step for a callable alone"
    elif "entry" not in has and builds:
        yield (*place, "entry"), "missing, and modes infer and train need a model", "add it, or write modes = ['step']"
    if "entry" in has and builds and not {"inputs", "make_inputs"} & has:
        yield (*place, "inputs"), "missing", "write inputs = ['float32[batch,3,224,224]'] or make_inputs"
    if named:
        yield from _unused(place, has, modes)


def modes_of(model: dict[str, Any]) -> Any:
    """The modes of a raw model table: ``step`` alone where there is a step, else ``infer``."""
    default = ["step"] if "step" in model else ["infer"]
    modes = model.get("modes", default)
    return [modes] if isinstance(modes, str) else modes


def _unused(place: Loc, has: Any, modes: list[object]) -> Iterator[Broken]:
    if "step" in modes and "step" not in has:
        yield (*place, "step"), "missing, and mode step needs it", "write step = 'package.module:callable'"
    if "step" in has and "step" not in modes:
        yield (*place, "step"), "is never used", "add 'step' to modes, or remove it"
    for key in ("loss", "optimizer"):
        if key in has and "train" not in modes:
            yield (*place, key), "is never used", "add 'train' to modes, or remove it"


def _inputs(place: Loc, model: dict[str, Any]) -> Iterator[Broken]:
    tree = model["inputs"]
    wrong = list(inputs.problems(tree))
    for below, reason in wrong:
        yield (*place, "inputs", *below), reason, ""
    batch = model.get("batch", 1)
    if not wrong and isinstance(batch, list) and len(batch) > 1 and not inputs.uses_batch(tree):
        reason = "no input has a dimension 'batch', so all batch sizes would run the same"
        yield (*place, "inputs"), reason, "write 'batch' where the batch size goes, as in 'float32[batch,3]'"
