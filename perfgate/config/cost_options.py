"""Floor 2, config. Options of ``perfgate cost`` in; requirements and volume out, by the readers of ``[cost]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from perfgate.config import cost_build, cost_schema, problems
from perfgate.errors import ConfigError
from perfgate.records.cost import Requirements, Volume

_COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """``volume`` None: none was given."""

    requirements: Requirements
    volume: Volume | None


def read(given: Mapping[str, object], inherited: Requirements) -> CostOptions:
    """``inherited`` with ``given`` (keys of ``[cost]``, and ``volume``) in place of it.

    Raises ConfigError with every problem, each under its option's name (``--max-step-time``).
    """
    try:
        table = cost_schema.ModelCostTable.model_validate(dict(given))
    except ValidationError as error:
        found = problems.from_validation(error, file=_COMMAND_LINE, root=cost_schema.ModelCostTable)
        raise ConfigError(tuple(replace(one, key=_option(one.key)) for one in found)) from None
    return CostOptions(requirements=cost_build.requirements(table, inherited), volume=table.volume)


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"
