from __future__ import annotations

import json

from perfgate.graph import summary
from perfgate.graph.build import build
from perfgate.records.graph import INPUT, PARAMETER
from tests.graph.book import Book


def linear() -> Book:
    """Linear 64 -> 32 on 8 items, with its activation by an operator that nobody knows."""
    book = Book()
    x, w, b = book.value(8, 64, role=INPUT), book.value(64, 32, role=PARAMETER), book.value(32, role=PARAMETER)
    y, z = book.value(8, 32), book.value(8, 32)
    book.call("aten::addmm", {"self": b, "mat1": x, "mat2": w}, y, module="fc")
    book.call("mylib::act", {"x": y}, z)
    return book


def test_tree__has_the_keys_that_users_rely_on():
    found = summary.tree(build(linear().trace(results=(4,), parameters=2080, weight_bytes=8320, peak_bytes=2048)))
    assert found["flop"] == 32_768
    assert found["mac"] == 16_384
    assert found["params"] == 2080
    assert found["weight_bytes"] == 8320
    assert found["traffic_bytes"] == {"eager": 11_392 + 2048, "fused": 11_392 + 2048, "min": 11_392}
    assert found["intensity"] == {"eager": 32_768 / 13_440, "fused": 32_768 / 13_440, "max": 32_768 / 11_392}
    assert found["peak_activation_bytes"] == 2048
    assert [entry["name"] for entry in found["operators"]] == ["fc", "/act"]
    assert found["operators"][0]["flop"] == 32_768
    assert found["operators"][1]["flop"] is found["operators"][1]["mac"] is None
    assert [entry["op"] for entry in found["not_counted"]] == ["mylib::act"]
    assert len(found["fingerprint"]) == 64


def test_tree__is_plain_json():
    found = summary.tree(build(linear().trace()))
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_tree__of_a_step_that_moves_nothing_has_no_intensity():
    found = summary.tree(Book().graph())
    assert found["intensity"] == {"eager": None, "fused": None, "max": None}
    assert found["peak_activation_bytes"] is None


def test_mac__rounds_an_odd_count_down():
    assert summary.mac(7) == 3
