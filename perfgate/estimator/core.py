"""Floor 3, estimator. The regressor: a non-negative linear core in physical units, and a residual on top.

In: a matrix of physical quantities per step and positive values. Out: positive estimates that never fall when a FLOP,
a byte or the batch is added. It is a scikit-learn estimator and knows nothing of models, machines or records.

    estimate(x) = (x c + c_0) * exp(s * d(z) * g(z)),   c >= 0

g are randomised trees on z, the shares of the calls by class and their number. No amount of batch, FLOP or bytes
changes z, so that g may be any function and the product still rises with all of them. They learn the core's errors on
held-out groups (those of rows that it was fitted on are too small). s is 0 unless cross-validation by group says that
the residual helps, and d takes it back where z leaves the range of what was learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from perfgate.estimator import nonnegative
from perfgate.estimator import trees as forest
from perfgate.estimator.trees import Trees

Floats = NDArray[np.float64]

# Units of columns (``features.unit``). What is of neither grows with the work and has a constant of its own kind.
CALLS = "calls"
STEP = "step"
AMOUNT = "amount"

ALWAYS = "always"
NEVER = "never"
AUTO = "auto"

# The residual does not learn from rows that are further away than this (ln): they are odd, not a rule.
_ODD = 0.6
# Share of the median error that the residual has to take away to be used.
_WORTHWHILE = 0.02
_SCALES = (0.5, 1.0)
# Rows below which trees are not tried.
_LEAST_ROWS = 100
# How fast the residual fades outside of the range of its columns.
_DAMPING = 4.0


class PhysicalRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Estimates a positive quantity from non-negative physical quantities.

    Parameters:
        units: Unit of each column; columns of one unit share one prior constant (1/pi, 1/beta, ...). None: all alike.
        spread: Standard deviation of a class's coefficient over the shared one, before anything was seen.
        huber: From how many standard deviations a row counts as odd.
        prior: Coefficients to shrink to instead of the shared ones, one for each column and one for the constant; with
            ``spread`` around them. Those that are 0 or below are taken from the shared ones.
        residual: ``auto``, ``always`` or ``never``.
        folds: Of the cross-validation that decides about the residual; ``random_state``: of its trees.
        fit_intercept: A constant for each step beside the columns.

    Attributes:
        coef_ (k,), intercept_: In the unit of y over the columns'. trees_, scale_: Residual (None: none) and s.
    """

    def __init__(
        self,
        *,
        units: Sequence[str] | None = None,
        spread: float = 0.7,
        huber: float = 1.0,
        prior: Sequence[float] | None = None,
        residual: str = AUTO,
        folds: int = 5,
        random_state: int = 0,
        fit_intercept: bool = True,
    ) -> None:
        self.units = units
        self.spread = spread
        self.huber = huber
        self.prior = prior
        self.residual = residual
        self.folds = folds
        self.random_state = random_state
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self) -> Any:
        """Quantities and times are positive; with relative errors, tests on sums of signed columns say little."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        groups: Any = None,
    ) -> Self:
        """Learn from (n, k) and (n,). ``groups`` (n,): what the cross-validation holds out together; None: each row.

        Raises ValueError: a value of y that is not positive, a negative quantity, or units for other columns.
        """
        x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, np.float64)
        if (x < 0).any():
            msg = "Negative values in data passed to PhysicalRegressor: columns are physical quantities"
            raise ValueError(msg)
        if (y <= 0).any():
            msg = "y has values that are not positive: only measured positive quantities can be learned"
            raise ValueError(msg)
        units = self._units(x.shape[1])
        self._linear(self._with_constant(x), y, units)
        self.trees_: Trees | None = None
        self.scale_ = 0.0
        columns = self._columns(x)
        self.low_, self.high_ = columns.min(axis=0), columns.max(axis=0)
        if self.residual != NEVER and len(y) >= _LEAST_ROWS and columns.shape[1]:
            self._learn_residual(x, y, columns, groups)
        return self

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Estimates (n,), all positive."""
        check_is_fitted(self)
        x = np.asarray(validate_data(self, X, dtype=np.float64, reset=False), np.float64)
        linear = self.linear(x)
        if self.trees_ is None or self.scale_ == 0:
            return linear
        return np.asarray(linear * np.exp(self.scale_ * self.correction(x)), np.float64)

    def linear(self, x: Floats) -> Floats:
        """The linear core alone (n,), positive."""
        return np.maximum(x @ self.coef_ + self.intercept_, np.finfo(np.float64).tiny)

    def correction(self, x: Floats) -> Floats:
        """ln of the residual's factor (n,) before its scale, damped outside of the range; 0 without trees."""
        if self.trees_ is None:
            return np.zeros(len(x))
        z = self._columns(x)
        outside = np.maximum(self.low_ - z, 0) + np.maximum(z - self.high_, 0)
        return np.asarray(self.trees_.predict(z) * np.exp(-_DAMPING * outside.sum(axis=1)), np.float64)

    def _units(self, k: int) -> tuple[str, ...]:
        units = (AMOUNT,) * k if self.units is None else tuple(self.units)
        if len(units) != k:
            msg = f"{len(units)} units for {k} columns"
            raise ValueError(msg)
        return units

    def _with_constant(self, x: Floats) -> Floats:
        return np.column_stack([x, np.ones(len(x))]) if self.fit_intercept else x

    def _linear(self, x: Floats, y: Floats, units: tuple[str, ...]) -> None:
        found = self._solved(x, y, units)
        self.coef_ = found[: len(units)]
        self.intercept_ = float(found[-1]) if self.fit_intercept else 0.0

    def _solved(self, x: Floats, y: Floats, units: tuple[str, ...]) -> Floats:
        every = (*units, STEP) if self.fit_intercept else units
        prior = nonnegative.shared(x, y, every)
        if self.prior is not None:
            given = np.asarray(self.prior, np.float64)[: prior.size]
            prior = np.where(given > 0, given, prior)
        return nonnegative.solve(x, y, prior, spread=self.spread, huber=self.huber)

    def _columns(self, x: Floats) -> Floats:
        """What the trees see (n, calls + 1): nothing that an amount of work changes. Without calls (n, 0)."""
        calls = x[:, np.array(self._units(x.shape[1])) == CALLS]
        if not calls.shape[1]:
            return np.zeros((len(x), 0))
        total = calls.sum(axis=1, keepdims=True)
        return np.concatenate([np.sqrt(calls / np.maximum(total, 1e-300)), np.log1p(total)], axis=1)

    def _learn_residual(self, x: Floats, y: Floats, z: Floats, groups: Any) -> None:
        fold = folds(np.arange(len(y)) if groups is None else np.asarray(groups), self.folds)
        error = np.zeros(len(y))
        units, full = self._units(x.shape[1]), self._with_constant(x)
        for one in np.unique(fold):
            mine = fold == one
            rest = ~mine if (~mine).any() else mine
            found = self._solved(full[rest], y[rest], units)
            error[mine] = np.log(y[mine] / np.maximum(full[mine] @ found, np.finfo(np.float64).tiny))
        target = np.clip(error, -_ODD, _ODD)
        self.scale_ = self._worthwhile(z, error, target, fold) if self.residual == AUTO else 1.0
        if self.scale_:
            self.trees_ = forest.fit(z, target, seed=self.random_state)

    def _worthwhile(self, z: Floats, error: Floats, target: Floats, fold: NDArray[np.intp]) -> float:
        """s that makes the median error of held-out groups least; 0 where that is hardly less than without."""
        if fold.max() == 0:
            return 0.0
        held = np.zeros(len(error))
        for one in np.unique(fold):
            rest = fold != one
            held[~rest] = forest.fit(z[rest], target[rest], seed=self.random_state).predict(z[~rest])
        alone = float(np.median(np.abs(error)))
        after = {scale: float(np.median(np.abs(error - scale * held))) for scale in _SCALES}
        best = min(after, key=lambda scale: after[scale])
        return best if after[best] < (1 - _WORTHWHILE) * alone else 0.0


def folds(groups: NDArray[Any], number: int) -> NDArray[np.intp]:
    """Fold of each row: groups stay together, sizes are even, and the same groups give the same folds."""
    names, code, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    filled = np.zeros(max(1, min(number, len(names))))
    place = np.zeros(len(names), np.intp)
    for name in np.argsort(-sizes, kind="stable"):
        place[name] = int(np.argmin(filled))
        filled[place[name]] += sizes[name]
    return np.asarray(place[code], np.intp)
