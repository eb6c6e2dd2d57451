"""The codec: what is written can be read, and what does not fit is refused with its place."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate import wire
from perfgate.records import protocol
from perfgate.records.evidence import Measurements, SideEvidence
from perfgate.records.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    name: str
    values: tuple[int, ...] = ()
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    kind: Literal["a", "b"]
    leaves: dict[str, Leaf] = field(default_factory=dict)
    free: object = None


leaves = st.builds(
    Leaf,
    name=st.text(max_size=20),
    values=st.lists(st.integers(-(2**62), 2**62), max_size=5).map(tuple),
    share=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
trees = st.builds(Tree, kind=st.sampled_from(["a", "b"]), leaves=st.dictionaries(st.text(max_size=5), leaves))


@given(trees)
def test_loads__reads_what_dumps_wrote(tree: Tree) -> None:
    assert wire.loads(Tree, wire.dumps(tree)) == tree


def test_dumps__undecodable_bytes_of_a_name_are_kept() -> None:
    leaf = Leaf(name=b"caf\xe9 \xf0\x9f\x98\x80".decode("utf-8", "surrogateescape"))
    assert wire.loads(Leaf, wire.dumps(leaf).encode("utf-8")) == leaf


@given(trees)
def test_schema__accepts_what_dumps_wrote(tree: Tree) -> None:
    schema = wire.schema(Tree, title="tree")
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    assert list(validator(schema).iter_errors(json.loads(wire.dumps(tree)))) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"name": 1}', "name"),
        ('{"name": "x", "extra": 1}', "extra"),
        ('{"values": []}', "name"),
        ('{"name": "x", "values": [1, 2.5]}', "values[1]"),
        ('{"name": "x", "values": [true]}', "values[0]"),
        ('{"name": "x", "share": NaN}', "$"),
        ('{"name": "x", "share": 1e999}', "share"),
        ('{"name": "x", "values": [99999999999999999999]}', "values[0]"),
        ('{"name": "x", "name": "y"}', "$"),
        ("[", "$"),
        ('"' + "x" * 70_000 + '"', "$"),
    ],
)
def test_loads__names_the_place_of_a_fault(text: str, place: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.loads(Leaf, text)
    assert caught.value.path == place


def test_loads__refuses_deep_nesting() -> None:
    text = '{"kind": "a", "free": ' + "[" * 500 + "]" * 500 + "}"
    with pytest.raises(wire.WireError, match="deep"):
        wire.loads(Tree, text)


def test_dumps__refuses_what_is_not_finite() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        wire.dumps(Leaf(name="x", share=float("nan")))


def test_from_tree__tells_messages_apart_by_type() -> None:
    message = protocol.Time(samples=3)
    request: Any = protocol.ChildRequest
    reply: Any = protocol.ChildReply
    assert wire.from_tree(request, wire.tagged(message)) == message
    with pytest.raises(wire.WireError, match="none of"):
        wire.from_tree(reply, {"type": "Time"})


@pytest.mark.parametrize("cls", [Measurements, Report, SideEvidence])
def test_schema__is_valid_itself(cls: type) -> None:
    jsonschema.Draft202012Validator.check_schema(wire.schema(cls, title="x"))
