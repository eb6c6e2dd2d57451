"""Floor 3, estimator. The linear core's arithmetic: non-negative coefficients on relative error, shrunk to a prior.

In: a matrix of physical quantities, positive values, a prior coefficient for each column. Out: coefficients.

    minimise   sum_i w_i (log x_i c - log y_i)^2 + lambda sum_j (c_j / c0_j - 1)^2,   c >= 0

by Gauss-Newton steps, each a non-negative least-squares problem of the normal equations (k x k, whatever n is). w_i are
Huber's weights, so that a few odd rows do not move the rest; lambda = sigma^2 / spread^2 with the rows' own sigma: the
prior counts as much as its spread says, and nothing where the data are many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Floats = NDArray[np.float64]

# Least relative scatter that a measured step is believed to have.
_LEAST_SIGMA = 0.01
# Median absolute deviation -> standard deviation of a normal distribution.
_MAD = 1.4826
# Below this share of what the column alone would explain, a shared constant of 0 says nothing of single classes.
_LEAST_SHARE = 0.02
_TINY = 1e-12
# Units of columns of memory: one byte of them occupies about one.
BYTE_FOR_BYTE = frozenset({"weights", "optimiser state", "activations", "workspace"})


def solve(
    x: Floats,
    y: Floats,
    prior: Floats,
    *,
    spread: float,
    huber: float = 1.0,
    iterations: int = 6,
) -> Floats:
    """Coefficients (k,) for ``x`` (n, k) and ``y`` (n,) > 0. ``prior`` (k,) > 0.

    ``spread``: standard deviation of c / prior before anything was seen. ``huber``: in standard deviations of the
    rows; from there on errors count by their size and no longer by its square.
    """
    # What no row has tells nothing: there the prior stays.
    there = (x > 0).any(axis=0)
    if not there.all():
        found = prior.copy()
        if there.any():
            found[there] = solve(x[:, there], y, prior[there], spread=spread, huber=huber, iterations=iterations)
        return found
    scaled = x * prior
    theta = np.ones(x.shape[1])
    estimate = y
    robust = np.ones(len(y))
    for turn in range(iterations):
        rows = scaled / estimate[:, None]
        wanted = 1.0 - np.log(np.maximum(estimate, _TINY) / y)
        sigma = _LEAST_SIGMA if turn == 0 else scatter(np.log(np.maximum(scaled @ theta, _TINY) / y))
        theta = _ridge(rows, wanted, robust, (max(sigma, _LEAST_SIGMA) / spread) ** 2)
        fitted = scaled @ theta
        # No coefficient explains a row of zeros; it stays out of the way.
        estimate = np.where(fitted > _TINY * y, fitted, y)
        error = np.abs(np.log(estimate / y))
        limit = huber * max(scatter(error), _LEAST_SIGMA)
        robust = np.minimum(1.0, limit / np.maximum(error, _TINY))
    result: Floats = theta * prior
    return result


def shared(x: Floats, y: Floats, units: tuple[str, ...]) -> Floats:
    """One coefficient for all columns of a unit (1/pi for FLOP, 1/beta for bytes, ...), as a prior (k,) > 0."""
    names = sorted(set(units))
    member = np.array([[unit == name for name in names] for unit in units], np.float64)
    sums = x @ member
    alone = np.array([_alone(column, y) for column in sums.T])
    if BYTE_FOR_BYTE & set(names):
        # What memory holds is known beforehand, but for the constant: that of the smallest steps.
        prior = np.array([1.0 if name in BYTE_FOR_BYTE else float(y.min()) for name in names])
        result: Floats = member @ prior
        return result
    found = solve(sums, y, alone / len(names), spread=3.0, iterations=4)
    shared_: Floats = member @ np.maximum(found, _LEAST_SHARE * alone)
    return shared_


def scatter(errors: Floats) -> float:
    """Standard deviation by the median of absolute values: a few odd rows do not count."""
    return _MAD * float(np.median(np.abs(errors))) if errors.size else 0.0


def _alone(column: Floats, y: Floats) -> float:
    """Coefficient with which the column alone would explain the median row; 1 where nothing has it."""
    there = column > 0
    return float(np.median(y[there] / column[there])) if there.any() else 1.0


def _ridge(rows: Floats, wanted: Floats, weights: Floats, penalty: float) -> Floats:
    """argmin_{t >= 0} sum w (rows t - wanted)^2 + penalty |t - 1|^2, through a Cholesky factor of k x k."""
    weighted = rows * weights[:, None]
    k = rows.shape[1]
    gram = weighted.T @ rows + max(penalty, _TINY) * np.eye(k)
    right = weighted.T @ wanted + penalty
    # A relative jitter keeps the factor definite where columns are copies of one another.
    gram[np.diag_indices(k)] *= 1 + 1e-10
    factor = np.linalg.cholesky(gram)
    found: Floats = nnls(factor.T, np.linalg.solve(factor, right), maxiter=30 * k + 100)[0]
    return found
