"""What is read of the profiler's own events."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfgate.worker import profile_events  # noqa: E402
from perfgate.worker.profile_events import DeviceEvent, Recording  # noqa: E402

pytestmark = pytest.mark.torch


class FakeKineto:
    """One event of the profiler, with what it is asked for."""

    def __init__(self, name, start, duration, *, id=0, linked=0, device="CPU", scope=0, is_async=False):  # noqa: A002
        values = {
            "name": name, "start_ns": start, "duration_ns": duration, "correlation_id": id, "scope": scope,
            "linked_correlation_id": linked, "device_type": getattr(torch.autograd.DeviceType, device),
            "is_async": is_async, "start_thread_id": 1, "sequence_nr": -1, "fwd_thread_id": 0,
        }  # fmt: skip
        for key, value in values.items():
            setattr(self, key, lambda value=value: value)


def test_read__tells_kernels_from_what_else_the_profiler_shows():
    seen = Recording()

    profile_events._read(
        [
            FakeKineto("aten::mm", 100, 50, id=7),
            FakeKineto("Optimizer.step#SGD.step", 200, 50, id=8, scope=7),
            FakeKineto("cudaLaunchKernel", 110, 5, id=9, linked=7),
            FakeKineto("something", 110, 5, id=10, is_async=True),
            FakeKineto("gemm", 300, 40, linked=7, device="CUDA"),
            FakeKineto("Memcpy DtoH", 340, 10, linked=0, device="CUDA"),
            FakeKineto("Optimizer.step#SGD.step", 300, 50, linked=8, device="CUDA"),
        ],
        seen,
    )

    assert [(event.name, event.start, event.end, event.id) for event in seen.host] == [
        ("aten::mm", 100, 150, 7),
        ("Optimizer.step#SGD.step", 200, 250, 8),
    ]
    assert seen.device == [DeviceEvent(300, 340, 7), DeviceEvent(340, 350, 0)]
