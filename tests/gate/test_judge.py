from __future__ import annotations

import math
import re

import pytest

from perfgate import wire
from perfgate.gate import judge as judge_module
from perfgate.records.evidence import Changes, RunError, Skipped
from perfgate.records.protocol import Software
from perfgate.records.report import Report
from tests.gate import builders as b
from tests.gate.builders import (
    ABSENT,
    cell,
    failed,
    judged,
    limits,
    ok,
    only,
    policy,
    probe,
    row,
    workload,
)

# ---------------------------------------------------------------- the table of policy.md

NOISE = [1.25, 0.8] * 10

TABLE = [
    ("slower", {"head": 1.10}, "regression", 1, "failure"),
    ("vanished", {"now": ABSENT}, "missing", 1, "failure"),
    ("head raises", {"now": failed()}, "regression", 1, "failure"),
    ("head hangs", {"now": failed(kind="hung", phase="warm-up")}, "regression", 1, "failure"),
    ("head exits", {"now": failed(kind="exited", phase="timing")}, "regression", 1, "failure"),
    ("head out of memory", {"now": failed(kind="oom", phase="first-step")}, "regression", 1, "failure"),
    ("head does not import", {"now": failed(kind="import", phase="import")}, "regression", 1, "failure"),
    ("unchanged speed", {"head": 1.0}, "pass", 0, "success"),
    ("slower, within the limit", {"head": 1.015, "noise": 0.001}, "pass", 0, "success"),
    ("faster", {"head": 0.85}, "improvement", 0, "success"),
    ("noise", {"head": NOISE}, "inconclusive", 0, "neutral"),
    ("budget ended", {"head": 1.0, "count": 2, "end": "budget"}, "inconclusive", 0, "neutral"),
    ("not begun", {"measured": (), "end": "not-begun", "needed_s": 200.0}, "inconclusive", 0, "neutral"),
    ("new model", {"base": ABSENT, "end": "recorded"}, "no-baseline", 0, "neutral"),
    ("base cannot run it", {"base": failed()}, "no-baseline", 0, "neutral"),
    ("unstable runner", {"head": 1.0, "end": "unstable"}, "invalid", 3, "neutral"),
    ("both fail", {"base": failed(), "now": failed()}, "error", 3, "failure"),
    ("new model fails", {"base": ABSENT, "now": failed()}, "error", 3, "failure"),
    ("gone, and base was broken", {"base": failed(), "now": ABSENT}, "missing", 1, "failure"),
    ("foreign code", {"now": failed(kind="foreign-code")}, "error", 2, "failure"),
]


@pytest.mark.parametrize(
    ("case", "verdict", "code", "check"), [line[1:] for line in TABLE], ids=[line[0] for line in TABLE]
)
def test_judge__verdict_table(case, verdict, code, check):
    report = judged(workload(**case))
    assert (report.verdict, report.exit_code, report.check) == (verdict, code, check)
    assert report.title
    assert report.would_fail == (code == 1)


@pytest.mark.parametrize(("case", "verdict", "code"), [line[1:4] for line in TABLE], ids=[line[0] for line in TABLE])
def test_judge__report_mode_never_fails_by_a_verdict(case, verdict, code):
    report = judged(workload(**case), under=policy(mode="report"))
    assert report.verdict == verdict
    assert report.exit_code == (code if verdict == "error" else 0)
    assert report.would_fail == (code == 1)
    assert report.check == "failure" if verdict == "error" else report.check in ("success", "neutral")
    assert (judge_module.WOULD_HAVE_FAILED in report.banners) == (code == 1)


@pytest.mark.parametrize("case", [line[1] for line in TABLE], ids=[line[0] for line in TABLE])
def test_judge__every_report_is_strict_json_without_nan(case):
    report = judged(workload(**case))
    text = wire.dumps(report)
    assert wire.loads(Report, text) == report
    said = [report.title, report.why, *report.banners, *only(report).reasons, *(r.note for r in only(report).metrics)]
    assert not re.search(r"\b(nan|inf|None)\b", " ".join(said).replace("NaN or infinite", ""), re.IGNORECASE)


@pytest.mark.parametrize(
    ("case", "fields", "code", "check"),
    [
        ({"head": NOISE}, {"on_inconclusive": "block"}, 0, "action_required"),
        ({"head": 1.0, "end": "unstable"}, {"on_inconclusive": "block"}, 3, "action_required"),
        ({"head": NOISE}, {"on_inconclusive": "block", "mode": "report"}, 0, "neutral"),
        ({"head": NOISE}, {"fail_on": ("inconclusive",)}, 1, "failure"),
        ({"head": NOISE}, {"fail_on": ("inconclusive",), "mode": "report"}, 0, "neutral"),
        ({"base": ABSENT}, {"fail_on": ("no-baseline",)}, 1, "failure"),
        ({"base": ABSENT}, {"on_inconclusive": "block"}, 0, "neutral"),
    ],
)
def test_judge__fail_on_and_on_inconclusive(case, fields, code, check):
    report = judged(workload(**case), under=policy(**fields))
    assert (report.exit_code, report.check) == (code, check)


def test_judge__fail_on_acts_on_any_row_and_not_only_on_the_worst():
    two = (workload(NOISE, of=cell("a")), workload(of=cell("b"), base=ABSENT))
    assert judged(*two).exit_code == 0
    report = judged(*two, under=policy(fail_on=("no-baseline",)))
    assert (report.verdict, report.exit_code) == ("inconclusive", 1)


@pytest.mark.parametrize("order", [1, -1])
def test_judge__red_wins_over_invalid_and_over_a_workload_that_works_nowhere(order):
    red = workload(1.1, of=cell("slow"))
    for other in (workload(of=cell("x"), end="unstable"), workload(of=cell("x"), base=failed(), now=failed())):
        report = judged(*(red, other)[::order])
        assert (report.verdict, report.exit_code, report.check) == ("regression", 1, "failure")


def test_judge__an_error_while_measuring_is_never_green():
    for code, expected in ((3, 3), (2, 2), (130, 130), (0, 3), (1, 3)):
        report = judged(workload(), error=RunError(exit_code=code, message="runner went away\nsecond line"))
        assert (report.verdict, report.exit_code, report.check) == ("error", expected, "failure")
        assert report.title == "not judged: runner went away"
        assert report.why == "second line"


# ---------------------------------------------------------------- nothing measured


def test_judge__unchanged_if_every_model_is_explained():
    skipped = (
        Skipped(model="resnet", reason="only documentation changed"),
        Skipped(model="bert", reason="only documentation changed"),
    )
    report = judged(skipped=skipped, under=policy(models={"resnet": limits(), "bert": limits()}))
    assert (report.verdict, report.exit_code, report.check) == ("unchanged", 0, "success")
    assert report.why == "2 models skipped: only documentation changed."


def test_judge__a_model_that_nobody_explains_is_not_unchanged():
    report = judged(
        skipped=(Skipped(model="resnet", reason="x"),), under=policy(models={"resnet": limits(), "bert": limits()})
    )
    assert (report.verdict, report.check) == ("no-baseline", "neutral")
    assert "bert" in report.why


def test_judge__b10_c02_a_first_run_is_no_plain_pass_and_shows_numbers():
    assert judged().verdict == "no-baseline"
    report = judged(
        workload(base=ABSENT, now=ok(probe(flop=8e9, step_ns=7_000_000), probe(flop=8e9, step_ns=7_200_000)))
    )
    assert (report.verdict, report.check) == ("no-baseline", "neutral")
    assert row(report).head == 7_100_000
    assert (row(report, "flop").head, row(report, "flop").verdict) == (8e9, "no-baseline")


def test_judge__no_policy_on_base_gates_nothing_and_says_so():
    report = judged(workload(1.2), under=policy(has_base=False))
    assert (report.verdict, report.exit_code, report.check) == ("no-baseline", 0, "neutral")
    assert only(report).verdict == "regression"
    assert report.would_fail
    assert judge_module.GATING_STARTS in report.banners
    assert report.policy.mode == "report"


def test_judge__no_policy_on_base_ignores_fail_on():
    # Without a base policy it could only come from the pull request itself.
    report = judged(workload(), under=policy(has_base=False, fail_on=("no-baseline",)))
    assert report.exit_code == 0


# ---------------------------------------------------------------- B11, B12: what vanished


def test_judge__b11_a_vanished_workload_is_missing_and_red():
    names = ("a", "b", "c")
    report = judged(*(workload(of=cell(name), now=ABSENT if name == "c" else None) for name in names))
    assert (report.verdict, report.exit_code) == ("missing", 1)
    assert [model.verdict for model in report.models] == ["pass", "pass", "missing"]
    assert report.title == "c (infer, batch 1, cpu) vanished"


def test_judge__b12_a_metric_that_head_lost_is_red():
    report = judged(workload(base=ok(flop=8, params=3), now=ok(params=3)))
    assert (row(report, "flop").verdict, report.verdict, report.exit_code) == ("missing", "missing", 1)
    assert (row(report, "flop").base, row(report, "flop").head, row(report, "flop").ratio) == (8, None, None)


def test_judge__b12_a_metric_that_cannot_be_counted_is_not_green():
    lost = ok(probe(not_counted=("flop: my::op",)), probe(not_counted=("flop: my::op",)))
    report = judged(workload(base=ok(flop=8), now=lost))
    assert (row(report, "flop").verdict, report.check) == ("inconclusive", "neutral")
    assert "not counted: flop: my::op" in only(report).reasons


def test_judge__b12_a_span_that_head_no_longer_yields_is_red():
    report = judged(workload(base_side={"spans": {"token": 5e6}}, head_side={}))
    assert (row(report, "span:token").verdict, report.exit_code) == ("missing", 1)
    assert report.title == "resnet (infer, batch 1, cpu) no longer reports token"


def test_judge__a_span_that_only_head_yields_is_new():
    report = judged(workload(head_side={"spans": {"token": 5e6}}))
    assert (row(report, "span:token").verdict, report.verdict, report.check) == ("new", "new", "success")


def test_judge__energy_that_only_one_side_could_read_is_not_heads_fault():
    report = judged(workload(base_side={"energy_j": 2.0}))
    assert (row(report, "energy").verdict, report.exit_code) == ("inconclusive", 0)


# ---------------------------------------------------------------- B16, B20, C03, C08: zero, NaN

SMALLER = [
    (0.0, 0.0, "pass", None),
    (0.0, 5.0, "regression", None),
    (5.0, 0.0, "improvement", 0.0),
    (-0.0, 0.0, "pass", None),
    (5.0, 5.0, "pass", 1.0),
    (math.nan, 5.0, "invalid", None),
    (5.0, math.nan, "invalid", None),
    (math.inf, 5.0, "invalid", None),
    (5.0, math.inf, "invalid", None),
]


@pytest.mark.parametrize(("base", "head", "verdict", "ratio"), SMALLER)
def test_judge__b16_c03_c08_zero_and_nan_in_exact_metrics(base, head, verdict, ratio):
    report = judged(workload(base=ok(flop=base), now=ok(flop=head)))
    found = row(report, "flop")
    assert (found.verdict, found.ratio) == (verdict, ratio)
    assert found.gated
    wire.dumps(report)
    if base == 0:
        assert found.base == 0, "0 is a value, not an absent one"


def test_judge__b16_nan_is_never_green():
    report = judged(workload(base=ok(flop=math.nan), now=ok(flop=5)))
    assert (report.verdict, report.exit_code, report.check) == ("invalid", 3, "neutral")


@pytest.mark.parametrize(("base", "head", "verdict"), [(0, 0, "pass"), (0, 5, "regression"), (5, 0, "improvement")])
def test_judge__b16_zero_in_noisy_metrics(base, head, verdict):
    report = judged(workload(base_side={"peak_bytes": base}, head_side={"peak_bytes": head}))
    found = row(report, "peak_memory")
    assert (found.verdict, found.ratio, found.base, found.head) == (verdict, None, base, head)


def test_judge__b20_throughput_that_falls_to_nothing_is_not_zero_percent():
    down = judged(workload(100.0), under=policy(limits=limits(relative={"throughput": 0.05})))
    found = row(down, "throughput")
    assert found.verdict == "regression"
    assert found.ratio == pytest.approx(0.01, rel=0.02)
    up = judged(workload(0.5), under=policy(limits=limits(relative={"throughput": 0.05})))
    assert row(up, "throughput").verdict == "improvement"


# ---------------------------------------------------------------- B17: units


def test_judge__b17_values_stay_in_the_registrys_units():
    report = judged(
        workload(1.0083, noise=0.0001, base=ok(flop=8e9), now=ok(flop=8e9),
                 base_side={"peak_bytes": 2**30, "energy_j": 0.5}, head_side={"peak_bytes": 2**30, "energy_j": 0.5})
    )  # fmt: skip
    units = {r.metric: (r.unit, r.base) for r in only(report).metrics}
    assert units["latency"][0] == "ns"
    assert units["latency"][1] == pytest.approx(b.BASE_NS, rel=0.01)
    assert units["peak_memory"][0] == "byte"
    assert units["peak_memory"][1] == pytest.approx(2**30)
    assert units["energy"][0] == "joule"
    assert units["energy"][1] == pytest.approx(0.5)
    assert units["flop"] == ("flop", 8e9)
    assert (report.verdict, row(report).verdict) == ("pass", "pass")
    assert row(report).ratio == pytest.approx(1.0083, abs=0.001)


# ---------------------------------------------------------------- B19, B23, B24, B27: noise and blame


@pytest.mark.parametrize("count", [1, 2])
def test_judge__b19_one_or_two_pairs_are_insufficient(count):
    report = judged(workload(1.5, count=count, noise=0.0, end="budget"))
    found = row(report)
    assert (found.verdict, found.pairs) == ("inconclusive", count)
    wire.dumps(report)


def test_judge__b23_a_level_that_flips_by_process_is_not_a_regression():
    flips = [1.13, 1.0, 1.0, 1.13, 1 / 1.13, 1.0, 1.13, 1 / 1.13, 1.0, 1 / 1.13] * 2
    report = judged(workload(flips))
    assert report.verdict in ("pass", "inconclusive")
    assert report.exit_code == 0


def test_judge__b24_software_that_differs_without_a_change_is_invalid():
    base, head = ok(software=Software(versions={"torch": "2.4.0"})), ok(software=Software(versions={"torch": "2.5.0"}))
    report = judged(workload(1.3, base=base, now=head))
    assert (report.verdict, report.exit_code) == ("invalid", 3)
    assert "torch 2.4.0 → 2.5.0" in row(report).note


def test_judge__b24_software_that_the_pull_request_changes_is_judged_and_named_first():
    base, head = ok(software=Software(versions={"torch": "2.4.0"})), ok(software=Software(versions={"torch": "2.5.0"}))
    report = judged(workload(1.3, base=base, now=head), changes=Changes(environment=("requirements.txt",)))
    assert report.verdict == "regression"
    assert only(report).reasons[0] == "the pull request changes the environment: requirements.txt"
    assert only(report).reasons[1] == "versions: torch 2.4.0 → 2.5.0"
    assert report.software == {"torch": "2.5.0"}


def test_judge__b27_the_eleventh_pull_request_is_not_blamed_for_ten_small_ones():
    # Base already carries +4 % of ten merges; only this pull request's own change counts.
    report = judged(workload(1.0), under=policy(tolerance=0.015))
    assert report.verdict == "pass"
    creeping = judged(workload(1.004, noise=0.0005), under=policy(tolerance=0.015))
    assert creeping.verdict == "pass"
    assert row(creeping).note == "slower, within the limit"
