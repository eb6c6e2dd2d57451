"""Floor 2, roofline. The shipped constants that lie between a roof and a real machine.

In: a platform. Out: the :class:`Calibration` of its class, from ``calibration.toml``, which says of each constant
where it was fitted. Formulas are in :mod:`perfgate.roofline.step`.
"""

from __future__ import annotations

import functools
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from perfgate.records.hardware import Platform

# Kinds of kernels that have constants of their own, as ``graph`` names them. Any other counts as ``other``.
KINDS = (
    "matmul",
    "convolution",
    "attention",
    "rnn",
    "pointwise",
    "normalization",
    "softmax",
    "pooling",
    "reduction",
    "embedding",
    "gather",
    "scatter",
    "copy",
    "fill",
    "cast",
    "random",
    "sort",
    "sync",
    "transfer",
    "other",
    "custom",
)
DEFAULT = "default"

_TABLES = frozenset({"reach_flop", "flop_efficiency", "byte_efficiency", "half_ns"})
_NUMBERS = frozenset({"launch_ns", "overlap", "sigma", "reach_bandwidth"})
_OPTIONAL = frozenset({"sigma_measured", "vendor", "pattern", "max_power_w"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where constants come from: their names, the data, how many observations, and the day (``YYYY-MM-DD``)."""

    constants: tuple[str, ...]
    data: str
    n: int
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Constants of one class of machines.

    Attributes:
        name: Of the class. ``kind``, ``vendor``, ``pattern`` (of the platform's name, from its beginning) and
            ``max_power_w`` say which platforms it is for; an empty one fits any.
        launch_ns: t0, added once to each kernel: launch, scheduling, and the operator's own overhead.
        overlap: Exponent p that joins the times of computing and of moving; inf: the longer of the two.
        reach_flop, reach_bandwidth: Share of a published peak that large products (by dtype, or ``default``) and
            streams reach.
        flop_efficiency, byte_efficiency: By kind, parallel to ``KINDS``: share of these rates that its kernels reach.
        half_ns: By kind: time at its full rate of a kernel that reaches half of it, being too small; 0: any size does.
        sigma: Standard deviation of ln(true step time / modelled); ``sigma_measured``: where a probe measured roofs.
    """

    name: str
    kind: str
    launch_ns: float
    overlap: float
    reach_flop: Mapping[str, float]
    reach_bandwidth: float
    flop_efficiency: tuple[float, ...]
    byte_efficiency: tuple[float, ...]
    half_ns: tuple[float, ...]
    sigma: float
    sigma_measured: float
    vendor: tuple[str, ...] = ()
    pattern: str = ""
    max_power_w: float = math.inf
    sources: tuple[Source, ...] = ()

    def fits(self, platform: Platform) -> bool:
        """Whether a platform is of this class. One whose power nobody knows is not of a class of limited power."""
        if platform.kind != self.kind or (self.vendor and platform.vendor not in self.vendor):
            return False
        if self.pattern and not re.match(self.pattern, platform.part_of or platform.name):
            return False
        power = math.inf if platform.power_w is None else platform.power_w / platform.share
        return power <= self.max_power_w

    def reach(self, dtype: str) -> float:
        """Share of the published peak for ``dtype`` that a large product reaches."""
        return self.reach_flop.get(dtype, self.reach_flop[DEFAULT])


def of(platform: Platform) -> Calibration | None:
    """The calibration of a platform's class; None: there is no class for such a device."""
    return next((one for one in shipped() if one.fits(platform)), None)


@functools.cache
def shipped() -> tuple[Calibration, ...]:
    """The classes of the package, in the order in which they are tried."""
    return read(resources.files(__package__).joinpath("calibration.toml").read_text(encoding="utf-8"))


def read(text: str) -> tuple[Calibration, ...]:
    """Classes written in TOML. Raises ValueError with the class and the key that is missing, unknown or no number."""
    tree = tomllib.loads(text)
    if set(tree) != {"class"}:
        msg = f"a calibration has tables [[class]] and nothing else, not {', '.join(sorted(set(tree) - {'class'}))}"
        raise ValueError(msg)
    return tuple(_class(entry) for entry in tree["class"])


def _class(entry: Mapping[str, Any]) -> Calibration:
    name = str(entry.get("name", "?"))
    known = _TABLES | _NUMBERS | {"name", "kind", "source"}
    unknown, missing = sorted(set(entry) - known - _OPTIONAL), sorted(known - set(entry))
    if unknown or missing:
        none = ["nothing"]
        msg = f"calibration of {name}: unknown {', '.join(unknown or none)}; missing {', '.join(missing or none)}"
        raise ValueError(msg)
    numbers = {key: _number(name, key, entry[key]) for key in sorted(_NUMBERS)}
    tables = {key: _table(name, key, entry[key]) for key in sorted(_TABLES)}
    for key in sorted(_TABLES - {"reach_flop"}):
        strange = sorted(set(tables[key]) - {DEFAULT, *KINDS})
        if strange:
            msg = f"calibration of {name}: {key} names no kind of kernel: {', '.join(strange)}"
            raise ValueError(msg)
    return Calibration(
        name=name,
        kind=str(entry["kind"]),
        vendor=tuple(entry.get("vendor", ())),
        pattern=str(entry.get("pattern", "")),
        max_power_w=float(entry.get("max_power_w", math.inf)),
        sigma_measured=_number(name, "sigma_measured", entry.get("sigma_measured", entry["sigma"])),
        reach_flop=tables["reach_flop"],
        flop_efficiency=_by_kind(tables["flop_efficiency"]),
        byte_efficiency=_by_kind(tables["byte_efficiency"]),
        half_ns=_by_kind(tables["half_ns"]),
        sources=tuple(
            Source(constants=tuple(one["constants"]), data=one["data"], n=one["n"], date=str(one["date"]))
            for one in entry["source"]
        ),
        **numbers,
    )


def _number(name: str, key: str, value: object) -> float:
    # 0 is a time that may be; a rate, an exponent or a spread of 0 would divide by it.
    zero = key in {"launch_ns", "half_ns"}
    if isinstance(value, (int, float)) and not isinstance(value, bool) and (value > 0 or (zero and value == 0)):
        return float(value)
    msg = f"calibration of {name}: {key} is {value!r}; give a number {'of at least' if zero else 'above'} 0"
    raise ValueError(msg)


def _table(name: str, key: str, given: Mapping[str, Any]) -> dict[str, float]:
    if DEFAULT not in given:
        msg = f"calibration of {name}: {key} has no {DEFAULT!r}"
        raise ValueError(msg)
    return {inner: _number(name, key, value) for inner, value in given.items()}


def _by_kind(table: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(table.get(kind, table[DEFAULT]) for kind in KINDS)
