"""Formulas of users: arithmetic only, and one clear sentence for everything else."""

import pytest

from perfgate import expressions

NAMES: dict[str, expressions.Given] = {"out0": (2, 3, 4), "weight": (5, 6), "groups": 2, "x": ()}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * numel(out0) * weight[1]", 2 * 24 * 6),
        ("2 * numel(out0) * weight[-1] // groups", 144),
        ("max(out0) + min(weight) - 1", 8),
        ("numel(x)", 1),
        ("10 % 4 + 2 ** 3", 10),
        ("3 / 2", 2),
        (" 7 ", 7),
        ("-3 + 5", 2),
        ("max(1, out0[0], groups)", 2),
        ("1e9", 10**9),
    ],
)
def test_value__is_plain_arithmetic(text, value):
    assert expressions.parse(text).value(NAMES) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "__import__('os').system('true')",
        "x.__class__",
        "[1, 2][0]",
        "(lambda: 1)()",
        "a if b else c",
        "f'{x}'",
        "True",
        "'text'",
        "numel(*x)",
        "numel()",
        "max(key=3)",
        "sum(out0)",
        "1 < 2",
        "not 1",
        "1; 2",
        "x = 1",
        "(" * 500,
        "1" * 2000,
        "1j",
    ],
)
def test_parse__anything_but_arithmetic_is_refused(text):
    with pytest.raises(ValueError, match=r"formula|allowed|longer"):
        expressions.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("unknown * 2", "there is no 'unknown'; known are groups, out0"),
        ("out0 * 2", "'out0' is a shape where a number is due"),
        ("weight[2]", "no such size"),
        ("weight[-3]", "no such size"),
        ("groups[0]", "no such size"),
        ("weight[0.5]", "no such size"),
        ("1 / 0", "divides by zero"),
        ("1 % 0", "divides by zero"),
        ("9 ** 9 ** 9 ** 9", "exponent"),
        ("0 - 5", "no count"),
        ("9 ** 8 * 9 ** 8 * 9 ** 8", "no count"),
        ("1e308 * 10", "no count"),
        ("out0[0] ** -9", "exponent"),
        ("(0 - 8) ** 0.5", "no count"),
        ("numel(" + ", ".join(["9 ** 8"] * 60) + ") / 3", "no count"),
    ],
)
def test_value__says_what_is_wrong(text, said):
    with pytest.raises(ValueError, match=r".") as caught:
        expressions.parse(text).value(NAMES)
    assert said in str(caught.value)
