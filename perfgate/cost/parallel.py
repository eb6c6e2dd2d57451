"""Floor 3, cost. One job on several devices of one machine: step time and throughput from times on one device.

In: what one device takes for a way and for its parts, what has to be sent, and how fast the link is. Out: times of a
step, how much of it is sending, and steps a second. Columns of numpy throughout: ways by machines.

What is sent takes its bytes over ``LINK_EFFICIENCY`` of the link's published rate of one direction, and ``HOP_NS`` a
message. In published send and receive times inside one machine over NVLink (profiles of the simulator Vidur, A100 and
H100) large messages reach 75 and 77 % of that rate, and small ones take 9 to 14 microseconds.

Nothing sent is taken to overlap with computing, which makes forms that send a little too slow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.records.cost import DATA, PIPELINE, SINGLE, TENSOR
from perfgate.roofline.step import Z90

Column = NDArray[np.float64]
Flags = NDArray[np.bool_]

LINK_EFFICIENCY = 0.75
HOP_NS = 10_000.0
# Gradients are exchanged in buckets (of torch's DistributedDataParallel, 25 MiB).
BUCKET_BYTES = 25 * 2**20

# What a form adds to the spread of a time's logarithm: uneven parts, overlap, stragglers. A judgement, not a fit:
# published scaling efficiencies of such forms inside one machine lie between 80 and 98 %.
_TRAINING = 0.1
SPREADS = {SINGLE: 0.0, DATA: 0.05, TENSOR: 0.15, PIPELINE: 0.15}


@dataclass(frozen=True, slots=True)
class Spread:
    """A time with its interval of 90 %, in ns; each a column or a table of one shape. NaN: not known."""

    ns: Column
    low: Column
    high: Column

    def scaled(self, factor: Column | float) -> Spread:
        """All three times ``factor``."""
        return Spread(self.ns * factor, self.low * factor, self.high * factor)

    def plus(self, other: Spread | Column | float) -> Spread:
        """All three plus those of another, ends with ends; plus a constant."""
        if isinstance(other, Spread):
            return Spread(self.ns + other.ns, self.low + other.low, self.high + other.high)
        return Spread(self.ns + other, self.low + other, self.high + other)

    def wider(self, sigma: Column | float) -> Spread:
        """With an independent error of this standard deviation of the logarithm beside its own."""
        own = np.log(self.high / self.low) / (2 * Z90)
        factor = np.exp(Z90 * (np.sqrt(own**2 + sigma**2) - own))
        return Spread(self.ns, self.low / factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class Running:
    """One form: ``step`` from start to end, ``link_ns`` of it sending, ``period`` between two steps' ends.

    The machine does ``per_period`` steps in each period: replicas that work side by side.
    """

    step: Spread
    link_ns: Column
    period: Spread
    per_period: float = 1.0

    def per_s(self, period_ns: Column) -> Column:
        """Steps a second of the machine where a period takes ``period_ns``."""
        return self.per_period * 1e9 / period_ns


def used_counts(count: int) -> tuple[int, ...]:
    """Numbers of devices that a job may be spread over in a machine of ``count``: powers of two, and all of them."""
    powers = [2**power for power in range(1, count.bit_length()) if 2**power <= count]
    return tuple(sorted({*powers, count} - {1}))


def all_reduce_ns(size: Column | float, messages: Column | float, devices: int, link: Column) -> Column:
    """Time of sums over all devices, of ``size`` bytes in all, in ``messages`` calls.

    A ring sends 2 (n - 1) / n of the bytes over each link in 2 (n - 1) rounds (Patarasuk and Yuan, "Bandwidth optimal
    all-reduce algorithms", 2009).
    """
    sent = 2 * (devices - 1) / devices * size / (LINK_EFFICIENCY * link) * 1e9
    # Libraries use trees and shared memory for small messages: the rounds of a ring are not all waited for.
    rounds = 2 * math.ceil(math.log2(devices))
    return np.asarray(sent + messages * rounds * HOP_NS)


def single(time: Spread) -> Running:
    """One device; the others of the machine are idle and paid for."""
    return Running(time, np.zeros_like(time.ns), time)


def data(time: Spread, devices: int, *, gradients: Column, link: Column, training: Flags) -> Running:
    """A replica on each device, each with a batch of its own: n steps in the time of one.

    In training gradients (``gradients`` bytes) are summed over all devices before each update; in inference nothing
    is sent, and no link is needed.
    """
    reduced = all_reduce_ns(gradients, np.ceil(gradients / BUCKET_BYTES), devices, link)
    sent = np.where(training, reduced, np.zeros_like(time.ns))
    step = time.wider(np.where(training, _TRAINING, SPREADS[DATA])).plus(sent)
    return Running(step, sent, step, per_period=devices)


def tensor(part: Spread, devices: int, *, outputs: Column, products: Column, link: Column, training: Flags) -> Running:
    """Weight matrices split over the devices; ``part`` is what one of them does (see ``ways.tensor_share``).

    After every second product its output is summed over the devices, in training again for the gradient of the input
    of every pair (Shoeybi et al., "Megatron-LM", 2019). ``outputs``: bytes that all products of the forward pass write;
    ``products``: how many.
    """
    passes = np.where(training, 2.0, 1.0)
    sent = all_reduce_ns(passes * outputs / 2, passes * np.ceil(products / 2), devices, link)
    step = part.wider(SPREADS[TENSOR]).plus(sent)
    return Running(step, sent, step)


def pipeline(
    work: Spread,
    update: Spread,
    devices: int,
    *,
    micro: Column,
    largest: Column,
    cut: Column,
    link: Column,
    training: Flags,
) -> Running:
    """Layers in n stages, one after another on n devices.

    ``work``: one micro-batch on one device (in inference the whole batch), ``update`` the optimiser's part of a step,
    ``micro`` how many micro-batches a step has, ``largest`` the largest kernel's share of the step, ``cut`` the bytes
    that go from a stage to the next. A stage takes w = max(1/n, largest) of the work, and c for sending.

    * Inference: a step takes work + (n - 1) c; one ends every w + c.
    * Training: (m + n - 1) (w + c) + update / n: m micro-batches, and n - 1 more turns to fill and empty the
      pipeline (Huang et al., "GPipe", 2019). c is paid forward and backward.
    """
    sent = cut / (LINK_EFFICIENCY * link) * 1e9 + HOP_NS
    stage = work.wider(SPREADS[PIPELINE]).scaled(np.maximum(1 / devices, largest))
    once = work.wider(SPREADS[PIPELINE]).plus((devices - 1) * sent)
    turns = micro + devices - 1
    update_all = stage.scaled(turns).plus(2 * turns * sent).plus(update.scaled(1 / devices))
    return Running(
        step=chosen(training, update_all, once),
        link_ns=np.where(training, 2 * turns * sent, (devices - 1) * sent),
        period=chosen(training, update_all, stage.plus(sent)),
    )


def chosen(where: Flags, yes: Spread, no: Spread) -> Spread:
    """``yes`` where the flag is set, else ``no``."""
    return Spread(np.where(where, yes.ns, no.ns), np.where(where, yes.low, no.low), np.where(where, yes.high, no.high))
