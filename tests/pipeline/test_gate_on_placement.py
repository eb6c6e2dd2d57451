"""The whole gate with placement switched on: real libraries, a real search, kept for the next run."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from tests.pipeline.repositories import GATE, gate, left_behind, model, repository

pytestmark = [pytest.mark.torch, pytest.mark.slow]

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.last = nn.Linear(64, 8)

    def forward(self, x):
        return self.last(torch.cumsum(torch.tanh(self.first(x)), 1))

def build():
    return Net()
"""
PLACEMENT = """
[placement]
when = "always"
libraries = ["torch-native", "onnxruntime"]
budget = "45s"
"""
TARGETS = {"torch-native cpu", "onnxruntime cpu"}


def test_gate__searches_placements_shows_them_and_reuses_the_answer(tmp_path):
    config = GATE + PLACEMENT + model("net", modes='["infer"]')
    repo = repository(
        tmp_path / "repo", {"perfgate.toml": config, "net.py": NET}, {"net.py": NET.replace("tanh", "sin")}
    )
    first = gate(repo, timeout=500.0)
    assert first.code in {0, 1}, first.err
    (told,) = first.report["placement"]["workloads"]
    assert told["reason"] == "", told
    assert told["model"] == "net"
    assert told["nodes"] >= 3
    assert {single["target"] for single in told["singles"]} == TARGETS
    assert {piece["target"] for piece in told["plan"]["pieces"]} <= TARGETS
    assert told["plan"]["best_single"] in TARGETS
    assert (told["reused"], told["previous"]) == (False, None)
    title = "Placement: which operator runs where"
    assert title in (first.folder / "comment.md").read_text(encoding="utf-8")
    html = (first.folder / "report.html").read_text(encoding="utf-8")
    assert title in html
    assert told["plan"]["best_single"] in html.replace("\u00a0", " ")
    kept = json.loads((repo / ".perfgate" / "placements.json").read_text(encoding="utf-8"))
    assert [known["plan"]["fingerprint"] for known in kept["plans"].values()] == [told["plan"]["fingerprint"]]
    assert left_behind(repo) == []

    second = gate(repo, timeout=500.0)
    (again,) = second.report["placement"]["workloads"]
    assert (again["reused"], again["changed"]) == (True, False)
    assert again["plan"] == told["plan"]
    assert "earlier search" in (second.folder / "comment.md").read_text(encoding="utf-8")
