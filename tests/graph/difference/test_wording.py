from __future__ import annotations

import pytest

from perfgate.graph.difference.causes import RECOMPUTED
from perfgate.graph.difference.grouping import Cause, Finding
from perfgate.graph.difference.repeats import ONCE_MORE, THE_SAME_AS
from perfgate.graph.difference.ties import OWN
from perfgate.graph.difference.wording import sentence, sentences
from perfgate.records.graph import OperatorChange


def change(what: str, *how: str, **more) -> OperatorChange:
    more.setdefault("name", "layer")
    more.setdefault("op", "aten::mm")
    return OperatorChange(what=what, kind="matmul", how=how, **more)


def cause(*changes: OperatorChange, noise: float = 0.0) -> Cause:
    return Cause(findings=tuple(Finding(change=found, noise=noise) for found in changes))


def told(found: OperatorChange, whole: float | None = None) -> str:
    return sentence(cause(found), whole)


def test_sentence__is_that_of_the_mock_up():
    found = change("changed", "bfloat16 → float32", name="layer3.*.conv2", count=6, time_ns=1_020_000.0)
    assert told(found, 1_100_000.0) == (
        "layer3.*.conv2 (6 operators) went from bfloat16 to float32: +1.02 ms of the +1.10 ms"
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (change("changed", "stride 1 → 2", "[1,4] → [1,2]"), "layer has stride 2 instead of 1"),
        (change("changed", "kernel 3×3 → 5×5", "padding 1 → 2"),
         "layer has kernel 5×5 instead of 3×3 and padding 2 instead of 1"),
        (change("changed", "output channels 64 → 128"), "layer has 128 output channels instead of 64"),
        (change("changed", "[8,64] → [8,32]"), "layer went from [8,64] to [8,32]"),
        (change("changed", "bmm + mul → 8 × mm + stack"), "layer went from bmm + mul to 8 × mm + stack"),
        (change("changed", "8 × mm → bmm"), "layer went from 8 × mm to bmm"),
        (change("changed", "in place → out of place"), "layer went from in place to out of place"),
        (change("changed", f"emb.weight → {OWN}"), "layer no longer shares emb.weight"),
        (change("changed", f"{OWN} → emb.weight", count=2), "layer (2 operators) now share emb.weight"),
        (change("changed", "other arguments"), "layer has other arguments"),
        (change("changed"), "layer changed"),
        (change("added"), "layer was added"),
        (change("added", "exp + mul", count=2), "layer (2 operators) were added (exp + mul)"),
        (change("added", f"{THE_SAME_AS}layer2", count=3), "layer (3 operators) were added, the same as layer2"),
        (change("added", ONCE_MORE), "layer runs once more"),
        (change("added", RECOMPUTED, phase="backward", count=2),
         "layer (2 operators) are computed again in the backward pass"),
        (change("removed", phase="optimizer"), "layer was removed in the optimizer"),
        (change("faster"), "layer got faster without a change of its operators"),
        (change("slower", op="python", name="net.body/python", count=3),
         "Python code in net.body got slower without a change of its operators"),
        (change("slower", op="python", name="/python"),
         "Python code of the model itself or around it got slower without a change of its operators"),
    ],
)  # fmt: skip
def test_sentence__says_what_was_done(found, expected):
    assert told(found) == expected


def test_sentence__counts_what_follows():
    follower = change("changed", "[8,64] → [8,32]", name="act", op="aten::relu")
    alike = change("changed", "float32 → half", name="tail", count=7)
    assert sentence(cause(change("changed", "stride 1 → 2"), follower), None) == (
        "layer has stride 2 instead of 1, and 1 operator after it follows"
    )
    assert sentence(cause(change("changed", "float32 → half"), alike, follower), None) == (
        "layer and 7 operators after it went from float32 to half, and 1 operator after it follows"
    )


def test_sentence__gives_work_where_there_is_no_time():
    found = change("changed", "stride 1 → 2", flop=2_000_000, bytes=-3000, calls=1)
    assert told(found) == "layer has stride 2 instead of 1: F +2.00 MFLOP, M −2.93 KiB, +1 kernel call"


def test_sentence__gives_time_alone_where_the_whole_goes_the_other_way_or_is_not_known():
    found = change("added", time_ns=2000.0)
    assert told(found) == "layer was added: +2.00 µs"
    assert told(found, -9000.0) == "layer was added: +2.00 µs"
    assert told(change("removed", time_ns=-2000.0), -9000.0) == "layer was removed: −2.00 µs of the −9.00 µs"


def test_sentence__keeps_a_time_that_may_be_noise_to_itself():
    assert sentence(cause(change("added", time_ns=2000.0), noise=1500.0), 2000.0) == "layer was added"


def test_sentence__a_name_stays_on_one_line_and_leaves_room():
    assert told(change("added", name="a\n b\tc")) == "a b c was added"
    assert len(told(change("added", name="x" * 5000))) < 200


def test_sentences__are_the_five_most_important():
    found = [cause(change("added", name=str(number))) for number in range(9)]
    assert sentences(found, None) == tuple(f"{number} was added" for number in range(5))
