from __future__ import annotations

import itertools

import pytest

from perfgate import wire
from perfgate.gate.operators import clipped, decomposed, doubt, graph_breaks, limits_of_counting, sentences
from perfgate.records.report import Report
from tests.gate.builders import (
    change,
    counted,
    difference,
    graph_totals,
    judged,
    limits,
    not_counted,
    ok,
    only,
    policy,
    row,
    workload,
)

CAST = "layer3.*.conv2 (6 operators) went from bfloat16 to float32: +1.02 ms of the +1.10 ms"
OTHER = {"fingerprint": "e" * 64}


def breaks(base: int, head: int, before: tuple[str, ...] = (), after: tuple[str, ...] = ()):
    return workload(base=ok(graph_breaks=base, breaks=before), now=ok(graph_breaks=head, breaks=after))


def test_clipped__keeps_beginning_and_end():
    text = clipped("a" * 5_000 + " went from bfloat16 to float32: +1 ms", 200)
    assert len(text) <= 200
    assert text.startswith("aaaa")
    assert text.endswith("went from bfloat16 to float32: +1 ms")
    assert clipped("short") == "short"


def test_sentences__only_where_something_changed():
    assert sentences(None) == ()
    assert sentences(difference()) == ()
    assert sentences(difference("a. ", "b", "c", "d")) == ("a", "b", "c")
    assert sentences(difference(" ", "b")) == ("b",)


def test_sentences__a_name_of_any_length_does_not_hide_the_figures():
    (found,) = sentences(difference("n" * 60_000 + ": +1.02 ms of the +1.10 ms"))
    assert len(found) <= 320
    assert found.endswith("+1.02 ms of the +1.10 ms")


@pytest.mark.parametrize(
    ("base", "head", "said"),
    [
        ({}, {"software": "torch 2.15.0", "kernels": 12}, "2.14.1 → 2.15.0: 10 → 12 operator calls, F is equal"),
        ({}, {"software": "torch 2.15.0"}, "decompositions changed with torch 2.14.1 → 2.15.0, F is equal"),
        ({}, {"software": "onnx opset 17"}, "decompositions changed with torch 2.14.1 → onnx opset 17, F is equal"),
        ({}, {"software": "torch 2.15.0", "flop": 9_000_000_000}, ""),
        ({}, {}, ""),
        ({"software": ""}, {"software": "torch 2.15.0"}, ""),
    ],
)
def test_decomposed__another_version_with_equal_f_is_not_the_models_doing(base, head, said):
    found = decomposed(difference("x"), graph_totals(**base), graph_totals(**{**OTHER, **head}))
    assert found.endswith(said) if said else found == ""


def test_decomposed__an_equal_graph_and_another_dtype_are_not_explained_by_a_version():
    newer = graph_totals(**OTHER, software="torch 2.15.0")
    same = graph_totals(software="torch 2.15.0")
    assert decomposed(difference("x"), graph_totals(), same) == ""
    cast = change(base="float32[1,64] → float32[1,8]", head="bfloat16[1,64] → bfloat16[1,8]")
    assert decomposed(difference("x", changes=(cast,)), graph_totals(), newer) == ""
    wider = change(base="float32[1,64] → float32[1,8]", head="float32[1,64] → float32[1,9]")
    assert decomposed(difference("x", changes=(wider,)), graph_totals(), newer) != ""


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (breaks(0, 1, (), ("model.py:31: call of print()",)), "graph breaks 0 → 1: model.py:31: call of print()"),
        (breaks(1, 2, ("m.py:3: a",), ("m.py:9: b", "m.py:5: a")), "graph breaks 1 → 2: m.py:9: b"),
        (breaks(1, 2, ("m.py:3: a",), ("m.py:5: a", "m.py:7: a")), "graph breaks 1 → 2: m.py:7: a"),
        (breaks(2, 1, ("m.py:3: a", "m.py:4: b"), ("m.py:3: a",)), "graph breaks 2 → 1: gone: m.py:4: b"),
        (breaks(0, 5, (), tuple("abcde")), "graph breaks 0 → 5: a; b; c and 2 more"),
        (breaks(0, 1), "graph breaks 0 → 1"),
        (breaks(1, 1, ("a",), ("b",)), ""),
        (workload(now=ok(graph_breaks=1)), ""),
    ],
)
def test_graph_breaks__say_where_and_why(case, said):
    assert graph_breaks(case) == said


@pytest.mark.parametrize(
    ("metric", "base", "head", "verdict", "equal", "doubted"),
    [
        ("flop", (), (not_counted(),), "improvement", False, "head's F lacks mylib::fused (3)"),
        ("flop", (), (not_counted(),), "pass", True, "head's F lacks mylib::fused (3)"),
        ("flop", (), (not_counted(),), "regression", False, ""),
        ("flop", (not_counted(),), (), "regression", False, "base's F lacks mylib::fused (3)"),
        ("flop", (not_counted(),), (), "improvement", False, ""),
        ("flop", (not_counted(),), (not_counted(),), "pass", True, ""),
        ("flop", (not_counted(calls=1),), (not_counted(calls=2),), "improvement", False, "head's F lacks"),
        ("flop", (not_counted("a"),), (not_counted("b"),), "regression", False, "base's F lacks a (3)"),
        ("traffic", (), (not_counted(),), "improvement", False, ""),
        ("params", (), (not_counted(),), "improvement", False, ""),
    ],
)
def test_doubt__what_one_side_alone_did_not_count(metric, base, head, verdict, equal, doubted):
    evidence = workload(base=counted(not_counted=base), now=counted(not_counted=head))
    found = doubt(metric, evidence, verdict, equal=equal)
    assert found.startswith(doubted) if doubted else found == ""


def test_doubt__no_totals_no_doubt():
    assert doubt("flop", workload(), "pass", equal=True) == ""


def test_judge__work_that_moved_into_an_uncounted_operator_is_no_improvement():
    """N/A is never green: F of head is a lower bound."""
    moved = counted(flop=2_000_000_000, not_counted=(not_counted(reason="give its formula under [operators]"),))
    report = judged(workload(base=counted(), now=moved, noise=0.0))
    assert row(report, "flop").verdict == "inconclusive"
    assert report.verdict == "inconclusive"
    assert "give its formula under [operators]" in report.why
    assert not any(reason.startswith("F 8.00") for reason in only(report).reasons)


def test_judge__sides_traced_differently_are_not_compared_by_traffic():
    report = judged(workload(base=counted(), now=counted(source="real", eager=900), noise=0.0))
    found = row(report, "traffic")
    assert (found.verdict, row(report, "flop").verdict) == ("inconclusive", "pass")
    assert found.note.startswith("base was traced on tensors without contents and head on real tensors")


def test_judge__sides_traced_differently_with_equal_traffic_pass():
    report = judged(workload(base=counted(), now=counted(source="real"), noise=0.0))
    assert report.verdict == "pass"
    assert "traced" not in report.why
    assert any("operators may differ for that reason alone" in reason for reason in only(report).reasons)


def test_limits_of_counting__one_sentence_an_operator():
    evidence = workload(
        base=counted(not_counted=(not_counted("a"), not_counted("b", 1))),
        now=counted(not_counted=(not_counted("a"), not_counted("b", 2, first=""), not_counted("c", 1, reason=""))),
        difference=difference(notes=("more than 5 000 operators",)),
    )
    assert limits_of_counting(evidence) == [
        "F lacks a (3 calls, first at layer1): no formula",
        "F lacks b (1 on base, 2 on head): no formula",
        "F lacks c (1 on head, first at layer1)",
        "more than 5 000 operators",
    ]


def test_limits_of_counting__many_operators_are_summed_up():
    many = tuple(not_counted(f"op{n}") for n in range(50))
    found = limits_of_counting(workload(base=counted(), now=counted(not_counted=many)))
    assert len(found) == 4
    assert found[-1].startswith("F lacks 47 more operators")


def test_judge__totals_and_difference_reach_the_report():
    changed = difference(CAST)
    evidence = workload(base=counted(), now=counted(kernels=11), difference=changed)
    model = only(judged(evidence))
    assert (model.base_totals, model.head_totals) == (evidence.base.totals, evidence.head.totals)
    assert model.difference == changed


def test_reasons__the_operators_lead_and_counts_follow_in_one_sentence():
    evidence = workload(1.2, base=counted(), now=counted(**OTHER, eager=440), difference=difference(CAST))
    assert only(judged(evidence)).reasons[:3] == (
        CAST,
        "M eager +10.0 %; F, parameters and operator calls are unchanged",
        "outputs are equal",
    )


def test_reasons__an_equal_graph_is_said_once():
    same = only(judged(workload(1.2, base=counted(), now=counted(), difference=difference()))).reasons
    assert same[0] == "F, parameters and graph are unchanged"
    assert not any("operator calls" in reason or "M eager" in reason for reason in same)


def test_reasons__an_equal_graph_can_still_have_a_slower_operator():
    slower = difference("resize got slower: +3.0 ms of the +3.1 ms", equal=True)
    found = only(judged(workload(1.2, base=counted(), now=counted(), difference=slower))).reasons
    assert found[:2] == ("resize got slower: +3.0 ms of the +3.1 ms", "F, parameters and graph are unchanged")


def test_reasons__a_tiny_change_of_a_count_is_no_zero():
    base, now = counted(flop=8_000_000_000), counted(flop=8_000_000_002, **OTHER)
    found = only(judged(workload(base=base, now=now, difference=difference(CAST)))).reasons
    assert found[1] == "F +2 FLOP (1 MAC); M eager, parameters and operator calls are unchanged"


def test_reasons__further_sentences_come_after_the_counts():
    evidence = workload(1.2, base=counted(), now=counted(eager=440), difference=difference("a.b went", "c.d went"))
    found = only(judged(evidence)).reasons
    assert found[0] == "a.b went"
    assert found.index("c.d went") == 2
    assert len([reason for reason in found if reason == "a.b went"]) == 1


def test_reasons__graph_breaks_that_are_gated_come_before_the_operators():
    gated = policy(limits=limits(relative={"graph_breaks": 0.0}))
    evidence = breaks(0, 1, (), ("model.py:31: call of print()",))
    said = "graph breaks 0 → 1: model.py:31: call of print()"
    with_difference = workload(base=evidence.base, now=evidence.head, difference=difference(CAST), noise=0.0)
    assert only(judged(with_difference, under=gated)).reasons[:2] == (said, CAST)
    slower = workload(1.2, base=evidence.base, now=evidence.head, difference=difference(CAST), noise=0.0)
    assert only(judged(slower)).reasons[:2] == (CAST, said)


def test_reasons__another_torch_is_not_the_models_doing():
    newer = counted(**OTHER, software="torch 2.15.0", kernels=12)
    evidence = workload(base=counted(), now=newer, difference=difference("layer1/addmm was replaced"))
    found = only(judged(evidence)).reasons
    assert found[0] == "decompositions changed with torch 2.14.1 → 2.15.0: 10 → 12 operator calls, F is equal"
    assert found.index("layer1/addmm was replaced") > 0
    assert not any(reason.startswith(("F ", "operator calls")) for reason in found)


def test_reasons__differently_traced_sides_blame_no_operator_first():
    evidence = workload(1.2, base=counted(), now=counted(source="real"), difference=difference(CAST))
    assert only(judged(evidence)).reasons[0] != CAST


def test_judge__claims_of_any_size_are_judged_and_written():
    """An uploaded file may hold any number that fits into 63 bits, and any text."""
    most = 2**63 - 1
    text = "a|`<@\n\u202e" * 700
    wild = {"flop": most, "bytes": -most, "calls": most, "count": -most, "time_ns": 1e308, "share": -1e308}
    odd = difference(text, text, changes=(change(text, text, how=(text,), **wild),), more=most, notes=(text,))
    lacking = (not_counted(text, most),)
    now = counted(source=text, software=text, fingerprint=text, flop=most, kernels=-most, not_counted=lacking)
    other = counted(software=text, fingerprint=text)
    for head, side in itertools.product((0.8, 1.0, 1.2), (now, other)):
        report = judged(workload(head, base=counted(), now=side, difference=odd))
        assert wire.loads(Report, wire.dumps(report)) == report
        assert len(report.why) < 2_000
