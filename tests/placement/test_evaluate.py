"""The objectives, by examples worked out by hand, and what is said against assignments that are not feasible."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfgate.placement import evaluate
from perfgate.placement.timeline import timeline
from perfgate.placement.transfers import transfers
from perfgate.records.placement import (
    MEMORY,
    SIDE_BY_SIDE,
    THROUGHPUT,
    UNLIMITED,
    Border,
    Device,
    Node,
    Problem,
    Target,
)

CPU, GPU, NPU = 0, 1, 2


def node(index: int, *sources: int, **changes) -> Node:
    """10 s on the processor, 1 s and 2 s on the accelerators; 4 bytes of output."""
    given = {"seconds": (10.0, 1.0, 2.0), "output_bytes": 4.0, "memory_bytes": 100.0, **changes}
    return Node(name=f"n{index}", sources=sources, **given)


def problem(*nodes: Node, **changes) -> Problem:
    """Sending takes 1 s + 0.25 s a byte to the GPU and 3 s to the NPU, and receiving 0.5 s; the GPU starts in 0.1 s."""
    given = {
        "devices": (Device(name="cpu", lanes=UNLIMITED), Device(name="gpu", memory_bytes=250), Device(name="npu")),
        "targets": (
            Target(name="cpu", library="a", device="cpu", default=True),
            Target(name="gpu", library="b", device="gpu", piece_s=0.1),
            Target(name="npu", library="c", device="npu"),
        ),
        "borders": (
            Border(source="cpu", target="gpu", send_s=1.0, send_s_per_byte=0.25, receive_s=0.5),
            Border(source="cpu", target="npu", send_s=3.0, receive_s=0.5),
            Border(source="gpu", target="cpu", send_s=1.0, receive_s_per_byte=0.5),
        ),
        **changes,
    }
    return Problem(nodes=nodes, **given)


def with_whole(made: Problem, *whole: int) -> Problem:
    """Side by side, with these targets whole."""
    targets = tuple(replace(target, whole=index in whole) for index, target in enumerate(made.targets))
    return replace(made, targets=targets, order=SIDE_BY_SIDE)


def test_transfers__sent_once_at_the_dearest_and_received_once_by_each():
    made = problem(node(0), node(1, 0), node(2, 0), node(3, 0))
    (crossing,) = transfers(made, (CPU, GPU, GPU, NPU))
    assert crossing.send_s == 3.0
    assert crossing.receive_s == {GPU: 0.5, NPU: 0.5}
    assert transfers(made, (CPU, CPU, CPU, CPU)) == ()


def test_value__latency_in_turn_adds_work_crossings_and_pieces():
    made = problem(node(0), node(1, 0), node(2, 1))
    assert evaluate.value(made, (CPU, CPU, CPU)) == 30.0
    # 10 + send 2 + receive 0.5 + piece 0.1 + 1 + send 1 + receive 2 + 10
    assert evaluate.value(made, (CPU, GPU, CPU)) == pytest.approx(26.6)


def test_value__missing_borders_cost_nothing():
    made = problem(node(0), node(1, 0))
    assert evaluate.value(made, (NPU, CPU)) == pytest.approx(12.0)


def test_value__nodes_that_can_run_in_one_piece_start_once():
    made = problem(node(0), node(1), node(2, 0), node(3, 1), borders=())
    assert evaluate.value(made, (GPU, CPU, CPU, GPU)) == pytest.approx(1 + 10 + 10 + 1 + 0.2)
    # Both nodes of the GPU are ready at once: one piece.
    assert evaluate.value(made, (GPU, GPU, CPU, CPU)) == pytest.approx(1 + 1 + 10 + 10 + 0.1)


def test_value__throughput_is_the_largest_load():
    made = problem(node(0), node(1, 0), node(2, 1), objective=THROUGHPUT)
    assert evaluate.loads(made, (CPU, GPU, CPU)) == pytest.approx({"cpu": 24.0, "gpu": 2.6, "npu": 0.0})
    assert evaluate.value(made, (CPU, GPU, CPU)) == pytest.approx(24.0)


def test_value__targets_of_one_device_add_up_and_still_cross():
    made = problem(node(0), node(1, 0), objective=THROUGHPUT)
    shared = replace(made, targets=(made.targets[0], replace(made.targets[1], device="cpu"), made.targets[2]))
    assert evaluate.value(shared, (CPU, GPU)) == pytest.approx(10 + 2 + 0.5 + 0.1 + 1)


def test_value__memory_is_the_fullest_device_within_the_limit_on_latency():
    made = problem(node(0), node(1, 0), node(2, 1), objective=MEMORY, latency_s=27.0)
    assert evaluate.value(made, (CPU, GPU, CPU)) == 200.0
    assert evaluate.value(replace(made, latency_s=26.0), (CPU, GPU, CPU)) == math.inf
    assert "latency 26.6 s, limit 26 s" in evaluate.why(replace(made, latency_s=26.0), (CPU, GPU, CPU))


def test_value__side_by_side_branches_overlap():
    made = replace(problem(node(0), node(1, 0), node(2, 0), node(3, 1, 2)), order=SIDE_BY_SIDE)
    # Node 2 on the NPU: sent by 13, there at 13.5, done by 15.5; node 1 ends at 20, node 3 at 30.
    assert evaluate.value(made, (CPU, CPU, NPU, CPU)) == pytest.approx(30.0)
    assert evaluate.value(made, (CPU, CPU, CPU, CPU)) == pytest.approx(30.0)


def test_value__a_whole_target_waits_for_all_its_inputs():
    made = with_whole(problem(node(0), node(1, 0), node(2, 0), node(3, 1, 2)), GPU)
    # The GPU has nodes 0 and 3 of a diamond: it would wait for what waits for it.
    assert evaluate.value(made, (GPU, CPU, CPU, GPU)) == math.inf
    assert "circle" in evaluate.why(made, (GPU, CPU, CPU, GPU))
    assert math.isfinite(evaluate.value(replace(made, targets=problem().targets), (GPU, CPU, CPU, GPU)))


def test_value__a_whole_target_receives_computes_and_sends_in_sequence():
    made = with_whole(problem(node(0), node(1, 0), node(2, 1), node(3, 2)), GPU)
    # 10 + sent 2, then the GPU: 0.1 + 0.5 + 1 + 1 + send 1, then received 2, and 10.
    assert evaluate.value(made, (CPU, GPU, GPU, CPU)) == pytest.approx(27.6)
    parts = timeline(made, (CPU, GPU, GPU, CPU))
    assert parts is not None
    assert [(part.nodes, round(part.start_s, 9), round(part.end_s, 9)) for part in parts] == [
        ((0,), 0.0, 10.0),
        ((1, 2), 12.0, 15.6),
        ((3,), 17.6, 27.6),
    ]


@pytest.mark.parametrize(("lanes", "latency"), [(UNLIMITED, 10.0), (1, 40.0), (2, 20.0), (3, 20.0), (4, 10.0)])
def test_value__lanes_limit_what_runs_at_a_time(lanes, latency):
    made = problem(*(node(index) for index in range(4)))
    devices = (Device(name="cpu", lanes=lanes), *made.devices[1:])
    assert evaluate.value(replace(made, devices=devices, order=SIDE_BY_SIDE), (CPU,) * 4) == pytest.approx(latency)


def test_value__of_two_ready_parts_the_smaller_index_is_first():
    quick, slow = (1.0, 1.0, 1.0), (5.0, 5.0, 5.0)
    made = problem(node(0, seconds=slow), node(1, seconds=quick), node(2, 1, seconds=slow), order=SIDE_BY_SIDE)
    devices = (Device(name="cpu", lanes=1), *made.devices[1:])
    # Nodes 1 and 2 first would let the NPU begin at once; the list schedule takes node 0.
    assert evaluate.value(replace(made, devices=devices), (CPU, CPU, NPU)) == pytest.approx(5 + 1 + 3 + 0.5 + 5)


def test_why__names_the_node_or_device():
    gone = node(1, 0, seconds=(10.0, None, 2.0))
    assert evaluate.why(problem(node(0), gone), (CPU, GPU)) == "n1: gpu does not support it"
    assert evaluate.why(problem(node(0, fixed="npu")), (CPU,)) == "n0: is on cpu, fixed to npu"
    both = problem(node(0, together="tied"), node(1, 0, together="tied"))
    assert evaluate.why(both, (CPU, NPU)) == "n0 and n1 must be together (tied): cpu and npu"
    full = problem(node(0), node(1), node(2))
    assert evaluate.why(full, (GPU, GPU, GPU)) == "gpu: its nodes hold 300 bytes, it has 250"
    assert evaluate.value(full, (GPU, GPU, GPU)) == math.inf
    assert evaluate.why(full, (GPU, GPU, NPU)) == ""
    assert evaluate.why(full, (GPU,)) == "1 targets for 3 nodes"
