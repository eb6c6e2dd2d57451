"""The benchmark of the estimator on this machine: what it measures, pairs and compares. Nothing is timed here."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import replace

import pytest

from benchmarks.estimator import from_nothing
from benchmarks.estimator.from_nothing import CPU, WALL, Asked, Plan
from perfgate.config.load import load, read_tree
from perfgate.records.estimate import PEAK_MEMORY, STEP_TIME, Estimate
from perfgate.records.sampling import NAMESPACE_SAMPLE
from tests.estimator import steps
from tests.pipeline.test_examples import records


def plan(folder, **changes):
    return Plan(**{"folder": folder, "models": {"resnet18": 64, "vit_b_16": 32}, "threads": (1, 2), **changes})


def timed(record, latency, memory=4e8):
    return replace(record, metrics={**record.metrics, "latency": latency, "peak_memory": memory})


def test_repository__two_revisions_and_a_valid_gate_for_each_number_of_threads(tmp_path):
    root = from_nothing.repository(plan(tmp_path))
    log = subprocess.run(["git", "log", "--oneline"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert len(log.splitlines()) == 2
    for threads in (1, 2):
        name = f"threads-{threads}.toml"
        config = load(read_tree(lambda file: (root / file).read_bytes(), (name,)), where="here", sha=None)
        assert config is not None
        assert config.side.threads == threads
        assert {workload.key for spec in config.side.models.values() for workload in spec.workloads} == {
            f"{model}/{mode}/b{batch}/float32/cpu/eager"
            for model in ("resnet18", "vit_b_16")
            for mode in ("infer", "train")
            for batch in from_nothing.BATCHES
        }


def test_repository__every_model_can_be_built_from_it(tmp_path):
    root = from_nothing.repository(plan(tmp_path, models=dict.fromkeys(from_nothing.MODELS, 64)))
    text = (root / "zoo.py").read_text(encoding="utf-8")
    compile(text, "zoo.py", "exec")
    assert "models.vit_b_16(weights=None, image_size=64)" in text
    assert all(f"def {name}():" in text for name in from_nothing.MODELS)


def test_measure__what_is_there_is_not_measured_again(tmp_path, monkeypatch):
    ran = []

    def perfgate(root, *arguments):
        ran.append(arguments)
        folder = arguments[arguments.index("--out") + 1]
        (tmp_path / folder / "measurements.json").write_text("{}", encoding="utf-8")
        return ""

    monkeypatch.setattr(from_nothing, "_perfgate", perfgate)
    wanted = plan(tmp_path)
    wanted.measured("resnet18", 2).mkdir(parents=True)
    (wanted.measured("resnet18", 2) / "measurements.json").write_text("kept", encoding="utf-8")
    from_nothing.measure(wanted)
    asked = [(one[one.index("--model") + 1], one[one.index("--config") + 1]) for one in ran]
    assert asked == [("resnet18", "threads-1.toml"), ("vit_b_16", "threads-1.toml"), ("vit_b_16", "threads-2.toml")]
    assert (wanted.measured("resnet18", 2) / "measurements.json").read_text(encoding="utf-8") == "kept"
    assert from_nothing.measure(wanted) == 0


def test_sample__goes_on_until_the_budget_is_spent(tmp_path, monkeypatch):
    budgets = []

    def perfgate(root, *arguments):
        budgets.append(arguments[arguments.index("--budget") + 1])
        return json.dumps({"seconds": 40.0, "recorded": 3})

    monkeypatch.setattr(from_nothing, "_perfgate", perfgate)
    from_nothing.sample(plan(tmp_path, budget="100s"))
    assert budgets == ["100s", "60s", "20s"]
    from_nothing.sample(plan(tmp_path, budget="100s"))
    assert len(budgets) == 3
    monkeypatch.setattr(from_nothing, "_perfgate", lambda root, *arguments: '{"seconds": 6.0, "recorded": 0}')
    # Nothing fits any more: not tried for ever.
    from_nothing.sample(plan(tmp_path, budget="10min"))


def test_paired__both_sides_are_one_step_and_their_distance_is_the_noise():
    base, head = records()
    [one] = from_nothing.paired([timed(base, 9e6), timed(head, 16e6)])
    assert one.example.targets == {STEP_TIME: pytest.approx(12e6), PEAK_MEMORY: pytest.approx(4e8)}
    assert one.noise[STEP_TIME] == pytest.approx(math.log(16 / 9))
    assert one.noise[PEAK_MEMORY] == 0
    assert from_nothing.paired([base]) == []


def test_clocked__time_of_the_processors_whoever_else_had_them():
    [base, _] = records()
    busy = replace(
        base,
        metrics={"latency": 10e6, "utilisation": 0.3},
        resources={"threads": "2", "waited_share": "0.7"},
        samples={"latency": (10e6, 10e6, 40e6)},
    )
    assert from_nothing.clocked(busy, WALL) is busy
    found = from_nothing.clocked(busy, CPU)
    assert found.metrics["latency"] == pytest.approx(12e6)
    # Of a sample network the latency is the mean already.
    sampled = from_nothing.clocked(replace(busy, namespace=NAMESPACE_SAMPLE), CPU)
    assert sampled.metrics["latency"] == pytest.approx(6e6)
    assert "waited_share" not in found.resources


def test_row__by_hand():
    example = replace(steps.step("m", "m", (), machine=steps.CPU), targets={STEP_TIME: 100.0, PEAK_MEMORY: 1.0})
    asked = [Asked(example=example, noise={STEP_TIME: 0.02})] * 2
    estimates = [
        Estimate(target=STEP_TIME, value=value, low=low, high=high, coverage=0.9, source="fitted")
        for value, low, high in ((110.0, 90.0, 180.0), (150.0, 120.0, 480.0))
    ]
    cells = from_nothing.row("all", STEP_TIME, asked, estimates)
    assert cells == ("all", "2", "30.0%", "30.0%", "50%", "1.30", "50%", "3.00", "2.0%")


def test_table__an_empty_folder_says_what_is_missing(tmp_path, capsys):
    assert from_nothing.main(["--folder", str(tmp_path), "--part", "table"]) == 1
    assert "no measured models" in capsys.readouterr().out


def test_table__too_few_samples_are_a_sentence(tmp_path, capsys, monkeypatch):
    [one] = from_nothing.paired([timed(record, 9e6) for record in records()])
    monkeypatch.setattr(from_nothing, "measured", lambda plan: [one])
    assert from_nothing.main(["--folder", str(tmp_path), "--part", "table"]) == 1
    assert "0 usable sample networks" in capsys.readouterr().out
