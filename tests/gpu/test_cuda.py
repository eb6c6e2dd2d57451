"""The gate on a real CUDA device: `make test-gpu`. Skipped where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perfgate.hardware import names
from tests.pipeline.repositories import GATE, gate, left_behind, model, repository

pytestmark = [pytest.mark.gpu, pytest.mark.torch]

CONV = '''
"""A model that keeps a GPU busy for about a millisecond."""
import torch
from torch import nn

DEPTH = 8

def build():
    layers = []
    for _ in range(DEPTH):
        layers += [nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers)
'''


def has_cuda() -> bool:
    """Asked of a process of its own, so that this one never initialises CUDA."""
    code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory):
    if not has_cuda():
        pytest.skip("no CUDA device")
    table = model("conv", device='"cuda:0"', modes='["infer", "train"]').replace(
        "float32[batch,64]", "float32[batch,64,56,56]"
    )
    base = {"perfgate.toml": GATE + table, "conv.py": CONV}
    folder = tmp_path_factory.mktemp("gpu") / "repo"
    repo = repository(folder, base, {"conv.py": CONV.replace("DEPTH = 8", "DEPTH = 32")})
    return repo, gate(repo, timeout=400)


def test_slower_model__is_red_on_cuda(result) -> None:
    repo, run = result
    assert run.code == 1, run.out + run.err
    for workload in run.report["models"]:
        rows = {row["metric"]: row for row in workload["metrics"]}
        assert rows["latency"]["verdict"] == "regression"
        assert rows["peak_memory"]["kind"] == "exact"
        assert rows["peak_memory"]["head"] > rows["peak_memory"]["base"] > 0
    assert left_behind(repo) == []


def test_blocks__carry_clocks_and_device_times(result) -> None:
    measurements = json.loads(Path(result[1].folder, "measurements.json").read_text(encoding="utf-8"))
    blocks = [
        block
        for workload in measurements["workloads"]
        for pair in workload["pairs"]
        for side in (pair["base"], pair["head"])
        for block in side["blocks"]
    ]
    assert blocks
    assert all(block["device_ns"] for block in blocks)
    assert any(block["sm_clock_mhz"] for block in blocks)


def test_environment__names_the_card_without_its_uuid(result) -> None:
    text = Path(result[1].folder, "measurements.json").read_text(encoding="utf-8")
    assert "NVIDIA" in text
    assert "GPU-" not in text


def test_operators__added_ones_are_named_with_their_time(result) -> None:
    _, run = result
    for workload in run.report["models"]:
        totals = workload["base_totals"], workload["head_totals"]
        assert all(side["source"] == "meta" for side in totals)
        assert totals[1]["flop"] > totals[0]["flop"] > 0
        first = workload["difference"]["changes"][0]
        assert (first["what"], first["kind"]) == ("added", "convolution")
        assert first["time_ns"] is not None
        assert first["time_ns"] > 0


def test_doctor__roofline_of_the_card(tmp_path, monkeypatch):
    """Pi and beta lie below the published peaks of the card that its driver's name is found by, and not far below."""
    if not has_cuda():
        pytest.skip("no CUDA device")
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "perfgate", "doctor", "--roofline", "--device", "cuda:0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [measured] = json.loads(done.stdout)["rooflines"]
    found = names.parse(measured["label"], memory_bytes=None)
    if found is None:
        pytest.skip(f"the catalogue does not know {measured['label']}")
    assert 0.5 < measured["bandwidth_bytes_per_s"] / found.bandwidth_bytes_per_s <= 1.05
    for dtype in ("float16", "bfloat16"):
        if dtype in measured["flop_per_s"] and dtype in found.peak_flop_per_s:
            assert 0.3 < measured["flop_per_s"][dtype] / found.peak_flop_per_s[dtype] <= 1.05
