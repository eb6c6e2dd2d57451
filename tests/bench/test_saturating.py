from __future__ import annotations

from types import SimpleNamespace

import pytest

from perfgate.bench import saturating
from perfgate.errors import MeasuringError
from perfgate.records.protocol import Prepared, Saturate, Saturated, Software


def machine_with(root, caches):
    """``caches``: (cpu, index, level, type, size, shared)."""
    for cpu, index, level, kind, size, shared in caches:
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
            (folder / name).write_text(f"{text}\n")
    return root


def free(monkeypatch, size):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=size))


def test_cache_bytes__every_last_level_cache_once(tmp_path):
    caches = [
        (0, 0, "1", "Data", "32K", "0"), (0, 3, "3", "Unified", "32768K", "0-1"),
        (1, 0, "1", "Data", "32K", "1"), (1, 3, "3", "Unified", "32768K", "0-1"),
        (2, 3, "3", "Unified", "96M", "2-3"),
    ]  # fmt: skip
    assert saturating.cache_bytes(machine_with(tmp_path, caches)) == 128 * 2**20


def test_cache_bytes__unknown_where_the_kernel_does_not_tell(tmp_path):
    assert saturating.cache_bytes(tmp_path) is None


# https://github.com/warpfront/hipfire/issues/490: a probe of 128 MiB fits a cache of 128 MB, so its "DRAM" rate is the
# cache's.
@pytest.mark.parametrize(("cache", "size"), [("8M", 256), ("128M", 512), ("1G", 4096)])
def test_request__streams_are_four_times_the_last_level_cache(tmp_path, monkeypatch, cache, size):
    free(monkeypatch, 64 * 2**30)
    root = machine_with(tmp_path, [(0, 3, "3", "Unified", cache, "0")])
    assert saturating.request("cpu", root=root).stream_bytes == size * 2**20


def test_request__unknown_cache_takes_more_than_any_known(tmp_path, monkeypatch):
    free(monkeypatch, 64 * 2**30)
    assert saturating.request("cpu", root=tmp_path).stream_bytes == 4 * 2**30


def test_request__too_little_memory_is_refused_with_the_sizes(tmp_path, monkeypatch):
    free(monkeypatch, 2 * 2**30)
    root = machine_with(tmp_path, [(0, 3, "3", "Unified", "128M", "0")])
    with pytest.raises(MeasuringError, match=r"3 arrays of 512 MiB, .* 2\.00 GiB of memory are free"):
        saturating.request("cpu", root=root)


def test_request__a_small_machine_whose_cache_nobody_knows_is_refused(tmp_path, monkeypatch):
    free(monkeypatch, 2**30)
    with pytest.raises(MeasuringError, match=r"3 arrays of 256 MiB, since the size of the cache is not known"):
        saturating.request("cpu", root=tmp_path)


@pytest.mark.parametrize(
    ("most", "used"),
    [("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")],
)
def test_request__a_container_has_less_than_its_machine(tmp_path, monkeypatch, most, used):
    free(monkeypatch, 64 * 2**30)
    root = machine_with(tmp_path, [(0, 3, "3", "Unified", "128M", "0")])
    limits = root / "sys/fs/cgroup"
    (limits / most).parent.mkdir(parents=True)
    (limits / most).write_text(f"{3 * 2**30}\n")
    (limits / used).write_text(f"{2**30}\n")
    with pytest.raises(MeasuringError, match=r"2\.00 GiB of memory are free"):
        saturating.request("cpu", root=root)
    (limits / most).write_text("max\n")
    assert saturating.request("cpu", root=root).stream_bytes == 512 * 2**20


def test_request__gpus_are_asked_for_tf32_and_no_float64():
    asked = saturating.request("cuda:1")
    assert asked.device == "cuda:1"
    assert "tf32" in asked.dtypes
    assert "float64" not in asked.dtypes


def answer(**changes):
    values = {
        "label": "NVIDIA L4", "flop_per_s": {"float32": 3e13}, "bandwidth_bytes_per_s": 2.4e11,
        "stream_bytes": 2**31, "spread": 0.01, "cache_bytes": 48 * 2**20,
    }  # fmt: skip
    return Saturated(**{**values, **changes})


def prepared():
    return Prepared(pid=1, software=Software(versions={"torch": "2.14.1"}, threads=3), can_fork=True)


def test_reached__host_is_named_by_its_kernel_and_a_card_by_its_driver():
    asked = Saturate(device="cpu", dtypes=(), stream_bytes=2**28)
    host = saturating.reached(asked, answer(label="cpu"), prepared(), label="AMD EPYC 9R14", cache=2**25)
    assert (host.label, host.threads, host.cache_bytes, host.software) == ("AMD EPYC 9R14", 3, 2**25, "torch 2.14.1")
    asked = Saturate(device="cuda:0", dtypes=(), stream_bytes=2**28)
    card = saturating.reached(asked, answer(), prepared(), label="AMD EPYC 9R14", cache=2**25)
    assert (card.label, card.threads, card.cache_bytes) == ("NVIDIA L4", 0, 48 * 2**20)


def test_reached__nothing_ran():
    asked = Saturate(device="cpu", dtypes=("float32",), stream_bytes=2**28)
    with pytest.raises(MeasuringError, match=r"no matrix product could be run \(float32: no kernel\)"):
        saturating.reached(asked, answer(flop_per_s={}, notes=("float32: no kernel",)), prepared(), label="", cache=1)
