"""Floor 3, estimator. A model as text and back: JSON with a format version, never pickle, equal answers.

In: :class:`Model`. Out: one JSON document, in which every number is written so that it is read back to the bit.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfgate import wire
from perfgate.errors import UsageError
from perfgate.estimator import features, intervals, kernels
from perfgate.estimator.anchors import Places
from perfgate.estimator.columns import Names
from perfgate.estimator.core import PhysicalRegressor
from perfgate.estimator.intervals import Calibrated, Quantiles
from perfgate.estimator.kernels import Kernels
from perfgate.estimator.model import Fitted, Model
from perfgate.estimator.novelty import Seen
from perfgate.estimator.parts import Parts
from perfgate.estimator.transfer import Setting
from perfgate.estimator.trees import Trees
from perfgate.records.estimate import PEAK_MEMORY, Accuracy

FORMAT = 1
WHAT = "perfgate estimator"
_FIT_AGAIN = "fit it again with `perfgate estimate fit`"

# What a fitted regressor consists of, beside its parameters.
_ARRAYS = ("coef_", "low_", "high_")
_NUMBERS = ("intercept_", "scale_")


def dumps(model: Model) -> str:
    """JSON text of a model."""
    tree = {
        "what": WHAT,
        "format": FORMAT,
        "key": model.key,
        "seed": model.seed,
        "notes": list(model.notes),
        "fitted": {target: _fitted_tree(one) for target, one in model.fitted.items()},
    }
    return json.dumps(tree, allow_nan=False, separators=(",", ":")) + "\n"


def loads(text: str) -> Model:
    """The model of such a text.

    Raises:
        UsageError: It is no model, one of another format, one made by another version of perfgate, or damaged.
    """
    try:
        tree = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        msg = f"the estimator's file is not JSON ({error}); {_FIT_AGAIN}"
        raise UsageError(msg) from None
    if not isinstance(tree, dict) or tree.get("what") != WHAT:
        msg = f"this JSON file holds no {WHAT}; {_FIT_AGAIN}"
        raise UsageError(msg)
    if tree.get("format") != FORMAT:
        msg = f"the estimator's file has format {tree.get('format')!r}, this perfgate reads {FORMAT}; {_FIT_AGAIN}"
        raise UsageError(msg)
    try:
        return Model(
            key=str(tree["key"]),
            seed=int(tree["seed"]),
            notes=tuple(map(str, tree["notes"])),
            fitted={target: _fitted(target, one) for target, one in _some(tree["fitted"]).items()},
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        msg = f"the estimator's file is damaged ({type(error).__name__}: {error}); {_FIT_AGAIN}"
        raise UsageError(msg) from None


def _some(fitted: dict[str, Any]) -> dict[str, Any]:
    if not fitted:
        msg = "it estimates nothing"
        raise ValueError(msg)
    return fitted


def _refuse(text: str) -> None:
    msg = f"{text} is not a number that JSON allows"
    raise ValueError(msg)


def _fitted_tree(fitted: Fitted) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(fitted):
        value = getattr(fitted, field.name)
        found[field.name] = _parts_tree(value) if isinstance(value, Parts) else _tree(value)
    return found


def _tree(value: object) -> Any:
    """Arrays as lists (nan as null), records as objects."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return [None if not np.isfinite(one) else float(one) for one in value]
        return value.tolist()
    if isinstance(value, tuple):
        return [_tree(one) for one in value]
    if isinstance(value, dict):
        return {key: _tree(one) for key, one in value.items()}
    if is_dataclass(value):
        return {field.name: _tree(getattr(value, field.name)) for field in fields(value)}
    return value


def _parts_tree(parts: Parts) -> dict[str, Any]:
    return {
        "general": _tree(parts.general),
        "numbers": list(parts.numbers),
        "factors": _tree(parts.factors),
        "counts": list(parts.counts),
        "residual": _tree(parts.residual),
        "regressors": [_regressor_tree(one) for one in parts.regressors],
    }


def _regressor_tree(one: PhysicalRegressor) -> dict[str, Any]:
    found = {name: _tree(getattr(one, name)) for name in _ARRAYS}
    found |= {name: float(getattr(one, name)) for name in _NUMBERS}
    found["trees"] = None if one.trees_ is None else _tree(one.trees_)
    found["random_state"] = one.random_state
    return found


def _fitted(target: str, tree: dict[str, Any]) -> Fitted:
    _check_version(target, tree)
    columns, units = tuple(tree["columns"]), tuple(tree["units"])
    settings = tuple(_setting(one) for one in tree["settings"])
    found = Fitted(
        target=target,
        columns=columns,
        units=units,
        parts=_parts(tree["parts"], units),
        kernels=None if tree["kernels"] is None else kernels.checked(wire.from_tree(Kernels, tree["kernels"])),
        scale=float(tree["scale"]),
        settings=settings,
        names=Names(**{name: dict(one) for name, one in tree["names"].items()}),
        places=Places(
            z=_floats(tree["places"]["z"]),
            **{name: _whole(tree["places"][name]) for name in ("group", "model", "setting", "kind")},
        ),
        residual=_floats(tree["residual"]),
        errors=_floats(tree["errors"]),
        models=tuple(tree["models"]),
        calibrated=_calibrated(tree["calibrated"]),
        own={name: _calibrated(one) for name, one in tree["own"].items()},
        across=None if tree["across"] is None else Quantiles(**tree["across"]),
        context={kind: float(value) for kind, value in tree["context"].items()},
        seen=wire.from_tree(Seen, tree["seen"]),
        accuracy=wire.from_tree(Accuracy, tree["accuracy"]),
        errors_by_digest={name: float(value) for name, value in tree["errors_by_digest"].items()},
    )
    _check(found)
    return found


def _check_version(target: str, tree: dict[str, Any]) -> None:
    """Raises UsageError where it has parts or features that this perfgate does not know."""
    other = set(tree) != {field.name for field in fields(Fitted)}
    if other or (target != PEAK_MEMORY and tuple(tree["columns"]) != features.NAMES):
        msg = f"the estimator's file was made by another version of perfgate ({target}); {_FIT_AGAIN}"
        raise UsageError(msg)


def _check(found: Fitted) -> None:
    """Raises ValueError where parts do not belong together: questions would end in a fault, or in nonsense."""
    columns, kept, parts = len(found.columns), len(found.models), found.parts
    places = found.places
    counts = {
        "units": (len(found.units), columns),
        "relatives": ({len(one) for one in (found.residual, found.errors, places.z, *places.names())}, {kept}),
        "coefficients": (
            {len(one) for one in (parts.general, *parts.factors, *(each.coef_ for each in parts.regressors))},
            {columns},
        ),
        "settings": (
            {len(one) for one in (parts.numbers, parts.regressors, parts.factors, parts.counts)},
            {len(parts.numbers)},
        ),
    }
    wrong = [name for name, (has, wanted) in counts.items() if has != wanted]
    if places.z.ndim != 2 or max(parts.numbers, default=0) >= len(found.settings) or min(parts.numbers, default=0) < 0:
        wrong.append("places")
    numbers = np.concatenate([parts.general, *(one.coef_ for one in parts.regressors), found.residual, [found.scale]])
    if not np.isfinite(numbers).all():
        wrong.append("numbers")
    wrong += ["intervals" for one in (found.calibrated, *found.own.values()) if not _whole_calibration(one)]
    if wrong:
        msg = f"its {wrong[0]} do not fit together"
        raise ValueError(msg)


def _calibrated(tree: dict[str, Any]) -> Calibrated:
    return Calibrated(**{name: _floats(one) for name, one in tree.items()})


def _whole_calibration(one: Calibrated) -> bool:
    return len(one.knots) == len(one.low) == len(one.high) > 0 and len(one.slopes) == 1 + intervals.DOUBTS


def _setting(tree: dict[str, Any]) -> Setting:
    rates = tree["rates"]
    return Setting(**{**tree, "rates": (float(rates[0]), float(rates[1]))})


def _parts(tree: dict[str, Any], units: tuple[str, ...]) -> Parts:
    return Parts(
        general=_floats(tree["general"]),
        numbers=tuple(map(int, tree["numbers"])),
        regressors=tuple(_regressor(one, units) for one in tree["regressors"]),
        factors=tuple(_floats(one) for one in tree["factors"]),
        counts=tuple(map(int, tree["counts"])),
        residual=_floats(tree["residual"]),
    )


def _regressor(tree: dict[str, Any], units: tuple[str, ...]) -> PhysicalRegressor:
    found = PhysicalRegressor(units=units, fit_intercept=False, random_state=int(tree["random_state"]))
    for name in _ARRAYS:
        setattr(found, name, _floats(tree[name]))
    for name in _NUMBERS:
        setattr(found, name, float(tree[name]))
    found.trees_ = None if tree["trees"] is None else _trees(tree["trees"])
    found.n_features_in_ = len(units)
    return found


def _trees(tree: dict[str, Any]) -> Trees:
    trees = Trees(
        threshold=_floats(tree["threshold"]),
        value=_floats(tree["value"]),
        **{name: _whole(tree[name]) for name in ("roots", "column", "left", "right")},
    )
    number = len(trees.value)
    inner = trees.column >= 0
    # A child before its parent could be walked in circles for ever.
    forward = (trees.left > np.arange(number)) & (trees.right > np.arange(number))
    if (inner & ~forward).any() or max(trees.left.max(initial=0), trees.right.max(initial=0)) >= number:
        msg = "a tree's nodes do not fit together"
        raise ValueError(msg)
    return trees


def _floats(values: list[Any]) -> NDArray[np.float64]:
    """null is nan."""
    return np.array(values, np.float64)


def _whole(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)
