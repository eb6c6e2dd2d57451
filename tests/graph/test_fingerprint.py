from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perfgate.graph.fingerprint import fingerprint
from perfgate.records.graph import BACKWARD, CONSTANT, INPUT, META, PARAMETER, Call, Trace, Value
from tests.graph.random_traces import relabelled, traces


def value(storage: int, shape: tuple[int, ...] = (2, 3), **more) -> Value:
    return Value(shape=shape, dtype=more.pop("dtype", "float32"), storage=storage, **more)


def call(op: str, operands: dict[str, tuple[int, ...]], *outputs: int, **more) -> Call:
    return Call(op=f"aten::{op}", operands=operands, outputs=outputs, **more)


def trace(values: list[Value], calls: list[Call], *results: int) -> Trace:
    return Trace(source=META, values=tuple(values), calls=tuple(calls), results=results)


def chain() -> Trace:
    """x @ w1 -> relu -> @ w2, returned."""
    values = [
        value(0, (2, 3), role=INPUT, name="inputs[0]"),
        value(1, (3, 3), role=PARAMETER, name="a.weight"),
        value(2),
        value(3),
        value(4, (3, 3), role=PARAMETER, name="b.weight"),
        value(5),
    ]
    calls = [
        call("mm", {"self": (0,), "mat2": (1,)}, 2, module="a"),
        call("relu", {"self": (2,)}, 3),
        call("mm", {"self": (3,), "mat2": (4,)}, 5, module="b"),
    ]
    return trace(values, calls, 5)


def with_value(base: Trace, index: int, **changes) -> Trace:
    values = list(base.values)
    values[index] = replace(values[index], **changes)
    return replace(base, values=tuple(values))


def with_call(base: Trace, index: int, **changes) -> Trace:
    calls = list(base.calls)
    calls[index] = replace(calls[index], **changes)
    return replace(base, calls=tuple(calls))


def test_fingerprint__is_64_hexadecimal_digits():
    found = fingerprint(chain())
    assert len(found) == 64
    assert set(found) <= set("0123456789abcdef")


def test_fingerprint__of_nothing_is_a_hash_too():
    assert len(fingerprint(trace([], []))) == 64


def test_fingerprint__is_the_same_in_another_process():
    code = "from tests.graph.test_fingerprint import chain, fingerprint; print(fingerprint(chain()))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert found == {fingerprint(chain())}


@given(traces(), st.integers(0, 10_000))
@settings(max_examples=300, deadline=None)
def test_fingerprint__does_not_see_names_numbers_or_the_order_of_independent_calls(base, seed):
    assert fingerprint(relabelled(base, seed)) == fingerprint(base)


@given(traces(), st.data())
@settings(max_examples=300, deadline=None)
def test_fingerprint__sees_every_single_change(base, data):
    changed = data.draw(mutations(base))
    assert fingerprint(changed) != fingerprint(base)


@st.composite
def mutations(draw, base: Trace) -> Trace:
    """One change of shape, dtype, layout, operator, attribute, number of operators or results."""
    used = sorted(
        {i for c in base.calls for found in (*c.operands.values(), c.outputs) for i in found} | {*base.results}
    )
    number = draw(st.integers(0, len(base.calls) - 1))
    index = draw(st.sampled_from(used))
    match draw(
        st.sampled_from(("shape", "dtype", "offset", "op", "attribute", "drop", "twice", "phase", "results", "repeat"))
    ):
        case "shape":
            return with_value(base, index, shape=(*base.values[index].shape, 7), strides=())
        case "dtype":
            return with_value(base, index, dtype="bfloat16", bits=16)
        case "offset":
            return with_value(base, index, offset=base.values[index].offset + 1)
        case "op":
            return with_call(base, number, op="aten::other")
        case "attribute":
            return with_call(base, number, attributes={"alpha": 3})
        case "phase":
            return with_call(base, number, phase=BACKWARD)
        case "repeat":
            return with_call(base, number, repeat=2)
        case "results":
            return replace(base, results=(*base.results, draw(st.sampled_from(used))))
        case "drop":
            return replace(base, calls=base.calls[:number] + base.calls[number + 1 :])
        case _:
            # The copy writes a storage of its own: exactly one more operator.
            copied = base.calls[number]
            assume(not copied.writes)
            fresh = replace(base.values[copied.outputs[0]], storage=9999)
            extra = replace(copied, outputs=(len(base.values),))
            calls = (*base.calls[: number + 1], extra, *base.calls[number + 1 :])
            return replace(base, values=(*base.values, fresh), calls=calls)


def test_fingerprint__sees_which_tensor_an_operator_reads():
    base = chain()
    assert fingerprint(with_call(base, 2, operands={"self": (2,), "mat2": (4,)})) != fingerprint(base)


def test_fingerprint__sees_operands_change_places():
    values = [value(0, role=INPUT), value(1, role=INPUT), value(2), value(3)]
    one = [call("relu", {"self": (0,)}, 2), call("sub", {"self": (2,), "other": (1,)}, 3)]
    other = [call("relu", {"self": (0,)}, 2), call("sub", {"self": (1,), "other": (2,)}, 3)]
    assert fingerprint(trace(values, one, 3)) != fingerprint(trace(values, other, 3))


def test_fingerprint__sees_an_absent_operand():
    base = with_call(chain(), 2, operands={"self": (3,), "mat2": (4,), "bias": (-1,)})
    other = with_call(chain(), 2, operands={"self": (3,), "mat2": (4,), "bias": (1,)})
    assert fingerprint(base) != fingerprint(other)


def test_fingerprint__sees_weights_tied():
    base = chain()
    tied = with_value(base, 4, storage=base.values[1].storage)
    assert fingerprint(tied) != fingerprint(base)


def test_fingerprint__sees_sharing_that_ancestries_do_not_tell():
    # relu twice on one input, then two products of the results: (y1*y1, y2*y2) against (y1*y2, y1*y2).
    values = [value(0, role=INPUT), *(value(number) for number in range(1, 5))]
    twice = [call("relu", {"self": (0,)}, 1), call("relu", {"self": (0,)}, 2)]
    one = [*twice, call("mul", {"self": (1,), "other": (1,)}, 3), call("mul", {"self": (2,), "other": (2,)}, 4)]
    other = [*twice, call("mul", {"self": (1,), "other": (2,)}, 3), call("mul", {"self": (1,), "other": (2,)}, 4)]
    assert fingerprint(trace(values, one, 3, 4)) != fingerprint(trace(values, other, 3, 4))


def test_fingerprint__sees_the_layout_that_a_reader_sees_through_a_view():
    values = [value(0, (4, 4), role=INPUT), value(1, (4, 4)), value(1, (4, 4), strides=(1, 4)), value(2, (4, 4))]
    straight = [call("relu", {"self": (0,)}, 1), call("relu", {"self": (1,)}, 3)]
    turned = [call("relu", {"self": (0,)}, 1), call("relu", {"self": (2,)}, 3)]
    assert fingerprint(trace(values, straight, 3)) != fingerprint(trace(values, turned, 3))


def test_fingerprint__does_not_see_strides_that_say_nothing():
    base = chain()
    assert fingerprint(with_value(base, 2, strides=(3, 1))) == fingerprint(base)
    one = trace([value(0, (1, 3), role=INPUT, strides=(3, 1)), value(1)], [call("relu", {"self": (0,)}, 1)], 1)
    assert fingerprint(with_value(one, 0, strides=(99, 1))) == fingerprint(one)


def test_fingerprint__sees_writes_in_place_change_order():
    values = [value(0, role=INPUT), value(1)]
    first = call("relu", {"self": (0,)}, 1)
    double = call("mul_", {"self": (1,)}, 1, writes=(1,))
    more = call("add_", {"self": (1,)}, 1, writes=(1,))
    assert fingerprint(trace(values, [first, double, more], 1)) != fingerprint(trace(values, [first, more, double], 1))


def test_fingerprint__sees_a_read_before_or_after_a_write():
    values = [value(0, role=INPUT), value(1), value(2)]
    made = call("relu", {"self": (0,)}, 1)
    read = call("exp", {"self": (1,)}, 2)
    write = call("add_", {"self": (1,)}, 1, writes=(1,))
    assert fingerprint(trace(values, [made, read, write], 1, 2)) != fingerprint(
        trace(values, [made, write, read], 1, 2)
    )


def test_fingerprint__sees_the_order_of_results():
    values = [value(0, role=INPUT), value(1), value(2)]
    calls = [call("relu", {"self": (0,)}, 1), call("exp", {"self": (0,)}, 2)]
    assert fingerprint(trace(values, calls, 1, 2)) != fingerprint(trace(values, calls, 2, 1))


def test_fingerprint__sees_the_role_of_an_outside_tensor():
    assert fingerprint(with_value(chain(), 1, role=CONSTANT)) != fingerprint(chain())


def test_fingerprint__sees_a_composite_call_but_not_its_number():
    base = with_call(chain(), 0, group="scaled_dot_product_attention#1")
    assert fingerprint(with_call(chain(), 0, group="scaled_dot_product_attention#7")) == fingerprint(base)
    assert fingerprint(chain()) != fingerprint(base)


def test_fingerprint__does_not_see_totals_or_notes():
    other = replace(chain(), software="torch 9", notes=("said",), parameters=5, batch=3)
    assert fingerprint(other) == fingerprint(chain())


def branches(order: tuple[int, ...], weights: tuple[int, ...]) -> Trace:
    """Equal branches of two steps that nothing brings together; branch ``n`` has weight ``weights[n]``."""
    values = [value(0, role=INPUT), *(value(number, (3, 3), role=PARAMETER) for number in range(1, 4))]
    calls, middle = [], []
    for branch in order:
        values.append(value(100 + branch))
        calls.append(call("mm", {"self": (0,), "mat2": (weights[branch],)}, len(values) - 1))
        middle.append((branch, len(values) - 1))
    for branch, index in middle:
        values.append(value(200 + branch))
        calls.append(call("relu", {"self": (index,)}, len(values) - 1))
    return trace(values, calls)


def test_fingerprint__equal_branches_run_in_any_order():
    shared = (1, 1, 2, 3)
    orders = ((0, 1, 2, 3), (3, 0, 2, 1), (2, 3, 1, 0))
    assert len({fingerprint(branches(order, shared)) for order in orders}) == 1
    assert fingerprint(branches(orders[0], (1, 1, 2, 2))) != fingerprint(branches(orders[0], shared))


@pytest.mark.parametrize("kind", ["chain", "same", "fan"])
def test_fingerprint__is_fast_for_5000_operators(kind):
    values = [value(0, role=INPUT)]
    calls = []
    for number in range(5000):
        values.append(value(2 * number + 1, (3, 3), role=PARAMETER))
        values.append(value(2 * number + 2))
        source = 2 * number if kind == "chain" else 0
        calls.append(call("mm", {"self": (source,), "mat2": (2 * number + 1,)}, 2 * number + 2))
    if kind == "fan":
        values.append(value(99_999))
        calls.append(call("stack", {"tensors": tuple(range(2, 10_001, 2))}, 10_001))
    big = trace(values, calls, len(values) - 1)
    before = time.process_time()
    fingerprint(big)
    # Generous: it takes a tenth of this on an ordinary machine. What is guarded against is a quadratic step.
    assert time.process_time() - before < 5
