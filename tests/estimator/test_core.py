"""The regressor: scikit-learn's contract, recovery of a law, monotonicity."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator

from perfgate.estimator.core import ALWAYS, AUTO, NEVER, PhysicalRegressor, folds

UNITS = ("flop", "flop", "bytes", "bytes", "calls", "calls", "step")


def quantities(n, seed=0):
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(0, 6, (n, 6)))
    return np.column_stack([x, np.ones(n)]), rng


def test_regressor__passes_scikit_learns_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of skipped checks for array APIs that are not installed
        results = check_estimator(PhysicalRegressor(), on_fail=None)
    failed = [(one["check_name"], one["exception"]) for one in results if one["status"] not in {"passed", "skipped"}]
    assert not failed
    assert sum(one["status"] == "passed" for one in results) > 30


def test_regressor__finds_the_coefficients_of_a_law_again():
    x, rng = quantities(400)
    law = np.array([2.0, 3.0, 0.5, 0.7, 4.0, 4.0, 50.0])
    y = x @ law * np.exp(rng.normal(0, 0.02, 400))
    found = PhysicalRegressor(units=UNITS, fit_intercept=False, residual=NEVER).fit(x, y)
    assert found.coef_ == pytest.approx(law, rel=0.15)
    assert np.median(np.abs(found.predict(x) / y - 1)) < 0.02


def test_regressor__odd_rows_do_not_move_the_rest():
    x, rng = quantities(300, seed=1)
    law = np.array([2.0, 3.0, 0.5, 0.7, 4.0, 4.0, 50.0])
    y = x @ law * np.exp(rng.normal(0, 0.02, 300))
    y[:15] *= 6
    found = PhysicalRegressor(units=UNITS, fit_intercept=False, residual=NEVER).fit(x, y)
    assert np.median(found.predict(x[15:]) / y[15:]) == pytest.approx(1, abs=0.02)


def test_regressor__unseen_column_gets_the_shared_constant():
    x, rng = quantities(200, seed=2)
    x[:, 1] = 0
    y = x @ np.array([2.0, 0, 0.5, 0.7, 4.0, 4.0, 50.0]) * np.exp(rng.normal(0, 0.02, 200))
    found = PhysicalRegressor(units=UNITS, fit_intercept=False, residual=NEVER).fit(x, y)
    assert 1.0 < found.coef_[1] < 4.0


def with_taste(n, seed=3):
    """Rows whose error depends on the shares of calls, as architectures' does."""
    x, rng = quantities(n, seed)
    share = x[:, 4] / (x[:, 4] + x[:, 5])
    y = x @ np.array([2.0, 3.0, 0.5, 0.7, 0.1, 0.1, 5.0]) * np.exp(0.4 * (share > 0.5) + rng.normal(0, 0.02, n))
    return x, y


def test_residual__is_used_where_it_helps_and_not_where_it_does_not():
    x, y = with_taste(400)
    used = PhysicalRegressor(units=UNITS, fit_intercept=False, residual=AUTO).fit(x, y)
    plain = PhysicalRegressor(units=UNITS, fit_intercept=False, residual=NEVER).fit(x, y)
    fresh, truth = with_taste(200, seed=9)
    assert used.scale_ > 0
    error = {name: np.median(np.abs(one.predict(fresh) / truth - 1)) for name, one in (("a", used), ("b", plain))}
    assert error["a"] < 0.6 * error["b"]
    x, rng = quantities(400, seed=4)
    y = x @ np.ones(7) * np.exp(rng.normal(0, 0.05, 400))
    assert PhysicalRegressor(units=UNITS, fit_intercept=False).fit(x, y).scale_ == 0


MONOTONE = PhysicalRegressor(units=UNITS, fit_intercept=False, residual=ALWAYS).fit(*with_taste(400))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(0, 1e4), min_size=6, max_size=6),
    st.sampled_from([(0,), (1,), (2,), (3,), (0, 1, 2, 3)]),
    st.floats(1, 1e3),
)
def test_regressor__more_flop_bytes_or_batch_is_never_faster(row, grown, factor):
    row = np.array([[*row, 1.0]])
    more = row.copy()
    more[0, list(grown)] *= factor
    assert MONOTONE.trees_ is not None
    assert MONOTONE.predict(more)[0] >= MONOTONE.predict(row)[0] * (1 - 1e-12)


def test_regressor__refuses_what_is_not_physical():
    x, _ = quantities(20)
    with pytest.raises(ValueError, match="not positive"):
        PhysicalRegressor().fit(x, np.zeros(20))
    with pytest.raises(ValueError, match="Negative values"):
        PhysicalRegressor().fit(-x, np.ones(20))
    with pytest.raises(ValueError, match="7 columns"):
        PhysicalRegressor(units=("flop",)).fit(x, np.ones(20))


def test_folds__keep_groups_together_and_even():
    groups = np.array(["a"] * 10 + ["b"] * 10 + ["c"] * 5 + ["d"] * 5)
    found = folds(groups, 3)
    for name in "abcd":
        assert len(set(found[groups == name])) == 1
    assert sorted(np.bincount(found)) == [10, 10, 10]
