"""Floor 3, changes. Sentences on what differs between base's and head's configuration.

In: both configurations. Out: sentences to put above the table, since base's policy is applied and each
side ran with its own models' configuration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from perfgate.config.load import Config
from perfgate.records.policy import Policy
from perfgate.records.workload import ModelSpec, SideConfig

# Where a policy came from is no rule of it.
_NO_RULE = frozenset({"source", "sha", "has_base", "models", "limits", "cost"})
_SHOWN = 60
# Record fields whose key in the file is called otherwise.
_KEYS = {
    "timeout_s": "timeout", "setup_timeout_s": "setup_timeout", "budget_s": "budget", "block_ns": "block",
    "relative": "limits", "ceilings": "max", "metric_modes": "limits (mode)", "hardware": "on",
}  # fmt: skip


def differences(base: Config | None, head: Config | None) -> tuple[str, ...]:
    """All sentences for this pair of configurations; none where they are equal."""
    if base is None and head is not None:
        text = (
            "Base has no perfgate configuration: head's measured both sides, and nothing fails. "
            "Gating starts after this is merged."
        )
        return (text,)
    if head is None and base is not None:
        return ("This pull request removes the perfgate configuration: all its models are missing from head.",)
    if base is None or head is None:
        return ()
    return (*_policy(base.policy, head.policy), *_models(base.side, head.side))


def _policy(base: Policy, head: Policy) -> Iterator[str]:
    """Bounds of a model that head adds or drops are no change of the policy: the model is named by itself."""
    keys = [f"gate.{key}" for key in _differing(base, head, _NO_RULE)]
    keys += [f"gate.{key}" for key in _differing(base.limits, head.limits, frozenset())]
    if dataclasses.replace(base.cost, models={}) != dataclasses.replace(head.cost, models={}):
        keys.append("cost")
    both = base.models.keys() & head.models.keys()
    keys += [f"models.{name}.cost" for name in sorted(both) if base.cost.models.get(name) != head.cost.models.get(name)]
    keys += [f"bounds of models.{name}" for name in sorted(both) if base.models[name] != head.models[name]]
    if keys:
        yield f"This pull request changes the gate's policy ({', '.join(keys)}); base's policy is applied."


def _models(base: SideConfig, head: SideConfig) -> Iterator[str]:
    for name, spec in base.models.items():
        if name not in head.models:
            yield f"Model {name} is gone from head's configuration."
        else:
            yield from _model(name, spec, head.models[name])
    for name in head.models.keys() - base.models.keys():
        yield f"Model {name} is new in head's configuration."
    if base.operators != head.operators:
        yield (
            f"[operators] differs: {_values(base, head, 'operators')}; both sides are counted with base's formulas, "
            "and with head's for operators that base says nothing of and perfgate does not know."
        )
    for key in _differing(base, head, frozenset({"source", "models", "operators"})):
        yield f"{key} differs: {_values(base, head, key)}; each side ran with its own."


def _model(name: str, base: ModelSpec, head: ModelSpec) -> Iterator[str]:
    parts = [f"{key} ({_values(base, head, key)})" for key in _differing(base, head, frozenset({"name"}))]
    if parts:
        yield f"The configuration of model {name} differs: {', '.join(parts)}; each side ran with its own."


def _differing(base: Any, head: Any, ignored: frozenset[str]) -> list[str]:
    names = [field.name for field in dataclasses.fields(base) if field.name not in ignored]
    return [_KEYS.get(name, name) for name in names if getattr(base, name) != getattr(head, name)]


def _values(base: object, head: object, key: str) -> str:
    name = next((field for field, shown in _KEYS.items() if shown == key and hasattr(base, field)), key)
    return f"base {_text(getattr(base, name))}, head {_text(getattr(head, name))}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        text = ", ".join(map(_text, value))
    elif isinstance(value, Mapping):
        text = ", ".join(f"{key} = {_text(item)}" for key, item in value.items())
    else:
        text = str(value)
    text = " ".join(text.split()) or "none"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
