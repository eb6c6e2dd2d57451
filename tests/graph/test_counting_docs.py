from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfgate import expressions
from perfgate.graph import summary
from perfgate.graph.build import build
from perfgate.graph.operators import definition
from tests.graph.book import Book

PAGE = (Path(__file__).parents[2] / "docs" / "counting.md").read_text(encoding="utf-8")


def test_page__names_every_key_of_the_json():
    found = summary.tree(Book().graph())
    words = set(re.findall(r"`(\w+)`", PAGE))
    nested = [key for value in found.values() if isinstance(value, dict) for key in value]
    assert words >= {*found, *nested}


def test_page__names_every_kind():
    kinds = {value for name, value in vars(definition).items() if name.isupper() and isinstance(value, str)}
    assert len(kinds) > 15
    assert set(re.findall(r"`(\w+)`", PAGE)) >= kinds


def test_page__its_formula_counts():
    ((op, text),) = re.findall(r'^"(\w+::\w+)" = "(.*)"$', PAGE, re.MULTILINE)
    book = Book()
    x, first, second = book.value(8, 16), book.value(64, 16), book.value(16, 64)
    book.call(op, {"x": x, "w1": first, "w2": second}, book.value(8, 16))
    # Two layers of 16 x 64 on 8 items.
    assert build(book.trace(), {op: text}).totals.flop == 2 * 2 * 8 * 16 * 64


@pytest.mark.parametrize(
    "text", ["x[0]", "x[-1]", "numel(x)", "min(x[0], 2)", "max(x[0], 2)", "(1 + 2 - 1) * 6 / 3 // 2 % 5 ** 2"]
)
def test_page__what_it_says_of_the_grammar_holds(text):
    assert expressions.parse(text).value({"x": (3, 4)}) >= 0
