"""``perfgate place`` as a user runs it: real libraries, a real search, a real deployed folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        y = torch.relu(self.conv(x)).mean((2, 3))
        return torch.cumsum(torch.tanh(self.out(y)), 1)


def net():
    return Net()


def looks_at_values():
    class Looks(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    return Looks()
"""
INPUTS = ("--inputs", "float32[2,3,16,16]")
LIBRARIES = ("--libraries", "torch-native,onnxruntime", "--threads", "1")


def perfgate(folder: Path, *arguments: str, quiet: bool = True) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "PERFGATE_LOCK_DIR": str(folder), "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "perfgate", "place", *arguments, *(["--quiet"] if quiet else [])],
        cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=400, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A folder with a model, what a search of it said, and its plan."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "net.py").write_text(NET)
    done = perfgate(folder, "net:net", *INPUTS, *LIBRARIES, "--budget", "60s", "--out", "plan.json", "--json")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout), json.loads((folder / "plan.json").read_text())


def test_place__times_every_library_on_every_kind_of_operator(searched):
    _, said, _ = searched
    names = [target["name"] for target in said["targets"]]
    assert names == ["torch-native cpu", "onnxruntime cpu"]
    assert {whole["target"]: whole["seconds"] is not None for whole in said["wholes"]} == dict.fromkeys(names, True)
    asked = {(support["target"], support["signature"]) for support in said["supports"]}
    assert {target for target, _ in asked} >= set(names)
    assert all(support["how"] for support in said["supports"])


def test_place__is_never_above_a_single_target_and_never_below_the_bound(searched):
    _, said, _ = searched
    singles = [single["value"] for single in said["singles"] if single["value"] is not None]
    assert said["objective"] == "latency"
    assert said["value"] <= min(singles) * (1 + 1e-9)
    assert said["bound"] <= said["value"] * (1 + 1e-9)
    assert said["optimal"]
    assert {node["target"] for node in said["nodes"]} <= {"torch-native cpu", "onnxruntime cpu"}


def test_place__recommends_only_what_was_measured_and_is_faster(searched):
    _, said, plan = searched
    assert said["plan"] == plan
    if plan["recommended"]:
        assert plan["faster"][1] < 0
        assert any(candidate["raced"] for candidate in said["candidates"])
    else:
        # What is not certainly faster is not what is deployed.
        assert {piece["target"] for piece in plan["pieces"]} == {plan["best_single"]}
    assert plan["difference"] <= plan["tolerance"]
    assert plan["given"] == ["float32[2,3,16,16]"]


def test_place__a_deployed_plan_runs_without_perfgate(searched, tmp_path):
    folder, _, plan = searched
    to = tmp_path / "deployed"
    done = perfgate(folder, "--apply", "plan.json", "--to", str(to))
    assert done.returncode == 0, done.stderr
    assert f"deployed to {to} in {len(plan['pieces'])} piece" in done.stdout.replace("\n", " ")
    blocked = "import sys; sys.modules['perfgate'] = None; sys.argv = ['placed.py', '--check']; "
    check = subprocess.run(
        [sys.executable, "-c", blocked + "import runpy; runpy.run_path('placed.py', run_name='__main__')"],
        cwd=to, capture_output=True, encoding="utf-8", timeout=200, check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )  # fmt: skip
    assert check.returncode == 0, check.stderr
    assert "within" in check.stdout
    again = perfgate(folder, "--apply", "plan.json", "--to", str(to))
    assert again.returncode == 0, again.stderr


def test_place__a_plan_is_for_one_graph(searched, tmp_path):
    folder, _, _ = searched
    other = ("--inputs", "float32[4,3,16,16]")
    done = perfgate(folder, "--apply", "plan.json", *other, "--to", str(tmp_path / "x"))
    assert done.returncode == 3
    assert "the plan is for another graph than the model has now; run perfgate place again" in done.stderr


def test_place__what_cannot_be_exported_says_so(searched):
    folder, _, _ = searched
    done = perfgate(folder, "net:looks_at_values", "--inputs", "float32[2]", *LIBRARIES)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "cannot be placed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "MODEL is missing"),
        (("net:net", "--to", "x"), "write --apply plan.json too"),
        (("--apply", "plan.json"), "--apply needs --to DIR"),
        (("--apply", "plan.json", "--to", "x", "--out", "y"), "leave one of them out"),
        (("--apply", "net.py", "--to", "x"), "name a file that perfgate place --out of this version wrote"),
        (("--apply", "gone.json", "--to", "x"), "cannot be read"),
        (("--apply", "plan.json", "--to", "."), "which is no part of a deployed model; name a new folder"),
        (("--apply", "plan.json", "--to", "net.py"), "is no folder"),
        (("--apply", "plan.json", "--to", "net.py/x"), "is no folder"),
        (("--apply", "plan.json", "--to", "x", "--budget", "1min"), "--budget is for a search"),
        (("net:net", *INPUTS, "--out", "net.py/plan.json"), "net.py is no folder"),
        (("net:net", *INPUTS, "--max-step-time", "1ms"), "the objective is latency; leave it out"),
        (("net:net", *INPUTS, "--devices", "gpu"), "no device"),
        (("net:net", *INPUTS, "--libraries", "MKL!"), "no name of a compute library"),
        (("net:net", *INPUTS, "--threads", "0"), "write whole numbers from 1"),
        (("net:net", *INPUTS, "--threads", "two"), "--threads"),
        (("net:net", *INPUTS, "--budget", "soon"), "--budget"),
        (("net:net", *INPUTS, "--memory", "cpu"), "write it as in cuda:0=4GiB"),
        (("net:net", *INPUTS, "--memory", "cuda:1=1GiB"), "no such device among cpu"),
        (("net:net", *INPUTS, "--objective", "memory"), "--objective memory needs --max-step-time"),
        (("net", *INPUTS), "is neither"),
    ],
)
def test_place__wrong_arguments_say_what_to_write(searched, arguments, expected):
    folder, _, _ = searched
    done = perfgate(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert expected in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--objective", "throughput", "--threads", "1,2"), "a request of a pipeline"),
        (("--objective", "memory", "--max-step-time", "10s", "--threads", "1"), "holds less on any device"),
        (("--memory", "cpu=1KiB", "--threads", "1"), "No placement keeps the limits: cpu: its nodes hold"),
    ],
)
def test_place__every_objective_and_limit_has_an_answer(searched, arguments, words):
    folder, _, _ = searched
    libraries = ("--libraries", "torch-native,onnxruntime")
    done = perfgate(folder, "net:net", *INPUTS, *libraries, *arguments, "--budget", "20s")
    assert done.returncode == (1 if "--memory" in arguments else 0), done.stderr
    assert words in " ".join(done.stdout.split())
    assert "Traceback" not in done.stderr


def test_place__progress_is_told_piece_by_piece(searched):
    folder, _, _ = searched
    done = perfgate(folder, "net:net", *INPUTS, *LIBRARIES, "--budget", "20s", quiet=False)
    assert done.returncode == 0, done.stderr
    for words in ("Taking net apart", "Timing ", "Searching for the best placement", "Deploying "):
        assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_place__a_library_that_is_not_there_is_named(searched):
    folder, _, _ = searched
    done = perfgate(folder, "net:net", *INPUTS, "--libraries", "tvm")
    assert done.returncode == 3
    assert "no library of tvm can be used on cpu" in " ".join(done.stderr.split())
    assert "onnxruntime" in done.stderr
