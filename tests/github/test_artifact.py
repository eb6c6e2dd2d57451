"""The measuring job's file, as an attacker would send it."""

import json
import os
from dataclasses import replace

import pytest

from perfgate import wire
from perfgate.errors import MeasuringError
from perfgate.github import artifact
from perfgate.records.evidence import Block, Pair, Revision, SideEvidence, SideSamples, WorkloadEvidence
from perfgate.records.workload import Workload
from tests.github.helpers import BASE, HEAD, MERGE, make_ci, make_event, make_measurements, make_run


def with_samples(*samples_ns, **fields):
    side = SideSamples(blocks=(Block(samples_ns=samples_ns),), first_step_ns=1, **fields)
    evidence = WorkloadEvidence(
        workload=Workload(model="m", mode="infer", batch=1, dtype="float32", device="cpu", compile="eager"),
        base=SideEvidence(status="ok"),
        head=SideEvidence(status="ok"),
        pairs=(Pair(index=0, round=0, order="ABBA", base=side, head=side),),
    )
    return make_measurements(workloads=(evidence,))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "measurements.json"


def write(path, measurements):
    path.write_text(wire.dumps(measurements), encoding="utf-8")


def test_load_measurements__round_trip(path):
    measurements = with_samples(5_000_000, 5_100_000)
    write(path, measurements)
    assert artifact.load_measurements(path) == measurements


def edited(**changes):
    tree = wire.to_tree(make_measurements())
    tree.update(changes)
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("{" * 100_000, "not JSON"),
        (edited(surprise=1), "surprise: unknown key"),
        (edited(format=2), "format: 2 is not 1"),
        (edited(format="1"), "format: expected int"),
        (edited(run={**wire.to_tree(make_run()), "duration_s": float("nan")}), "NaN"),
        (edited().replace('"duration_s": 0.0', '"duration_s": 1e999'), "not a finite number"),
        (edited(notes=["x" * 70_000]), "longer than"),
    ],
)
def test_load_measurements__refuses_and_names_the_place(path, content, said):
    path.write_text(content, encoding="utf-8")
    with pytest.raises(MeasuringError) as caught:
        artifact.load_measurements(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sample", [0, -5, artifact.MAX_NS + 1])
def test_load_measurements__refuses_impossible_times(path, sample):
    write(path, with_samples(5_000_000, sample))
    with pytest.raises(MeasuringError, match=r"workloads\[0\]\.pairs\[0\]\.base\.blocks\[0\]\.samples_ns"):
        artifact.load_measurements(path)


@pytest.mark.parametrize("fields", [{"items": 0}, {"items": -1}, {"items": 2**62}, {"inner": 0}, {"inner": 2**40}])
def test_load_measurements__refuses_impossible_numbers_of_items(path, fields):
    # Costs are per item: such a number would turn a red row into anything.
    write(path, with_samples(5_000_000, **fields))
    [name] = fields
    with pytest.raises(MeasuringError, match=rf"workloads\[0\]\.pairs\[0\]\.base\.{name}: not within 1 and"):
        artifact.load_measurements(path)


def test_load_measurements__refuses_a_link_a_pipe_a_folder_and_nothing(path, tmp_path):
    with pytest.raises(MeasuringError, match="not there"):
        artifact.load_measurements(path)
    secret = tmp_path / "secret"
    write(secret, make_measurements())
    path.symlink_to(secret)
    with pytest.raises(MeasuringError, match="regular file"):
        artifact.load_measurements(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(MeasuringError, match="regular file"):
        artifact.load_measurements(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(MeasuringError, match="regular file"):
        artifact.load_measurements(path)


def test_load_measurements__refuses_what_is_too_large(path):
    with path.open("wb") as file:
        file.truncate(artifact.MAX_BYTES + 1)
    with pytest.raises(MeasuringError, match="larger than 20 MiB"):
        artifact.load_measurements(path)


def test_cross_check__accepts_its_own_run_and_an_earlier_attempt():
    artifact.cross_check(make_measurements(), make_event(), base=BASE)
    artifact.cross_check(make_measurements(), make_event(ci=make_ci(attempt=3)))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"head": Revision(sha=MERGE)}, "head.sha"),
        ({"base": Revision(sha=HEAD)}, "base.sha"),
        ({"run": make_run(make_ci(pull_request=8))}, "run.ci.pull_request"),
        ({"run": make_run(make_ci(run_id="78"))}, "run.ci.run_id"),
        ({"run": make_run(make_ci(repository="octo/other"))}, "run.ci.repository"),
        ({"run": make_run(make_ci(event="push"))}, "run.ci.event"),
        ({"run": make_run(make_ci(attempt=2))}, "run.ci.attempt"),
    ],
)
def test_cross_check__names_what_belongs_elsewhere(changes, field):
    with pytest.raises(MeasuringError, match=field.replace(".", r"\.")):
        artifact.cross_check(replace(make_measurements(), **changes), make_event(), base=BASE)


def test_cross_check__an_event_without_a_commit_has_no_measurements():
    with pytest.raises(MeasuringError, match=r"head\.sha"):
        artifact.cross_check(make_measurements(head=Revision(sha="")), make_event(head=None))
