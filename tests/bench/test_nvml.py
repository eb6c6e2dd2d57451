"""The real binding over a small library that answers as a scenario file says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pynvml")

HERE = Path(__file__).parent
A = "GPU-13096139-7ada-8313-ee08-000dd8540fe1"
B = "GPU-af7b61d8-0000-0000-0000-00000000000b"
CARD = f"gpu {A}\nclock 1410\nthrottle 4\nenergy 5000\nused 1000\ndefault 1100\n"
CALLS = [
    "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID",
    "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetClockInfo", "nvmlDeviceGetDefaultApplicationsClock",
    "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMigMode", "nvmlDeviceSetGpuLockedClocks",
    "nvmlDeviceResetGpuLockedClocks", "nvmlShutdown", "nvmlInitWithFlags",
]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(folder / "libnvidia-ml.so.1")]
    subprocess.run([*command, str(HERE / "fake_nvml.c")], check=True)
    return folder


@pytest.fixture
def ask(library, tmp_path):
    def run(scenario: str, *devices: str, **environ: str) -> dict:
        file = tmp_path / "scenario"
        file.write_text(scenario, encoding="utf-8")
        env = {**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(file), **environ}
        done = subprocess.run(
            [sys.executable, str(HERE / "nvml_probe.py"), *devices],
            env=env, capture_output=True, check=True, encoding="utf-8", timeout=60,
        )  # fmt: skip
        return {**json.loads(done.stdout), "after": file.read_text(encoding="utf-8")}

    return run


def test_connect__reads_a_card(ask):
    found = ask(CARD + "pid 77\n", f"cuda:0={A}")
    assert found["driver"] == "999.1"
    assert found["all"] == [{"index": 0, "uuid": A, "name": "Fake 0", "memory_bytes": 2**34, "mig": False}]
    assert found["each"][A] == {
        "clock": 1410,
        "throttle": ["power-cap"],
        "energy": 5.0,
        "processes": [77],
        "used": 1000,
    }
    assert found["block"]["sm_clock_mhz"] == 1410
    assert found["block"]["energy_j"] == 0.0


def test_lock_clocks__held_at_the_default_and_let_go(ask):
    found = ask(CARD, f"cuda:0={A}")
    assert found["locked"] is True
    assert found["after"].endswith("locked 1100\nlocked 0\n")


def test_lock_clocks__no_permission(ask):
    found = ask(CARD + "fail nvmlDeviceSetGpuLockedClocks 4\n", f"cuda:0={A}")
    assert found["locked"] is False
    assert "locked" not in found["after"]


@pytest.mark.parametrize(("call", "code"), [*((call, 999) for call in CALLS), *((call, 3) for call in CALLS[5:11])])
def test_connect__any_call_may_fail(ask, call, code):
    """M20: what fails is n/a; nothing else is lost and nothing ends."""
    found = ask(f"{CARD}fail {call} {code}\n", f"cuda:0={A}")
    lost = {
        "nvmlDeviceGetClockInfo": ("clock", None), "nvmlDeviceGetTotalEnergyConsumption": ("energy", None),
        "nvmlDeviceGetComputeRunningProcesses_v3": ("processes", None), "nvmlDeviceGetMemoryInfo": ("used", None),
    }  # fmt: skip
    if call == "nvmlInitWithFlags":
        assert found["why"].startswith("NVML does not work")
    if call in lost:
        field, value = lost[call]
        assert found["each"][A][field] is value
    # The newer name of the call is asked where the older one fails.
    if A in found["each"]:
        assert found["each"][A]["throttle"] == ["power-cap"]


def test_energy_j__no_counter_is_not_zero(ask):
    """M25."""
    found = ask(f"gpu {A}\nclock 1410\n", f"cuda:0={A}")
    assert found["each"][A]["energy"] is None
    assert found["block"]["energy_j"] is None
    assert found["environment"]["conditions"]["energy"] == "n/a"


def test_all__mig_slice_has_no_figures_of_the_whole_card(ask):
    """M19."""
    slice_ = "MIG-11111111-2222-3333-4444-555555555555"
    found = ask(f"{CARD}mig {slice_}\n", f"cuda:0={slice_}", CUDA_VISIBLE_DEVICES=slice_)
    assert [gpu["mig"] for gpu in found["all"]] == [False, True]
    assert found["each"][slice_]["energy"] is None
    assert found["each"][slice_]["clock"] is None
    assert found["block"]["sm_clock_mhz"] is None
    assert found["environment"]["hardware"]["gpu0"].startswith("Fake")


def test_watch__card_by_uuid_whatever_the_order(ask):
    """M24: CUDA's first card is NVML's second."""
    scenario = f"gpu {B}\nclock 500\nenergy 1\n{CARD}"
    assert ask(scenario, f"cuda:0={A}")["block"]["sm_clock_mhz"] == 1410
    assert ask(scenario, f"cuda:0={B}")["block"]["sm_clock_mhz"] == 500
    assert ask(scenario, "cuda:0")["block"]["sm_clock_mhz"] is None
    assert ask(scenario, "cuda:0", CUDA_DEVICE_ORDER="PCI_BUS_ID")["block"]["sm_clock_mhz"] == 500


def test_environment__gives_no_uuid_away(ask):
    found = ask(CARD, f"cuda:0={A}")
    text = json.dumps(found["environment"])
    assert A not in text
    assert A.removeprefix("GPU-")[:8] not in text
    assert found["environment"]["conditions"]["nvidia_driver"] == "999.1"


def test_check__says_who_else_uses_the_card(ask):
    assert any("another process computes" in note for note in ask(CARD + "pid 5\n")["check"])
    assert any("in use before measuring" in note for note in ask(CARD + f"used {2**33}\n")["check"])


def test_connect__no_library(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        [sys.executable, str(HERE / "nvml_probe.py")], env=env, capture_output=True, check=True, encoding="utf-8"
    )
    found = json.loads(done.stdout)
    if not found["all"]:
        assert found["block"]["energy_j"] is None
