"""Loading a text, and what is wrong with it, for the tests of loading."""

from __future__ import annotations

import pytest

from perfgate.config.load import load
from perfgate.errors import ConfigError

SHA = "a04be77" + "0" * 33
MODEL = '[models.net]\nentry = "pkg.models:net"\ninputs = ["float32[batch,3]"]\n'


def config(text: str, name: str = "perfgate.toml"):
    loaded = load({name: text}, where="base", sha=SHA)
    assert loaded is not None
    return loaded


def problems(text: str, name: str = "perfgate.toml") -> dict[str, str]:
    """Key -> "reason (hint)" of everything wrong with the text."""
    with pytest.raises(ConfigError) as caught:
        load({name: text}, where="base", sha=SHA)
    return {problem.key: f"{problem.reason} ({problem.hint})" for problem in caught.value.problems}


def gate(lines: str) -> dict[str, str]:
    return problems(f"version = 1\n[gate]\n{lines}\n")


def model(lines: str) -> dict[str, str]:
    return problems(f"version = 1\n[models.net]\n{lines}\n")
