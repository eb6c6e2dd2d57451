"""A model's file that was damaged is refused when it is read, not when it is asked."""

from __future__ import annotations

import json

import pytest

from perfgate.errors import UsageError
from perfgate.estimator import fit, saved
from perfgate.records.estimate import STEP_TIME
from tests.estimator import steps


@pytest.fixture(scope="module")
def text():
    return saved.dumps(fit.fit(steps.examples(40), targets=(STEP_TIME,)))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("residual",), [0.1, 0.2]),
        (("models",), ["net"]),
        (("places", "z"), [[1.0]]),
        (("places", "kind"), [0]),
        (("parts", "regressors", 0, "coef_"), [1.0]),
        (("parts", "general"), []),
        (("parts", "numbers"), [99]),
        (("parts", "counts"), []),
        (("scale",), 1e400),
        (("calibrated", "knots"), []),
        (("calibrated", "slopes"), [0.0]),
    ],
)
def test_loads__parts_that_do_not_belong_together_are_damage(text, place, value):
    tree = json.loads(text)
    node = tree["fitted"][STEP_TIME]
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    with pytest.raises(UsageError, match=r"damaged .*perfgate estimate fit"):
        saved.loads(json.dumps(tree).replace("Infinity", "1e999"))


def test_loads__a_file_of_another_version_says_so_and_how_to_go_on(text):
    """Parts that were given up since, and columns that are others now."""
    for change in ({"near": {"low": -0.1, "high": 0.1}}, {"columns": ["linear FLOP"]}):
        tree = json.loads(text)
        tree["fitted"][STEP_TIME] |= change
        with pytest.raises(UsageError, match=r"another version of perfgate .*fit it again") as found:
            saved.loads(json.dumps(tree))
        assert "damaged" not in str(found.value)


def test_loads__a_model_of_nothing_is_damage(text):
    with pytest.raises(UsageError, match="estimates nothing"):
        saved.loads(json.dumps({**json.loads(text), "fitted": {}}))
