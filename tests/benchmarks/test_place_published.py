from __future__ import annotations

import json

import pytest

from benchmarks.place import published, rivals
from benchmarks.place.workloads import ids, number, read, unsupported, workloads
from perfgate.placement import evaluate
from perfgate.records.placement import LATENCY, THROUGHPUT


@pytest.fixture
def data(tmp_path):
    """A workload of three nodes, listed backwards, two of which stay together, and its table of known values."""
    nodes = [
        {"id": 7, "cpuLatency": 30.0, "fpgaLatency": 3.0, "colorClass": 1, "size": 5.0},
        {"id": 5, "cpuLatency": 20.0, "fpgaLatency": 2.0, "colorClass": 2, "size": 5.0},
        {"id": 3, "cpuLatency": 10.0, "fpgaLatency": 1.0, "colorClass": 1, "size": 5.0},
    ]
    edges = [
        {"sourceId": 3, "destId": 5, "cost": 0.5},
        {"sourceId": 3, "destId": 7, "cost": 0.5},
        {"sourceId": 5, "destId": 7, "cost": 0.25},
    ]
    raw = {"maxSizePerFPGA": 10.0, "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": edges}
    tables = {
        THROUGHPUT: "workload,dp_contiguous_optimum,cpsat_noncontig_75s,cpsat_bound\nlayer_tiny_inference,,4.75,4.0",
        LATENCY: "workload,all_cpu,repo_greedy,critical_path_lower_bound\nlayer_tiny_inference,60.0,25.5,6.0",
    }
    (tmp_path / "timm").mkdir()
    for objective, table in tables.items():
        folder = tmp_path / "placement" / objective
        folder.mkdir(parents=True)
        (folder / "layer_tiny_inference.json").write_text(json.dumps(raw))
        known = tmp_path / "placement" / "best_known"
        known.mkdir(exist_ok=True)
        (known / f"{objective}.csv").write_text(table)
    experts = tmp_path / "placement" / "human-experts"
    experts.mkdir()
    split = {"cpus": [{"load": -1, "nodes": []}], "fpgas": [{"load": -1, "nodes": [3, 7]}, {"load": -1, "nodes": [5]}]}
    (experts / "tiny_inference_expert.json").write_text(json.dumps(split))
    return tmp_path


def test_workloads__values_are_those_of_the_published_models(data):
    throughput, latency = workloads(data)
    assert (throughput.best, throughput.bound) == (4.75, 4.0)
    assert ids(throughput.path) == [3, 5, 7]
    # On the first accelerator 1 + 3 ms, one value out and one in; on the second 2 ms, in and out.
    assert evaluate.value(throughput.problem, (1, 2, 1)) == pytest.approx(4 + 0.5 + 0.25)
    assert evaluate.loads(throughput.problem, (1, 2, 1))["accelerator 2"] == pytest.approx(2 + 0.5 + 0.25)
    # A sub-graph that waits for what it makes itself cannot be.
    assert evaluate.value(latency.problem, (1, 2, 1)) == float("inf")
    # The processor computes, the accelerator receives, computes and sends.
    assert evaluate.value(latency.problem, (0, 1, 0)) == pytest.approx(10 + 0.5 + 2 + 0.25 + 30)
    # Only two nodes fit, and these two are on one accelerator or none.
    assert evaluate.value(latency.problem, (1, 1, 1)) == float("inf")


def test_number__of_a_cell_with_a_remark():
    assert number("201.450(does not fit)") == 201.45
    assert number("") is None


def test_unsupported__a_share_of_the_nodes_is_left_to_the_processor(data):
    problem = read(data / "placement" / THROUGHPUT / "layer_tiny_inference.json", THROUGHPUT)
    fewer = unsupported(problem, 0.34, seed=0)
    assert sum(node.seconds[1] is None for node in fewer.nodes) == 1
    assert all(node.seconds[0] is not None for node in fewer.nodes)


def test_published__prints_both_tables_and_finds_the_best(data, capsys):
    found = ["--data", str(data), "--seconds", "0.5", "--rival-seconds", "0.1"]
    assert published.main([*found, "--only", THROUGHPUT]) == 0
    printed = capsys.readouterr().out
    assert "| throughput, layer_tiny_inference |" in printed
    assert printed.count("4.750") >= 4


def test_published__a_value_above_the_best_known_is_exit_status_1(data, capsys):
    table = data / "placement" / "best_known" / "throughput.csv"
    table.write_text(table.read_text().replace("4.75", "4.0"))
    arguments = ["--data", str(data), "--seconds", "0.3", "--rival-seconds", "0.1", "--only", THROUGHPUT]
    assert published.main(arguments) == 1
    assert "largest gap +18.75" in capsys.readouterr().out


def test_published__without_data_says_where_they_belong(tmp_path, capsys):
    (tmp_path / "timm").mkdir()
    assert published.main(["--data", str(tmp_path)]) == 0
    assert "placement/throughput" in capsys.readouterr().out


def test_rivals__are_no_better_than_the_best(data):
    problem = workloads(data)[0].problem
    assert rivals.hill_climbing(problem, 1.0) >= 4.75 - 1e-9
    assert rivals.annealing(problem, 0.1) >= 4.75 - 1e-9
