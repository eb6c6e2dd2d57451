"""Floor 2, config. The shape of ``[cost]``, of ``[models.NAME.cost]``, and of a file of private prices.

In: nothing. Out: the pydantic tables. A model's table has the requirements of ``[cost]`` without their defaults:
what it leaves out, it inherits.
"""

from __future__ import annotations

from perfgate.config import cost_values as c
from perfgate.config import values as v
from perfgate.config.tables import REQUIRED, Table, key


class RequirementKeys(Table):
    """What a configuration must meet; the same keys in ``[cost]`` and in a model's ``cost`` table."""

    devices: c.Platforms = key(None, "`all` or list of platforms", "platforms that are considered")
    providers: c.Providers = key(None, "`all` or list of providers", "whose offers are considered")
    regions: c.Regions = key(None, "`all` or list of regions", "where offers are considered")
    terms: c.AllTerms = key(None, "`all` or list of `on-demand`, `spot`, `own`", "terms of the offers")
    counts: c.Counts = key(None, "`all` or list of whole numbers", "devices in one machine")
    unavailable: c.Offers = key(None, "list of offers or providers", "offers that cannot be had")
    forms: c.Forms = key(None, "`all` or list of `single`, `data`, `tensor`, `pipeline`", "parallel forms")
    objectives: c.Objectives = key(
        None, "list of `cost`, `utilisation`, `time`, `energy`", "what is optimised together"
    )
    max_step_time: c.StepNs | None = key(None, "duration", "limit of the step time")
    percentile: c.Percentile | None = key(None, "`p50`, `p90` or `p99`", "percentile that `max_step_time` is about")
    memory_headroom: c.Headroom | None = key(None, "share", "share of a device's memory that stays free")
    min_throughput: c.Rate | None = key(None, "number", "least items a second of the whole machine")
    min_utilisation: v.Share | None = key(None, "share", "least share of the peak that is used")
    max_usd_per_hour: c.Usd | None = key(None, "US dollars", "the most that one machine may cost an hour")
    max_usd_per_month: c.Usd | None = key(None, "US dollars", "the most that a month may cost at the declared volume")
    job_items: c.Amount | None = key(None, "number", "items of a job that ends")
    deadline: c.DeadlineS | None = key(None, "duration", "by when the job has to be done")


class ModelCostTable(RequirementKeys):
    """``[models.NAME.cost]``."""

    volume: c.MonthlyVolume | None = key(None, "volume", "how much is run: steps or items by period")


class OwnPriceTable(Table):
    """``[cost.prices.NAME]``: a machine with a price of the user's own."""

    platform: c.PlatformName = key(REQUIRED, "platform", "what the machine has")
    count: c.DeviceCount = key(1, "whole number", "devices in the machine")
    share: c.Part = key(1.0, "number", "part of one device that the machine has")
    usd_per_hour: c.Usd | None = key(None, "US dollars", "price of the whole machine, an hour")
    region: c.Region | None = key(None, "region", "where it stands")
    memory: c.Memory | None = key(None, "size", "memory of one device")
    date: c.Date | None = key(None, "date", "day of the price")
    purchase_usd: c.Usd | None = key(None, "US dollars", "what the machine cost to buy")
    lifetime_years: c.Years = key(4.0, "number", "years over which the purchase is spread")
    power_w: c.Watt | None = key(None, "number", "watts that the machine draws")
    usd_per_kwh: c.FreeUsd = key(0.0, "US dollars", "price of electricity")
    duty: c.Duty = key(1.0, "share", "share of all hours that the machine works")


class PriceKeys(Table):
    """What the user says of prices: inside of ``[cost]``, and the whole of a private file."""

    prices: dict[c.PriceName, OwnPriceTable] = key({}, "table of name -> table", "machines with a price of one's own")
    price_factor: dict[c.OfferKey, c.Factor] = key(
        {}, "table of provider or offer -> number", "what its list price is multiplied by"
    )
    egress_usd_per_gib: dict[c.ProviderKey, c.FreeUsd] = key(
        {}, "table of provider -> US dollars", "price of traffic that leaves the provider's network"
    )


class CostTable(RequirementKeys, PriceKeys):
    """``[cost]``."""

    enabled: bool = key(default=True, kind="boolean", meaning="say what a step costs")
    runner: c.Runner | None = key(None, "offer or US dollars", "what the measuring machine costs an hour")
    max_price_age: c.Days = key(120, "whole number", "days after which a price is said to be old")

    devices: c.Platforms = key("all", "`all` or list of platforms", "platforms that are considered")
    providers: c.Providers = key("all", "`all` or list of providers", "whose offers are considered")
    regions: c.Regions = key("all", "`all` or list of regions", "where offers are considered")
    terms: c.AllTerms = key(["on-demand", "own"], "`all` or list of `on-demand`, `spot`, `own`", "terms of the offers")
    counts: c.Counts = key("all", "`all` or list of whole numbers", "devices in one machine")
    forms: c.Forms = key("all", "`all` or list of `single`, `data`, `tensor`, `pipeline`", "parallel forms")
    objectives: c.Objectives = key(
        ["cost", "utilisation"], "list of `cost`, `utilisation`, `time`, `energy`", "what is optimised together"
    )
    percentile: c.Percentile | None = key("p50", "`p50`, `p90` or `p99`", "percentile that `max_step_time` is about")
    memory_headroom: c.Headroom | None = key("10%", "share", "share of a device's memory that stays free")
