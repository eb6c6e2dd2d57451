"""``[cost]``, ``[models.NAME.cost]`` and limits on cost: what reaches the policy, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.config import cost_schema, cost_values, schema
from perfgate.config.load import Config, effective, load
from perfgate.errors import ConfigError, ConfigProblem
from perfgate.records.cost import FORMS, OBJECTIVES, CostPolicy, ModelCost, OwnPrice, Prices, Requirements, Volume
from perfgate.records.hardware import ON_DEMAND, OWN, SPOT

MODEL = '[models.net]\nentry = "a:b"\ninputs = ["float32[batch]"]\n'


def config(text: str):
    loaded = load({"perfgate.toml": f"version = 1\n{text}"}, where="base", sha=None)
    assert loaded is not None
    return loaded


def problems(text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load({"perfgate.toml": f"version = 1\n{text}"}, where="base", sha=None)
    return {problem.key: f"{problem.reason} ({problem.hint})" for problem in caught.value.problems}


def test_cost__without_a_table_gives_the_defaults_of_the_records():
    assert config(MODEL).policy.cost == CostPolicy()


def test_cost__documented_defaults_are_those_of_the_records():
    written = {key.path[0]: key.default for key in schema.all_keys(cost_schema.CostTable) if len(key.path) == 1}
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in written.items() if value is not None]
    assert len(lines) == 11
    assert config(f"[cost]\n{''.join(lines)}{MODEL}").policy.cost == CostPolicy()


def test_cost__everything_reaches_the_policy():
    policy = config(f"""
[cost]
enabled = true
runner = "own/rack"
devices = ["l4", "a100-sxm-40gb-mig-1g.5gb"]
providers = "aws"
regions = ["us-east-1"]
terms = ["on-demand", "spot", "own"]
counts = [1, 8]
unavailable = ["aws/p5.48xlarge", "gcp"]
forms = ["single", "data"]
objectives = ["cost", "time"]
max_step_time = "20ms"
percentile = "p99"
memory_headroom = 0
min_throughput = 200
min_utilisation = "30%"
max_usd_per_hour = 12.5
max_usd_per_month = 4e3
job_items = 1e9
deadline = "14 days"
max_price_age = 30
[cost.prices.rack]
platform = "l4"
count = 4
share = 0.5
usd_per_hour = 1.25
region = "basement"
memory = "22GiB"
date = 2026-11-30
[cost.prices."bought-one"]
platform = "h100-sxm"
purchase_usd = 250_000
lifetime_years = 5
power_w = 9000
usd_per_kwh = 0.21
duty = "60%"
[cost.price_factor]
aws = 0.7
"gcp/a3-highgpu-8g" = 2
[cost.egress_usd_per_gib]
aws = 0.09
own = 0
{MODEL}
""").policy.cost
    assert policy == CostPolicy(
        runner="own/rack",
        requirements=Requirements(
            devices=("l4", "a100-sxm-40gb-mig-1g.5gb"),
            providers=("aws",),
            regions=("us-east-1",),
            terms=(ON_DEMAND, SPOT, OWN),
            counts=(1, 8),
            unavailable=("aws/p5.48xlarge", "gcp"),
            forms=("single", "data"),
            objectives=("cost", "time"),
            max_step_ns=20e6,
            percentile=0.99,
            memory_headroom=0.0,
            min_throughput=200.0,
            min_utilisation=0.3,
            max_usd_per_hour=12.5,
            max_usd_per_month=4000.0,
            job_items=1e9,
            deadline_s=14 * 86400.0,
        ),
        prices=Prices(
            own=(
                OwnPrice(
                    name="rack",
                    platform="l4",
                    count=4,
                    share=0.5,
                    usd_per_hour=1.25,
                    region="basement",
                    memory_bytes=22 * 2**30,
                    date="2026-11-30",
                ),
                OwnPrice(
                    name="bought-one",
                    platform="h100-sxm",
                    purchase_usd=250_000.0,
                    lifetime_years=5.0,
                    power_w=9000.0,
                    usd_per_kwh=0.21,
                    duty=0.6,
                ),
            ),
            factors={"aws": 0.7, "gcp/a3-highgpu-8g": 2.0},
            egress_usd_per_gib={"aws": 0.09, "own": 0.0},
            max_age_days=30,
        ),
    )


def test_cost__names_of_the_records_are_those_of_the_file():
    given = {"forms": FORMS, "objectives": OBJECTIVES, "terms": (ON_DEMAND, SPOT, OWN)}
    text = "[cost]\n" + "".join(f"{key} = {list(names)}\n" for key, names in given.items())
    found = config(text).policy.cost.requirements
    assert {key: getattr(found, key) for key in given} == given


def test_cost__a_model_inherits_what_it_leaves_out():
    policy = config(f"""
[cost]
max_step_time = "20ms"
devices = ["l4"]
min_throughput = 5
{MODEL}
[models.net.cost]
devices = "all"
max_step_time = "5ms"
[models.other]
entry = "a:b"
inputs = []
cost.volume = "25 items/s"
""").policy.cost
    assert policy.of("net") == Requirements(max_step_ns=5e6, min_throughput=5.0)
    assert policy.models["other"] == ModelCost(volume=Volume(amount=25 * 730 * 3600.0, unit="items"))
    assert (
        policy.of("other") == policy.requirements == Requirements(max_step_ns=20e6, devices=("l4",), min_throughput=5.0)
    )


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("40M steps/month", 40e6, "steps"),
        ("3e6 items/month", 3e6, "items"),
        ("1 step per hour", 730.0, "steps"),
        ("2.4k items/day", 73_000.0, "items"),
        ("7B items / week", 7e9 * 730 / 168, "items"),
        ("12G steps/year", 1e9, "steps"),
        ("1T items/month", 1e12, "items"),
        ("5 steps/min", 5 * 60 * 730.0, "steps"),
    ],
)
def test_volume__is_that_of_a_month(text, amount, unit):
    found = cost_values.read_volume(text)
    assert found.amount == pytest.approx(amount)
    assert found.unit == unit


@pytest.mark.parametrize(
    ("value", "runner"), [("aws/g6.xlarge", "aws/g6.xlarge"), (0.53, "0.53"), (2, "2"), (" 1.5 ", "1.5")]
)
def test_runner__is_an_offer_or_a_price(value, runner):
    assert cost_values.read_runner(value) == runner


@pytest.mark.parametrize(
    ("lines", "key", "part"),
    [
        ('runner = "aws"', "runner", "write 'aws/g6.xlarge', 'own/NAME' or its price"),
        ("runner = 0", "runner", "is no runner"),
        ("runner = true", "runner", "is no runner"),
        ("runner = inf", "runner", "is no runner"),
        ('devices = ["L4"]', "devices[0]", "write it in lower case"),
        ('devices = ["l4", "l4"]', "devices", "twice"),
        ("devices = []", "devices", "leave the key out"),
        ('providers = ["AWS"]', "providers[0]", "names no provider"),
        ("regions = ['']", "regions[0]", "names no region"),
        ('terms = ["ondemand"]', "terms[0]", "did you mean 'on-demand'?"),
        ("counts = [0]", "counts[0]", "from 1 to 4096"),
        ("counts = 1.5", "counts[0]", "from 1 to 4096"),
        ('unavailable = "all/"', "unavailable[0]", "names no offer"),
        ('forms = "tensors"', "forms[0]", "did you mean 'tensor'?"),
        ('objectives = ["money"]', "objectives[0]", "is not 'cost'"),
        ("max_step_time = 20", "max_step_time", "has no unit"),
        ("percentile = 0.95", "percentile", "'p50', 'p90' and 'p99'"),
        ("percentile = nan", "percentile", "'p50', 'p90' and 'p99'"),
        ('memory_headroom = "100%"', "memory_headroom", "leaves no memory"),
        ("min_throughput = 0", "min_throughput", "above 0"),
        ('min_utilisation = "0%"', "min_utilisation", "more than 0"),
        ('max_usd_per_hour = "5 USD"', "max_usd_per_hour", "write a plain number above 0, as in 0.53"),
        ("max_usd_per_month = -1", "max_usd_per_month", "above 0"),
        ("max_price_age = 0", "max_price_age", "greater than or equal to 1"),
        ('max_price_age = "30d"', "max_price_age", "expected a whole number"),
        ("job_items = 1e9", "job_items", "has no effect without deadline"),
        ('deadline = "1h"', "deadline", "has no effect without job_items"),
        ("enabled = 1", "enabled", "expected true or false"),
        ("max_cost = 0.5", "max_cost", "it belongs in [gate]"),
        ("devcies = 1", "devcies", "did you mean 'devices'?"),
        ("prices.rack = {platform = 'l4'}", "prices.rack.usd_per_hour", "or purchase_usd"),
        ("prices.rack = {platform = 'l4', usd_per_hour = 1e308}", "prices.rack.usd_per_hour", "1e-09 to 1e+12"),
        ("prices.rack = {platform = 'l4', usd_per_hour = 1e-320}", "prices.rack.usd_per_hour", "out of range"),
        ("prices.rack = {platform = 'l4', usd_per_hour = 1, share = 1e300}", "prices.rack.share", "0.0001 to 64"),
        ("prices.rack = {platform = 'l4', usd_per_hour = 1, memory = '1e300TB'}", "prices.rack.memory", "range"),
        ("prices.rack = {platform = 'l4', usd_per_hour = 1, count = 4097}", "prices.rack.count", "from 1 to 4096"),
        ("prices.rack = {platform = 'l4', purchase_usd = 1, duty = 1e-300}", "prices.rack.duty", "0.01 % to 100 %"),
        ("prices.rack = {platform = 'l4', purchase_usd = 1, lifetime_years = 1e300}", "prices.rack.lifetime_years", ""),
        ("price_factor = {aws = 1e308}", "price_factor.aws", "0.001 to 1000"),
        ("egress_usd_per_gib = {aws = 1e308}", "egress_usd_per_gib.aws", "out of range"),
        ("max_usd_per_hour = 1e-300", "max_usd_per_hour", "out of range"),
        ("min_throughput = 1e300", "min_throughput", "out of range"),
        ('max_step_time = "1e-300ns"', "max_step_time", "at least 1 ns"),
        ("runner = 1e300", "runner", "is no runner"),
        ("prices.rack = {usd_per_hour = 1}", "prices.rack.platform", "missing"),
        ("prices.'a b' = {platform = 'l4', usd_per_hour = 1}", 'prices."a b"', "no name for a machine"),
        ("prices.rack = {platform = 'l4', usd_per_hour = 1, purchase_usd = 1}", "prices.rack.purchase_usd", "exclude"),
        ("prices.rack = {platform = 'l4', usd_per_hour = 1, duty = 1}", "prices.rack.duty", "made from purchase_usd"),
        ("prices.rack = {platform = 'l4', purchase_usd = 1, usd_per_kwh = 1}", "prices.rack.power_w", "needs it"),
        (
            "prices.rack = {platform = 'l4', usd_per_hour=1, date = 2026-11-30T01:00:00}",
            "prices.rack.date",
            "no date",
        ),
        ("prices.rack = {platform = 'l4', usd_per_hour = 1, date = '2026-02-30'}", "prices.rack.date", "no date"),
        ("prices.rack = {platform = 'l4', usd_per_hour = 1, prise = 2}", "prices.rack.prise", "known here: platform"),
        ("price_factor = {aws = 0}", "price_factor.aws", "not a factor"),
        ("price_factor = {'a ws' = 1}", 'price_factor."a ws"', "names no offer"),
        ("egress_usd_per_gib = {aws = -1}", "egress_usd_per_gib.aws", "at least 0"),
        ("egress_usd_per_gib = {'aws/x' = 1}", 'egress_usd_per_gib."aws/x"', "names no provider"),
    ],
)
def test_cost__wrong_values(lines, key, part):
    [(where, text)] = problems(f"[cost]\n{lines}\n").items()
    assert where == f"cost.{key}"
    assert part in text


@pytest.mark.parametrize(
    ("lines", "key", "part"),
    [
        ('volume = "40M steps"', "cost.volume", "write it as '40M steps/month'"),
        ('volume = "0 steps/month"', "cost.volume", "out of range"),
        ("volume = 40e6", "cost.volume", "is no volume"),
        ('runner = "aws/x"', "cost.runner", "it belongs in [cost]"),
        ("max_usd_per_month = 5", "cost.max_usd_per_month", "has no effect without volume"),
        ("job_items = 5", "cost.job_items", "has no effect without deadline"),
    ],
)
def test_cost__wrong_model(lines, key, part):
    [(where, text)] = problems(f"{MODEL}[models.net.cost]\n{lines}\n").items()
    assert where == f"models.net.{key}"
    assert part in text


def test_cost__a_deadline_for_all_models_and_items_of_each():
    text = f'[cost]\ndeadline = "2 weeks"\n{MODEL}cost.job_items = 9\n'
    assert config(text).policy.cost.of("net") == Requirements(deadline_s=14 * 86400.0, job_items=9.0)


def test_limits__on_cost_are_those_of_any_metric():
    policy = config(f"""
[gate]
max_cost = 0.5
limits = {{cost = "2%"}}
{MODEL}
max_monthly_cost = 900
limits = {{monthly_cost = "5%"}}
cost.volume = "1M steps/day"
""").policy
    assert (policy.limits.ceilings, policy.limits.relative) == ({"cost": 0.5}, {"cost": 0.02})
    assert (policy.models["net"].ceilings, policy.models["net"].relative) == (
        {"monthly_cost": 900.0},
        {"monthly_cost": 0.05},
    )


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"{MODEL}max_monthly_cost = 5\n", "models.net.max_monthly_cost"),
        (f"{MODEL}[models.net.on.l4]\nmax_monthly_cost = 5\n", "models.net.on.l4.max_monthly_cost"),
        (f"[gate]\nlimits.monthly_cost = '1%'\n{MODEL}", "gate.limits.monthly_cost"),
    ],
)
def test_limits__on_a_month_need_a_volume(text, key):
    [(where, reason)] = problems(text).items()
    assert where == key
    assert 'write volume = "40M steps/month"' in reason


def test_limits__on_cost_contradict_a_cost_that_is_off():
    found = problems(f"[gate]\nlimits.cost = '1%'\n[gate.on.l4]\nmax_cost = 1\n[cost]\nenabled = false\n{MODEL}")
    assert found.keys() == {"gate.limits.cost", "gate.on.l4.max_cost"}
    assert config(f"[gate]\nlimits.cost = false\n[cost]\nenabled = false\n{MODEL}").policy.cost.enabled is False


def test_effective__shows_tables_with_names():
    text = f"[cost]\nrunner = 0.5\nprices.rack = {{platform = 'l4', purchase_usd = 1, date = 2026-01-02}}\n{MODEL}"
    rows = {row.key: row.value for row in effective(config(text + "cost.volume = '1 items/s'\n"))}
    assert rows["cost.runner"] == "0.5"
    assert rows["cost.percentile"] == '"p50"'
    assert rows["cost.prices.rack.date"] == '"2026-01-02"'
    assert rows["cost.prices.rack.duty"] == "1.0"
    assert rows["models.net.cost.volume"] == '"1 items/s"'
    # What a model leaves out it inherits, so no default stands there.
    assert "models.net.cost.percentile" not in rows


_SCALARS = st.booleans() | st.integers(-9, 9) | st.floats() | st.sampled_from(["", "1%", "all", "aws/x", "1 items/s"])
_KEYS = st.sampled_from(
    ["cost", *cost_schema.CostTable.model_fields, *cost_schema.OwnPriceTable.model_fields, "volume"]
)
_TREES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12
)


def _toml(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


@given(cost=_TREES, model=_TREES)
def test_cost__any_tree_is_a_config_or_a_config_error(cost, model):
    text = f"version = 1\ncost = {_toml(cost)}\n{MODEL}cost = {_toml(model)}\n"
    found: Config | None = None
    wrong: tuple[ConfigProblem, ...] = ()
    try:
        found = load({"perfgate.toml": text}, where="base", sha=None)
    except ConfigError as error:
        wrong = error.problems
    # All else is right, so that what is wrong is said of these two.
    assert all(problem.key.startswith(("cost", "models.net.cost")) for problem in wrong)
    assert wrong if found is None else set(found.policy.cost.models) <= {"net"}
