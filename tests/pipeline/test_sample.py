from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from perfgate.bench.progress import NullProgress
from perfgate.bench.sampling import Taken
from perfgate.cli import app
from perfgate.errors import EXIT_PASS, Interrupted, MeasuringError, StoreError, UsageError
from perfgate.graph.build import build
from perfgate.pipeline import sample as pipeline
from perfgate.pipeline.examples import examples
from perfgate.pipeline.request import Ports
from perfgate.pipeline.sample import SampleRequest, sample
from perfgate.pipeline.sample_record import condition_of, disturbed
from perfgate.records.evidence import Block
from perfgate.records.graph import Call, Trace, Value
from perfgate.records.protocol import Failed, Sampled, Software
from perfgate.records.sampling import NAMESPACE_SAMPLE
from perfgate.sampling.design import Space
from perfgate.store.open import open_store
from perfgate.units import duration

SOFTWARE = Software(versions={"torch": "2.9.0"}, threads=1)


def trace_of(condition):
    """One product whose size is that of the batch."""
    values = (
        Value(shape=(condition.batch, 8), dtype="float32", storage=0, role="input", name="inputs[0]"),
        Value(shape=(8, 4), dtype="float32", storage=1, role="parameter", name="weight"),
        Value(shape=(condition.batch, 4), dtype="float32", storage=2),
    )
    call = Call(op="aten::mm", operands={"self": (0,), "mat2": (1,)}, outputs=(2,))
    return Trace(source="meta", values=values, calls=(call,), parameters=32, weight_bytes=128, results=(2,),
                 lasting=(2,), batch=condition.batch)  # fmt: skip


class FakeSampler:
    """Answers at once; ``clock`` gives each condition a second."""

    def __init__(self, clock):
        self.clock = clock
        self.taken = []
        self.traced = []
        self.at = {}  # number of a condition -> what to do instead
        self.starting = SOFTWARE
        self.counted = True  # energy

    def software(self, threads):
        return self.starting

    def trace(self, condition, seed=0):
        self.traced.append(condition)
        return trace_of(condition)

    def take(self, condition, seed=0):
        self.clock.now += 1.0
        self.taken.append(condition)
        instead = self.at.get(len(self.taken))
        if isinstance(instead, Failed):
            return instead
        if instead is not None:
            raise instead
        energy_j = 0.5 if self.counted else None
        block = Block(samples_ns=(2_000_000, 4_000_000), cpu_ns=3_000_000, wall_ns=6_000_000, energy_j=energy_j)
        return Taken(
            condition=condition,
            sampled=Sampled(first_step_ns=9_000_000, params=32, weight_bytes=128, disk_bytes=1000, input_bytes=64,
                            resting_bytes=2**20, structure={"modules": {"Linear": 1}}),
            blocks=(Block(samples_ns=(6_000_000,)), block),
            inners=(1, 2),
            peak_bytes=2**21,
            software=SOFTWARE,
            spent_s=1.0,
            waited_share=0.5 if len(self.taken) == self.at.get("disturbed") else 0.01,
        )  # fmt: skip


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def world(monkeypatch, tmp_path):
    """The fake sampler behind ``sample``, on a clock of its own."""
    clock = Clock()
    sampler = FakeSampler(clock)

    class FakeSession:
        free = 2**40

        @contextmanager
        def sampling(self, side, devices):
            yield sampler

        def free_bytes(self, devices):
            return dict.fromkeys(devices, self.free)

    @contextmanager
    def opened(root, side, ports, *, python):
        yield FakeSession()

    monkeypatch.setattr(pipeline, "opened", opened)
    monkeypatch.setattr("perfgate.pipeline.sample.time.monotonic", clock.monotonic)
    return sampler


def request(tmp_path, **changes):
    asked = SampleRequest(root=tmp_path, budget_s=30.0, store_url=str(tmp_path / "own.sqlite"))
    return replace(asked, **changes)


def run(tmp_path, *, doubt=None, **changes):
    ports = Ports(progress=NullProgress(), environ=os.environ)
    return sample(request(tmp_path, **changes), ports, doubt=doubt)


def records(tmp_path):
    with open_store(str(tmp_path / "own.sqlite")) as store:
        return store.newest(namespace=NAMESPACE_SAMPLE)


def test_sample__runs_until_the_budget_is_spent(world, tmp_path):
    found = run(tmp_path)
    assert found.end == "budget"
    # A second each; what is predicted not to fit any more is not begun.
    assert 20 <= found.recorded <= 30
    assert len(records(tmp_path)) == found.recorded
    assert sum(found.families.values()) == found.recorded
    assert 0 < found.adaptive < found.recorded
    assert len({one.key for one in world.taken}) == len(world.taken)


def test_sample__a_record_is_an_example(world, tmp_path):
    run(tmp_path, most=1, space=Space(modes=("train",), accumulations=(2,)))
    (record,) = records(tmp_path)
    condition = world.taken[0]
    assert condition_of(record) == condition
    # One step of 6 ms, two of 2 ms and two of 4 ms.
    assert record.metrics["latency"] == pytest.approx((6 + 4 + 8) * 1e6 / 5)
    assert record.samples["latency"] == (6e6, 2e6, 4e6)
    assert record.metrics["first_step"] == 9e6
    assert record.metrics["utilisation"] == pytest.approx(3 / 6 / condition.threads)
    # Half a joule for four steps.
    assert record.metrics["energy"] == pytest.approx(0.5 / 4 / condition.batch)
    assert record.metrics["peak_memory"] == 2**21
    assert record.resources["disk_bytes"] == "1000"
    assert record.hyper_parameters["optimizer"] == condition.optimizer
    assert record.hyper_parameters["accumulation"] == "2"
    assert record.input_bytes == 64
    (example,) = examples([record])
    assert example.group == condition.network.family
    assert example.targets["energy"] == pytest.approx(0.5 / 4)
    assert example.weight_bytes == 128
    assert example.resources["resting_bytes"] == 2**20
    counted = build(trace_of(condition)).totals
    assert sum(group.flop * group.calls for group in example.kernels) == counted.flop


@pytest.mark.parametrize("counted", [True, False])
def test_sample__what_the_machine_does_not_tell_is_said(world, tmp_path, counted, capsys, monkeypatch):
    world.counted = counted
    assert list(run(tmp_path, most=2).lacking) == ([] if counted else ["energy"])
    assert run(tmp_path, most=0).lacking == {}
    monkeypatch.chdir(tmp_path)
    app.run(["sample", "--budget", "30s", "--most", "2", "-q", "--store", str(tmp_path / "own.sqlite")])
    assert ("Not recorded: energy (only counters of GPUs are read" in capsys.readouterr().out) is not counted


def test_sample__goes_on_where_the_records_end(world, tmp_path):
    run(tmp_path, most=6, filling=True)
    again = run(tmp_path, most=6, filling=True)
    assert (again.known, again.recorded) == (6, 6)
    keys = [one.key for one in world.taken]
    assert len(set(keys)) == 12
    assert {record.workload.key for record in records(tmp_path)} == set(keys)


def test_sample__records_of_other_software_do_not_count(world, tmp_path):
    run(tmp_path, most=3)
    world.starting = Software(versions={"torch": "3.0.0"}, threads=1)
    assert run(tmp_path, most=3).known == 0


def test_sample__disturbed_conditions_are_run_again(world, tmp_path):
    world.at["disturbed"] = 2
    space = Space(families=("fully-connected",), modes=("infer",))
    found = run(tmp_path, most=3, filling=True, space=space)
    assert found.disturbed == 1
    assert sum(map(disturbed, records(tmp_path))) == 1
    world.at.clear()
    again = run(tmp_path, most=1, filling=True, space=space)
    assert again.known == 2
    assert world.taken[-1] == world.taken[1]
    assert sum(map(disturbed, records(tmp_path))) == 0


def test_sample__ctrl_c_loses_nothing(world, tmp_path):
    world.at[4] = KeyboardInterrupt()
    found = run(tmp_path)
    assert (found.end, found.recorded) == ("interrupted", 3)
    assert len(records(tmp_path)) == 3


def test_sample__a_condition_that_fails_is_named_and_passed_over(world, tmp_path):
    world.at[2] = Failed(kind="oom", phase="first-step", message="no memory for that")
    found = run(tmp_path, most=4)
    assert found.recorded == 4
    assert [(failure.phase, failure.message) for failure in found.failures] == [("first-step", "no memory for that")]
    assert found.failures[0].condition == world.taken[1].key


def test_sample__a_condition_that_was_chosen_and_failed_is_no_record_that_was_chosen(world, tmp_path):
    # All that the later part of the budget tries.
    world.at = {number: Failed(kind="oom", phase="build", message="no memory") for number in range(9, 40)}
    found = run(tmp_path)
    assert (found.recorded, found.adaptive) == (8, 0)
    assert len(found.failures) > 10


def test_sample__where_nothing_runs_it_gives_up(world, tmp_path):
    world.at = {number: Failed(kind="raised", phase="build", message="broken torch") for number in range(1, 20)}
    with pytest.raises(MeasuringError, match=r"5 sample networks in a row.*\(build\): broken torch"):
        run(tmp_path)
    assert len(world.taken) == 5


def test_sample__an_interpreter_that_cannot_start_is_an_error(world, tmp_path):
    world.starting = Failed(kind="unsupported", phase="import", message="torch is not installed")
    with pytest.raises(MeasuringError, match=r"cannot run \(import\): torch is not installed"):
        run(tmp_path)


def test_sample__a_broken_database_is_found_before_anything_runs(world, tmp_path):
    (tmp_path / "own.sqlite").write_text("no database")
    with pytest.raises(StoreError):
        run(tmp_path)
    assert world.taken == []


def test_sample__goes_where_the_estimator_is_least_sure(world, tmp_path):
    asked = []

    def doubt(known, candidates):
        asked.append((len(known), len(candidates)))
        assert all(candidate.metrics == {} and examples([candidate]) == [] for candidate in candidates)
        assert all("kernel_groups" in candidate.structure for candidate in candidates)
        return [5.0 if candidate.workload.mode == "train" else 0.1 for candidate in candidates]

    found = run(tmp_path, doubt=doubt, budget_s=60.0)
    # It has learned from all that was recorded by then, in the later part of the budget.
    assert asked[0][0] >= 15
    assert [known for known, _ in asked] == sorted(known for known, _ in asked)
    assert len(asked) == found.adaptive
    chosen = world.taken[asked[0][0] :]
    assert sum(one.mode == "train" for one in chosen) > len(chosen) * 0.6
    # A candidate is traced once, whenever it is taken.
    assert len({one.key for one in world.traced}) == len(world.traced)


def test_sample__on_a_real_worker(tmp_path):
    space = Space(families=("fully-connected", "convolution"), dtypes=("float32",), threads=(1,))
    found = run(tmp_path, most=4, budget_s=120.0, space=space, python=sys.executable)
    assert found.end == "enough"
    assert found.failures == ()
    # How busy this machine is decides which of them would be left out.
    made = [replace(one, resources={**one.resources, "waited_share": "0.0"}) for one in records(tmp_path)]
    known = examples(made)
    assert len(known) == 4
    for example in known:
        assert example.targets["step_time"] > 0
        assert 0 < example.targets["utilisation"] <= 1
        assert example.targets["peak_memory"] > example.resources["resting_bytes"] / 2
        assert example.software.startswith("torch ")
        assert sum(group.flop * group.calls for group in example.kernels) > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--budget", "soon"], "--budget 'soon' is not a quantity"),
        (["--budget", "1s"], "too short"),
        (["--mode", "dream"], "'dream' is no mode"),
        (["--threads", "0"], "whole numbers from 1 to"),
        (["--device", "tpu"], "--device"),
        (["--dtype", ","], "--dtype names nothing"),
    ],
)
def test_command__wrong_arguments_are_named(arguments, says, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert app.run(["sample", *arguments]) == UsageError.exit_code
    assert says in capsys.readouterr().err


def test_command__says_what_was_recorded(world, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    store = ["--store", str(tmp_path / "own.sqlite")]
    assert app.run(["sample", "--budget", "30s", "--most", "3", "-q", *store]) == EXIT_PASS
    said = capsys.readouterr().out
    assert "3 records in 3 s (as many as asked for)" in said
    assert f"median {duration(3.6e6)}" in said
    world.at[6] = KeyboardInterrupt()
    assert app.run(["sample", "--budget", "30s", "--json", "-q", *store]) == Interrupted.exit_code
    tree = json.loads(capsys.readouterr().out)
    assert (tree["end"], tree["known"], tree["recorded"]) == ("interrupted", 3, 2)


def test_sample__waiting_for_the_machine_spends_no_budget(world, tmp_path, monkeypatch):
    opened = vars(pipeline)["opened"]

    @contextmanager
    def waits(*arguments, **named):
        # As a session does where another perfgate measures.
        world.clock.now += 1000.0
        with opened(*arguments, **named) as session:
            yield session

    monkeypatch.setattr(pipeline, "opened", waits)
    found = run(tmp_path, most=3)
    assert (found.recorded, found.end, found.seconds) == (3, "enough", 3.0)


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (Failed(kind="crash", phase="build", message="no memory left"), "(build): no memory left"),
        (None, "--budget 30s was over before the first condition was"),
    ],
)
def test_command__nothing_recorded_says_why_and_ends_with_3(world, failure, says, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def take(condition, seed=0):
        world.clock.now += 100.0
        return failure

    def software(threads):
        world.clock.now += 100.0
        return SOFTWARE

    if failure is not None:
        monkeypatch.setattr(world, "take", take)
    else:
        monkeypatch.setattr(world, "software", software)
    store = ["--store", str(tmp_path / "own.sqlite")]
    assert app.run(["sample", "--budget", "30s", "--json", "-q", *store]) == MeasuringError.exit_code
    out, err = capsys.readouterr()
    assert json.loads(out)["recorded"] == 0
    assert says in err
