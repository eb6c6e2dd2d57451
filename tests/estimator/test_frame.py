"""The training set as a table, there and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.errors import UsageError
from perfgate.estimator import features, frame
from perfgate.records.estimate import STEP_TIME, TARGETS
from tests.estimator import steps

ROW = {
    "model": "net",
    "machine": "l4",
    "flop_per_s.float32": "30e12",
    "bandwidth_bytes_per_s": "300e9",
    "flop.convolution": "1e9",
    "bytes.convolution": "1e6",
    "calls.convolution": "10",
    "step_time": "2e6",
}


@pytest.fixture
def table(tmp_path):
    def write(*rows, name="steps.csv"):
        names = list(rows[0])
        lines = [",".join(names), *(",".join(row.get(key, "") for key in names) for row in rows)]
        path = tmp_path / name
        path.write_text("\n".join(lines))
        return path

    return write


def test_frame__has_documented_columns_with_units():
    found = frame.frame(steps.examples(20))
    assert len(found) == 20
    for name in found.columns:
        assert name in frame.COLUMNS or f"{name.partition('.')[0]}.*" in frame.COLUMNS, name
    assert all(unit and meaning for unit, meaning in frame.COLUMNS.values())
    one = steps.examples(1)[0]
    row = frame.frame([one]).iloc[0]
    assert row["flop.convolution"] == one.kernels[0].flop * one.kernels[0].calls
    assert row[STEP_TIME] == one.targets[STEP_TIME]


def test_structure__has_one_column_a_class_and_unit():
    found = frame.structure(steps.examples(5))
    assert tuple(found.columns) == features.NAMES


def test_csv__there_and_back_keeps_sums_by_kind(tmp_path):
    given = steps.examples(10)
    frame.frame(given).to_csv(tmp_path / "steps.csv", index=False)
    for old, new in zip(given, frame.examples(tmp_path / "steps.csv"), strict=True):
        assert (new.model, new.group, new.batch, new.machine, new.weight_bytes) == (
            old.model, old.group, old.batch, old.machine, old.weight_bytes,
        )  # fmt: skip
        assert new.targets == pytest.approx(old.targets)
        for kind in steps.KINDS:
            was, is_ = ([one for one in each.kernels if one.kind == kind] for each in (old, new))
            assert sum(one.flop * one.calls for one in is_) == pytest.approx(sum(one.flop * one.calls for one in was))
            assert sum(one.calls for one in is_) == sum(one.calls for one in was)


def test_csv_with_kernels__and_json_lines_are_exact(tmp_path):
    given = [
        replace(one, hyper_parameters={"optimizer": "adam"}, resources={"cache_bytes": 1e6})
        for one in steps.examples(10)
    ]
    frame.frame(given, kernels=True).to_csv(tmp_path / "steps.csv", index=False)
    frame.write_lines(given, tmp_path / "steps.jsonl")
    assert frame.examples(tmp_path / "steps.jsonl") == given
    assert [one.kernels for one in frame.examples(tmp_path / "steps.csv")] == [one.kernels for one in given]
    assert frame.examples(tmp_path / "steps.csv")[0].hyper_parameters == {"optimizer": "adam"}


def test_csv__defaults_are_those_of_the_documentation(table):
    [one] = frame.examples(table(ROW))
    assert (one.group, one.mode, one.dtype, one.compile, one.batch, one.items, one.threads) == (
        "net", "infer", "float32", "eager", 1, 1, 0,
    )  # fmt: skip
    assert (one.machine.kind, one.kernels[0].calls, one.kernels[0].flop) == ("gpu", 10, 10**8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"flop.convolution": "many"}, "line 2: flop.convolution is 'many'"),
        ({"step_time": "-1"}, "line 2: step_time is '-1'"),
        ({"step_time": "0"}, "line 2: step_time is 0"),
        ({"step_time": "nan"}, "step_time is 'nan'"),
        ({"speed": "3"}, "unknown column 'speed'"),
        ({"model": ""}, "line 2: model is empty"),
        ({"kernels": "{}", "flop.convolution": ""}, "line 2"),
        ({"flop.convolution": "", "bytes.convolution": "", "calls.convolution": ""}, "line 2: no kernels"),
        ({"batch": "0"}, "at least 1"),
        ({"batch": "1.7"}, "line 2: batch is '1.7'; write a whole number"),
        ({"mode": "inference"}, "line 2: mode is 'inference'; write infer"),
        ({"machine_kind": "graphics"}, "line 2: machine_kind is 'graphics'"),
        ({"utilisation": "85"}, "85 % is 0.85"),
        ({"step_time": "1e-300"}, "line 2: step_time is 1e-300; a measured value lies between"),
        ({"flop.convolution": "1e300"}, "line 2: kernels of kind convolution"),
        ({"bandwidth_bytes_per_s": "300"}, "line 2: bandwidth_bytes_per_s is 300; write byte/s"),
        ({"flop_per_s.float32": "30"}, "line 2: flop_per_s.float32 is 30; write FLOP/s"),
    ],
)
def test_csv__each_fault_is_named_with_its_place(table, change, words):
    with pytest.raises(UsageError) as found:
        frame.examples(table({**ROW, **change}))
    assert words in str(found.value)
    assert "steps.csv" in str(found.value)


@pytest.mark.parametrize(("column", "value"), [("step_time", "2"), ("step_time", "0.002"), ("peak_memory", "900")])
def test_csv__most_rows_in_another_unit_are_a_fault(table, column, value):
    """Milliseconds or seconds for ns, MiB for bytes; one odd row among many is a measurement."""
    row = {**ROW, "flop.convolution": "10e9", "weight_bytes": "1e8", "peak_memory": "9e8"}
    wrong = {**row, column: value}
    with pytest.raises(UsageError, match=rf"steps\.csv: {column} of 2 of 3 rows cannot be"):
        frame.examples(table(row, wrong, wrong))
    assert len(frame.examples(table(row, row, wrong))) == 3


def test_csv__separated_by_semicolons_says_so(tmp_path):
    (tmp_path / "steps.csv").write_text("model;machine\nnet;l4\n")
    with pytest.raises(UsageError, match="by commas"):
        frame.examples(tmp_path / "steps.csv")


def test_json_lines__are_checked_like_tables(tmp_path):
    one = steps.examples(1)[0]
    for change, words in (
        ({"machine": replace(one.machine, bandwidth_bytes_per_s=-1.0)}, "bandwidth_bytes_per_s is -1"),
        ({"mode": "fast"}, "mode is 'fast'"),
        ({"targets": {STEP_TIME: 1e30}}, "step_time is 1e\\+30"),
    ):
        frame.write_lines([replace(one, **change)], tmp_path / "steps.jsonl")
        with pytest.raises(UsageError, match=rf"steps\.jsonl line 1: {words}"):
            frame.examples(tmp_path / "steps.jsonl")


def test_files__that_cannot_be_read_are_usage_errors(tmp_path):
    with pytest.raises(UsageError, match=r"(?i)no such file"):
        frame.examples(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="ending"):
        frame.examples(tmp_path / "none.parquet")
    (tmp_path / "bad.jsonl").write_text('{"model": 3}\n')
    with pytest.raises(UsageError, match=r"bad\.jsonl line 1: model"):
        frame.examples(tmp_path / "bad.jsonl")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(UsageError, match="cannot be read"):
        frame.examples(tmp_path / "empty.csv")
    (tmp_path / "few.csv").write_text("model\nnet\n")
    with pytest.raises(UsageError, match="'machine' is missing"):
        frame.examples(tmp_path / "few.csv")


def test_targets__are_all_columns():
    assert set(TARGETS) <= set(frame.COLUMNS)


def test_documentation__lists_every_column():
    text = (Path(__file__).parents[2] / "docs" / "estimator.md").read_text(encoding="utf-8")
    for name, (unit, meaning) in frame.COLUMNS.items():
        assert f"| `{name}` | {unit} | {meaning} |" in text
