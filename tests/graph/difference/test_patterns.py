from __future__ import annotations

import pytest

from perfgate.graph.difference.patterns import listed, pattern


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["layer3.0.conv2", "layer3.1.conv2"], "layer3.*.conv2"),
        (["layer1.0.conv2", "layer3.1.conv2"], "layer*.conv2"),
        (["conv1", "layer1.0.conv1"], "*.conv1"),
        (["layer3.0/add_", "layer3.0.conv1"], "layer3.0.*"),
        (["layer3.0/add_", "layer3.1/add_"], "layer3.*/add_"),
        (["block/relu", "block/relu#2", "block/relu#13"], "block/relu"),
        (["layer1", "layer10"], "layer*"),
        (["a", "b"], "*"),
        (["/add", "/mul"], "*"),
        (["same", "same"], "same"),
    ],
)
def test_pattern__stands_for_what_differs(names, expected):
    assert pattern(names) == expected


def test_pattern__inside_asks_for_a_common_container():
    assert pattern(["conv1", "layer1.0.conv1"], inside=True) == "*"
    assert pattern(["layer1.conv", "layer1.bn"], inside=True) == "layer1.*"


def test_listed__names_the_first_where_nothing_is_common():
    assert listed(["stem", "body.0", "head", "tail"]) == "stem, body.0, head, …"
    assert listed(["stem", "body.0"]) == "stem, body.0"
    assert listed(["l.0.a", "l.1.a"]) == "l.*.a"
