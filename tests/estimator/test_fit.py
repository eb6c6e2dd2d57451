"""The fitted model on steps that follow a known law."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest

from perfgate.errors import UsageError
from perfgate.estimator import features, fit, memory, saved
from perfgate.records.estimate import (
    ANCHORED,
    ENERGY,
    FITTED,
    PEAK_MEMORY,
    STEP_TIME,
    TARGETS,
    TRANSFERRED,
    UTILISATION,
)
from perfgate.records.graph import KernelGroup
from tests.estimator import steps


def asked(example):
    return replace(example, targets={})


@pytest.fixture(scope="module")
def measured():
    return steps.examples(240)


@pytest.fixture(scope="module")
def model(measured):
    return fit.fit(measured)


def test_fit__estimates_every_target_of_models_it_never_saw(model):
    fresh = steps.examples(100, seed=7)
    for target, limit in ((STEP_TIME, 0.07), (ENERGY, 0.08), (PEAK_MEMORY, 0.07), (UTILISATION, 0.2)):
        found = model.estimates([asked(one) for one in fresh], target)
        truth = np.array(
            [one.targets[target] + (memory.CONTEXT_BYTES if target == PEAK_MEMORY else 0) for one in fresh]
        )
        assert np.median(np.abs(np.array([one.value for one in found]) / truth - 1)) < limit, target
        assert all(one.low <= one.value <= one.high for one in found)


def test_fit__states_its_accuracy_on_held_out_groups(model):
    assert set(model.accuracy) == set(TARGETS)
    one = model.accuracy[STEP_TIME]
    assert (one.n, one.groups) == (240, 10)
    assert 0.01 < one.median_ape < 0.08
    assert one.within_20 > 0.9
    assert 0.8 <= one.coverage <= 1


def test_intervals__cover_new_families(measured):
    """Families of the law's own oddness, none of them learned from: the promise of 90 % by row and by family."""
    covered = []
    for family in range(len(steps.FAMILIES)):
        rest = [one for one in measured if one.group != steps.FAMILIES[family]]
        mine = [one for one in measured if one.group == steps.FAMILIES[family]]
        found = fit.fit(rest, targets=(STEP_TIME,)).estimates([asked(one) for one in mine])
        covered += [e.low <= m.targets[STEP_TIME] <= e.high for e, m in zip(found, mine, strict=True)]
    assert 0.84 <= np.mean(covered) <= 1


def test_terms__add_up_to_the_estimate(model, measured):
    for target in TARGETS:
        for one in model.estimates([asked(one) for one in measured[:20]], target):
            assert sum(term.value for term in one.terms) == pytest.approx(one.value)
            assert all(term.name for term in one.terms)


def grown(example, **factors):
    """The same step with FLOP, or all that grows with the batch, times a factor."""
    groups = tuple(
        replace(
            one,
            flop=int(one.flop * factors.get("flop", 1)),
            bytes=int((one.bytes - one.weight_bytes) * factors.get("bytes", 1)) + one.weight_bytes,
            written_bytes=int(one.written_bytes * factors.get("bytes", 1)),
        )
        for one in example.kernels
    )
    return replace(asked(example), kernels=groups)


def test_estimate__more_batch_is_never_faster(model, measured):
    for one in measured[:40]:
        values = [model.estimate(grown(one, flop=factor, bytes=factor)).value for factor in (1, 2, 4, 16)]
        assert values == sorted(values)


@pytest.mark.parametrize("what", ["flop", "bytes"])
def test_estimate__more_work_in_the_same_classes_is_never_faster(model, measured, what):
    checked = 0
    for one in measured[:60]:
        question = [grown(one, **{what: factor}) for factor in (1, 1.05, 1.1)]
        # Kernels that become of another class have other constants: that is no question of more or less.
        classes = [features.present(each) for each in question]
        if classes == classes[:1] * 3:
            checked += 1
            values = [model.estimate(each).value for each in question]
            assert values == sorted(values)
    assert checked > 20


# https://github.com/sgl-project/sglang/issues/39042: the first query's own time was part of the answer (E12).
def test_estimate__same_question_twice_gets_equal_numbers(model, measured):
    question = asked(measured[3])
    assert model.estimate(question) == model.estimate(question)
    alone = model.estimate(question)
    together = model.estimates([asked(one) for one in measured[:9]])[3]
    assert together.value == pytest.approx(alone.value, rel=1e-12)


def test_fit__is_the_same_for_the_same_examples_in_any_order(measured):
    a = saved.dumps(fit.fit(measured, seed=3))
    assert a == saved.dumps(fit.fit(list(reversed(measured)), seed=3))
    assert fit.key(measured, seed=3) == fit.key(reversed(measured), seed=3) != fit.key(measured, seed=4)
    assert fit.key(measured) != fit.key(measured[1:])


# https://github.com/microsoft/nn-Meter/issues/83: a pickled predictor of another release, and the environment not in
# the key (E6).
def test_saved__is_json_with_a_format_and_answers_alike(model, measured):
    text = saved.dumps(model)
    tree = json.loads(text)
    assert (tree["what"], tree["format"]) == ("perfgate estimator", saved.FORMAT)
    again = saved.loads(text)
    assert saved.dumps(again) == text
    questions = [asked(one) for one in measured[:30]]
    for target in TARGETS:
        assert again.estimates(questions, target) == model.estimates(questions, target)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\x80\x04pickle", "not JSON"),
        ("{}", "holds no perfgate estimator"),
        ('{"what": "perfgate estimator", "format": 99}', "format 99"),
        ('{"what": "perfgate estimator", "format": 1, "key": "k", "seed": 0, "notes": []}', "damaged"),
        ('{"a": NaN}', "NaN"),
        ('{"what": "perfgate estimator", "format": 1, "key": "k", "seed": 1e999, "notes": []}', "damaged"),
    ],
)
def test_saved__what_is_no_model_is_refused_with_a_remedy(text, words):
    with pytest.raises(UsageError, match=words) as found:
        saved.loads(text)
    assert "perfgate estimate fit" in str(found.value)


def test_saved__a_tree_that_walks_in_circles_is_refused():
    tree = json.loads(saved.dumps(fit.fit(steps.examples(160), targets=(STEP_TIME,))))
    nodes = tree["fitted"][STEP_TIME]["parts"]["regressors"][0]
    if nodes["trees"] is None:
        nodes["trees"] = {name: [0] for name in ("roots", "column", "threshold", "left", "right", "value")}
    nodes["trees"]["left"][0] = 0
    nodes["trees"]["column"][0] = 0
    with pytest.raises(UsageError, match="damaged"):
        saved.loads(json.dumps(tree))


# https://github.com/microsoft/nn-Meter/issues/122: whole families failed for one operator without a predictor (E7).
def test_unknown_operator__is_named_and_widens_the_interval(model, measured):
    one = asked(measured[5])
    strange = KernelGroup(name="layer1/fused_moe", kind="custom", dtype="float32", flop=0, bytes=10**7, calls=3)
    known, unknown = model.estimate(one), model.estimate(replace(one, kernels=(*one.kernels, strange)))
    assert known.novel == ()
    assert any("unknown operator" in text and "layer1/fused_moe" in text for text in unknown.novel)
    assert np.log(unknown.high / unknown.low) > 1.5 * np.log(known.high / known.low)


# https://github.com/microsoft/vidur/issues/60: the profile belonged to another engine version (E11).
def test_absent_software_version__is_out_of_distribution(model, measured):
    known = model.estimate(asked(measured[5]))
    found = model.estimate(replace(asked(measured[5]), software="torch 3.0.0"))
    assert any("software version absent" in text and "torch 3.0.0" in text for text in found.novel)
    assert found.high / found.low > known.high / known.low
    assert found.value == known.value


def test_extrapolation__names_the_quantity(model, measured):
    found = model.estimate(grown(measured[5], flop=1000, bytes=1000))
    assert any("beyond what was measured" in text and "FLOP" in text for text in found.novel)


def test_unseen_hardware__is_carried_over_by_its_rates_and_says_so(model):
    there = steps.examples(60, seed=11, machine=steps.FASTER)
    found = model.estimates([asked(one) for one in there])
    error = [abs(e.value / m.targets[STEP_TIME] - 1) for e, m in zip(found, there, strict=True)]
    assert np.median(error) < 0.12
    assert {one.source for one in found} == {TRANSFERRED}
    assert all(any("unseen hardware" in text for text in one.novel) for one in found)


@pytest.mark.parametrize("calibration", [3, 5, 10, 20])
def test_transfer__a_few_measurements_find_what_rates_do_not_say(measured, calibration):
    """The new machine reaches 60 % of what its rates promise."""
    there = [
        replace(one, targets={STEP_TIME: one.targets[STEP_TIME] / 0.6})
        for one in steps.examples(100, seed=12, machine=steps.FASTER)
    ]
    without = fit.fit(measured, targets=(STEP_TIME,))
    having = fit.fit([*measured, *there[:calibration]], targets=(STEP_TIME,))
    rest = there[calibration:]

    def error(one):
        found = one.estimates([asked(each) for each in rest])
        return np.median([abs(e.value / m.targets[STEP_TIME] - 1) for e, m in zip(found, rest, strict=True)])

    assert error(without) > 0.3
    assert error(having) < 0.14
    assert {one.source for one in having.estimates([asked(each) for each in rest])} <= {FITTED, ANCHORED}


def test_anchor__the_same_model_before_a_change_is_where_the_answer_starts(model):
    rng = np.random.default_rng(5)
    base = steps.example(rng, 900, family=2, batch=8)
    # Five times slower than its structure says, which nothing but a measurement tells.
    base = replace(base, targets={STEP_TIME: 5 * base.targets[STEP_TIME]})
    head = grown(base, flop=1.1, bytes=1.1)
    alone, anchored = model.estimate(head), model.estimate(head, anchors=[base])
    ratio = steps.seconds(head.kernels, steps.GPU) / steps.seconds(base.kernels, steps.GPU)
    truth = base.targets[STEP_TIME] * ratio
    assert abs(anchored.value / truth - 1) < 0.1 < abs(alone.value / truth - 1)
    assert (anchored.source, anchored.anchor) == (ANCHORED, base.model)


# https://github.com/casys-kaist/LLMServingSim/pull/59: activations and context were left out (E14);
# https://github.com/huggingface/accelerate/issues/3297: what the figure includes was not said (E15).
def test_memory__is_never_below_weights_activations_and_context(model, measured):
    for one in measured[:50]:
        odd = replace(asked(one), weight_bytes=50 * one.weight_bytes)
        found = model.estimate(odd, PEAK_MEMORY)
        least = odd.weight_bytes + odd.peak_activation_bytes + memory.CONTEXT_BYTES
        assert found.value >= least
        assert {"weights", "activations", "context"} <= {term.name for term in found.terms}


# https://github.com/mit-han-lab/hardware-aware-transformers/issues/13: the fastest of 200 predictions was in truth
# over the limit (E8). Whoever checks a limit with the upper end is wrong for few of such choices.
def test_upper_end__holds_for_the_one_that_was_chosen_for_being_fast(model):
    held = []
    for seed in range(20):
        crowd = steps.examples(200, seed=100 + seed)
        crowd = [one for one in crowd if one.batch == 64][:40]
        found = model.estimates([asked(one) for one in crowd])
        best = min(range(len(crowd)), key=lambda number: found[number].value)
        held.append(crowd[best].targets[STEP_TIME] <= found[best].high)
    assert np.mean(held) >= 0.85


# https://github.com/CentML/DeepView.Predict/issues/17: 700 s for one Transformer (E10). `benchmarks.estimator.speed`
# holds the limit of 50 ms; here a machine with other work on it only has to stay far from minutes.
def test_estimate__of_two_thousand_operators_is_quick(model, measured):
    question = replace(asked(measured[0]), kernels=steps.large(2000))
    model.estimate(question)
    best = min(_seconds(lambda: model.estimate(question)) for _ in range(5))
    assert best < 1.0


def _seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_choose__an_estimator_that_got_worse_is_not_used(measured):
    good = fit.fit(measured, targets=(STEP_TIME,))
    rng = np.random.default_rng(0)
    spoiled = [
        replace(one, targets={STEP_TIME: one.targets[STEP_TIME] * float(np.exp(rng.normal(0, 1)))})
        for one in steps.examples(700, seed=30)
    ]
    bad = fit.fit([*measured, *spoiled], targets=(STEP_TIME,))
    assert fit.choose(None, good).model is good
    better = fit.choose(good, fit.fit([*measured, *steps.examples(60, seed=31)], targets=(STEP_TIME,)))
    assert not better.kept
    worse = fit.choose(good, bad)
    assert worse.model is good
    assert worse.kept
    assert worse.worse
    same = fit.again(good, reversed(measured), targets=(STEP_TIME,))
    assert same.model is good
    assert (same.kept, same.worse) == (True, False)
    assert "worse and not used" in worse.reason


def test_fit__says_what_it_cannot_learn(measured):
    with pytest.raises(UsageError, match="perfgate sample"):
        fit.fit([])
    with pytest.raises(UsageError, match="no target"):
        fit.fit(measured, targets=("speed",))
    few = [replace(one, targets={STEP_TIME: one.targets[STEP_TIME]}) for one in measured]
    few[0] = measured[0]
    found = fit.fit(few)
    assert set(found.fitted) == {STEP_TIME}
    assert any(PEAK_MEMORY in note for note in found.notes)
    with pytest.raises(UsageError, match="does not estimate energy"):
        found.estimate(asked(measured[0]), ENERGY)
    late = fit.fit(measured, time_limit_s=0.0)
    assert any("time limit" in note for note in late.notes)


@pytest.mark.parametrize("n", [3, 4, 8])
def test_fit__works_with_hardly_any_examples(n):
    found = fit.fit(steps.examples(n))
    one = found.estimate(asked(steps.examples(1, seed=50)[0]))
    assert 0 < one.low < one.value < one.high
    assert one.high / one.low > 1.2
