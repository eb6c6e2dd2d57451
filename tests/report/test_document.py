from __future__ import annotations

import json
import math

import jsonschema
import pytest

from perfgate import wire
from perfgate.records.evidence import Measurements
from perfgate.records.report import Report
from perfgate.report import schemas
from perfgate.report.document import report_json
from tests.report.builders import exact, model, report
from tests.report.forms import FORMS
from tests.report.hostile import hostile
from tests.report.test_escape import HOSTILE


def schema(name: str) -> jsonschema.Draft202012Validator:
    text = (schemas.FOLDER / name).read_text(encoding="utf-8")
    tree = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(tree)
    return jsonschema.Draft202012Validator(tree)


def numbers(tree: object) -> list[float]:
    if isinstance(tree, dict):
        return [number for value in tree.values() for number in numbers(value)]
    if isinstance(tree, list):
        return [number for value in tree for number in numbers(value)]
    return [float(tree)] if isinstance(tree, (int, float)) and not isinstance(tree, bool) else []


@pytest.mark.parametrize("form", FORMS)
def test_report_json__validates_and_reads_back(form):
    judged = FORMS[form]()[0]
    text = report_json(judged)
    tree = json.loads(text)
    schema("report.schema.json").validate(tree)
    assert all(math.isfinite(number) for number in numbers(tree))
    assert wire.loads(Report, text) == judged


@pytest.mark.parametrize("form", FORMS)
def test_measurements__validate_and_read_back(form):
    evidence = FORMS[form]()[1]
    text = wire.dumps(evidence)
    schema("measurements.schema.json").validate(json.loads(text))
    assert wire.loads(Measurements, text) == evidence


def test_report_json__has_the_promised_keys():
    tree = json.loads(report_json(FORMS["regression"]()[0]))
    assert tree["format"] == 1
    assert {"verdict", "base", "head", "environment", "models", "estimator", "cost", "placement"} <= set(tree)
    assert (tree["estimator"], tree["cost"], tree["placement"]) == (None, None, None)
    assert len(tree["base"]["sha"]) == 40
    entry = tree["models"][0]
    assert {"model", "key", "workload", "metrics", "reasons"} <= set(entry)
    assert set(entry["workload"]) == {"mode", "batch", "dtype", "device", "compile"}
    wanted = {"metric", "kind", "unit", "base", "head", "ratio", "ci_low", "ci_high", "limit", "verdict", "pairs"}
    assert all(wanted <= set(metric) for metric in entry["metrics"])
    assert {metric["kind"] for metric in entry["metrics"]} == {"noisy", "exact", "shown"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_report_json__refuses_what_is_not_finite(value):
    with pytest.raises(ValueError, match="JSON"):
        report_json(report(model("m", exact("flop", 1.0, value))))


@pytest.mark.parametrize("name", HOSTILE)
def test_report_json__holds_hostile_texts_unchanged(name):
    judged = hostile(HOSTILE[name])
    text = report_json(judged)
    assert json.loads(text.encode("utf-8"))["title"] == HOSTILE[name]


def test_schema__refuses_an_unknown_key_and_a_text_for_a_number():
    validator = schema("report.schema.json")
    tree = json.loads(report_json(FORMS["regression"]()[0]))
    assert validator.is_valid(tree)
    assert not validator.is_valid({**tree, "surprise": 1})
    tree["models"][0]["metrics"][0]["head"] = "NaN"
    assert not validator.is_valid(tree)


@pytest.mark.parametrize("name", ["report.schema.json", "measurements.schema.json"])
def test_schemas__in_the_package_are_up_to_date(name):
    stored = (schemas.FOLDER / name).read_text(encoding="utf-8")
    assert stored == schemas.texts()[name], "run: python -m perfgate.report.schemas"
