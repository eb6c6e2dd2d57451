"""The whole gate on ONNX models: base's file against head's, run by ONNX Runtime where nobody may import torch."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from tests.pipeline.repositories import GATE, Gate, commit, gate, git, left_behind, repository, write  # noqa: E402
from tests.worker.onnx import models  # noqa: E402

pytestmark = pytest.mark.slow

WIDTH = 64
# Red only by what is counted: the test machine's noise must not decide.
LOOSE = GATE.replace('tolerance = "50%"', 'tolerance = "99%"')


def table(name: str, **extra: str) -> str:
    """A ``[models.NAME]`` table for ``models/NAME.onnx``."""
    lines = [f"[models.{name}]", f'entry = "models/{name}.onnx"', f'inputs = ["float32[batch,{WIDTH}]"]', "batch = 4"]
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in extra.items())]) + "\n"


def add(repo: Path, name: str, *, layers: int = 2, seed: int = 0, external: str = "") -> None:
    made = models.linear(width=WIDTH, layers=layers, seed=seed)
    models.save(made, repo / "models" / f"{name}.onnx", external=external)


def python_without_torch(folder: Path) -> Path:
    """An interpreter in which the import of torch fails, whether it is installed or not."""
    write(folder, {"blocked/torch/__init__.py": "raise RuntimeError('torch must not be imported')\n"})
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}/blocked" exec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Gate]:
    """One pull request: a model with more layers, one with other weights, an equal one, one whose file is gone, and one
    for a GPU that is not there."""
    folder = tmp_path_factory.mktemp("onnx")
    repo = folder / "repo"
    names: dict[str, dict[str, str]] = {name: {} for name in ("deeper", "trained", "same", "gone")}
    names["card"] = {"device": '"cuda"'}
    config = LOOSE + "".join(table(name, **extra) for name, extra in names.items())
    repository(repo, {"perfgate.toml": config}, {})
    git(repo, "switch", "--quiet", "main")
    for name in names:
        add(repo, name, external="same.weights" if name == "same" else "")
    commit(repo, "models")
    git(repo, "switch", "--quiet", "--force-create", "change")
    add(repo, "deeper", layers=4)
    add(repo, "trained", seed=5)
    (repo / "models" / "gone.onnx").unlink()
    commit(repo, "other models")
    return repo, gate(repo, "--everything", "--python", str(python_without_torch(folder)))


def evidence(run: Gate, name: str) -> dict[str, Any]:
    """What was measured of model ``name``."""
    tree = json.loads((run.folder / "measurements.json").read_text(encoding="utf-8"))
    (found,) = (item for item in tree["workloads"] if item["workload"]["model"] == name)
    result: dict[str, Any] = found
    return result


def test_equal_files__pass(mixed) -> None:
    repo, run = mixed
    assert run.code == 1, run.out + run.err
    assert run.model("same")["verdict"] in {"pass", "inconclusive"}
    assert run.row("same", "flop")["verdict"] == "pass"
    found = evidence(run, "same")
    assert len(found["pairs"]) >= 3
    for side in ("base", "head"):
        assert found[side]["status"] == "ok"
        (digest,) = {probe["outputs"]["checksum"] for probe in found[side]["probes"]}
        assert found[side]["probes"][0]["files"] == ["models/same.onnx", "models/same.weights"]
        versions = found[side]["software"]["versions"]
        assert versions["onnxruntime"] == onnxruntime.__version__
        assert "torch" not in versions
        assert digest == found["head"]["probes"][0]["outputs"]["checksum"]
    assert found["difference"]["equal"]
    assert left_behind(repo) == []


def test_more_layers__are_counted_and_named(mixed) -> None:
    run = mixed[1]
    assert run.model("deeper")["verdict"] == "regression"
    flop = [2 * 4 * (layers * WIDTH * WIDTH + WIDTH * 3) for layers in (1, 3)]
    row = run.row("deeper", "flop")
    assert (row["base"], row["head"], row["verdict"]) == (*flop, "regression")
    weights = [4 * (layers * WIDTH * WIDTH + WIDTH * 3) for layers in (1, 3)]
    row = run.row("deeper", "weight_bytes")
    assert (row["base"], row["head"]) == tuple(weights)
    assert run.row("deeper", "peak_memory")["base"] > 2**20
    found = evidence(run, "deeper")
    changed = {change["name"] for change in found["difference"]["changes"] if change["what"] == "added"}
    assert {"layers.1", "layers.2"} <= changed
    # Times of single operators are known too, from ONNX Runtime's own profile.
    assert any(change["time_ns"] is not None for change in found["difference"]["changes"])
    inputs = {probe["inputs"]["checksum"] for side in ("base", "head") for probe in found[side]["probes"]}
    assert len(inputs) == 1


def test_other_weights__change_the_outputs_and_nothing_that_is_counted(mixed) -> None:
    run = mixed[1]
    assert run.row("trained", "flop")["verdict"] == "pass"
    found = evidence(run, "trained")
    outputs = {side: {probe["outputs"]["checksum"] for probe in found[side]["probes"]} for side in ("base", "head")}
    assert outputs["base"].isdisjoint(outputs["head"])
    assert found["difference"]["equal"]
    assert any(reason.startswith("outputs differ") for reason in run.model("trained")["reasons"])


def test_missing_file__is_red_and_says_so(mixed) -> None:
    run = mixed[1]
    assert run.model("gone")["verdict"] == "regression"
    failure = evidence(run, "gone")["head"]["failure"]
    assert "models.gone.entry = 'models/gone.onnx': head has no such file" in failure["message"]


def test_cuda_of_a_build_for_the_cpu__is_an_error_and_never_measured(mixed) -> None:
    """M47, on both sides."""
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    run = mixed[1]
    found = evidence(run, "card")
    for side in ("base", "head"):
        assert "asked for CUDA, got CPU" in found[side]["failure"]["message"]
    assert found["pairs"] == []
    assert run.model("card")["verdict"] not in {"pass", "inconclusive"}


def test_only_the_changed_file__is_measured(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repository(repo, {"perfgate.toml": LOOSE + table("one") + table("two"), "docs/guide.md": "Words.\n"}, {})
    git(repo, "switch", "--quiet", "main")
    add(repo, "one", external="one.weights")
    add(repo, "two")
    commit(repo, "models")
    git(repo, "switch", "--quiet", "--force-create", "change")
    # The same model, other weights beside it.
    weights = repo / "models" / "one.weights"
    weights.write_bytes((-np.frombuffer(weights.read_bytes(), np.float32)).tobytes())
    commit(repo, "trained")
    run = gate(repo)
    assert run.code == 0, run.out + run.err
    assert [found["model"] for found in run.report["models"]] == ["one"]
    (skipped,) = run.report["skipped"]
    assert skipped["model"] == "two"
    assert skipped["reason"] == "the changed file is not part of this ONNX model"
    git(repo, "switch", "--quiet", "--create", "words")
    write(repo, {"docs/guide.md": "Other words.\n"})
    commit(repo, "words")
    run = gate(repo, base="change", head="words")
    assert run.code == 0, run.out + run.err
    assert run.report["models"] == []
    assert {found["model"] for found in run.report["skipped"]} == {"one", "two"}
