"""The forms a report can take, by name: golden files and pictures are made from these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from perfgate.records.evidence import Measurements, Skipped
from perfgate.records.report import (
    ACCEPTED,
    ERROR,
    IMPROVEMENT,
    INCONCLUSIVE,
    INVALID,
    MISSING,
    NEW,
    NO_BASELINE,
    PASS,
    REGRESSION,
    SHOWN,
    UNCHANGED,
    Report,
)
from tests.report.builders import (
    HARDWARE,
    POLICY,
    difference,
    evidence,
    exact,
    failed_side,
    measurements,
    model,
    noisy,
    not_counted,
    operator,
    report,
    shown,
    totals,
    usual,
)
from tests.report.cost_forms import COST_FORMS
from tests.report.estimate_builders import estimated
from tests.report.placement_builders import placements

Form = tuple[Report, Measurements]


def passing() -> Form:
    judged = report(
        model("resnet50", *usual(0.004)),
        model("resnet50", *usual(-0.002), mode="infer", batch=1),
        title="no regression in 2 workloads",
        why="the largest change is +0.4 % (resnet50 train b32, step time), within the limit of 3 %.",
        skipped=(Skipped(model="bert", reason="no changed file is loaded by it"),),
    )
    return judged, measurements(judged)


def regression() -> Form:
    judged = report(
        model(
            "resnet50",
            *usual(0.079, REGRESSION),
            reasons=("F is unchanged: the same work takes longer", "first step 2.31 s, before 2.29 s"),
        ),
        model("resnet50", *usual(0.004), mode="infer", batch=1),
        title="resnet50 trains 7.9 % slower (batch 32, cpu)",
        why="step time went from 13.9 ms to 15.0 ms; F, parameters and weights are unchanged.",
    )
    return judged, measurements(judged)


def mixed() -> Form:
    judged = report(
        model("bert", *usual(-0.112, IMPROVEMENT), mode="infer", batch=8),
        model("gpt-mini", noisy("latency", 0.061, ACCEPTED, note="accepted up to 9 % by octocat: new sampler")),
        model("new_model", noisy("latency", 0.0, NEW, base=None, ratio=None, ci_low=None, ci_high=None, pairs=0)),
        model("old_model", verdict=MISSING, reasons=("base has this workload, head's configuration does not",)),
        model(
            "resnet50",
            noisy("latency", 0.079, REGRESSION),
            exact("flop", 8.18e9, 8.59e9, REGRESSION),
            exact("params", 25_557_032, 25_557_033, SHOWN),
            exact("graph_breaks", 0, 5, SHOWN),
            reasons=("F rose by 5.0 %: 2 operators more",),
        ),
        model(
            "tiny", noisy("latency", 0.011, INCONCLUSIVE, note="a change of up to +4.1 % is not ruled out", mde=0.047)
        ),
        title="2 of 6 workloads are worse",
        why="resnet50: F rose by 5.0 %; old_model is gone.",
        banners=("This pull request changes [gate]; the policy of base was applied.",),
        notes=("1 model has no baseline yet.",),
    )
    return judged, measurements(judged)


def inconclusive() -> Form:
    judged = report(
        model(
            "resnet50",
            noisy(
                "latency",
                0.018,
                INCONCLUSIVE,
                ci_low=0.99,
                ci_high=1.048,
                pairs=20,
                mde=0.041,
                note="after 20 pairs a change of up to +4.2 % is not ruled out; this runner resolves 4.1 %",
            ),
            exact("flop", 8.18e9, 8.18e9),
        ),
        title="undecided: 1 workload needs a quieter runner",
        why="after 20 pairs neither a slowdown past 3 % nor its absence is certain.",
        check="neutral",
    )
    return judged, measurements(judged, evidence(judged.models[0], 0.018, end="n_max"))


def no_baseline() -> Form:
    alone = {"base": None, "ratio": None, "ci_low": None, "ci_high": None, "pairs": 0, "gated": False, "mde": None}
    judged = report(
        model(
            "resnet50",
            noisy("latency", 0.0, NO_BASELINE, **alone),
            noisy("peak_memory", 0.0, NO_BASELINE, **alone),
            exact("flop", None, 8.18e9, NO_BASELINE),
            shown("first_step", None, 2.31e9),
        ),
        title="first measurement of 1 workload",
        why="base has no policy and no such workload, so there is nothing to compare with.",
        check="neutral",
        banners=("Base has no perfgate policy: report only. Gating starts after merge.",),
        policy=replace(POLICY, source="perfgate.toml at 9f31c2e (head)", mode="report"),
    )
    return judged, measurements(judged, evidence(judged.models[0], pairs=(), end="recorded"))


def invalid() -> Form:
    judged = report(
        model(
            "resnet50",
            noisy("latency", 0.42, INVALID, pairs=4, note="another process used the CPU in 9 of 13 pairs"),
            reasons=("the runner was not stable, also on the second attempt",),
        ),
        title="not judged: the runner was not stable",
        why="another process used 40 % of a core while pairs were timed.",
        exit_code=3,
        check="neutral",
    )
    return judged, measurements(judged, evidence(judged.models[0], 0.42, end="unstable"))


def error() -> Form:
    judged = report(
        verdict=ERROR,
        title="not judged: measuring was impossible",
        why="both sides of resnet50/train fail: ModuleNotFoundError: No module named 'torchvision'",
        exit_code=3,
        check="failure",
    )
    return judged, measurements(judged)


def unchanged() -> Form:
    judged = report(
        verdict=UNCHANGED,
        title="no model is touched",
        why="all 2 changed files are documentation.",
        skipped=(
            Skipped(model="bert", reason="only documentation changed"),
            Skipped(model="resnet50", reason="only documentation changed"),
        ),
    )
    return judged, measurements(judged)


def report_mode() -> Form:
    judged, evidence_ = regression()
    judged = replace(judged, exit_code=0, check="neutral", policy=replace(POLICY, mode="report"))
    return judged, evidence_


def head_fails() -> Form:
    line = "ModuleNotFoundError: No module named 'myrepo.layers'"
    trace = (
        "Traceback (most recent call last):\n"
        '  File "myrepo/models.py", line 3, in <module>\n'
        "    from myrepo.layers import Block\n" + line
    )
    judged = report(
        model("resnet50", verdict=REGRESSION, reasons=(f"head fails while base works: {line}",)),
        title="resnet50 does not run any more",
        why=f"head raises {line}",
    )
    failed = evidence(judged.models[0], head=failed_side(line, trace), pairs=(), end="failed")
    return judged, measurements(judged, failed)


def many() -> Form:
    """200 workloads, of which 3 are worse."""
    worse = {17: 0.042, 60: 0.31, 133: 0.06}
    judged = report(
        *(
            model(f"model_{n:03d}", *usual(worse.get(n, 0.001), REGRESSION if n in worse else PASS), batch=1 + n % 3)
            for n in range(200)
        ),
        title="3 of 200 workloads are slower",
        why="model_060 is 31.0 % slower; F is unchanged everywhere.",
        environment=HARDWARE,
    )
    return judged, measurements(judged, evidence(judged.models[60], 0.31))


def operators() -> Form:
    """One layer in another precision, casts around it, and a resize that became slower; infer is as it was."""
    changed = difference(
        operator(time_ns=1_020_000.0, share=0.927),
        operator(
            "layer3.*/_to_copy",
            "added",
            op="aten::_to_copy",
            kind="cast",
            count=12,
            how=("bfloat16 → float32",),
            base="",
            head="bfloat16[1,256,14,14] → float32[1,256,14,14]",
            bytes=3_612_672,
            calls=12,
            time_ns=80_000.0,
            share=0.073,
        ),
        operator(
            "preprocess/upsample_bilinear2d",
            "slower",
            op="aten::upsample_bilinear2d",
            kind="other",
            count=1,
            how=(),
            base="float32[1,3,500,500] → float32[1,3,224,224]",
            head="float32[1,3,500,500] → float32[1,3,224,224]",
            bytes=0,
            time_ns=12_000.0,
        ),
        sentences=("layer3.*.conv2 (6 operators) went from bfloat16 to float32: +1.02 ms of the +1.10 ms",),
    )
    head = totals(eager=441_060_416, kernels=186, fingerprint="b0c4" + "1" * 60, not_counted=(not_counted(),))
    metrics = (
        noisy("latency", 0.079, REGRESSION),
        exact("flop", 8_178_368_512, 8_178_368_512),
        exact("traffic", 427_813_952, 441_060_416, REGRESSION),
        exact("operators", 174, 186, SHOWN),
    )
    judged = report(
        model("resnet50", *metrics, base_totals=totals(), head_totals=head, difference=changed),
        model(
            "resnet50",
            *usual(0.004),
            mode="infer",
            batch=1,
            base_totals=totals(),
            head_totals=totals(),
            difference=difference(),
        ),
        title="resnet50 trains 7.9 % slower (batch 32, cpu)",
        why="layer3.*.conv2 (6 operators) went from bfloat16 to float32: +1.02 ms of the +1.10 ms. "
        "M eager +3.1 %, operator calls +6.9 %; F is unchanged.",
    )
    return judged, measurements(judged)


def many_operators() -> Form:
    """Three workloads with as many findings as a comparison keeps, and one more look that is not judged."""

    def changed(mode: str):
        found = [
            operator(
                f"blocks.{n}.attn",
                ("changed", "added", "removed", "faster")[n % 4],
                op="aten::bmm",
                count=1,
                phase="forward" if mode == "infer" else "backward",
                how=("heads 12 → 8",),
                flop=(-1) ** n * 2_400_000_000,
                calls=n % 3 - 1,
                time_ns=None if n % 5 else -31_000.0,
            )
            for n in range(50)
        ]
        return {
            "difference": difference(*found, more=17),
            "base_totals": totals(batch=8),
            "head_totals": totals(flop=7_900_000_000),
        }

    cells = [
        model("vit", *usual(-0.09, IMPROVEMENT), mode=mode, batch=8, **changed(mode)) for mode in ("infer", "train")
    ]
    judged = report(
        model("bert", *usual(0.0), **changed("infer")),
        *cells,
        replace(cells[0], informative=True),
        title="2 of 3 workloads are faster",
    )
    return judged, measurements(judged)


def first_count() -> Form:
    """What a first run counts: there is one side only."""
    judged, _ = no_baseline()
    (only,) = judged.models
    judged = replace(judged, models=(replace(only, head_totals=totals(batch=32)),))
    return judged, measurements(judged, evidence(only, pairs=(), end="recorded"))


FORMS: dict[str, Callable[[], Form]] = {
    "pass": passing,
    "regression": regression,
    "mixed": mixed,
    "inconclusive": inconclusive,
    "no_baseline": no_baseline,
    "invalid": invalid,
    "error": error,
    "unchanged": unchanged,
    "report_mode": report_mode,
    "head_fails": head_fails,
    "many": many,
    "operators": operators,
    "many_operators": many_operators,
    "first_count": first_count,
    **COST_FORMS,
    "estimated": estimated,
    "placements": placements,
}
