from __future__ import annotations

from typing import Any

import pytest

from perfgate.records.sampling import FAMILIES, Condition, Network
from perfgate.sampling import networks
from perfgate.sampling.networks import SPACE, Choice, Range
from perfgate.sampling.work import work


def test_space__has_every_family():
    assert tuple(SPACE) == FAMILIES


@pytest.mark.parametrize("place", [0.0, 0.3, 0.999_999])
def test_range__stays_inside_and_on_its_grid(place):
    value = Range("x", 32, 224, 16).at(place)
    assert 32 <= value <= 224
    assert value % 16 == 0


def test_range__is_even_on_a_logarithmic_scale():
    assert Range("x", 1, 10_000).at(0.5) == 100


def test_choice__a_value_that_stands_twice_is_twice_as_likely():
    drawn = [Choice("x", (1, 1, 2)).at(number / 300) for number in range(300)]
    assert drawn.count(1) == 200


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("place", [0.0, 0.999_999])
def test_network__the_corners_of_every_family_can_be_planned(family, place):
    found = networks.network(family, [place] * len(SPACE[family]))
    planned = work(found)
    assert planned.flop > 0
    assert planned.weights > 0
    assert planned.largest <= planned.made


def test_batch__a_fifth_is_one_item_and_the_rest_reaches_the_ends():
    drawn = [networks.batch("residual", number / 1000) for number in range(1000)]
    assert 200 <= drawn.count(1) < 300
    assert drawn == sorted(drawn)
    assert drawn[-1] == 64
    assert networks.batch("fully-connected", 0.999_999) == 1_024


def test_network__no_stage_is_left_without_a_feature_map():
    names = [one.name for one in SPACE["convolution"]]
    places = [0.999 if name in {"stages", "stem"} else 0.0 for name in names]
    found = networks.network("convolution", places).parameters
    # 32 pixels, a stem of 4: 8, 4, 2.
    assert found["stages"] == 3


def test_name__depends_on_parameters_and_not_on_their_order():
    one = Network(family="residual", parameters={"a": 1, "b": 2})
    assert one.name == Network(family="residual", parameters={"b": 2, "a": 1}).name
    assert one.name != Network(family="residual", parameters={"a": 1, "b": 3}).name


def test_key__tells_all_conditions_apart():
    network = Network(family="residual", parameters={"a": 1})
    base: dict[str, Any] = {"network": network, "mode": "train", "batch": 2, "optimizer": "sgd"}
    changes: list[dict[str, Any]] = [
        {}, {"batch": 4}, {"threads": 2}, {"dtype": "bfloat16"}, {"optimizer": "adam"}, {"accumulation": 2},
        {"device": "cuda:0"}, {"compile": "default"}, {"mode": "infer", "optimizer": ""},
    ]  # fmt: skip
    assert len({Condition(**{**base, **change}).key for change in changes}) == len(changes)
