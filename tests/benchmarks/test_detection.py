"""The kinds of change are what they say they are, and a report is judged by the operator that it names first."""

from __future__ import annotations

import pytest

from benchmarks.counting import detection
from benchmarks.counting.detection_kinds import KINDS


def test_kinds__are_at_least_twenty_and_each_changes_its_model():
    assert len(KINDS) >= 20
    for kind in KINDS.values():
        assert kind.base != kind.head


@pytest.mark.torch
@pytest.mark.parametrize("name", KINDS)
def test_kind__both_sides_run(name, capsys):
    import torch

    for text in (KINDS[name].base, KINDS[name].head):
        space: dict[str, object] = {}
        exec(text, space)
        model = space["build"]().eval()  # type: ignore[operator]
        sample = torch.zeros(1, 3, 64, 64) if "images" in text else torch.zeros(1, 64, dtype=torch.int64)
        with torch.no_grad():
            assert torch.isfinite(model(sample)).all()


def _report(changes: list[dict[str, object]], why: str) -> dict[str, object]:
    model = {"informative": False, "reasons": [], "difference": {"changes": changes}}
    return {"verdict": "regression", "why": why, "models": [model]}


def _change(name: str, how: str) -> dict[str, object]:
    return {
        "name": name, "op": "aten::convolution", "what": "changed", "how": [how], "phase": "forward", "base": "",
        "head": "", "share": 0.5,
    }  # fmt: skip


def test_judge__wants_the_changed_operator_first():
    right, wrong = _change("layer*.*.conv2", "groups 1 → 4"), _change("layer*.*.norm2", "stride 1 → 2")
    found = detection.judge("groups changed", _report([right, wrong], "layer*.*.conv2 changed."), 1.0)
    assert (found.named, found.in_why, found.share) == (True, True, 0.5)
    found = detection.judge("groups changed", _report([wrong, right], "Something else."), 1.0)
    assert (found.named, found.in_why) == (False, False)
    found = detection.judge("groups changed", _report([], ""), 1.0)
    assert (found.named, found.in_why, found.first) == (False, False, "")


def test_judge__a_graph_break_is_looked_for_in_the_reasons():
    report = _report([], "Graph breaks 0 → 1: net.py:41: call of print().")
    assert detection.judge("graph break", report, 1.0).in_why
    report["models"][0]["reasons"] = ["graph breaks 0 → 1: net.py:41: call of print()"]  # type: ignore[index]
    assert detection.judge("graph break", report, 1.0).named


@pytest.mark.torch
@pytest.mark.slow
def test_main__runs_the_real_gate_on_one_kind(capsys):
    assert detection.main(["--quick"]) == 0
    out = capsys.readouterr().out
    assert "| groups changed" in out
    assert "1 of 1 kinds: the right operator is named first" in out
