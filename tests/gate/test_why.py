from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.records.evidence import Changes, WorkloadEvidence
from perfgate.records.protocol import Software
from perfgate.records.report import Report
from tests.gate.builders import (
    ABSENT,
    accept,
    cell,
    change,
    counted,
    difference,
    failed,
    judged,
    limits,
    ok,
    policy,
    workload,
)

GPU = cell("bert", "train", 32, device="cuda:0", dtype="bfloat16", compile_="default")


@pytest.mark.parametrize(
    ("case", "title"),
    [
        ({"head": 1.079, "of": cell("resnet50", "train", 32)}, "resnet50 trains 7.9 % slower (batch 32, cpu)"),
        ({"head": 1.25, "of": GPU}, "bert trains 25.0 % slower (batch 32, bfloat16, cuda:0, compile default)"),
        ({"head": 0.8}, "resnet infers 20.0 % faster (batch 1, cpu)"),
        ({"head": 1.5, "of": cell("gen", "step")}, "gen steps 50.0 % slower (batch 1, cpu)"),
        ({"base": ok(flop=10), "now": ok(flop=12)}, "resnet needs 20.0 % more F (infer, batch 1, cpu)"),
        (
            {"base_side": {"peak_bytes": 100}, "head_side": {"peak_bytes": 150}},
            "resnet needs 50.0 % more peak memory (infer, batch 1, cpu)",
        ),
        (
            {"base_side": {"spans": {"token": 100}}, "head_side": {"spans": {"token": 150}}},
            "resnet takes 50.0 % longer in token (infer, batch 1, cpu)",
        ),
        ({"base": ok(params=0), "now": ok(params=12)}, "resnet changes parameters from 0 to 12 (infer, batch 1, cpu)"),
        (
            {"base": ok(flop=10, weight_bytes=100), "now": ok(flop=12, weight_bytes=150)},
            "resnet needs 50.0 % more weights (infer, batch 1, cpu)",
        ),
        ({"now": failed()}, "resnet no longer runs (infer, batch 1, cpu)"),
        ({"now": ABSENT}, "resnet (infer, batch 1, cpu) vanished"),
        ({"base": ABSENT}, "nothing to compare resnet (infer, batch 1, cpu) with"),
        ({"end": "unstable"}, "resnet (infer, batch 1, cpu) could not be judged"),
        ({"head": [1.3, 0.8] * 10}, "no answer for resnet (infer, batch 1, cpu)"),
        ({}, "no regression in 1 workload"),
    ],
)  # fmt: skip
def test_title__one_workload(case, title):
    gated = policy(limits=limits(relative={"params": 0.01}))
    assert judged(workload(**{"noise": 0.0, **case}), under=gated).title == title


def of(*heads: float, **case) -> tuple[WorkloadEvidence, ...]:
    return tuple(workload(head, of=cell(f"m{k}"), noise=0.0, **case) for k, head in enumerate(heads))


@pytest.mark.parametrize(
    ("workloads", "title"),
    [
        (of(1.1, 1.2, 1.0, 1.3), "3 of 4 workloads are slower"),
        (of(0.9, 0.9, 1.0), "2 of 3 workloads are faster"),
        (of(1.0, 1.0, 1.0), "no regression in 3 workloads"),
        ((*of(1.1), workload(of=cell("x"), base=ok(flop=1), now=ok(flop=2))), "2 of 2 workloads got worse"),
    ],
)
def test_title__several_workloads(workloads, title):
    assert judged(*workloads).title == title


def test_title__acceptance_is_named():
    report = judged(workload(1.079, noise=0.0), accepted=(accept("resnet/infer/latency", 0.09),))
    assert report.title == "resnet infers 7.9 % slower (batch 1, cpu), accepted"
    assert report.why.startswith("Accepted up to 9 % by octo: better model (step time).")


def test_title__ceiling():
    report = judged(workload(noise=0.0), under=policy(limits=limits(ceilings={"latency": 9e6})))
    assert report.title == "resnet is past the step time ceiling of 9.00 ms (infer, batch 1, cpu)"


def test_title__names_stay_plain_text():
    evil = "a|b`<img src=x>`\u202e"
    report: Report = judged(workload(1.2, of=cell(evil)))
    assert report.title.startswith(evil + " infers")


def test_why__a_regression_gives_its_causes():
    report = judged(workload(1.2, base=ok(flop=8e9, params=3), now=ok(flop=9e9, params=3)))
    assert (
        report.why
        == "F 8.00 GFLOP (4.00 GMAC) → 9.00 GFLOP (4.50 GMAC) (+12.5 %). Parameters are unchanged. Outputs are equal."
    )


def test_why__several_regressions_name_the_largest():
    report = judged(*of(1.1, 1.4))
    assert report.why.startswith("First of them: m1 infers 40.0 % slower (batch 1, cpu).")


def test_why__a_failure_gives_its_message():
    report = judged(workload(now=failed("KeyError: 'w'")))
    assert report.why == "Head fails: KeyError: 'w' (build)."


def test_why__pass_says_what_would_have_been_seen():
    report = judged(workload(1.0))
    assert report.why.startswith("Largest change of step time: resnet infer ")
    assert "would have been seen" in report.why


def test_why__inconclusive_says_what_could_not_be_ruled_out():
    report = judged(workload([1.3, 0.8] * 10, end="n_max"))
    assert "a change of up to +" in report.why


CAST = "layer3.*.conv2 (6 operators) went from bfloat16 to float32: +1.02 ms of the +1.10 ms"
OTHER = {"fingerprint": "e" * 64}


def cast(head: float = 1.2, **case) -> WorkloadEvidence:
    return workload(head, base=counted(), now=counted(**OTHER), difference=difference(CAST), noise=0.0, **case)


def test_why__a_regression_begins_with_the_operators_and_a_name_stays_a_name():
    report = judged(cast())
    assert report.why == f"{CAST}. F, M eager, parameters and operator calls are unchanged. Outputs are equal."


@pytest.mark.parametrize("counts", [{"flop": 9_000_000_000}, {"eager": 500}])
def test_why__a_count_that_regressed_begins_with_the_operators(counts):
    evidence = workload(base=counted(), now=counted(**OTHER, **counts), difference=difference(CAST), noise=0.0)
    report = judged(evidence)
    assert report.verdict == "regression"
    assert report.why.startswith(f"{CAST}. ")


def test_why__an_improvement_says_which_operators_and_what_was_seen():
    report = judged(cast(0.8))
    assert report.verdict == "improvement"
    assert report.why.startswith(f"{CAST}. Largest change of step time: resnet infer −20.0 %")


def test_why__of_several_improvements_the_operators_name_their_workload():
    report = judged(cast(0.8, of=cell("a")), cast(0.7, of=cell("b", "train")))
    assert report.why.startswith(f"b train: {CAST}. ")


def test_why__a_pass_ends_with_the_operators():
    report = judged(cast(1.0))
    assert report.verdict == "pass"
    assert report.why.startswith("Largest change of step time")
    assert report.why.endswith(f" {CAST}.")
    two = judged(cast(1.0, of=cell("a")), workload(of=cell("b"), noise=0.0))
    assert two.why.endswith(f" a infer: {CAST}.")


def test_why__several_regressions_name_the_largest_and_its_operators():
    report = judged(*of(1.1), cast(1.4, of=cell("big")))
    assert report.why.startswith(f"First of them: big infers 40.0 % slower (batch 1, cpu). {CAST}. ")


@pytest.mark.parametrize("head", [0.8, 1.0, 1.2])
def test_why__an_environment_of_the_pull_requests_own_is_named_first(head):
    changes = Changes(environment=("requirements.txt",))
    evidence = workload(
        head,
        base=counted(software="torch 2.13.0"),
        now=counted(**OTHER, software="torch 2.14.1", kernels=12),
        difference=difference("x went"),
        noise=0.0,
    )
    old, new = (Software(versions={"torch": version}) for version in ("2.13.0", "2.14.1"))
    evidence = replace(evidence, base=replace(evidence.base, software=old), head=replace(evidence.head, software=new))
    report = judged(evidence, changes=changes)
    first = "The pull request changes the environment: requirements.txt. Versions: torch 2.13.0 → 2.14.1. "
    blamed = "Decompositions changed with torch 2.13.0 → 2.14.1: 10 → 12 operator calls, F is equal."
    assert report.why.startswith(first)
    assert blamed in report.why
    assert "x went" not in report.why


def test_why__of_several_regressions_the_environment_comes_before_the_first():
    report = judged(*of(1.1, 1.4), changes=Changes(environment=("uv.lock",)))
    assert report.why.startswith("The pull request changes the environment: uv.lock. First of them: m1 infers")


def test_why__a_failure_is_said_before_the_environment():
    report = judged(workload(now=failed("KeyError: 'w'")), changes=Changes(environment=("uv.lock",)))
    assert report.why == "Head fails: KeyError: 'w' (build). The pull request changes the environment: uv.lock."


def test_why__a_long_name_neither_hides_the_figures_nor_the_rest():
    name = "n" * 5_000
    found = difference(f"{name} went from bfloat16 to float32: +1 ms of the +2 ms", changes=(change(name),))
    report = judged(workload(1.2, base=counted(), now=counted(**OTHER), difference=found, noise=0.0))
    assert "went from bfloat16 to float32: +1 ms of the +2 ms. F, M eager" in report.why
    assert report.why.startswith("nnn")
    assert len(report.why) < 600


def test_why__words_begin_with_a_capital_also_beside_short_names():
    found = difference("fewer kernels", changes=(change("f"),))
    report = judged(workload(1.2, base=counted(), now=counted(**OTHER), difference=found, noise=0.0))
    assert report.why.startswith("Fewer kernels. ")


def test_why__graph_breaks_say_where():
    gated = policy(limits=limits(relative={"graph_breaks": 0.0}))
    now = ok(graph_breaks=1, breaks=("model.py:31: call of print()",))
    report = judged(workload(base=ok(graph_breaks=0), now=now, noise=0.0), under=gated)
    assert report.why.startswith("Graph breaks 0 → 1: model.py:31: call of print(). ")
