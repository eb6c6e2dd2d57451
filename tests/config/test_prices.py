"""A file of private prices: the same keys as in ``[cost]``, and no value in any message."""

from __future__ import annotations

import pytest

from perfgate.config.load import load
from perfgate.config.prices import merged, read
from perfgate.errors import ConfigError
from perfgate.records.cost import OwnPrice, Prices

TEXT = """
[prices.rack]
platform = "l4"
usd_per_hour = 0.31
[price_factor]
"aws/g6.xlarge" = 0.6
[egress_usd_per_gib]
aws = 0.02
"""


def problems(text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        read(text, "prices.toml")
    # A chained exception would print the values below the message.
    assert caught.value.__context__ is None
    assert all(problem.file == "prices.toml" for problem in caught.value.problems)
    return {problem.key: f"{problem.reason} ({problem.hint})" for problem in caught.value.problems}


def test_read__gives_the_same_as_the_tables_of_the_configuration():
    public = TEXT.replace("[price", "[cost.price").replace("[egress", "[cost.egress")
    loaded = load({"perfgate.toml": f"version = 1\n{public}"}, where="base", sha=None)
    assert loaded is not None
    assert read(TEXT, "prices.toml") == loaded.policy.cost.prices
    assert read("", "prices.toml") == Prices()


def test_read__all_mistakes_at_once_and_no_value_in_any():
    found = problems(
        """
runner = 777.125
[prices.rack]
platform = "Secret L4"
usd_per_hour = -777.125
count = "777.125"
memory = "777.125 loaves"
date = "777.125"
shares = 777.125
[prices.bought]
platform = "l4"
purchase_usd = 777.125
duty = 777.125
[prices.unpriced]
platform = "l4"
[prices]
flat = 777.125
[price_factor]
aws = "777.125"
[egress_usd_per_gib]
aws = -777.125
""".replace("[prices]\nflat = 777.125\n", "")
    )
    assert found.keys() == {
        "runner",
        "prices.rack.platform",
        "prices.rack.usd_per_hour",
        "prices.rack.count",
        "prices.rack.memory",
        "prices.rack.date",
        "prices.rack.shares",
        "prices.bought.duty",
        "prices.unpriced.usd_per_hour",
        "price_factor.aws",
        "egress_usd_per_gib.aws",
    }
    assert "777" not in str(found)
    assert "Secret" not in str(found)
    assert "did you mean 'share'?" in found["prices.rack.shares"]
    assert "known here: prices, price_factor, egress_usd_per_gib" in found["runner"]


@pytest.mark.parametrize(
    ("text", "key", "kind"),
    [
        ("prices.rack = {platform = 'l4', usd_per_hour = '$777'}", "prices.rack.usd_per_hour", "US dollars"),
        ("prices.rack = 777", "prices.rack", "table"),
        ("prices = 777", "prices", "table of name -> table"),
        ("price_factor = {aws = 0}", "price_factor.aws", "table of provider or offer -> number"),
        ("price_factor = [777]", "price_factor", "table of provider or offer -> number"),
    ],
)
def test_read__says_what_belongs_there(text, key, kind):
    found = problems(text)
    assert found == {key: f"must be {kind} (the value is not repeated here)"}


@pytest.mark.parametrize("text", ["x = 777 777", "x = " + "[" * 5000, "x = " + "7" * 5000, "777777 = = 777"])
def test_read__not_toml_names_the_position_only(text):
    found = problems(text)
    assert "777" not in str(found)
    assert found["TOML"].startswith("not TOML")


def test_merged__private_wins_by_name():
    public = Prices(
        own=(OwnPrice(name="a", platform="l4", usd_per_hour=1.0), OwnPrice(name="b", platform="l4", usd_per_hour=2.0)),
        factors={"aws": 0.9, "gcp": 0.8},
        egress_usd_per_gib={"aws": 0.09},
        max_age_days=7,
    )
    private = Prices(
        own=(OwnPrice(name="c", platform="t4", usd_per_hour=4.0), OwnPrice(name="a", platform="a10", usd_per_hour=3.0)),
        factors={"aws": 0.5, "aws/g6.xlarge": 0.4},
        egress_usd_per_gib={"aws": 0.01, "gcp": 0.02},
    )
    both = merged(public, private)
    assert [(item.name, item.platform) for item in both.own] == [("a", "a10"), ("b", "l4"), ("c", "t4")]
    assert both.factors == {"aws": 0.5, "gcp": 0.8, "aws/g6.xlarge": 0.4}
    assert both.egress_usd_per_gib == {"aws": 0.01, "gcp": 0.02}
    assert both.max_age_days == 7
    assert merged(public, Prices()) == public
