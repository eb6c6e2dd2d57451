"""``perfgate place`` on two devices: a processor that is slow at a sigmoid, and a simulated accelerator beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.worker.placing import fake_device

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(32, 32)

    def forward(self, x):
        x = torch.cumsum(self.mix(x), dim=1)
        for _ in range(3):
            x = torch.cumsum(torch.sigmoid(x), dim=1)
        return x


def net():
    return Net()
"""
LIBRARIES = ("--libraries", "slow-host,simulated", "--threads", "1")
MACHINE = ("--devices", "cpu,sim:0", "--memory", "sim:0=1KiB", *LIBRARIES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and an interpreter in which a package with both libraries is installed."""
    made = tmp_path_factory.mktemp("devices")
    (made / "net.py").write_text(NET)
    fake_device.install(made / "packages")
    library = made / "packages" / "fakelib.py"
    # More than any border costs, on a busy machine too.
    text = library.read_text().replace("SLOWDOWN_S = 0.001", "SLOWDOWN_S = 0.01")
    library.write_text(text.replace("HOST_SIGMOID_S = 0.004", "HOST_SIGMOID_S = 0.002"))
    venv.create(made / "venv", symlinks=True, with_pip=False)
    own = Path(torch.__file__).parents[1]
    (packages,) = (made / "venv" / "lib").glob("python*/site-packages")
    (packages / "beside.pth").write_text(f"{own}\n{made / 'packages'}\n")
    return made


def place(folder: Path, *arguments: str) -> dict[str, Any]:
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "PERFGATE_LOCK_DIR": str(folder), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "perfgate", "place", "net:net", "--inputs", "float32[8,32]", *MACHINE, *arguments,
         "--python", str(folder / "venv" / "bin" / "python"), "--budget", "60s", "--json", "--quiet"],
        cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_place__a_mixed_plan_on_two_devices_is_found_deployed_and_measured(folder, objective):
    said = place(folder, "--objective", objective, "--out", f"{objective}.json")
    targets = {node["name"]: node["target"] for node in said["nodes"]}
    # The device is slow at running sums, and the weights do not fit there.
    assert all((target == "simulated sim:0") == name.startswith("sigmoid") for name, target in targets.items())
    assert sum(name.startswith("sigmoid") for name in targets) == 3
    mixed = next(one for one in said["candidates"] if one["name"] == "placement 1")
    raced = mixed["raced"]
    # A sigmoid takes 2 ms on the processor and a call of the device 0.2 ms. How many pairs the time is enough for, and
    # whether for any, is the machine's business.
    if raced is None:
        assert "raise the budget" in mixed["problem"]
    else:
        assert raced["faster"][1] < 0
    certain = raced is not None and raced["certain"]
    plan = json.loads((folder / f"{objective}.json").read_text())
    devices = [piece["device"] for piece in plan["pieces"]]
    assert devices == (["cpu", "sim:0"] * 3 + ["cpu"] if certain else ["cpu"])
    assert plan["recommended"] == certain
