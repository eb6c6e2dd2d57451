"""``[operators]``: formulas of custom operators, and ``entry`` as an ONNX file."""

import pytest

from perfgate.config import load as loading
from perfgate.errors import ConfigError

MODEL = '\n[models.net]\nentry = "a.b:c"\ninputs = ["float32[1]"]\n'


def load(text: str):
    config = loading.load({"perfgate.toml": "version = 1\n" + text + MODEL}, where="head", sha=None)
    assert config is not None
    return config


def test_operators__travel_with_the_side():
    config = load('[operators]\n"mylib::fused" = "2 * numel(x) * w[0]"\n')
    assert config.side.operators == {"mylib::fused": "2 * numel(x) * w[0]"}


@pytest.mark.parametrize(
    ("line", "key", "said"),
    [
        ('"mylib::fused" = "import os"', "operators.mylib::fused", "no formula"),
        ('"mylib::fused" = "x.shape[0]"', "operators.mylib::fused", "not allowed"),
        ('fused = "1"', "operators.fused", "namespace::operator"),
        ('"my lib::fused" = "1"', "operators.my lib::fused", "namespace::operator"),
        ('"mylib::fused" = 3', "operators.mylib::fused", "expected a text"),
    ],
)
def test_operators__wrong_ones_are_named(line, key, said):
    with pytest.raises(ConfigError) as caught:
        load(f"[operators]\n{line}\n")
    [problem] = caught.value.problems
    assert problem.key.replace('"', "").startswith(key)
    assert said in f"{problem.reason} {problem.hint}"
