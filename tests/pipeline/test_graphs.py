"""Traces of both sides become counts, totals and a difference; traces and profiles do not stay."""

from perfgate.pipeline import graphs
from perfgate.records.evidence import SideEvidence, WorkloadEvidence
from perfgate.records.graph import Call, OperatorTime, Profile, Trace, Value
from perfgate.records.protocol import Digest, Probe
from perfgate.records.workload import ModelSpec

SPEC = ModelSpec(name="net", entry="a:b", inputs=("float32[batch,4]",))
[WORKLOAD] = SPEC.workloads


def trace(source: str = "meta", width: int = 5) -> Trace:
    """x[2,4] @ w[4,width]."""
    return Trace(
        source=source,
        values=(
            Value(shape=(2, 4), dtype="float32", storage=0, role="input", name="inputs[0]"),
            Value(shape=(4, width), dtype="float32", storage=1, role="parameter", name="w"),
            Value(shape=(2, width), dtype="float32", storage=2),
        ),
        calls=(Call(op="aten::mm", module="head", operands={"self": (0,), "mat2": (1,)}, outputs=(2,)),),
        parameters=4 * width,
        weight_bytes=16 * width,
        results=(2,),
    )


def profile(ns: float, op: str = "aten::mm") -> Profile:
    return Profile(times=(OperatorTime(module="head", op=op, host_ns=ns),), steps=5, step_ns=2 * ns)


def side(*traces: Trace | None, profiles: tuple[Profile, ...] = ()) -> dict[str, SideEvidence]:
    probes = tuple(
        Probe(exact={}, inputs=Digest(checksum="i"), outputs=Digest(checksum="o"), trace=each,
              profile=profiles[n] if n < len(profiles) else None)
        for n, each in enumerate(traces)
    )  # fmt: skip
    return {WORKLOAD.key: SideEvidence(status="ok", probes=probes)}


def counted(*traces: Trace | None, profiles: tuple[Profile, ...] = ()):
    return graphs.count_side(side(*traces, profiles=profiles), {"net": SPEC}, {}, None)


def test_count_side__fills_exact_metrics_and_drops_what_is_large():
    facts, found = counted(trace(), trace(), profiles=(profile(10), profile(8)))
    evidence = facts[WORKLOAD.key]
    for probe in evidence.probes:
        assert probe.exact["flop"] == 2 * 2 * 4 * 5
        assert probe.exact["traffic"] == 4 * (8 + 20 + 10)
        assert probe.exact["operators"] == 1
        assert probe.exact["params"] == 20
        assert probe.trace is None
        assert probe.profile is None
    assert evidence.totals is not None
    assert evidence.totals.flop == 80
    assert found.graphs[WORKLOAD.key].operators[0].name == "head"
    assert found.profiles[WORKLOAD.key].times[0].host_ns == 8


def test_count_side__processes_that_differ_stay_different():
    facts, _ = counted(trace(width=5), trace(width=6))
    assert [probe.exact["flop"] for probe in facts[WORKLOAD.key].probes] == [80, 96]


def test_count_side__what_could_not_be_traced_is_named():
    facts, found = counted(None, trace())
    first, second = facts[WORKLOAD.key].probes
    assert set(graphs.COUNTED) <= set(first.not_counted)
    assert second.exact["flop"] == 80
    assert WORKLOAD.key in found.graphs


def test_count_side__failed_sides_pass_through():
    facts, found = graphs.count_side({WORKLOAD.key: SideEvidence(status="failed")}, {"net": SPEC}, {}, None)
    assert facts[WORKLOAD.key].status == "failed"
    assert not found.graphs


def test_merged__takes_the_least_disturbed_time_of_each_operator():
    both = graphs.merged((profile(10), profile(7), profile(3, op="aten::add")))
    assert {time.op: time.host_ns for time in both.times} == {"aten::mm": 7, "aten::add": 3}
    assert both.steps == 15


def test_traced_differently__names_the_side_to_ask_again():
    _, meta = counted(trace())
    _, real = counted(trace("real"))
    assert graphs.traced_differently(meta, real) == {WORKLOAD.key: "base"}
    assert graphs.traced_differently(real, meta) == {WORKLOAD.key: "head"}
    assert graphs.traced_differently(meta, meta) == {}


def test_with_difference__says_what_changed():
    base, head = counted(trace()), counted(trace(width=9))
    evidence = WorkloadEvidence(workload=WORKLOAD, base=base[0][WORKLOAD.key], head=head[0][WORKLOAD.key])
    found = graphs.with_difference(evidence, base[1], head[1]).difference
    assert found is not None
    assert not found.equal
    assert found.flop == 2 * 2 * 4 * 4
    same = graphs.with_difference(evidence, base[1], base[1]).difference
    assert same is not None
    assert same.equal


def test_with_difference__nothing_to_say_without_both_graphs():
    base = counted(trace())
    evidence = WorkloadEvidence(workload=WORKLOAD, base=base[0][WORKLOAD.key], head=SideEvidence(status="failed"))
    assert graphs.with_difference(evidence, base[1], graphs.SideGraphs()).difference is None


def test_formulas_of__head_cannot_make_its_own_work_small():
    assert graphs.formulas_of({}, {"aten::mm": "1", "mylib::new": "2"}) == {"mylib::new": "2"}
    assert graphs.formulas_of({"mylib::new": "5", "aten::mm": "3"}, {"mylib::new": "1"}) == {
        "mylib::new": "5",
        "aten::mm": "3",
    }
