"""Floor 2, roofline. Pi and beta of a device, from the best source for each, and its calibration.

In: a :class:`Device`, and what a probe measured on it. Out: :class:`Machine`. Rates in FLOP and bytes per second.

Of each rate the probe's counts first, then a published measurement, then the published peak. A rate that nobody gives
is none: no dtype stands in for another, since a wrong guess is off by orders of magnitude (a CPU without instructions
for float16 runs it at a hundredth of float32).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.cost import Device
from perfgate.records.hardware import MeasuredRoofline, Platform
from perfgate.roofline import calibration as constants
from perfgate.roofline.calibration import Calibration

_AUTOCAST = "amp-"
_FLOAT8 = "float8"
_INTEGERS = frozenset({"int8", "uint8", "qint8", "quint8"})
# Multiplied on the same units at the same rate: what a device reaches of one peak it reaches of the other.
_SIBLINGS = {"float16": "bfloat16", "bfloat16": "float16"}
# cuDNN multiplies float32 as TF32 unless it is told not to, cuBLAS only when it is told to.
_TF32_BY_DEFAULT = frozenset({"convolution", "rnn"})
TF32 = "tf32"
FLOAT32 = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One device under its roof.

    Attributes:
        name, label: Of the platform.
        kind, vendor: As in :class:`Platform`.
        flop_per_s: dtype -> pi, the device's share included. ``bandwidth_bytes_per_s``: beta.
        probed: Dtypes whose pi a probe measured on this runner; ``measured``: it measured beta.
        reach: dtype -> share of pi that large products reach; 1 where pi is a measurement. ``bandwidth_reach`` alike.
        calibration: Constants of its class; None: the ideal machine, of which only roofs are asked.
    """

    name: str
    label: str
    kind: str
    vendor: str
    flop_per_s: dict[str, float]
    bandwidth_bytes_per_s: float
    measured: bool = False
    probed: frozenset[str] = frozenset()
    reach: dict[str, float] = field(default_factory=dict)
    bandwidth_reach: float = 1.0
    calibration: Calibration | None = None

    def rate_key(self, dtype: str, kind: str = "") -> str:
        """Key of ``flop_per_s`` for products in ``dtype`` (torch's name) by a kernel of ``kind``."""
        key = rate_name(dtype)
        # Only NVIDIA's libraries take TF32 unasked.
        unasked = key == FLOAT32 and kind in _TF32_BY_DEFAULT and self.vendor == "nvidia"
        return TF32 if unasked and TF32 in self.flop_per_s else key

    def rate(self, dtype: str, kind: str = "") -> float | None:
        """Pi in FLOP/s for products in ``dtype``; None where nobody gives it."""
        return self.flop_per_s.get(self.rate_key(dtype, kind))


def rate_name(dtype: str) -> str:
    """Key of a platform's rates for a dtype as workloads and kernels have it.

    ``amp-bfloat16`` multiplies in ``bfloat16``; every 8-bit float is ``fp8``, every 8-bit integer ``int8``.
    """
    name = dtype.removeprefix(_AUTOCAST)
    if name.startswith(_FLOAT8):
        return "fp8"
    return "int8" if name in _INTEGERS else name


def of(device: Device, measured: MeasuredRoofline | None = None) -> Machine:
    """The ideal roof of a device. ``measured``: what a probe reached on this very device, whatever its share."""
    return _machine(device, measured, None)


def calibrated(device: Device, measured: MeasuredRoofline | None = None) -> Machine:
    """The same roof with the constants of the device's class; ideal where there is no such class."""
    return _machine(device, measured, constants.of(device.platform))


def with_calibration(device: Device, calibration: Calibration, measured: MeasuredRoofline | None = None) -> Machine:
    """The same roof with constants of one's own (a fit's)."""
    return _machine(device, measured, calibration)


def _machine(device: Device, measured: MeasuredRoofline | None, calibration: Calibration | None) -> Machine:
    platform, share = device.platform, device.share
    probed = dict(measured.flop_per_s) if measured is not None else {}
    published = {**platform.peak_flop_per_s, **platform.measured_flop_per_s}
    rates = {**{dtype: rate * share for dtype, rate in published.items()}, **probed}
    known = probed.keys() | platform.measured_flop_per_s.keys()
    reach = {} if calibration is None else {d: 1.0 if d in known else _reach(platform, d, calibration) for d in rates}
    stream = platform.measured_bandwidth_bytes_per_s
    peak = stream if stream is not None else platform.bandwidth_bytes_per_s
    guessed = calibration is not None and measured is None and stream is None
    return Machine(
        name=platform.name,
        label=platform.label,
        kind=platform.kind,
        vendor=platform.vendor,
        flop_per_s=rates,
        bandwidth_bytes_per_s=measured.bandwidth_bytes_per_s if measured is not None else peak * share,
        measured=measured is not None,
        probed=frozenset(probed),
        reach=reach,
        bandwidth_reach=calibration.reach_bandwidth if calibration is not None and guessed else 1.0,
        calibration=calibration,
    )


def _reach(platform: Platform, dtype: str, calibration: Calibration) -> float:
    """Share of a peak that large products reach: as on the same units in another dtype where that was measured."""
    other = _SIBLINGS.get(dtype, "")
    measured, peak = platform.measured_flop_per_s.get(other), platform.peak_flop_per_s.get(other)
    return measured / peak if measured and peak else calibration.reach(dtype)
