from __future__ import annotations

import pytest
import torch

from perfgate.records.protocol import Saturate
from perfgate.worker import saturating
from perfgate.worker.devices import CpuDevice
from perfgate.worker.failures import WorkerError


def saturate(**changes):
    request = {"device": "cpu", "dtypes": ("float32",), "stream_bytes": 2**20, "probe_ns": 2_000_000}
    return saturating.saturate(Saturate(**{**request, **changes}))


# https://github.com/AMD-AGI/GEAK/pull/468: a hardware counter of memory traffic read half of what really moved. Beta
# comes from arrays of known size and a clock, and no counter is ever asked.
def test_saturate__rates_are_work_over_the_fastest_time(monkeypatch):
    monkeypatch.setattr(saturating, "_times", lambda call, device, budget: [2_000, 1_000, 4_000])
    reached = saturate(dtypes=("float64",), probe_ns=1)
    # 2 * 128^3 FLOP in 1 us; three arrays of 1 MiB in 1 us; the median repetition took twice the fastest.
    assert reached.flop_per_s == {"float64": pytest.approx(2 * 128**3 / 1e-6)}
    assert reached.bandwidth_bytes_per_s == pytest.approx(3 * 2**20 / 1e-6)
    assert reached.spread == pytest.approx(1.0)
    assert reached.sizes == {"float64": 128}


def test_saturate__pi_of_a_cpu_is_the_faster_of_products_and_convolutions(monkeypatch):
    # Products ask for 2 N^3, a convolution of 128 channels and 28 x 28 for much more in the same time.
    monkeypatch.setattr(saturating, "_times", lambda call, device, budget: [1_000])
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    reached = saturate(probe_ns=1)
    assert reached.flop_per_s == {"float32": pytest.approx(2 * 8 * 128 * 128 * (3 * 28 - 2) ** 2 / 1e-6)}
    assert reached.flop_per_s["float32"] > 2 * 128**3 / 1e-6


def test_saturate__a_dtype_that_cannot_be_convolved_keeps_its_products(monkeypatch):
    def refuse(*args, **kwargs):
        raise RuntimeError("not implemented for 'Half'")

    monkeypatch.setattr(torch.nn.functional, "conv2d", refuse)
    assert saturate().flop_per_s["float32"] > 0


def test_saturate__a_convolution_does_the_flop_that_are_counted():
    # Every position of the filter over every pixel, less those outside of the picture.
    side = 28
    inside = sum(
        0 <= row + down < side and 0 <= column + right < side
        for row in range(side) for column in range(side) for down in (-1, 0, 1) for right in (-1, 0, 1)
    )  # fmt: skip
    assert inside == (3 * side - 2) ** 2


def test_saturate__the_largest_product_that_fits_the_budget(monkeypatch):
    seen = []

    def times(call, device, budget):
        call()
        seen.append(budget)
        return [1_000_000]

    monkeypatch.setattr(saturating, "_times", times)
    # 1 ms each: after n = 256 the next one would take 8 * 1 ms * 6, which a budget of 49 ms does not hold.
    reached = saturate(dtypes=("float64",), probe_ns=49_500_000)
    assert reached.sizes == {"float64": 256}


def test_saturate__really_runs_every_dtype_that_torch_has():
    reached = saturate(dtypes=("float32", "bfloat16", "int8"))
    assert reached.flop_per_s.keys() | {note.partition(":")[0] for note in reached.notes} == {
        "float32", "bfloat16", "int8",
    }  # fmt: skip
    assert all(rate > 0 for rate in reached.flop_per_s.values())
    assert reached.bandwidth_bytes_per_s > 0
    assert reached.label == "cpu"


def test_saturate__a_dtype_that_does_not_run_is_named(monkeypatch):
    def refuse(*args, **kwargs):
        raise RuntimeError("no such kernel\nand a long trace")

    monkeypatch.setattr(torch, "mm", refuse)
    reached = saturate()
    assert reached.flop_per_s == {}
    assert reached.notes == ("float32: no such kernel",)


def test_saturate__tf32_flag_is_put_back():
    before = torch.backends.cuda.matmul.allow_tf32
    saturate(dtypes=("tf32",))
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_saturate__absent_device_is_refused():
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    with pytest.raises(WorkerError, match="sees 0 CUDA devices"):
        saturate(device="cuda:0")


class Card(CpuDevice):
    """A GPU as far as its name goes."""

    def __init__(self):
        super().__init__("cuda:0")


@pytest.mark.parametrize(
    ("free", "cache", "size"),
    [
        (24 * 2**30, 72 * 2**20, 2 * 2**30),
        (8 * 2**30, 72 * 2**20, 2**30),
        (400 * 2**30, 2**30, 4 * 2**30),
    ],
)
def test_stream_bytes__larger_than_any_cache_and_an_eighth_of_memory_at_most(monkeypatch, free, cache, size):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda name: (free, free))
    monkeypatch.setattr(saturating, "_cache_bytes", lambda device: cache)
    assert saturating._stream_bytes(Card(), 2**28) == size


def test_stream_bytes__too_little_memory_is_no_bandwidth(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda name: (2**30, 2**30))
    monkeypatch.setattr(saturating, "_cache_bytes", lambda device: 256 * 2**20)
    with pytest.raises(WorkerError, match="too few for arrays larger than its cache"):
        saturating._stream_bytes(Card(), 2**28)


def test_stream_bytes__nearly_full_memory_without_a_known_cache_is_no_bandwidth(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda name: (64 * 2**20, 2**34))
    monkeypatch.setattr(saturating, "_cache_bytes", lambda device: None)
    with pytest.raises(WorkerError, match="bytes free are too few"):
        saturating._stream_bytes(Card(), 2**28)
