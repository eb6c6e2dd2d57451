"""Each nanosecond of made-up events has one module, operator and phase."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER
from perfgate.worker import profiling
from perfgate.worker.profile_events import ANNOTATION, BACKWARD_NODE, DeviceEvent, HostEvent
from perfgate.worker.profile_ranges import MODULE, STEP, WAIT
from perfgate.worker.profile_times import PYTHON, Key, Sums, attribute

pytestmark = pytest.mark.torch

ENGINE = "autograd::engine::evaluate_function: "
PATHS = ("", "conv", "block")


def event(name, start, end, **more):
    return HostEvent(name, start, end, more.pop("thread", 1), **more)


def sums_of(events, device=(), paths=PATHS):
    (step,) = attribute(events, device, paths)
    return step.sums


def test_attribute__an_operator_has_all_that_it_calls_and_python_the_rest():
    sums = sums_of(
        [
            event(STEP, 0, 1000),
            event(f"{MODULE}0", 100, 900),
            event(f"{MODULE}1", 200, 700),
            event("aten::conv2d", 250, 600),
            event("aten::convolution", 300, 550),
            event("aten::relu", 610, 640),
        ]
    )

    assert sums == {
        Key("conv", "aten::conv2d", FORWARD): Sums(calls=1, host=350),
        Key("conv", "aten::relu", FORWARD): Sums(calls=1, host=30),
        Key("conv", PYTHON, FORWARD): Sums(calls=1, host=500 - 350 - 30),
        # The step and the call of the root share the empty path.
        Key("", PYTHON, FORWARD): Sums(calls=2, host=1000 - 500),
    }


def test_attribute__modules_that_an_operator_calls_count_for_themselves():
    sums = sums_of(
        [
            event(STEP, 0, 100),
            event(f"{MODULE}2", 0, 100),
            event("mylib::run", 10, 90),
            event(f"{MODULE}1", 20, 60),
            event("aten::relu", 30, 50),
        ]
    )

    assert sums[Key("block", "mylib::run", FORWARD)] == Sums(calls=1, host=40)
    assert sums[Key("conv", "aten::relu", FORWARD)] == Sums(calls=1, host=20)
    assert sums[Key("conv", PYTHON, FORWARD)] == Sums(calls=1, host=20)


def test_attribute__a_backward_node_belongs_to_its_forward_operators_module():
    sums = sums_of(
        [
            event(STEP, 0, 1000),
            event(f"{MODULE}1", 0, 100),
            event("aten::conv2d", 10, 90, sequence=4),
            event("aten::convolution", 20, 80, sequence=5),
            event(f"{MODULE}2", 100, 200),
            # Makes no node of its own: number 6 is that of the operator after it.
            event("aten::eq", 110, 120, sequence=6),
            event("aten::mean", 210, 220, sequence=6),
            event(f"{ENGINE}MeanBackward0", 300, 350, sequence=6, forward_thread=1),
            event("MeanBackward0", 310, 350, sequence=6, forward_thread=1, scope=BACKWARD_NODE),
            event("aten::div", 320, 340),
            event(f"{ENGINE}ConvolutionBackward0", 400, 500, sequence=5, forward_thread=1),
            event("ConvolutionBackward0", 410, 500, sequence=5, forward_thread=1, scope=BACKWARD_NODE),
            event("aten::convolution_backward", 420, 480),
            event(f"{ENGINE}torch::autograd::AccumulateGrad", 500, 520),
            event("torch::autograd::AccumulateGrad", 500, 520, scope=BACKWARD_NODE),
            event("aten::add_", 505, 515),
            # Clipping: no autograd, after the backward pass.
            event("aten::_foreach_norm", 600, 650),
            event("Optimizer.step#SGD.step", 700, 800, scope=ANNOTATION),
            event("aten::_foreach_add_", 710, 790),
        ]
    )

    assert sums[Key("", "aten::div", BACKWARD)].host == 20
    assert sums[Key("", PYTHON, BACKWARD)] == Sums(calls=1, host=30)
    assert sums[Key("conv", "aten::convolution_backward", BACKWARD)].host == 60
    assert sums[Key("conv", "aten::add_", BACKWARD)].host == 10
    assert sums[Key("conv", PYTHON, BACKWARD)] == Sums(calls=2, host=40 + 10)
    assert sums[Key("", "aten::_foreach_norm", OPTIMIZER)].host == 50
    assert sums[Key("", "aten::_foreach_add_", OPTIMIZER)].host == 80
    assert sums[Key("", PYTHON, OPTIMIZER)] == Sums(calls=1, host=20)
    assert sum(part.host for part in sums.values()) == 1000


def test_attribute__a_node_without_an_operator_belongs_to_the_operator_before_it():
    sums = sums_of(
        [
            event(STEP, 0, 100),
            event(f"{MODULE}1", 0, 20),
            event("aten::relu_", 5, 15, sequence=7),
            event(f"{MODULE}2", 20, 40),
            event("aten::relu_", 25, 35, sequence=9),
            event(f"{ENGINE}AsStridedBackward0", 50, 60, sequence=8, forward_thread=1),
        ]
    )

    assert sums[Key("conv", PYTHON, BACKWARD)].host == 10


def test_attribute__a_backward_pass_in_another_thread_is_not_waited_for_twice():
    # As on a GPU: the main thread waits inside of backward() while autograd's own thread works.
    (step,) = attribute(
        [
            event(STEP, 0, 1000),
            event(f"{MODULE}1", 0, 100),
            event("aten::conv2d", 0, 100, sequence=1),
            event(f"{ENGINE}ConvolutionBackward0", 200, 500, thread=2, sequence=1, forward_thread=1),
            event("aten::convolution_backward", 250, 450, thread=2),
            event(f"{ENGINE}torch::autograd::AccumulateGrad", 500, 600, thread=2),
            # A thread of the user's own, outside of autograd.
            event("something", 300, 900, thread=3),
            event(WAIT, 800, 1000),
        ],
        [],
        PATHS,
    )

    assert step.sums[Key("conv", PYTHON, BACKWARD)].host == 100 + 100
    assert step.sums[Key("conv", "aten::convolution_backward", BACKWARD)].host == 200
    assert step.sums[Key("", PYTHON, FORWARD)].host == 1000 - 100 - 400 - 200
    assert step.waited == 200


def test_attribute__kernels_belong_to_the_operator_that_launched_them():
    sums = sums_of(
        [
            event(STEP, 0, 1000, id=1),
            event(f"{MODULE}1", 0, 100, id=2),
            event("aten::conv2d", 10, 60, id=3),
            event("aten::cudnn_convolution", 20, 50, id=4),
            event("triton_launch", 70, 80, id=5),
        ],
        # They run later and longer; the last one was launched by nothing that is known.
        [DeviceEvent(100, 400, 4), DeviceEvent(400, 450, 3), DeviceEvent(450, 460, 5), DeviceEvent(500, 507, 0)],
    )

    assert sums[Key("conv", "aten::conv2d", FORWARD)] == Sums(calls=1, host=50, device=350)
    assert sums[Key("conv", PYTHON, FORWARD)].device == 10
    assert sums[Key("", PYTHON, FORWARD)].device == 7


def test_attribute__steps_are_apart_and_what_lies_between_them_is_dropped():
    one, two = attribute(
        [
            event("aten::relu", 0, 5),
            event(STEP, 10, 20),
            event("aten::relu", 12, 15),
            event("aten::relu", 30, 35),
            # Ends are rounded.
            event(STEP, 40, 60),
            event(f"{MODULE}1", 45, 62),
            event("aten::relu", 50, 63),
            event("profiler::_record_function_enter_new", 50, 52),
        ],
        [],
        PATHS,
    )

    assert one.sums[Key("", "aten::relu", FORWARD)].host == 3
    assert two.sums[Key("conv", "aten::relu", FORWARD)].host == 10
    assert [sum(part.host for part in step.sums.values()) for step in (one, two)] == [10, 20]


def test_summarise__is_the_median_over_the_steps():
    steps = attribute(
        [
            event(STEP, 0, 100),
            event("aten::relu", 0, 10),
            event(STEP, 100, 300),
            event("aten::relu", 100, 130),
            event("aten::rare", 140, 150),
            event(STEP, 300, 450),
            event("aten::relu", 300, 320),
            event("aten::relu", 320, 330),
        ],
        [],
        PATHS,
    )

    profile = profiling.summarise(steps, on_device=False)

    found = {(time.module, time.op): time for time in profile.times}
    assert (profile.steps, profile.step_ns) == (3, 150)
    assert found.keys() == {("", "aten::relu"), ("", PYTHON)}
    assert (found["", "aten::relu"].calls, found["", "aten::relu"].host_ns) == (1, 30)
    assert found["", "aten::relu"].device_ns is None
    assert profiling.summarise(steps, on_device=True).times[0].device_ns == 0
