"""``perfgate estimate`` as a user types it, on a file of measured steps."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from perfgate.cli import app
from perfgate.errors import StoreError
from perfgate.estimator import frame
from perfgate.records.baseline import BaselineRecord
from perfgate.records.estimate import STEP_TIME
from perfgate.records.workload import Workload
from perfgate.store import structure
from perfgate.store.open import open_store
from tests.estimator import steps


@pytest.fixture
def estimate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame.write_lines(steps.examples(120), tmp_path / "steps.jsonl")
    frame.write_lines(steps.examples(8, seed=9), tmp_path / "asked.jsonl")

    def run(*arguments):
        code = app.run(["estimate", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_fit_and_predict__json_has_intervals_terms_and_sources(estimate, tmp_path):
    code, out, err = estimate("fit", "--data", "steps.jsonl", "--json", "-q")
    assert code == 0, err
    tree = json.loads(out)
    assert tree["examples"] == 120
    assert tree["accuracy"]["step_time"]["median_ape"] < 0.1
    assert json.loads((tmp_path / ".perfgate" / "estimator.json").read_text())["format"] == 1
    code, out, err = estimate("predict", "--data", "asked.jsonl", "--target", "step_time", "--json")
    assert code == 0, err
    rows = json.loads(out)
    assert len(rows) == 8
    for row in rows:
        assert row["low"] <= row["value"] <= row["high"]
        assert sum(term["value"] for term in row["terms"]) == pytest.approx(row["value"])
    code, out, _ = estimate("predict", "--data", "asked.jsonl")
    assert code == 0
    assert "peak_memory" in out


def test_fit__again_on_the_same_examples_is_the_model_that_is_there(estimate):
    estimate("fit", "--data", "steps.jsonl", "-q", "--out", "model.json")
    code, out, _ = estimate("fit", "--data", "steps.jsonl", "-q", "--out", "model.json", "--json")
    tree = json.loads(out)
    assert (code, tree["kept"], tree["reason"]) == (0, True, "the same examples as in the last fit")
    code, out, _ = estimate("fit", "--data", "steps.jsonl", "-q", "--out", "model.json", "--fresh", "--json")
    assert json.loads(out)["kept"] is False


def test_evaluate__says_how_good_estimates_of_new_families_are(estimate):
    code, out, err = estimate("evaluate", "--data", "steps.jsonl", "-q")
    assert code == 0, err
    assert "On held-out groups" in out
    assert "step_time" in out
    estimate("fit", "--data", "steps.jsonl", "-q", "--out", "model.json")
    code, out, _ = estimate("evaluate", "--data", "asked.jsonl", "--model", "model.json", "-q", "--json")
    assert code == 0
    assert json.loads(out)["accuracy"]["step_time"]["n"] == 8


def record(number, namespace, model):
    one = steps.example(np.random.default_rng(number), number)
    rows = [[getattr(group, name) for name in structure.COLUMNS] for group in one.kernels]
    return BaselineRecord(
        model_key=model,
        workload=Workload(
            model=model, mode="infer", batch=one.batch, dtype="float32", device="cuda:0", compile="eager"
        ),
        namespace=namespace,
        commit="c" * 40 if namespace == "base" else "",
        hardware_id="h",
        software_id="s",
        run_nonce=f"n{number}",
        recorded_at="2026-11-30T12:00:00Z",
        metrics={"latency": one.targets[STEP_TIME]},
        units={"latency": "ns"},
        structure={"kernel_groups": rows, "weight_bytes": one.weight_bytes},
    )


def test_store__gates_and_samples_are_learned_from_and_pull_requests_are_not(estimate, tmp_path):
    spaces = ["base"] * 5 + ["sample"] * 5 + ["pr/7"] * 5
    with open_store(str(tmp_path / "store.sqlite")) as store:
        store.record([record(number, space, f"net{number}") for number, space in enumerate(spaces)])
    code, out, err = estimate("fit", "--store", "store.sqlite", "-q", "--json")
    assert code == 0, err
    assert json.loads(out)["examples"] == 10


def test_store__without_examples_says_what_to_do(estimate, tmp_path):
    open_store(str(tmp_path / "empty.sqlite")).close()
    code, _, err = estimate("fit", "--store", "empty.sqlite", "-q")
    assert code == 2
    assert "no measured examples in it; run `perfgate sample`" in err


def test_store__that_is_not_there_is_not_made(estimate, tmp_path):
    code, _, err = estimate("fit", "--store", "tpyo.sqlite", "-q")
    assert code == StoreError.exit_code
    assert "tpyo.sqlite: there is no such database" in err
    assert "perfgate sample" in err
    assert not (tmp_path / "tpyo.sqlite").exists()


def test_store__two_numbers_of_threads_of_one_model_are_two_examples(estimate, tmp_path):
    def on_threads(number, threads):
        one = record(number, "base", "net")
        software = {"torch": "2.6.0", "threads": threads}
        own = {"resources": {"threads": threads}, "software": software, "software_id": f"s{threads}"}
        return replace(one, workload=replace(one.workload, batch=8), **own)

    with open_store(str(tmp_path / "store.sqlite")) as store:
        # Of 1 thread there is an older and a newer one.
        store.record([on_threads(1, "1"), on_threads(2, "1"), on_threads(3, "2"), on_threads(4, "4")])
    code, out, err = estimate("fit", "--store", "store.sqlite", "-q", "--json")
    assert code == 0, err
    assert json.loads(out)["examples"] == 3


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_too_few_examples__names_the_file_and_how_many_are_needed(estimate, tmp_path, command):
    frame.write_lines(steps.examples(2), tmp_path / "few.jsonl")
    code, _, err = estimate(command, "--data", "few.jsonl", "-q")
    assert code == 2
    assert "few.jsonl: 2 measured examples in it, and 3 are needed" in err


def test_store__of_disturbed_records_alone_says_so(estimate, tmp_path):
    with open_store(str(tmp_path / "store.sqlite")) as store:
        store.record([replace(record(n, "sample", f"net{n}"), resources={"waited_share": "0.6"}) for n in range(5)])
    code, _, err = estimate("fit", "--store", "store.sqlite", "-q")
    assert code == 2
    assert "other programs took the processors while 5 records were made" in err


def test_fit__a_model_that_cannot_be_written_is_one_line_that_names_it_once(estimate, tmp_path):
    (tmp_path / "folder").write_text("")
    code, _, err = estimate("fit", "--data", "asked.jsonl", "-q", "--out", "folder/model.json")
    assert code == 2
    assert err.replace("\n", "").count("model.json") == 1
    assert "--out" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "-q"), "no store is configured here"),
        (("fit", "--data", "none.csv", "-q"), "none.csv"),
        (("fit", "--data", "steps.jsonl", "--store", "x.sqlite", "-q"), "leave one of them out"),
        (("predict",), "name a MODEL"),
        (("predict", "--data", "asked.jsonl"), "estimate fit"),
        (("predict", "--data", "asked.jsonl", "--model", "steps.jsonl"), "estimate fit"),
    ],
)
def test_wrong_use__is_one_line_with_a_remedy(estimate, arguments, words):
    code, _, err = estimate(*arguments)
    assert code == 2
    assert words in err
    assert "Traceback" not in err
