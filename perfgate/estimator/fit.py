"""Floor 3, estimator. The door: measured examples in, a fitted :class:`Model` out.

``fit`` learns, says by held-out groups how good it is, and calibrates its intervals on their errors. ``choose`` keeps
the old model where the new one is worse. The same examples and seed give the same model, in any order of the examples.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from perfgate.errors import UsageError
from perfgate.estimator import columns, features, intervals, kernel_fit, memory, novelty, parts, support
from perfgate.estimator.accuracy import accuracy
from perfgate.estimator.columns import Names
from perfgate.estimator.core import folds as folds_of
from perfgate.estimator.held_out import HeldOut, across, cross_validate, leave_one_out, together
from perfgate.estimator.intervals import Calibrated, Quantiles
from perfgate.estimator.kernels import Kernels
from perfgate.estimator.model import Fitted, Model
from perfgate.estimator.parts import Data
from perfgate.estimator.support import Support
from perfgate.estimator.transfer import Setting
from perfgate.records.estimate import ENERGY, PEAK_MEMORY, STEP_TIME, TARGETS, UTILISATION, Accuracy, Example

Floats = NDArray[np.float64]

LEAST = 3
FOLDS = 5
_FEW_FOLDS = 3
# Up to here more folds: what a few more rows teach is much where there are few.
_FEW_ROWS, _MORE_FOLDS = 60, 12
# From here on fewer folds, and not all rows are held out once.
_MANY = 3000
# Relatives that are kept with the model.
KEPT = 5000
# A new model counts as worse from this relative loss on, if chance does not explain it (standard deviations).
_WORSE, _CERTAIN = 1.05, 2.3
_COMMON = 20
# Steps on several machines from which on their errors are believed.
_MACHINES = 40


def fit(
    examples: Iterable[Example],
    *,
    targets: Sequence[str] = TARGETS,
    seed: int = 0,
    time_limit_s: float = 60.0,
) -> Model:
    """A model of every target in ``targets`` that at least three examples measure.

    ``time_limit_s``: targets that are not begun by then are left out, as ``Model.notes`` says; step time comes first.

    Raises:
        UsageError: No target has enough examples, or one of them is not known.
    """
    started = time.monotonic()
    digests, given = _ordered(examples)
    for target in targets:
        if target not in TARGETS:
            msg = f"{target!r} is no target of an estimate; choose from {', '.join(TARGETS)}"
            raise UsageError(msg)
    fitted: dict[str, Fitted] = {}
    notes = []
    for target in (one for one in TARGETS if one in targets):
        rows = [one for one in given if _usable(one, target)]
        if len(rows) < LEAST:
            if rows:
                notes.append(f"{target} is not estimated: {len(rows)} measurements, {LEAST} are needed")
            continue
        if target == UTILISATION and STEP_TIME not in fitted:
            notes.append(f"{target} is not estimated: it needs step times of the same examples")
            continue
        if fitted and time.monotonic() - started > time_limit_s:
            notes.append(f"{target} is not estimated: the time limit of {time_limit_s:g} s was over")
            continue
        # Matrices are small: threads that wait for one another on busy cores take many times as long as one alone.
        with threadpool_limits(1):
            fitted[target] = _target(rows, digests, target, fitted.get(STEP_TIME), seed)
    if not fitted:
        msg = (
            f"nothing to learn from: {len(given)} examples, and no target with {LEAST} measured ones "
            "that have kernels; run `perfgate sample` first, or name a file with measured examples"
        )
        raise UsageError(msg)
    return Model(
        key=_key((digests[id(one)] for one in given), targets, seed), seed=seed, fitted=fitted, notes=tuple(notes)
    )


def key(examples: Iterable[Example], *, targets: Sequence[str] = TARGETS, seed: int = 0) -> str:
    """SHA-256 of everything a fit depends on: equal keys, equal models. What a model is cached by."""
    return _key((digest(one) for one in examples), targets, seed)


def _key(digests: Iterable[str], targets: Sequence[str], seed: int) -> str:
    text = "\n".join((FORMAT_OF_FIT, str(seed), ",".join(targets), *sorted(digests)))
    return hashlib.sha256(text.encode()).hexdigest()


# Changes whenever the same examples give another model, so that no cached one is taken for it.
FORMAT_OF_FIT = "perfgate estimator 4"


def digest(example: Example) -> str:
    """SHA-256 of one example's content. Kernels are most of it and shared by many, so they are hashed once."""
    known = _KERNELS.get(id(example.kernels))
    if known is None or known[0] is not example.kernels:
        if len(_KERNELS) > _REMEMBERED:
            _KERNELS.clear()
        known = (example.kernels, hashlib.sha256(repr(example.kernels).encode()).hexdigest())
        _KERNELS[id(example.kernels)] = known
    values = [getattr(example, name) for name in _FIELDS]
    return hashlib.sha256(repr((values, known[1])).encode()).hexdigest()


_FIELDS = tuple(name for name in Example.__dataclass_fields__ if name not in {"kernels", "recorded_at"})
_REMEMBERED = 50_000
_KERNELS: dict[int, tuple[object, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The model to use, and why. ``kept``: the old one, for equal examples or (``worse``) for a worse new one."""

    model: Model
    kept: bool
    reason: str
    worse: bool = False


def again(
    old: Model | None,
    examples: Iterable[Example],
    *,
    targets: Sequence[str] = TARGETS,
    seed: int = 0,
    time_limit_s: float = 60.0,
) -> Choice:
    """The model of these examples where an old one is there: that one if nothing is new, else :func:`choose`.

    Raises UsageError as :func:`fit` does.
    """
    given = list(examples)
    if old is not None and old.key == key(given, targets=targets, seed=seed):
        return Choice(model=old, kept=True, reason="the same examples as in the last fit")
    return choose(old, fit(given, targets=targets, seed=seed, time_limit_s=time_limit_s))


def choose(old: Model | None, new: Model) -> Choice:
    """Which of two models to use. An estimator that got worse is not used.

    Compared is step time (else the first common target) on the examples that both held out, error by error: the new
    one is worse where its median error is more than 5 % larger and a sign test says that this is no chance. Where they
    have hardly any in common, their accuracies are set side by side, with twice the tolerance.
    """
    if old is None:
        return Choice(model=new, kept=False, reason="the first fit")
    common = [target for target in TARGETS if target in old.fitted and target in new.fitted]
    if not common:
        return Choice(model=new, kept=False, reason="the targets changed")
    target = common[0]
    a, b = old.fitted[target].errors_by_digest, new.fitted[target].errors_by_digest
    shared = sorted(set(a) & set(b))
    if len(shared) < _COMMON:
        before, after = old.accuracy[target].median_ape, new.accuracy[target].median_ape
        worse = after > before * (1 + 2 * (_WORSE - 1)) and after - before > 0.01
        what = f"{target}: median error {_percent(before)} before, {_percent(after)} now, on other held-out groups"
    else:
        was, is_ = np.array([a[one] for one in shared]), np.array([b[one] for one in shared])
        before, after = (float(np.median(np.expm1(np.abs(each)))) for each in (was, is_))
        larger = int((np.abs(is_) > np.abs(was)).sum())
        z = (2 * larger - len(shared)) / np.sqrt(len(shared))
        worse = after > _WORSE * before and z > _CERTAIN
        what = (
            f"{target}: median error {_percent(before)} before, {_percent(after)} now, "
            f"on {len(shared)} examples that both held out"
        )
    if worse:
        return Choice(model=old, kept=True, worse=True, reason=f"the new fit is worse and not used: {what}")
    return Choice(model=new, kept=False, reason=what)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _usable(example: Example, target: str) -> bool:
    value = example.targets.get(target)
    return bool(example.kernels) and value is not None and bool(np.isfinite(value)) and value > 0


def _ordered(examples: Iterable[Example]) -> tuple[dict[int, str], list[Example]]:
    """The digest of each by its identity, and all in an order of their own: a store's order does not matter."""
    given = list(examples)
    digests = {id(one): digest(one) for one in given}
    given.sort(key=lambda one: (one.group, one.model, one.recorded_at, digests[id(one)]))
    return digests, given


def _target(examples: list[Example], digests: dict[int, str], target: str, timed: Fitted | None, seed: int) -> Fitted:
    settings_each = columns.settings_of(examples)
    found = columns.of(examples, target, None if timed is None else timed.parts.general)
    names = Names()
    places = columns.places(examples, settings_each, found.calls, names, add=True)
    y = np.array([columns.measured(one, target) for one in examples], np.float64)
    first = dict(zip((one.key for one in reversed(settings_each)), reversed(settings_each), strict=True))
    settings = tuple(first[text] for text in names.settings)
    data = Data(
        x=found.x,
        units=found.units,
        y=y,
        places=places,
        setting=places.setting.astype(np.intp),
        settings=settings,
    )
    groups = np.array([one.group for one in examples])
    trees = target != PEAK_MEMORY
    fold = folds_of(groups, _MORE_FOLDS if len(y) <= _FEW_ROWS else FOLDS if len(y) <= _MANY else _FEW_FOLDS)
    held, with_one = cross_validate(data, fold, trees=trees, seed=seed)
    whole = parts.fit(data, trees=trees and held.scale > 0, seed=seed)
    every = together([held, with_one, leave_one_out(data, whole, held)])
    elsewhere = across(data, seed=seed)
    kept = _kept(len(y), held, seed)
    classes = {features.kernel_class(name) for name in _present(found)}
    return Fitted(
        target=target,
        columns=found.names,
        units=found.units,
        parts=whole,
        kernels=None if target != STEP_TIME else _kernels(examples, settings_each, found.calls, y, held, seed),
        scale=held.scale,
        settings=settings,
        names=names,
        places=places.take(kept),
        residual=whole.residual[kept],
        errors=np.abs(held.every(len(y)))[kept],
        models=tuple(examples[row].model for row in kept),
        calibrated=intervals.calibrate(every.error, every.doubt, groups[every.rows]),
        own=_own(every, groups, data),
        across=_across(elsewhere, groups),
        context=_least_context(examples, found.x, y) if target == PEAK_MEMORY else {},
        seen=novelty.seen(examples, classes, _support(examples, data, whole, target, seed)),
        accuracy=_accuracy(target, held, groups),
        errors_by_digest=dict(
            zip((digests[id(examples[row])][:16] for row in held.rows), map(float, held.error), strict=True)
        ),
    )


def _kernels(
    examples: Sequence[Example], settings: Sequence[Setting], calls: Floats, y: Floats, held: HeldOut, seed: int
) -> Kernels | None:
    """Of steps of one kernel, those classes that are told better by it than by the columns of whole steps."""
    learned = kernel_fit.fit(examples, settings, calls, y, seed=seed)
    return None if learned is None else kernel_fit.worthwhile(learned, examples, settings, calls, held.rows, held.error)


def _support(examples: Sequence[Example], data: Data, whole: parts.Parts, target: str, seed: int) -> Support:
    """Of targets that are a sum over kernels."""
    if target not in {STEP_TIME, ENERGY}:
        return Support()
    rows = support.chosen([one.group for one in examples], seed)
    each = [parts.coefficients(whole, one, data.settings) for one in data.settings]
    some = [examples[row] for row in rows]
    share = support.shares(some, np.stack([each[data.setting[row]] for row in rows]))
    return support.support([one.group for one in some], share)


def _present(found: columns.Columns) -> list[str]:
    """Columns of calls that an example has."""
    calls = [name for name in features.NAMES if features.unit(name) == features.CALLS]
    return [name for name, there in zip(calls, np.asarray((found.calls > 0).any(axis=0)), strict=True) if there]


def _least_context(examples: Sequence[Example], x: Floats, y: Floats) -> dict[str, float]:
    """Of each kind of machine the least that a process held beside weights, state and activations; at least 0."""
    beside = np.maximum(y - memory.floor(x, np.zeros(len(y))), 0.0)
    kinds = np.array([one.machine.kind for one in examples])
    return {str(kind): float(beside[kinds == kind].min()) for kind in np.unique(kinds)}


def _own(found: HeldOut, groups: NDArray[np.str_], data: Data) -> dict[str, Calibrated]:
    """By key of the setting; none where there is one setting only, whose calibration is that of all."""
    if len(data.settings) == 1:
        return {}
    each = intervals.by_setting(found.error, found.doubt, groups[found.rows], data.setting[found.rows])
    return {data.settings[number].key: one for number, one in each.items()}


def _across(found: HeldOut, groups: NDArray[np.str_]) -> Quantiles | None:
    """None where too few steps ran on several machines."""
    if len(found.rows) < _MACHINES:
        return None
    return intervals.quantiles(found.error, np.ones(len(found.error)), groups[found.rows])


def _kept(n: int, held: HeldOut, seed: int) -> NDArray[np.intp]:
    """Rows that relatives are looked for in; of very many a random part."""
    if n <= KEPT:
        return np.arange(n)
    chosen = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(n), held.rows))
    return np.sort(np.concatenate([held.rows, chosen])[:KEPT])


def _accuracy(target: str, held: HeldOut, groups: NDArray[np.str_]) -> Accuracy:
    """Errors of held-out groups; coverage and width with quantiles of the other folds alone."""
    names = groups[held.rows]
    inside = np.zeros(len(held.rows), bool)
    width = np.zeros(len(held.rows))
    for one in np.unique(held.fold):
        mine = held.fold == one
        rest = ~mine if (~mine).any() else mine
        found = intervals.calibrate(held.error[rest], held.doubt[rest], names[rest])
        low, high = found.ends(held.doubt[mine])
        inside[mine] = found.covered(held.error[mine], held.doubt[mine])
        width[mine] = np.exp(high - low)
    return accuracy(target, ape=np.abs(np.expm1(-held.error)), inside=inside, width=width, groups=names)
