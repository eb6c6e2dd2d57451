"""Work that other tools are known to count wrongly, from a real worker to the columns of the estimator."""

from __future__ import annotations

import os
import sys

import pytest

from perfgate.bench.progress import NullProgress
from perfgate.estimator import features, frame
from perfgate.graph import summary
from perfgate.pipeline import estimator_questions as asking
from perfgate.pipeline.count import CountRequest, count
from perfgate.pipeline.estimator_questions import QuestionRequest
from perfgate.pipeline.request import Ports

NETS = """
import torch
class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.0)
class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(48, 48))
    def forward(self, x):
        x = (x @ self.weight).unflatten(-1, (4, 12)).transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)
def linear(): return torch.nn.Linear(1000, 1000)
"""
_SIZE = "float32[1,12,64,64]"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nets")
    (folder / "nets.py").write_text(NETS)
    (folder / "perfgate.toml").write_text('version = 1\npythonpath = ["."]\n')
    return folder


def ports():
    return Ports(progress=NullProgress(), environ=os.environ)


def request(root, entry, *inputs, mode="infer"):
    return CountRequest(root=root, entry=entry, inputs=inputs, mode=mode, python=sys.executable)


def test_attention_on_a_cpu__is_counted_by_hand_and_nothing_falls_back_to_zero(root):
    totals = count(request(root, "nets:Attention", _SIZE, _SIZE, _SIZE), ports()).totals
    assert (totals.flop, totals.not_counted) == (4 * 12 * 64 * 64 * 64, ())
    assert [(one.kind, one.flop) for one in totals.eager_kernels if one.flop] == [("attention", 12_582_912)]


def test_attention_in_training__is_counted_forward_and_backward(root):
    """Backward has a product for each operand of a forward one, and may compute scores again."""
    totals = count(request(root, "nets:Encoder", "float32[1,64,48]", mode="train"), ports()).totals
    attention = 4 * 4 * 64 * 64 * 12
    work = {"forward": 0, "backward": 0}
    for one in totals.eager_kernels:
        if one.kind == "attention":
            work[one.phase] += one.flop * one.calls
    assert totals.not_counted == ()
    assert work["forward"] == attention
    assert 2 * attention <= work["backward"] <= 3 * attention


def test_linear__is_two_flop_a_mac_under_names_that_say_so(root):
    graph = count(request(root, "nets:linear", "float32[1,1000]"), ports())
    tree = summary.tree(graph)
    assert (graph.totals.flop, tree["mac"]) == (2_000_000, 1_000_000)
    asked = QuestionRequest(models=("nets:linear",), count=request(root, "", "float32[1,1000]"), devices=("l4",))
    [question] = asking.questions(asked, ports())
    assert frame.frame([question]).iloc[0]["flop.matmul"] == 2_000_000
    seconds, names = features.ideal_seconds([question])
    flop = [number for number, name in enumerate(names) if features.unit(name) == features.FLOP]
    assert seconds[0, flop].sum() == pytest.approx(2_000_000 / question.machine.flop_per_s["float32"])


def test_attention__grows_with_the_square_of_the_sequence_and_the_rest_linearly(root):
    sizes = {}
    for sequence in (64, 128):
        totals = count(request(root, "nets:Encoder", f"float32[2,{sequence},48]"), ports()).totals
        work = {"attention": 0, "rest": 0}
        for one in totals.eager_kernels:
            work["attention" if one.kind == "attention" else "rest"] += one.flop * one.calls
        sizes[sequence] = work
    assert sizes[128]["attention"] == 4 * sizes[64]["attention"] > 0
    assert sizes[128]["rest"] == 2 * sizes[64]["rest"] > 0
