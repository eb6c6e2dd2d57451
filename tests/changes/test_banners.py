"""Sentences on differences between base's and head's configuration."""

from __future__ import annotations

from perfgate.changes.banners import differences
from perfgate.config.load import Config, load

BASE = """
version = 1
pythonpath = ["src"]
[gate]
tolerance = "3%"
[models.net]
entry = "pkg:net"
inputs = ["float32[batch,3]"]
batch = [1, 32]
"""


def config(text: str, where: str = "head") -> Config:
    loaded = load({"perfgate.toml": text}, where=where, sha=None)
    assert loaded is not None
    return loaded


def against_base(*replacements: tuple[str, str], more: str = "") -> tuple[str, ...]:
    text = BASE
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return differences(config(BASE, "base"), config(text + more))


def test_differences__none():
    assert against_base() == ()
    assert differences(None, None) == ()


def test_differences__policy_is_bases():
    assert against_base(('"3%"', '"30%"\nbudget = "1h"\nlimits = {flop = false}\nmax = "1s"')) == (
        (
            "This pull request changes the gate's policy (gate.tolerance, gate.budget, gate.limits, gate.max); "
            "base's policy is applied."
        ),
    )


def test_differences__bounds_of_a_model_are_policy():
    assert against_base(more='max = "20ms"\n') == (
        "This pull request changes the gate's policy (bounds of models.net); base's policy is applied.",
    )


def test_differences__models_by_key():
    assert against_base(("[1, 32]", "1"), ("batch,3", "batch,1")) == (
        (
            "The configuration of model net differs: inputs (base float32[batch,3], head float32[batch,1]), "
            "batch (base 1, 32, head 1); each side ran with its own."
        ),
    )


def test_differences__models_gone_and_new():
    assert against_base(("[models.net]", "[models.other]")) == (
        "Model net is gone from head's configuration.",
        "Model other is new in head's configuration.",
    )


def test_differences__how_a_side_runs():
    assert against_base(('["src"]', '["lib"]\nsetup = "make\\nvenv"')) == (
        "pythonpath differs: base src, head lib; each side ran with its own.",
        "setup differs: base none, head make venv; each side ran with its own.",
    )


def test_differences__a_side_without_configuration():
    [added] = differences(None, config(BASE))
    assert "Gating starts after this is merged" in added
    [removed] = differences(config(BASE, "base"), None)
    assert "removes the perfgate configuration" in removed


def test_differences__long_values_are_cut():
    [text] = against_base(("float32[batch,3]", "float32[" + "batch," * 50 + "3]"))
    assert len(text) < 250


def test_differences__formulas_count_both_sides_alike():
    given = '[operators]\n"mylib::fused" = "1"\n'
    [sentence] = differences(config("version = 1\n"), config("version = 1\n" + given))
    assert sentence.startswith("[operators] differs: base none, head mylib::fused = 1; both sides are counted with")
