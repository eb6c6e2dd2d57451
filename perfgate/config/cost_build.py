"""Floor 2, config. Validated ``[cost]`` tables in, the records that travel out: ``CostPolicy`` and ``Prices``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfgate.config import cost_schema
from perfgate.records.cost import CostPolicy, ModelCost, OwnPrice, Prices, Requirements

# Keys whose record field is called otherwise.
_FIELDS = {"max_step_time": "max_step_ns", "deadline": "deadline_s"}


def policy(table: cost_schema.CostTable, models: Mapping[str, cost_schema.ModelCostTable]) -> CostPolicy:
    """``[cost]`` with the models' own ``cost`` tables."""
    shared = requirements(table, Requirements())
    return CostPolicy(
        enabled=table.enabled,
        requirements=shared,
        models={name: _model(model, shared) for name, model in models.items() if model.model_fields_set},
        prices=prices(table, max_age_days=table.max_price_age),
        runner=table.runner or "",
    )


def requirements(table: cost_schema.RequirementKeys, inherited: Requirements) -> Requirements:
    """``inherited`` with what ``table`` gives in place of it."""
    given = table.model_fields_set & cost_schema.RequirementKeys.model_fields.keys()
    return replace(inherited, **{_FIELDS.get(name, name): _value(getattr(table, name)) for name in given})


def prices(table: cost_schema.PriceKeys, *, max_age_days: int = Prices().max_age_days) -> Prices:
    """Own prices, factors and egress."""
    return Prices(
        own=tuple(_own(name, item) for name, item in table.prices.items()),
        factors=dict(table.price_factor),
        egress_usd_per_gib=dict(table.egress_usd_per_gib),
        max_age_days=max_age_days,
    )


def _model(table: cost_schema.ModelCostTable, shared: Requirements) -> ModelCost:
    own = requirements(table, shared)
    return ModelCost(requirements=None if table.model_fields_set == {"volume"} else own, volume=table.volume)


def _value(value: Any) -> Any:
    # "all" is read as None, and a record says "no such constraint" by an empty tuple.
    return tuple(value or ()) if value is None or isinstance(value, list) else value


def _own(name: str, table: cost_schema.OwnPriceTable) -> OwnPrice:
    return OwnPrice(
        name=name,
        platform=table.platform,
        count=table.count,
        share=table.share,
        usd_per_hour=table.usd_per_hour,
        region=table.region or "",
        memory_bytes=None if table.memory is None else round(table.memory),
        date=table.date or "",
        purchase_usd=table.purchase_usd,
        lifetime_years=table.lifetime_years,
        power_w=table.power_w,
        usd_per_kwh=table.usd_per_kwh,
        duty=table.duty,
    )
