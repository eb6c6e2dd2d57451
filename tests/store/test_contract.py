"""What every store promises, over each kind of store. B03, B06, B07, B09, B17 and B58 are public cases of failure."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings

from perfgate.errors import StoreError
from perfgate.records.baseline import BaselineRecord
from perfgate.store.contract import BaselineStore
from perfgate.store.identity import record_id, short_hash
from tests.store.helpers import RESNET, SOFTWARE, a_record, commit, with_metric
from tests.store.strategies import records

OTHER = dataclasses.replace(RESNET, batch=1)


def nearest(store: BaselineStore, *commits: int, software_id: str | None = None) -> BaselineRecord | None:
    ids = [commit(number) for number in commits]
    return store.nearest("resnet", RESNET, ids, hardware_id="cpu-1", software_id=software_id)


def ancestor(store: BaselineStore, *commits: int) -> BaselineRecord:
    found = nearest(store, *commits)
    assert found is not None
    return found


def test_record__comes_back_as_it_was(store):
    record = a_record()
    (identifier,) = store.record([record])
    assert identifier == record_id(record)
    found = store.get(identifier)
    assert found == dataclasses.replace(record, structure={"Conv2d": 20, "layers": ({"in": 3, "share": 0.5},)})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=records())
def test_record__any_content_comes_back_under_its_hash(store, record):
    (identifier,) = store.record([record])
    found = store.get(identifier)
    assert found == record
    assert record_id(found) == identifier


def test_record__same_twice_is_one(store):
    first = store.record([a_record(), a_record()])
    second = store.record([a_record()])
    assert set(first) == set(second)
    assert store.count() == 1


def test_record__ids_in_the_order_given(store):
    batch = [a_record(at=number) for number in (3, 1, 2)]
    store.record(batch[1:2])
    assert store.record(batch) == tuple(record_id(record) for record in batch)


def test_record__more_than_one_statement_can_carry(store):
    assert len(set(store.record([a_record(at=number) for number in range(1201)]))) == 1201
    assert store.count() == 1201
    assert nearest(store, *range(5000, 6500), 1200) == nearest(store, 1200)


def test_record__nothing(store):
    assert store.record([]) == ()


def test_record__all_or_nothing(store):
    with pytest.raises(StoreError, match="namespace 'main'"):
        store.record([a_record(), a_record(namespace="main")])
    assert store.count() == 0


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"namespace": "pr/0"}, "namespace 'pr/0' is none of"),
        ({"namespace": "base "}, "namespace"),
        ({"commit": ""}, "commit is empty, and a baseline needs one"),
        ({"commit": "a04be77"}, "is not a full commit id"),
        ({"commit": "main"}, "is not a full commit id"),
        ({"recorded_at": "2025-01-31T12:00:00+01:00"}, "is not UTC"),
        ({"recorded_at": "2025-01-31 12:00:00"}, "is not UTC"),
        ({"model_key": ""}, "model_key '' must be"),
        ({"model_key": "a\x00b"}, "model_key"),
        ({"hardware_id": "x" * 501}, "hardware_id"),
        ({"workflow": "a\nb"}, "workflow"),
        ({"metrics": {"speed": 1.0}, "units": {"speed": "ns"}}, "'speed' is not a metric"),
        ({"metrics": {"latency": float("nan")}}, "finite"),
        ({"samples": {"latency": (float("inf"),)}}, "finite"),
        ({"samples": {"latency": (1.0,) * 65}}, "latency has 65, the limit is 64"),
        ({"structure": {"a": object()}}, "has no JSON form"),
    ],
)
def test_record__refuses_what_is_not_well_formed(store, fields, told):
    with pytest.raises(StoreError, match=told):
        store.record([a_record(**fields)])
    assert store.count() == 0


@pytest.mark.parametrize("unit", ["us", "µs", "μs", "ms", "", None])
def test_record__b17_refuses_a_unit_that_is_not_the_registered_one(store, unit):
    units = {"peak_memory": "byte"} if unit is None else {"peak_memory": "byte", "latency": unit}
    with pytest.raises(StoreError, match=r"latency is in .* but is stored in 'ns'; convert it first"):
        store.record([a_record(latency=1210.0, units=units)])


def test_record__spans_are_metrics(store):
    (identifier,) = store.record([with_metric(a_record(), "span:first_token", 5.0)])
    assert store.get(identifier).metrics["span:first_token"] == 5.0


def test_record__b03_a_regression_is_recorded_and_is_the_next_baseline(store):
    store.record([a_record(at=1, latency=10e6)])
    store.record([a_record(at=2, latency=15e6)])  # 50 % slower: recorded before anyone judges it
    assert ancestor(store, 2, 1).metrics["latency"] == 15e6
    assert [found.metrics["latency"] for found in store.history("resnet", RESNET)] == [15e6, 10e6]


def test_get__unknown_id(store):
    assert store.get("0" * 64) is None


def test_get__gives_the_caller_a_copy(store):
    (identifier,) = store.record([a_record()])
    store.get(identifier).metrics["latency"] = 1.0
    assert store.get(identifier).metrics["latency"] == 13.9e6


def test_nearest__empty_store(store):
    assert nearest(store, 1, 2, 3) is None
    assert nearest(store) is None


def test_nearest__b06_walks_back_to_the_first_commit_with_data(store):
    store.record([a_record(at=5), a_record(at=9)])
    found = ancestor(store, 1, 2, 3, 4, 5, 6, 9)
    assert found.commit == commit(5)


def test_nearest__b07_never_a_pull_request(store):
    store.record([a_record(at=1, latency=10e6)])
    answers = []
    for push in (2, 3, 4):
        store.record([a_record(at=push, latency=13e6, namespace="pr/7")])
        answers.append(ancestor(store, *range(push, 0, -1)).metrics["latency"])
    assert answers == [10e6, 10e6, 10e6]


@pytest.mark.parametrize("namespace", ["local", "unmerged", "pr/1"])
def test_nearest__only_the_default_branch(store, namespace):
    store.record([a_record(namespace=namespace)])
    assert nearest(store, 1) is None


def test_nearest__b09_unknown_commit_falls_back_to_an_ancestor(store):
    store.record([a_record(at=1)])
    assert ancestor(store, 99, 1).commit == commit(1)
    assert nearest(store, 99) is None


def test_nearest__b58_by_ancestry_whatever_the_clocks_said(store):
    store.record([a_record(at=2, recorded_at="2025-01-31T11:00:00Z")])
    store.record([a_record(at=1, recorded_at="2031-01-01T00:00:00Z")])
    assert ancestor(store, 2, 1).commit == commit(2)


def test_nearest__of_one_commit_the_last_to_arrive(store):
    store.record([a_record(latency=1.0, recorded_at="2031-01-01T00:00:00Z")])
    store.record([a_record(latency=2.0, recorded_at="2025-01-31T11:00:00Z")])
    assert ancestor(store, 1).metrics["latency"] == 2.0


def test_nearest__other_hardware_software_workload_or_model_is_no_answer(store):
    store.record(
        [
            a_record(hardware_id="gpu-1"),
            a_record(workload=OTHER),
            a_record(model_key="other/repo:resnet"),
            a_record(at=2, software_id="new"),
        ]
    )
    assert nearest(store, 1) is None
    assert ancestor(store, 2).software_id == "new"
    assert nearest(store, 2, software_id="old") is None
    assert nearest(store, 2, software_id="new") == ancestor(store, 2)


def test_nearest__a_value_of_zero_is_a_value(store):
    store.record([a_record()])
    assert ancestor(store, 1).metrics["peak_memory"] == 0.0


def test_history__last_to_arrive_first_up_to_the_limit(store):
    store.record([a_record(at=number) for number in (3, 1, 2)])
    assert [found.commit for found in store.history("resnet", RESNET)] == [commit(2), commit(1), commit(3)]
    assert [found.commit for found in store.history("resnet", RESNET, limit=2)] == [commit(2), commit(1)]
    assert store.history("resnet", RESNET, limit=0) == ()


def test_history__one_namespace_and_hardware(store):
    store.record([a_record(), a_record(hardware_id="gpu-1"), a_record(namespace="pr/7"), a_record(workload=OTHER)])
    assert len(store.history("resnet", RESNET)) == 2
    assert len(store.history("resnet", RESNET, hardware_id="gpu-1")) == 1
    assert [found.namespace for found in store.history("resnet", RESNET, namespace="pr/7")] == ["pr/7"]
    assert store.history("vgg", RESNET) == ()


def test_newest__one_for_each_model_workload_and_machine(store):
    store.record([a_record(at=1), a_record(at=1, hardware_id="gpu-1"), a_record(at=1, workload=OTHER)])
    store.record([a_record(at=2), a_record(at=3, namespace="pr/7"), a_record(at=2, model_key="Alpha")])
    found = [(record.model_key, record.workload.batch, record.hardware_id, record.commit) for record in store.newest()]
    assert found == [
        ("Alpha", 8, "cpu-1", commit(2)),
        ("resnet", 1, "cpu-1", commit(1)),
        ("resnet", 8, "cpu-1", commit(2)),
        ("resnet", 8, "gpu-1", commit(1)),
    ]
    assert [record.commit for record in store.newest(namespace="pr/7")] == [commit(3)]


def test_newest__numbers_of_threads_hide_one_another_unless_asked_apart(store):
    def with_threads(number: int, at: int, **facts: str):
        software = SOFTWARE | {"threads": str(number), **facts}
        resources = {"threads": str(number)}
        return a_record(at=at, resources=resources, software=software, software_id=short_hash(software))

    store.record([with_threads(2, 1), with_threads(1, 2), with_threads(2, 3), with_threads(1, 4, torch="2.5.0")])
    assert [record.commit for record in store.newest()] == [commit(4)]
    apart = store.newest(each_threads=True)
    assert [(record.resources["threads"], record.commit) for record in apart] == [("1", commit(4)), ("2", commit(3))]


def test_newest__a_run_that_does_not_count_hides_nothing(store):
    store.record([a_record(at=1), a_record(at=2), a_record(at=3, model_key="vgg")])
    assert [record.commit for record in store.newest(but_run="run-2")] == [commit(1), commit(3)]
    assert [record.commit for record in store.newest(but_run="run-9")] == [commit(2), commit(3)]


def test_import_map__union_at_the_first_commit_that_has_one(store):
    store.record(
        [
            a_record(at=1, files=("old.py",)),
            a_record(at=2, files=("b.py", "a.py")),
            a_record(at=2, files=("c.py", "a.py"), workload=OTHER, hardware_id="gpu-1"),
            a_record(at=3, files=()),
            a_record(at=4, files=("pr.py",), namespace="pr/7"),
            a_record(at=4, files=("other.py",), model_key="other"),
        ]
    )
    ids = [commit(number) for number in (4, 3, 2, 1)]
    assert store.import_map("resnet", ids) == ("a.py", "b.py", "c.py")
    assert store.import_map("resnet", ids[:2]) is None
    assert store.import_map("resnet", []) is None


def test_close__twice_is_fine_and_use_afterwards_is_an_error(store):
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.record([a_record()])
    with pytest.raises(StoreError, match="closed"):
        nearest(store, 1)
