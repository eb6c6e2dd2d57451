from __future__ import annotations

import getpass
import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.bench import machine
from perfgate.bench.nvml import NoGpus


def topology(root: Path, cores: list[tuple[int, int]]) -> Path:
    """CPU number -> (package, core)."""
    for cpu, (package, core) in enumerate(cores):
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n", encoding="utf-8")
        (folder / "core_id").write_text(f"{core}\n", encoding="utf-8")
    return root


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_environment__same_machine_same_id_and_nothing_private():
    first = machine.environment({}, gpus=NoGpus())
    assert first.hardware_id == machine.environment({}, gpus=NoGpus()).hardware_id
    assert len(first.hardware_id) == 16
    text = json.dumps([first.hardware, first.conditions])
    for private in (socket.gethostname(), getpass.getuser(), str(Path.home())):
        assert f'"{private}"' not in text
    assert first.hardware["logical_cpus"] == str(len(os.sched_getaffinity(0)))
    assert "load_before" in first.conditions


def test_environment__model_from_cpuinfo(tmp_path):
    write(tmp_path, "proc/cpuinfo", "processor : 0\nmodel name\t: Some  CPU @ 2 GHz\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    found = machine.environment({}, root=tmp_path, gpus=NoGpus())
    assert found.hardware["cpu"] == "Some CPU @ 2 GHz"
    assert found.conditions["governor"] == "powersave"
    assert any("governor" in note for note in machine.check({}, root=tmp_path, gpus=NoGpus()))


def test_physical_cores__one_of_each_pair_of_siblings(tmp_path):
    """M62: 4 cores with two threads each; siblings are not next to each other."""
    topology(tmp_path, [(0, 0), (0, 1), (1, 0), (1, 1)] * 2)
    mask = frozenset(range(8))
    assert machine.physical_cores(root=tmp_path, mask=mask) == (0, 1, 2, 3)
    assert machine.default_threads(root=tmp_path, mask=mask) == 3
    assert machine.default_cpus(root=tmp_path, mask=mask) == (1, 2, 3)
    assert machine.default_cpus(2, root=tmp_path, mask=mask) == (2, 3)


def test_physical_cores__only_those_of_the_mask(tmp_path):
    """M59: a container with 2 of 16 CPUs."""
    topology(tmp_path, [(0, core) for core in range(16)])
    mask = frozenset({3, 9})
    assert machine.physical_cores(root=tmp_path, mask=mask) == (3, 9)
    assert machine.default_threads(root=tmp_path, mask=mask) == 1
    assert machine.default_cpus(root=tmp_path, mask=mask) == (9,)


def test_default_cpus__single_core_is_not_pinned(tmp_path):
    topology(tmp_path, [(0, 0), (0, 0)])
    assert machine.default_threads(root=tmp_path, mask=frozenset({0, 1})) == 1
    assert machine.default_cpus(root=tmp_path, mask=frozenset({0, 1})) is None


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "250000 100000\n"}, 2.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3.0),
        ({"cpu.max": "nonsense"}, None),
    ],
)
def test_cpu_quota__both_versions(tmp_path, files, quota):
    for name, text in files.items():
        write(tmp_path, f"sys/fs/cgroup/{name}", text)
    assert machine.cpu_quota(tmp_path) == quota


def test_default_threads__no_more_than_the_quota(tmp_path):
    topology(tmp_path, [(0, core) for core in range(16)])
    write(tmp_path, "sys/fs/cgroup/cpu.max", "400000 100000\n")
    assert machine.default_threads(root=tmp_path, mask=frozenset(range(16))) == 3


@given(st.sets(st.integers(min_value=0, max_value=255), min_size=1), st.integers(min_value=1, max_value=300))
def test_default_cpus__inside_the_mask_or_none(mask, threads):
    cpus = machine.default_cpus(threads, root=Path("/nowhere"), mask=frozenset(mask))
    assert cpus is None or (len(cpus) == threads and set(cpus) < mask)
