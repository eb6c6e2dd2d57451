"""Floor 2, config. What must hold between the keys of ``[cost]``, checked on the raw tables.

In: the whole file as TOML gave it, or the tables of prices alone. Out: ``(place, reason, hint)`` of every broken
relation; see :mod:`perfgate.config.relations`. No reason repeats a value: prices may be private.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Loc = tuple[int | str, ...]
Broken = tuple[Loc, str, str]

_ON_PREMISES = ("lifetime_years", "power_w", "usd_per_kwh", "duty")
_PARTNERS = (("job_items", "deadline"), ("deadline", "job_items"))
_VOLUME = 'volume = "40M steps/month"'


def broken(tree: dict[str, Any]) -> Iterator[Broken]:
    """All broken relations of ``[cost]``, the models' ``cost`` tables, and limits on cost."""
    shared = _table(tree, "cost")
    models = {name: model for name, model in _table(tree, "models").items() if isinstance(model, dict)}
    yield from of_prices(shared, ("cost",))
    yield from _jobs(shared, {name: _table(model, "cost") for name, model in models.items()})
    yield from _months(_table(tree, "gate"), models)
    if shared.get("enabled") is False:
        for place in _limits(tree, models, ("cost", "monthly_cost")):
            yield place, "has no effect while cost.enabled is false", "remove one of the two"


def of_prices(tree: dict[str, Any], place: Loc) -> Iterator[Broken]:
    """Every own machine has a price: either one an hour, or what it cost to buy."""
    for name, price in _table(tree, "prices").items():
        if not isinstance(price, dict):
            continue
        here = (*place, "prices", name)
        if "usd_per_hour" not in price and "purchase_usd" not in price:
            hint = "write it, or purchase_usd for a machine on premises"
            yield (*here, "usd_per_hour"), "missing", hint
        elif "usd_per_hour" in price and "purchase_usd" in price:
            yield (*here, "purchase_usd"), "usd_per_hour and purchase_usd exclude each other", "keep one of them"
        elif "usd_per_hour" in price:
            for key in _ON_PREMISES:
                if key in price:
                    reason = "belongs to a price that is made from purchase_usd"
                    yield (*here, key), reason, "remove it, or write purchase_usd in place of usd_per_hour"
        elif "usd_per_kwh" in price and "power_w" not in price:
            yield (*here, "power_w"), "missing, and usd_per_kwh needs it", "write the machine's power in watts"


def _jobs(shared: dict[str, Any], models: dict[str, dict[str, Any]]) -> Iterator[Broken]:
    """A job has items and a deadline; one of them may stand in ``[cost]`` and the other in the models."""
    for key, partner in _PARTNERS:
        if key in shared and partner not in shared and not any(partner in own for own in models.values()):
            yield ("cost", key), f"has no effect without {partner}", f"write {partner} too"
        for name, own in models.items():
            if key in own and partner not in own and partner not in shared:
                yield ("models", name, "cost", key), f"has no effect without {partner}", f"write {partner} too"


def _months(gate: dict[str, Any], models: dict[str, dict[str, Any]]) -> Iterator[Broken]:
    """What is said of a month needs to know how much is run in it."""
    silent = {name: model for name, model in models.items() if "volume" not in _table(model, "cost")}
    for name, model in silent.items():
        if "max_usd_per_month" in _table(model, "cost"):
            yield ("models", name, "cost", "max_usd_per_month"), "has no effect without volume", f"write {_VOLUME}"
        for place in _limits_of(model, ("models", name), ("monthly_cost",)):
            yield place, "has no effect without a volume", f"write {_VOLUME} in [models.{name}.cost]"
    if len(silent) == len(models):
        for place in _limits_of(gate, ("gate",), ("monthly_cost",)):
            yield place, "has no effect, since no model has a volume", f"write {_VOLUME} in [models.NAME.cost]"


def _limits(tree: dict[str, Any], models: dict[str, dict[str, Any]], metrics: tuple[str, ...]) -> Iterator[Loc]:
    yield from _limits_of(_table(tree, "gate"), ("gate",), metrics)
    for name, model in models.items():
        yield from _limits_of(model, ("models", name), metrics)


def _limits_of(table: dict[str, Any], place: Loc, metrics: tuple[str, ...]) -> Iterator[Loc]:
    """Where ``table``, or its ``on`` tables, put a limit or a ceiling on one of ``metrics``."""
    for metric in metrics:
        if f"max_{metric}" in table:
            yield (*place, f"max_{metric}")
        if _table(table, "limits").get(metric, False) is not False:
            yield (*place, "limits", metric)
    for name, below in _table(table, "on").items():
        if isinstance(below, dict):
            yield from _limits_of(below, (*place, "on", name), metrics)


def _table(tree: dict[str, Any], key: str) -> dict[str, Any]:
    found = tree.get(key)
    return found if isinstance(found, dict) else {}
