from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfgate.graph.difference import compare
from perfgate.records.graph import Difference, Graph, OperatorChange, OperatorTime, Profile
from tests.graph.handmade import graph, linear, operator, timed

PLACES = [f"layer{n}" for n in range(8)]


def model(**changed: str) -> Graph:
    """Eight activations; ``layer3="gelu"`` makes one of them another operator."""
    return graph(*(operator(name, changed.get(name, "relu")) for name in PLACES))


def times(scale: float = 1.0, **own: float) -> Profile:
    """A microsecond each, but for those told; the activation's name does not matter in a module that has only one."""
    return timed({(name, "aten::act"): scale * own.get(name, 1000.0) for name in PLACES})


def first(found: Difference) -> OperatorChange:
    return found.changes[0]


def test_attribute__head_is_brought_to_bases_speed_by_what_did_not_change():
    # Head ran at half the speed: 2 µs of each operator are 1 µs, and layer3's 6 µs are 3 µs.
    found = compare(model(), model(layer3="gelu"), base_profile=times(), head_profile=times(2.0, layer3=3000.0))
    assert first(found).time_ns == pytest.approx(2000.0)
    assert first(found).share == pytest.approx(1.0)
    assert found.sentences == ("layer3 went from relu to gelu: +2.00 µs of the +2.00 µs",)


def test_attribute__times_are_those_of_the_step_without_profiling():
    found = compare(
        model(), model(layer3="gelu"), base_profile=times(), head_profile=times(layer3=3000.0),
        base_step_ns=4000.0, ratio=1.25,
    )  # fmt: skip
    # 8 µs of profile are 4 µs of step, so +2 µs are +1 µs.
    assert first(found).time_ns == pytest.approx(1000.0)
    assert first(found).share == pytest.approx(1.0)


def test_attribute__a_part_is_no_more_than_a_part():
    found = compare(
        model(), model(layer3="gelu"), base_profile=times(), head_profile=times(layer3=3000.0),
        base_step_ns=8000.0, ratio=1.5,
    )  # fmt: skip
    assert first(found).share == pytest.approx(0.5)
    assert found.sentences == ("layer3 went from relu to gelu: +2.00 µs of the +4.00 µs",)


def test_attribute__never_claims_more_than_there_is_to_explain():
    found = compare(
        model(), model(layer3="gelu", layer5="exp"), base_profile=times(),
        head_profile=times(layer3=3000.0, layer5=2000.0), base_step_ns=8000.0, ratio=1.1,
    )  # fmt: skip
    assert [change.time_ns for change in found.changes] == [
        pytest.approx(533.3, abs=0.1),
        pytest.approx(266.7, abs=0.1),
    ]
    assert sum(change.share or 0.0 for change in found.changes) == pytest.approx(1.0)


def test_attribute__a_change_the_other_way_has_no_share_and_leaves_room():
    found = compare(
        model(), model(layer3="gelu", layer5="exp"), base_profile=times(),
        head_profile=times(layer3=5000.0, layer5=200.0), base_step_ns=8000.0, ratio=1.25,
    )  # fmt: skip
    slower, faster = found.changes
    assert (slower.name, faster.name) == ("layer3", "layer5")
    # +4 µs against -0.8 µs in a step that takes 2 µs more: 2.8 µs at most.
    assert slower.time_ns == pytest.approx(2800.0)
    assert slower.share == pytest.approx(1.0)
    assert faster.time_ns == pytest.approx(-800.0)
    assert faster.share is None


def test_attribute__what_explains_the_change_comes_before_what_goes_against_it():
    found = compare(
        model(), model(layer3="gelu", layer5="exp"), base_profile=times(layer5=9000.0),
        head_profile=times(layer3=3000.0, layer5=100.0), base_step_ns=16_000.0, ratio=1.1,
    )  # fmt: skip
    assert first(found).name == "layer3"


@pytest.mark.parametrize("ratio", [1.0, 1.004])
def test_attribute__a_step_that_did_not_change_is_not_explained(ratio):
    found = compare(
        model(), model(layer3="gelu"), base_profile=times(), head_profile=times(layer3=3000.0),
        base_step_ns=8000.0, ratio=ratio,
    )  # fmt: skip
    assert first(found).share is None
    assert first(found).time_ns == pytest.approx((ratio - 1) * 8000, abs=1e-6)


def test_attribute__an_uncertain_ratio_gives_no_share_and_limits_the_time():
    found = compare(
        model(), model(layer3="gelu"), base_profile=times(), head_profile=times(layer3=9000.0),
        base_step_ns=8000.0, ratio=1.02, ratio_spread=0.02,
    )  # fmt: skip
    assert first(found).share is None
    assert first(found).time_ns == pytest.approx((1.02 * math.exp(0.04) - 1) * 8000)
    assert "of the" not in found.sentences[0]


def test_attribute__noise_has_no_share():
    noisy = {name: 1000.0 * (1 + 0.4 * (-1) ** n) for n, name in enumerate(PLACES)}
    found = compare(
        model(), model(layer3="gelu"), base_profile=times(), head_profile=times(**noisy | {"layer3": 1200.0}),
        base_step_ns=8000.0, ratio=1.1,
    )  # fmt: skip
    assert first(found).name == "layer3"
    assert first(found).share is None
    assert found.sentences == ("layer3 went from relu to gelu",)


def test_attribute__an_unchanged_operator_that_got_slower_is_found():
    found = compare(model(), model(), base_profile=times(), head_profile=times(1.5, layer6=4000.0))
    change = first(found)
    assert found.equal
    assert (change.what, change.name, change.op, change.count) == ("slower", "layer6", "aten::relu", 1)
    assert change.time_ns == pytest.approx(3000.0)
    assert change.how == ("1.00 µs → 4.00 µs",)
    assert found.sentences == ("layer6 got slower without a change of its operators: +3.00 µs of the +3.00 µs",)


def test_attribute__and_one_that_got_faster():
    found = compare(model(), model(), base_profile=times(layer6=4000.0), head_profile=times())
    assert (first(found).what, first(found).name) == ("faster", "layer6")


def test_attribute__several_that_got_slower_alike_are_one_finding():
    slow = dict.fromkeys(("layer1", "layer4", "layer6"), 4000.0)
    found = compare(model(), model(), base_profile=times(), head_profile=times(**slow))
    assert [(change.name, change.count) for change in found.changes] == [("layer*", 3)]


def test_attribute__python_between_operators_is_found_at_its_module():
    def with_python(ns: float) -> Profile:
        plain = times()
        own = OperatorTime(module="layer2.inner", op="python", host_ns=ns)
        return replace(plain, times=(*plain.times, own))

    found = compare(model(), model(), base_profile=with_python(10.0), head_profile=with_python(5000.0))
    assert (first(found).name, first(found).op, first(found).kind) == ("layer2.inner/python", "python", "python")
    assert found.sentences[0].startswith("Python code in layer2.inner got slower")


def test_attribute__a_slowdown_is_not_told_where_the_step_did_not_slow_down():
    slow = times(layer6=4000.0)
    for ratio in (1.0, 0.9):
        assert compare(model(), model(), base_profile=times(), head_profile=slow, ratio=ratio).changes == ()
    assert compare(model(), model(), base_profile=times(), head_profile=slow, ratio=1.3).changes


def test_attribute__a_place_that_was_disturbed_while_profiling_is_not_believed():
    # It would make the step 60 % slower; the step was measured to be 2 % slower.
    found = compare(model(), model(), base_profile=times(), head_profile=times(layer6=6000.0), ratio=1.02)
    assert found.changes == ()


def test_attribute__a_small_or_common_drift_is_no_finding():
    jitter = {name: 1000.0 * (1 + 0.1 * (-1) ** n) for n, name in enumerate(PLACES)}
    assert (
        compare(model(), model(), base_profile=times(), head_profile=times(**jitter | {"layer6": 1400.0})).changes == ()
    )
    assert compare(model(), model(), base_profile=times(), head_profile=times(3.0)).changes == ()


def test_attribute__modules_under_other_names_are_the_same_places():
    renamed = graph(*(operator(f"net.{name}", "gelu" if name == "layer3" else "relu") for name in PLACES))
    head = timed({(f"net.{name}", "aten::act"): 3000.0 if name == "layer3" else 1000.0 for name in PLACES})
    found = compare(model(), renamed, base_profile=times(), head_profile=head)
    assert first(found).time_ns == pytest.approx(2000.0)


def test_attribute__outermost_operators_stand_for_what_they_are_made_of():
    one, other = operator("m/relu", module="m"), operator("m/exp", "exp", module="m")
    base = graph(linear("m/mm", module="m"), one, other, *(operator(name) for name in PLACES))
    head = graph(linear("m/mm", size=96, module="m"), *base.operators[1:])
    profiles = [
        timed({("m", "aten::linear"): ns, ("m", "aten::relu"): 500.0, ("m", "aten::exp"): 500.0, ("m", "aten::t"): 10.0,
               **{(name, "aten::relu"): 1000.0 for name in PLACES}})
        for ns in (2000.0, 5000.0)
    ]  # fmt: skip
    found = compare(base, graph(*(replace(each, sources=()) for each in head.operators)),
                    base_profile=profiles[0], head_profile=profiles[1])  # fmt: skip
    assert first(found).name == "m/mm"
    assert first(found).time_ns == pytest.approx(3000.0)


def test_attribute__on_a_busy_device_its_time_counts():
    def on_device(ns: float, host: float) -> Profile:
        cells = [(name, "aten::act") for name in PLACES]
        device = dict.fromkeys(cells, 1000.0) | {("layer3", "aten::act"): ns}
        return replace(timed(dict.fromkeys(cells, host), device=device), step_ns=sum(device.values()))

    # The host took much longer to launch on head; the device did not wait for it.
    found = compare(
        model(), model(layer3="gelu"), base_profile=on_device(1000.0, 10.0), head_profile=on_device(3000.0, 500.0)
    )
    assert first(found).time_ns == pytest.approx(2000.0)


def test_attribute__everything_changed_so_the_measured_ratio_gives_the_scale():
    other = model(**dict.fromkeys(PLACES, "gelu"))
    found = compare(model(), other, base_profile=times(), head_profile=times(2.0), base_step_ns=8000.0, ratio=1.5)
    assert sum(change.time_ns or 0.0 for change in found.changes) == pytest.approx(4000.0)


def test_attribute__what_was_not_profiled_has_no_time():
    base = times()
    head = replace(times(), times=tuple(time for time in times().times if time.module != "layer3"))
    without = replace(base, times=tuple(time for time in base.times if time.module != "layer3"))
    found = compare(model(), model(layer3="gelu"), base_profile=without, head_profile=head)
    assert first(found).time_ns is None
    assert first(found).share is None


def test_attribute__profiles_that_say_nothing_are_passed_over():
    empty = Profile(times=(), steps=0, step_ns=0.0)
    bad = timed({("layer3", "aten::act"): math.nan, ("layer4", "aten::act"): -1.0, ("layer5", "aten::act"): math.inf})
    for profile in (empty, bad):
        found = compare(model(), model(layer3="gelu"), base_profile=profile, head_profile=times())
        assert first(found).name == "layer3"
        assert first(found).time_ns is None


def drifted(extra_base: dict[tuple[str, str], float], extra_head: dict[tuple[str, str], float]) -> Difference:
    base = {(name, "aten::act"): 1000.0 for name in PLACES}
    return compare(model(), model(), base_profile=timed(base | extra_base), head_profile=timed(base | extra_head))


def test_attribute__a_place_that_one_side_lacks_did_not_get_slower():
    come, gone = drifted({}, {("wrapper", "python"): 4000.0}), drifted({("wrapper", "python"): 4000.0}, {})
    assert (first(come).what, first(gone).what) == ("added", "removed")
    assert come.sentences[0].startswith("Python code in wrapper was added: +4.00 µs")
    assert gone.sentences[0].startswith("Python code in wrapper was removed: −4.00 µs")
    assert first(drifted({}, {("layer1", "python"): 4000.0})).what == "slower"


def looped(loop_ns: float) -> Difference:
    """One product that becomes the body of a loop of seven turns, whose own time is at a place without operators."""
    others = [operator(name) for name in PLACES]
    base = graph(*others, linear("y"))
    head = graph(*others, replace(linear("s2"), repeat=7, origins=("", "y.weight")))
    known = {(name, "aten::act"): 1000.0 for name in PLACES}
    return compare(
        base,
        head,
        base_profile=timed(known | {("y", "aten::mm"): 4000.0}),
        head_profile=timed(known | {("s2", "aten::mm"): 700.0, ("y", "ai.onnx::Loop"): loop_ns}),
    )


def test_attribute__a_loops_own_time_belongs_to_what_runs_in_it():
    found = looped(9000.0)
    assert [(change.name, change.what) for change in found.changes] == [("s2", "changed")]
    assert first(found).time_ns == pytest.approx(5700.0)


def test_attribute__more_turns_are_not_said_to_take_less_time():
    found = looped(0.0)
    assert first(found).time_ns is None
    assert found.sentences[0].startswith("s2 went from 1 to 7 times: F +")
