"""docs/configuration.md, the schema and the registry of metrics agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

from perfgate.config import cost_schema, inputs, schema, values
from perfgate.config.load import load
from perfgate.records import metrics

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<key>[\w.]+)` \| (?P<kind>[^|]+) \| (?P<default>[^|]+) \| (?P<meaning>[^|]+) \|$", re.M)


def documented() -> dict[str, tuple[str, str]]:
    return {match["key"]: (match["kind"], match["default"]) for match in ROW.finditer(PAGE)}


def in_schema() -> dict[str, tuple[str, str]]:
    """Key -> (kind, default as documented)."""
    rows = {}
    # Bounds are documented once, for ``gate``, and requirements once, for ``cost``.
    shared = {f"models.NAME.cost.{name}" for name in schema.names(cost_schema.RequirementKeys)}
    shared |= {
        f"{place}.{name}"
        for place in ("gate.on.HARDWARE", "models.NAME", "models.NAME.on.HARDWARE")
        for name in _bounds()
    }
    for key in schema.all_keys():
        name = ".".join(key.path)
        if name in shared:
            continue
        default = "none" if key.default is None else f"`{json.dumps(key.default)}`"
        if name.endswith(".METRIC"):
            default = "see below"
        rows[name] = (key.kind, "required" if key.required else default)
    return rows


def _bounds() -> set[str]:
    return {"limits.METRIC" if name == "limits" else name for name in schema.names(schema.Bounds)}


def test_page__has_every_key_with_its_kind_and_default():
    assert documented() == in_schema()


def test_page__names_every_metric_that_can_be_gated_with_its_default():
    table = PAGE[PAGE.index("| metric | limit without a key |") :].split("\n\n")[0]
    rows = {name: row for row in table.splitlines()[2:] for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])}
    assert rows.keys() == set(values.gateable())
    for name in rows:
        limit = metrics.METRICS[name].default_limit
        expected = "shown" if limit is None else "tolerance" if limit == 0.03 else f"{100 * limit:g} %"
        assert expected in rows[name]


def test_page__its_examples_are_accepted():
    model = 'version = 1\n[models.m]\nentry = "a:b"\n'
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 5
    for block in blocks:
        if block.startswith("inputs"):
            texts = [model + line for line in block.strip().splitlines()]
        elif block.startswith("version"):
            texts = [block]
        else:
            entry = 'entry = "a:b"\ninputs = ["float32[batch]"]\n'
            table = "[models.resnet50]\n"
            given = table in block
            texts = ["version = 1\n" + (block.replace(table, table + entry) if given else table + entry + block)]
        for text in texts:
            assert load({"perfgate.toml": text}, where="base", sha=None) is not None


def test_page__names_every_dtype_and_later_key():
    assert all(name in PAGE for name in (*values.FLOATING, *values.AUTOCAST))
    assert all(f"`{name}`" in PAGE or f"`[{name}]`" in PAGE for name in schema.LATER)


def test_schema__has_a_ceiling_for_every_metric_that_can_be_gated():
    ceilings = {name.removeprefix("max_") for name in schema.Bounds.model_fields if name.startswith("max_")}
    assert ceilings == set(values.gateable())


def test_schema__ceilings_have_the_unit_of_the_metric():
    kinds = {"ns": "duration", "byte": "size", "joule": "energy", "flop": "number", "count": "number"}
    kinds["usd"] = "US dollars"
    for name in values.gateable():
        info = schema.Bounds.model_fields[f"max_{name}"]
        extra = info.json_schema_extra
        assert isinstance(extra, dict)
        assert extra["kind"] == kinds[metrics.METRICS[name].unit]


def test_inputs__dtypes_are_distinct():
    assert len(set(inputs.DTYPES)) == len(inputs.DTYPES)
