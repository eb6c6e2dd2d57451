"""Floor 2, config. What must hold between keys, checked on the raw tables.

In: the ``models`` tables as TOML gave them. Out: ``(place, reason, hint)`` of every broken relation.
On raw values, so that these problems are reported together with wrong types, not after them;
whatever has a wrong type is passed over here, since pydantic has named it already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perfgate.config import inputs

Loc = tuple[int | str, ...]
Broken = tuple[Loc, str, str]


def broken(tree: dict[str, Any]) -> Iterator[Broken]:
    """All broken relations of the file."""
    models = tree.get("models")
    for name, model in models.items() if isinstance(models, dict) else ():
        if isinstance(model, dict):
            yield from _model(("models", name), model)


def _model(place: Loc, model: dict[str, Any]) -> Iterator[Broken]:
    has = model.keys()
    modes = modes_of(model)
    named = isinstance(modes, list)
    builds = not named or bool({"infer", "train"} & {mode for mode in modes if isinstance(mode, str)})
    if "entry" not in has and "step" not in has:
        yield (*place, "entry"), "missing", "write entry = 'package.module:callable', or step for a callable alone"
    elif "entry" not in has and builds:
        yield (*place, "entry"), "missing, and modes infer and train need a model", "add it, or write modes = ['step']"
    if "inputs" in has and "make_inputs" in has:
        yield (*place, "make_inputs"), "inputs and make_inputs exclude each other", "keep one of them"
    elif "entry" in has and builds and not {"inputs", "make_inputs"} & has:
        yield (*place, "inputs"), "missing", "write inputs = ['float32[batch,3,224,224]'] or make_inputs"
    if named:
        yield from _unused(place, has, modes)
    if "inputs" in has:
        yield from _inputs(place, model)


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
