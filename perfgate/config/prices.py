"""Floor 2, config. A file of private prices in, ``Prices`` out; and both kinds of prices merged.

The file has the tables ``[prices.NAME]``, ``[price_factor]`` and ``[egress_usd_per_gib]``, as ``[cost]`` has them. It
never lies in the repository, and messages about it may be public: they name keys and never a value.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from pydantic import ValidationError

from perfgate.config import cost_build, cost_relations, problems
from perfgate.config.cost_schema import PriceKeys
from perfgate.errors import ConfigError, ConfigProblem
from perfgate.records.cost import Prices

_POSITION = re.compile(r"\(at [^()]*\)")


def read(text: str, file: str) -> Prices:
    """The prices in ``text``; ``file`` is its name for messages. ``max_age_days`` is not said there.

    Raises ConfigError with every problem, as :func:`perfgate.config.load.load` does, without any value.
    """
    found: list[ConfigProblem] = []
    tree = _parse(text, file, found)
    table = None if tree is None else _validate(tree, file, found)
    if table is None or found:
        raise ConfigError(tuple(found))
    return cost_build.prices(table)


def merged(public: Prices, private: Prices) -> Prices:
    """Both together. Where they name the same machine, offer or provider, ``private`` wins.

    Machines keep their order, the public ones first; ``max_age_days`` is that of ``public``.
    """
    own = {price.name: price for price in (*public.own, *private.own)}
    return Prices(
        own=tuple(own.values()),
        factors={**public.factors, **private.factors},
        egress_usd_per_gib={**public.egress_usd_per_gib, **private.egress_usd_per_gib},
        max_age_days=public.max_age_days,
    )


def _parse(text: str, file: str, found: list[ConfigProblem]) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # The parser's own words may repeat what stands there; its position does not.
        at = _POSITION.search(str(error))
        reason = f"not TOML {at[0]}" if at else "not TOML"
        found.append(ConfigProblem(file=file, key="TOML", reason=reason, hint="correct the syntax"))
        return None


def _validate(tree: dict[str, Any], file: str, found: list[ConfigProblem]) -> PriceKeys | None:
    table = None
    try:
        table = PriceKeys.model_validate(tree)
    except ValidationError as error:
        found.extend(problems.from_validation(error, file=file, root=PriceKeys, private=True))
    for place, reason, hint in cost_relations.of_prices(tree, ()):
        found.append(problems.problem(file, place, reason, hint))
    return table
