"""``perfgate estimate predict MODEL``: models are counted by a real worker, and asked of several machines."""

from __future__ import annotations

import json
import os
import threading

import pytest

from perfgate.cli import app
from perfgate.errors import UsageError
from perfgate.estimator import frame
from perfgate.pipeline import estimator_file
from perfgate.pipeline.estimator_questions import fits
from perfgate.records.estimate import Estimate
from tests.estimator import steps

NETS = """
import torch
def narrow(): return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
def wide(): return torch.nn.Sequential(torch.nn.Linear(32, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 8))
def broken(): raise RuntimeError("no weights here")
"""
CONFIG = """
version = 1
pythonpath = ["."]
[cost]
devices = ["l4", "h100-sxm"]
[models.narrow]
entry = "nets:narrow"
inputs = ["float32[batch,32]"]
batch = [4]
[models.wide]
entry = "nets:wide"
inputs = ["float32[batch,32]"]
batch = [4]
[models.broken]
entry = "nets:broken"
inputs = ["float32[batch,32]"]
"""


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A scratch repository with a fitted model."""
    root = tmp_path_factory.mktemp("scratch")
    (root / "nets.py").write_text(NETS)
    (root / "perfgate.toml").write_text(CONFIG)
    frame.write_lines(steps.examples(60), root / "steps.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert app.run(["estimate", "fit", "--data", "steps.jsonl", "-q"]) == 0
    return root


@pytest.fixture
def predict(fitted, monkeypatch, capsys):
    monkeypatch.chdir(fitted)

    def run(*arguments):
        code = app.run(["estimate", "predict", *arguments, "-q"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_predict__models_on_the_devices_of_the_configuration(predict):
    code, out, err = predict("narrow", "wide", "--batch", "1,64", "--target", "step_time", "--json")
    assert code == 0, err
    rows = json.loads(out)
    assert [(row["model"], row["machine"], row["batch"]) for row in rows] == [
        (model, machine, batch) for model in ("narrow", "wide") for machine in ("l4", "h100-sxm") for batch in (1, 64)
    ]
    times = {(row["model"], row["machine"], row["batch"]): row["value"] for row in rows}
    assert times["wide", "l4", 64] > times["narrow", "l4", 64]
    assert times["wide", "l4", 64] >= times["wide", "l4", 1]
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)


def test_predict__here_has_a_row_for_each_number_of_threads_and_modes_differ(predict):
    arguments = ("wide", "--device", "here", "--threads", "1,3", "--target", "step_time", "--json")
    code, out, err = predict(*arguments, "--mode", "train")
    assert code == 0, err
    train = json.loads(out)
    assert [(row["mode"], row["threads"]) for row in train] == [("train", 1), ("train", 3)]
    infer = json.loads(predict(*arguments)[1])
    assert train[0]["value"] > infer[0]["value"]


def test_predict__memory_says_whether_it_fits_and_the_table_names_what_was_asked(predict):
    rows = json.loads(predict("narrow", "--device", "l4", "--target", "peak_memory", "--json")[1])
    assert [row["fits"] for row in rows] == [True]
    code, out, _ = predict("narrow", "--device", "l4", "--dtype", "float32,bfloat16", "--compile")
    assert code == 0
    assert all(word in out for word in ("narrow", "l4", "bfloat16", "default"))


def test_fits__by_the_upper_end_and_what_stays_free():
    memory = Estimate(target="peak_memory", value=8.0, low=7.0, high=9.5, coverage=0.9, source="fitted")
    assert fits(memory, 10, 0.0) is True
    assert fits(memory, 10, 0.1) is False
    assert fits(memory, 0, 0.1) is None
    assert fits(None, 10, 0.1) is None


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("narrow", "--device", "h100"), 2, "did you mean h100-"),
        (("narow",), 2, "did you mean narrow"),
        (("narrow", "--data", "steps.jsonl"), 2, "leave one of them out"),
        (("--data", "steps.jsonl", "--device", "l4"), 2, "--data and --device"),
        (("narrow", "wide", "--inputs", "float32[1,32]"), 2, "of one MODEL"),
        (("narrow", "--batch", "0"), 2, "--batch 0"),
        (("narrow", "--dtype", "float33"), 2, "--dtype"),
        (("broken",), 3, "no weights here"),
    ],
)
def test_predict__wrong_use_is_one_error_with_its_code(predict, arguments, code, words):
    found, out, err = predict(*arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert "Traceback" not in err


def test_predict__without_a_fitted_model_nothing_is_counted(predict, monkeypatch):
    def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr("perfgate.pipeline.estimator_questions.count_grid", never)
    code, _, err = predict("narrow", "--model", "none.json")
    assert code == 2
    assert "perfgate estimate fit" in err


def test_read__a_pipe_or_a_device_is_no_model_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.json")
    done: list[str] = []

    def read():
        for path in (tmp_path / "model.json", tmp_path, os.devnull):
            with pytest.raises(UsageError, match="cannot be read"):
                estimator_file.read(tmp_path / path)
            assert estimator_file.cached(tmp_path / path) is None
        done.append("all")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(30)
    assert done == ["all"]
