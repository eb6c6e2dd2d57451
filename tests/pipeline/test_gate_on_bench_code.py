"""Bench code, setup, training and spans: the gate on what surrounds a model, with torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.repositories import GATE, LINEAR, gate, left_behind, model, repository

pytestmark = [pytest.mark.torch, pytest.mark.slow]

BENCH = """
import torch

ROWS = 2

def inputs():
    return (torch.ones(ROWS, 64),)

def step(model, x):
    for _ in range(2):
        model(x)
        yield "first"
    model(x)
    yield "rest"
    return len(x)
"""

TABLES = """
[models.net]
entry = "net:build"
make_inputs = "bench:inputs"

[models.steps]
entry = "net:build"
make_inputs = "bench:inputs"
step = "bench:step"

[models.learns]
entry = "net:build"
inputs = ["float32[batch,64]"]
modes = ["train"]
batch = [2]
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory):
    """A pull request that only makes its own bench code heavier."""
    folder = tmp_path_factory.mktemp("bench") / "repo"
    base = {"perfgate.toml": GATE + TABLES, "net.py": LINEAR, "bench.py": BENCH}
    repo = repository(folder, base, {"bench.py": BENCH.replace("ROWS = 2", "ROWS = 20000")})
    return repo, gate(repo)


def test_bench_code__comes_from_base_on_both_sides(result) -> None:
    repo, run = result
    assert run.code == 0, run.out + run.err
    assert run.row("net", "flop")["ratio"] == 1.0
    assert run.row("net", "latency")["verdict"] in {"pass", "inconclusive"}
    assert any("bench.py" in banner for banner in run.report["banners"])
    assert left_behind(repo) == []


def test_bench_code_of_head__gets_a_second_look_that_judges_nothing(result) -> None:
    informative = [found for found in result[1].report["models"] if found["informative"]]
    assert {found["model"] for found in informative} == {"net", "steps"}
    (net,) = (found for found in informative if found["model"] == "net")
    (flop,) = (row for row in net["metrics"] if row["metric"] == "flop")
    assert flop["ratio"] == 10_000
    assert not any(row["gated"] for row in net["metrics"])


def test_spans_of_a_generator__are_metrics(result) -> None:
    for span in ("span:first", "span:rest"):
        assert result[1].row("steps", span)["unit"] == "ns"
        assert result[1].row("steps", span)["gated"]


def test_model_that_loads_no_changed_file__is_skipped_or_measured_for_a_reason(result) -> None:
    report = result[1].report
    skipped = {found["model"] for found in report["skipped"]}
    assert "learns" in skipped


def test_training__is_measured(tmp_path: Path) -> None:
    base = {"perfgate.toml": GATE + TABLES, "net.py": LINEAR, "bench.py": BENCH}
    run = gate(repository(tmp_path / "repo", base, {"net.py": LINEAR + "# words\n"}), "--model", "learns")
    assert run.code == 0, run.out + run.err
    (found,) = run.report["models"]
    assert found["workload"]["mode"] == "train"
    flop = {row["metric"]: row for row in found["metrics"]}["flop"]
    # Forward 2 x 2 x (64 x 64 + 64 x 8) FLOP; backward twice that, less the gradient of the input.
    assert flop["base"] == flop["head"] == 2 * 2 * (3 * (64 * 64 + 64 * 8) - 64 * 64)


@pytest.mark.parametrize(("side", "code", "verdict"), [("head", 1, "regression"), ("base", 2, "error")])
def test_setup_that_fails(tmp_path: Path, side: str, code: int, verdict: str) -> None:
    plain = GATE + model("net")
    failing = plain.replace("version = 1\n", "version = 1\nsetup = 'echo no such wheel; exit 3'\n", 1)
    base = {"perfgate.toml": failing if side == "base" else plain, "net.py": LINEAR}
    run = gate(repository(tmp_path / "repo", base, {"perfgate.toml": failing if side == "head" else plain}))
    assert run.code == code, run.out + run.err
    assert run.report["verdict"] == verdict
    assert "setup" in run.out
    assert left_behind(tmp_path / "repo") == []
