from __future__ import annotations

import dataclasses

import pytest

from perfgate.gate.judge import judge
from perfgate.records.evidence import Changes
from perfgate.records.policy import Plan
from tests.gate import builders as b
from tests.gate.builders import (
    ABSENT,
    accept,
    cell,
    failed,
    judged,
    limits,
    ok,
    only,
    pairs,
    policy,
    probe,
    row,
    run,
    workload,
)

# ---------------------------------------------------------------- limits, modes, acceptances


def test_judge__at_the_limit_is_red_and_below_is_not():
    at, below = workload(base=ok(flop=100), now=ok(flop=101)), workload(base=ok(flop=1000), now=ok(flop=1009))
    assert row(judged(at), "flop").verdict == "regression"
    assert row(judged(below), "flop").verdict == "pass"
    assert "+0.9 %, within the limit" in row(judged(below), "flop").note


def test_judge__exact_values_that_differ_inside_a_side_decide_nothing():
    shaky = ok(probe(flop=8), probe(flop=9))
    for base, now in ((shaky, ok(flop=8)), (ok(flop=8), shaky)):
        report = judged(workload(base=base, now=now))
        assert (row(report, "flop").verdict, report.check) == ("inconclusive", "neutral")
        assert "differs from process to process" in row(report, "flop").note


def test_judge__a_value_that_one_of_three_processes_lacks_decides_nothing():
    gappy = ok(probe(flop=8), probe(flop=8), probe())
    assert row(judged(workload(base=ok(flop=8), now=gappy)), "flop").verdict == "inconclusive"


def test_judge__one_process_does_not_prove_that_a_value_is_exact():
    report = judged(workload(base=ok(probe(flop=8)), now=ok(flop=8)))
    assert row(report, "flop").verdict == "inconclusive"


@pytest.mark.parametrize(("grow", "verdict"), [(2**21 - 1, "pass"), (2**21, "regression")])
def test_judge__cuda_peak_memory_is_exact_beyond_two_mebibytes(grow, verdict):
    small = 50 * 2**20
    gpu = cell(device="cuda:0")
    report = judged(workload(of=gpu, base=ok(peak_memory=small), now=ok(peak_memory=small + grow)))
    assert (row(report, "peak_memory").kind, row(report, "peak_memory").verdict) == ("exact", verdict)


def test_judge__cuda_peak_memory_is_never_taken_from_pairs():
    gpu = cell(device="cuda:0")
    report = judged(workload(of=gpu, base_side={"peak_bytes": 10}, head_side={"peak_bytes": 900}))
    assert all(r.metric != "peak_memory" for r in only(report).metrics)


def test_judge__a_metric_in_report_mode_does_not_fail_the_run():
    slow = workload(1.2, base=ok(flop=8), now=ok(flop=8))
    report = judged(slow, under=policy(limits=limits(metric_modes={"latency": "report"})))
    assert (report.verdict, report.exit_code, report.check, report.would_fail) == ("regression", 0, "neutral", True)
    assert not row(report).enforced
    assert row(report, "flop").enforced


def test_judge__a_model_in_report_mode_does_not_hide_another():
    under = policy(models={"a": limits(mode="report")})
    assert judged(workload(1.2, of=cell("a")), under=under).exit_code == 0
    assert judged(workload(1.2, of=cell("a")), workload(1.2, of=cell("b")), under=under).exit_code == 1


def test_judge__a_limit_of_none_shows_without_judging():
    report = judged(workload(1.5), under=policy(limits=limits(relative={"latency": None})))
    assert (row(report).verdict, row(report).gated, report.exit_code) == ("shown", False, 0)
    assert report.title == "nothing is gated in 1 workload"
    assert row(report).ratio == pytest.approx(1.5, abs=0.01)


def test_judge__a_percentile_is_gated_on_request():
    under = policy(limits=limits(relative={"latency_p99": 0.05, "latency": None}))
    report = judged(workload(1.2), under=under)
    assert (row(report, "latency_p99").verdict, row(report, "latency_p99").kind) == ("regression", "noisy")
    assert (row(report, "latency_p90").verdict, row(report, "latency_p90").kind) == ("shown", "shown")


@pytest.mark.parametrize(
    ("ceiling", "head", "verdict"),
    [(9e6, 1.0, "regression"), (20e6, 1.0, "pass"), (20e6, 2.4, "regression")],
)
def test_judge__ceiling_of_a_noisy_metric(ceiling, head, verdict):
    under = policy(limits=limits(ceilings={"latency": ceiling}, relative={"latency": None}))
    report = judged(workload(head), under=under)
    assert (row(report).verdict, row(report).ceiling) == (verdict, ceiling)


def test_judge__a_ceiling_that_is_not_certainly_passed_is_open():
    under = policy(limits=limits(ceilings={"latency": 9.9e6}))
    report = judged(workload([1.3, 0.8] * 10, noise=0.0), under=under)
    assert row(report).verdict == "inconclusive"


def test_judge__a_ceiling_names_a_base_that_was_past_it_too():
    report = judged(
        workload(base=ok(weight_bytes=300), now=ok(weight_bytes=300)),
        under=policy(limits=limits(ceilings={"weight_bytes": 200})),
    )
    assert row(report, "weight_bytes").verdict == "regression"
    assert row(report, "weight_bytes").note == "past the ceiling of 200 B (base was past it too)"


@pytest.mark.parametrize(
    ("bound", "head", "verdict", "code"),
    [
        (0.09, 1.08, "accepted", 0),
        (0.09, 1.11, "accepted", 0),
        (0.09, 1.14, "regression", 1),
        (0.02, 1.08, "regression", 1),
    ],
)
def test_judge__accepted_only_within_bound_and_tolerance(bound, head, verdict, code):
    report = judged(workload(head, noise=0.001), accepted=(accept("resnet/infer/latency", bound),))
    assert (report.verdict, report.exit_code) == (verdict, code)
    assert "octo" in row(report).note
    if verdict == "accepted":
        assert report.check == "success"
        assert report.title.endswith("accepted")


@pytest.mark.parametrize("target", ["resnet/train/latency", "bert/infer/latency", "resnet/infer/flop"])
def test_judge__an_acceptance_covers_its_target_only(target):
    assert judged(workload(1.08), accepted=(accept(target, 0.5),)).verdict == "regression"


def test_judge__an_acceptance_that_fits_nothing_is_said():
    report = judged(workload(), accepted=(accept("gone/infer/latency", 0.5),))
    assert "Acceptance of gone/infer/latency fits nothing here." in report.notes


def test_judge__acceptances_inside_the_evidence_are_only_claims():
    report = judged(workload(1.08), changes=Changes())
    claimed = dataclasses.replace(run(workload(1.08)), accepted=(accept("resnet/infer/latency", 0.5),))
    assert judge(claimed, policy()).verdict == report.verdict == "regression"


def test_judge__no_acceptance_covers_a_ceiling():
    under = policy(limits=limits(ceilings={"latency": 10.5e6}))
    report = judged(workload(1.08, noise=0.001), under=under, accepted=(accept("resnet/infer/latency", 0.5),))
    assert (report.verdict, report.exit_code) == ("regression", 1)


@pytest.mark.parametrize("now", [failed(), ABSENT])
def test_judge__no_acceptance_covers_a_failure(now):
    assert judged(workload(now=now), accepted=(accept("resnet/infer/latency", 9.0),)).exit_code == 1


# ---------------------------------------------------------------- what cannot be compared


def test_judge__unequal_items_are_different_work_and_red():
    report = judged(workload(0.5, base=ok(probe(items=16), probe(items=16)), now=ok(probe(items=8), probe(items=8)),
                             base_side={"items": 16}, head_side={"items": 8}))  # fmt: skip
    assert (report.verdict, report.exit_code) == ("regression", 1)
    assert only(report).reasons[0] == "does different work: 16 items a step on base, 8 on head"
    assert report.title == "resnet does different work (infer, batch 1, cpu)"


def test_judge__items_that_vary_inside_a_side_are_said_and_not_red():
    sides = {"base": ok(probe(items=3), probe(items=4)), "now": ok(probe(items=4), probe(items=5))}
    report = judged(workload(base=sides["base"], now=sides["now"], base_side={"items": 3}, head_side={"items": 4}))
    assert report.verdict == "pass"
    assert "items a step vary on head: 4, 5" in only(report).reasons


def test_judge__numbers_are_those_of_the_pairs_that_decided():
    early = pairs(1.0, count=5, noise=0.0)
    late = tuple(dataclasses.replace(pair, base=b.side(9e9), head=b.side(1.0)) for pair in pairs(1.0, count=7))
    numbered = tuple(dataclasses.replace(pair, index=k, round=k) for k, pair in enumerate((*early, *late)))
    found = row(judged(workload(measured=numbered)))
    assert (found.verdict, found.pairs) == ("pass", 5)
    assert found.base == pytest.approx(b.BASE_NS)
    assert found.head == pytest.approx(b.BASE_NS)


def test_judge__different_work_is_red_even_before_any_pair():
    report = judged(workload(measured=(), base=ok(probe(items=2)), now=ok(probe(items=1)), end="failed"))
    assert report.exit_code == 1


def test_judge__a_failure_of_head_shows_its_message_and_not_the_end_of_a_log():
    log = "loading the tokenizer\nepoch 3 of 10\n"
    report = judged(workload(now=failed("RuntimeError: mat1 and mat2 shapes", trace=log, phase="first-step")))
    assert only(report).reasons[0] == "head fails: RuntimeError: mat1 and mat2 shapes (first-step)"
    assert report.title == "resnet no longer runs (infer, batch 1, cpu)"


def test_judge__out_of_memory_on_head_is_told_as_memory():
    report = judged(workload(now=failed("out of memory", kind="oom")))
    assert row(report, "peak_memory").verdict == "regression"
    assert report.title == "resnet runs out of memory (infer, batch 1, cpu)"


def test_judge__not_begun_says_what_it_would_need():
    report = judged(workload(measured=(), end="not-begun", needed_s=200.0))
    assert "3 min 20 s" in row(report).note
    assert "3 min 20 s" in report.why


def test_judge__only_void_pairs_are_no_answer():
    report = judged(workload(void="foreign process"))
    assert (row(report).verdict, row(report).pairs) == ("inconclusive", 0)
    assert "foreign process" in row(report).note


def test_judge__an_informative_look_is_never_judged():
    report = judged(workload(1.0), workload(1.5, informative=True, base=ok(flop=1), now=ok(flop=9)))
    assert (report.verdict, report.exit_code) == ("pass", 0)
    assert report.models[1].informative
    assert all(not r.gated for r in report.models[1].metrics)
    assert report.policy.comparisons == 2, "step time and memory of the judged look alone"


def test_judge__pairs_of_one_round_are_not_independent():
    per_round = [1.2] * 5 + [0.9] * 5 + [1.25] * 5 + [1.2] * 5
    assert judged(workload(per_round, noise=0.001)).verdict == "regression"
    shared = judged(workload(per_round, noise=0.001, per_round=5), under=policy(pairs_per_round=5))
    assert shared.verdict == "inconclusive"
    unplanned = judged(workload(per_round, noise=0.001, per_round=5))
    assert unplanned.verdict == "inconclusive", "what the evidence says about its rounds counts, not the plan"
    declared = judged(
        workload(per_round, noise=0.001, per_round=5), under=policy(pairs_per_round=5, independent_pairs=True)
    )
    assert declared.verdict == "regression"


# ---------------------------------------------------------------- M


def test_judge__alpha_is_shared_by_all_comparisons_of_the_run():
    many = [workload(of=cell(f"m{k}"), base_side={"peak_bytes": 7}, head_side={"peak_bytes": 7}) for k in range(5)]
    assert judged(*many).policy.comparisons == 10


def test_judge__m_is_the_plans_but_never_less_than_the_evidence_shows():
    def planned(comparisons: int) -> Plan:
        return Plan(comparisons=comparisons, alpha=0.5, looks=(2,), pairs_per_round=1, block_ns=1, groups=1, seed=0)

    borderline = workload(1.05, noise=0.03, seed=3, count=12)
    assert judged(borderline, plan=planned(1)).policy.comparisons == 2
    assert judged(borderline, plan=planned(2)).notes == judged(borderline).notes
    report = judged(borderline, plan=planned(400))
    assert report.policy.comparisons == 400
    assert report.policy.looks == (5, 8, 12, 16, 20)
    assert any("400 comparisons, 2 of them" in note for note in report.notes)
    assert judged(workload(), workload(of=cell("x")), plan=planned(1)).policy.comparisons == 4


def test_judge__m_leaves_out_what_only_one_side_has():
    # These cannot raise a false alarm; counting them would make the verdict stricter than measuring was.
    compared = workload(head_side={"spans": {"token": 5e6}})
    report = judged(compared, workload(of=cell("new"), base=ABSENT), workload(of=cell("gone"), now=ABSENT))
    assert report.policy.comparisons == 2


def test_judge__the_evidences_own_policy_is_not_used():
    loose = run(workload(1.08), policy=policy(tolerance=5.0, mode="report"))
    assert judge(loose, policy()).exit_code == 1


def test_judge__is_pure():
    measured = run(workload(1.08, base=ok(flop=1), now=ok(flop=2)), workload(of=cell("b"), measured=pairs(1.0)))
    assert judge(measured, policy()) == judge(measured, policy())
