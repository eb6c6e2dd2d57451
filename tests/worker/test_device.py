# mypy: allow-subclassing-any, disable-error-code="name-defined"
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from perfgate.worker import device  # noqa: E402
from perfgate.worker.device import CpuDevice, CudaDevice, Devices  # noqa: E402
from perfgate.worker.failures import WorkerError  # noqa: E402
from tests.worker.fakes import FakeClock, FakeDevice  # noqa: E402

pytestmark = pytest.mark.torch


class Elsewhere(nn.Module):
    """A parameter here, a buffer on another device (one that every machine has)."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("far", torch.empty(3, device="meta"))


def test_names_of__own_device_first_then_those_of_all_tensors():
    assert device.names_of("cpu", nn.Linear(2, 2), {"x": [torch.ones(2)]}) == ("cpu",)


def test_names_of__meta_holds_nothing_to_wait_for():
    assert device.names_of("cpu", Elsewhere()) == ("cpu",)


@pytest.mark.parametrize("name", ["xpu:1", "cuda:3"])
def test_names_of__devices_of_buffers_and_nested_outputs_count(name):
    # Tensors cannot be made on absent devices, so these only say where they are.
    class There(torch.Tensor):
        @property
        def device(self):
            return torch.device(name)

    far = torch.ones(1).as_subclass(There)
    module = nn.Linear(2, 2)
    module.register_buffer("far", far)

    assert device.names_of("cpu", module) == ("cpu", name)
    assert device.names_of("cpu", ({"a": [far]},)) == ("cpu", name)
    assert device.names_of(name, nn.Linear(1, 1)) == (name, "cpu")


def test_devices__peaks_of_accelerators_add_up_and_the_host_is_left_out():
    clock = FakeClock()
    one, two, host = FakeDevice("cuda:0", clock), FakeDevice("cuda:1", clock), FakeDevice("cpu", clock)
    devices = Devices([one, two, host])
    for each, size in ((one, 5), (two, 7), (host, 100)):
        each.allocate(size)

    assert devices.peak_bytes() == 12
    assert devices.has_accelerator
    assert Devices([host]).peak_bytes() == 100


def test_devices__peak_is_unknown_if_any_part_is():
    clock = FakeClock()
    devices = Devices([FakeDevice("cuda:0", clock), FakeDevice("cuda:1", clock, resets=False)])

    assert not devices.reset_peak()
    assert devices.peak_bytes() is None


def test_check_usable__absent_gpu_is_refused_with_the_reason():
    missing = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(WorkerError, match="choose another runner"):
        device.check_usable(missing)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", ""])
def test_check_usable__nonsense_is_refused(name):
    with pytest.raises(WorkerError, match="write cpu or cuda:N"):
        device.check_usable(name)


def test_make_device__cpu():
    made = device.make_device("cpu")
    assert isinstance(made, CpuDevice)
    made.sync()
    assert made.reset_peak()
    assert (made.peak_bytes() or 0) > 2**20
    assert made.elapsed_ns() is None


def test_make_device__other_kinds_are_refused():
    with pytest.raises(WorkerError, match="cpu and cuda:N"):
        device.make_device("mps")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_device__times_waits_and_counts_memory():
    made = CudaDevice("cuda:0")
    assert made.label.startswith("cuda:0")
    x = torch.ones(2048, 2048, device="cuda:0")
    made.sync()
    made.reset_peak()
    start = made.peak_bytes() or 0
    made.begin()
    y = x @ x
    made.end()
    made.sync()

    assert (made.elapsed_ns() or 0) > 1000
    assert (made.peak_bytes() or 0) - start >= y.numel() * 4
