"""Floor 3, worker. The rates that a device reaches: large products for pi, a stream for beta.

In: ``Saturate``. Out: ``Saturated``. The fastest repetition counts, since whatever disturbs only adds time.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator

import torch

from perfgate.records.protocol import Saturate, Saturated
from perfgate.worker.device import check_usable, make_device
from perfgate.worker.devices import Device
from perfgate.worker.failures import refuse

# Sizes of the products: from one that is over at once on any device to one that fills the largest.
_SMALLEST = 128
_LARGEST = 16_384
_REPETITIONS = 5
# A product of twice the size takes eight times as long.
_GROWTH = 8
# Accelerators have room for streams that exceed any cache, also those that drivers do not tell of.
_ACCELERATOR_STREAM = 2 * 2**30
# Where a driver does not tell of the cache: four times that of small cards.
_LEAST_STREAM = 16 * 2**20
_SHARE_OF_MEMORY = 8
_CACHES = 4
_SCALE = 0.5
# Dtypes that a CPU's library of convolutions is made for.
_CONVOLVED = frozenset({"float32", "bfloat16", "float16"})


def saturate(request: Saturate) -> Saturated:
    """Both roofs of ``request.device``. Raises WorkerError where it cannot be used or its memory is too small."""
    check_usable(request.device)
    device = make_device(request.device)
    rates: dict[str, float] = {}
    sizes: dict[str, int] = {}
    spreads: list[float] = []
    notes: list[str] = []
    with torch.inference_mode():
        for dtype in request.dtypes:
            try:
                rates[dtype], sizes[dtype], spread = _products(device, dtype, request.probe_ns)
            except (RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
                notes.append(f"{dtype}: {_first_line(error)}")
                continue
            if device.name == "cpu" and dtype in _CONVOLVED:
                # A torch that cannot convolve in a dtype has its products all the same.
                with contextlib.suppress(RuntimeError, NotImplementedError):
                    rate, other = _convolution(device, dtype, request.probe_ns)
                    if rate > rates[dtype]:
                        rates[dtype], spread = rate, other
            spreads.append(spread)
        stream_bytes = _stream_bytes(device, request.stream_bytes)
        bandwidth, spread = _stream(device, stream_bytes, request.probe_ns)
    return Saturated(
        label=_label(device),
        flop_per_s=rates,
        bandwidth_bytes_per_s=bandwidth,
        stream_bytes=stream_bytes,
        spread=max([*spreads, spread]),
        sizes=sizes,
        cache_bytes=_cache_bytes(device),
        notes=tuple(notes),
    )


def _products(device: Device, dtype: str, budget_ns: int) -> tuple[float, int, float]:
    """FLOP/s of the fastest n x n product, its n, and the spread there. The largest n that fits the budget wins.

    A product of n x n matrices is 2 n^3 FLOP.
    """
    best_rate, best_size, best_spread = 0.0, _SMALLEST, 0.0
    size = _SMALLEST
    spent = 0
    with _precision(dtype):
        while size <= _LARGEST:
            try:
                call = _product(device, dtype, size)
                times = _times(call, device, budget_ns // 4)
            except torch.cuda.OutOfMemoryError:
                break
            spent += sum(times)
            rate = 2 * size**3 / (min(times) / 1e9)
            if rate > best_rate:
                best_rate, best_size = rate, size
                best_spread = statistics.median(times) / min(times) - 1
            if spent + _GROWTH * min(times) * (_REPETITIONS + 1) > budget_ns:
                break
            size *= 2
    return best_rate, best_size, best_spread


def _convolution(device: Device, dtype: str, budget_ns: int) -> tuple[float, float]:
    """FLOP/s of a 3x3 convolution, and its spread.

    On a CPU convolutions come from another library than matrix products, which may know wider instructions of this
    processor: on some the products alone reach half of what a network does. It computes directly, so that
    2 N K C 9 H W is what it does. On a GPU a convolution may take a shortcut with fewer FLOP, so none is asked there.
    """
    items, channels, side = 4 * torch.get_num_threads(), 128, 28
    kind = getattr(torch, dtype)
    data = torch.rand(items, channels, side, side, device=device.name).to(kind)
    weights = torch.rand(channels, channels, 3, 3, device=device.name).to(kind)
    times = _times(lambda: torch.nn.functional.conv2d(data, weights, padding=1), device, budget_ns // 4)
    # Products with the zeros of the border are left out, as a library may do.
    inside = (3 * side - 2) ** 2
    rate = 2 * items * channels * channels * inside / (min(times) / 1e9)
    return rate, statistics.median(times) / min(times) - 1


def _product(device: Device, dtype: str, size: int) -> Callable[[], object]:
    if dtype == "int8":
        left = torch.ones(size, size, dtype=torch.int8, device=device.name)
        # The library wants the right factor by columns.
        right = torch.ones(size, size, dtype=torch.int8, device=device.name).t()
        return lambda: torch._int_mm(left, right)
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    # Values around 1, neither zeros (which let a chip clock higher) nor anything that overflows.
    first = torch.rand(size, size, device=device.name).to(kind)
    second = torch.rand(size, size, device=device.name).to(kind)
    made = torch.empty(size, size, dtype=kind, device=device.name)
    return lambda: torch.mm(first, second, out=made)


@contextlib.contextmanager
def _precision(dtype: str) -> Iterator[None]:
    """TF32 on for ``tf32`` and off for the rest, and as it was afterwards."""
    flags = torch.backends.cuda.matmul
    before = flags.allow_tf32
    flags.allow_tf32 = dtype == "tf32"
    try:
        yield
    finally:
        flags.allow_tf32 = before


def _stream(device: Device, size: int, budget_ns: int) -> tuple[float, float]:
    """Bytes a second of ``a = b + s * c``: two arrays read, one written, as STREAM's triad counts them."""
    length = size // 4
    first = torch.rand(length, device=device.name)
    second = torch.rand(length, device=device.name)
    made = torch.zeros(length, device=device.name)
    times = _times(lambda: torch.add(first, second, alpha=_SCALE, out=made), device, budget_ns)
    return 3 * 4 * length / (min(times) / 1e9), statistics.median(times) / min(times) - 1


def _times(call: Callable[[], object], device: Device, budget_ns: int) -> list[int]:
    """Times of a few calls in ns, warm; more of them while the budget lasts."""
    call()
    device.sync()
    times: list[int] = []
    begun = time.perf_counter_ns()
    while len(times) < _REPETITIONS or (time.perf_counter_ns() - begun < budget_ns and len(times) < 200):
        start = time.perf_counter_ns()
        device.begin()
        call()
        device.end()
        device.sync()
        wall = time.perf_counter_ns() - start
        # The device's own clock leaves out the launch, which is no part of a roof.
        times.append(max(1, device.elapsed_ns() or wall))
    return times


def _stream_bytes(device: Device, asked: int) -> int:
    """Size of each array: what was asked, on an accelerator more. Raises WorkerError if the cache is larger."""
    if device.name == "cpu":
        return asked
    free, _ = torch.cuda.mem_get_info(device.name)
    beyond_cache = _CACHES * (_cache_bytes(device) or 0)
    wanted = max(asked, _ACCELERATOR_STREAM, beyond_cache)
    size = min(wanted, int(free) // _SHARE_OF_MEMORY)
    if size < max(_LEAST_STREAM, beyond_cache):
        refuse("oom", "timing", f"{device.name}: {free} bytes free are too few for arrays larger than its cache")
    return size


def _cache_bytes(device: Device) -> int | None:
    if device.name == "cpu":
        return None
    properties = torch.cuda.get_device_properties(device.name)
    return getattr(properties, "L2_cache_size", None)


def _label(device: Device) -> str:
    return "cpu" if device.name == "cpu" else torch.cuda.get_device_name(device.name)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__
