"""Floor 3, cost. Offers in, shapes of machines out: offers that differ in nothing but who sells them, and the price.

All that time, memory, utilisation and energy depend on is the same for every offer of a shape. So each is computed once
a shape, and of two offers of one shape the dearer is dominated: the cheapest stands for all in every optimum, which
keeps the enumeration exact while it skips nearly everything. How many offers a shape has is kept for the counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.cost.memory import free_bytes
from perfgate.records.cost import Device
from perfgate.records.hardware import Offer, Platform

Column = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Shapes:
    """``S`` shapes over ``O`` offers.

    Attributes:
        devices: Distinct devices; ``device[S]`` points to them. ``count[S]``: how many a machine has.
        free: Bytes of one device that may be used; NaN: not known. ``link``: bytes a second between two devices; NaN.
        power: Watt of all devices of a machine at thermal design power; NaN: not known.
        offers: All offers, shape by shape, the cheapest of each first; ``start[S + 1]`` where each shape begins.
        prices: ``usd_per_hour`` of ``offers``.
    """

    devices: tuple[Device, ...]
    device: Index
    count: Index
    free: Column
    link: Column
    power: Column
    offers: tuple[Offer, ...]
    start: Index
    prices: Column

    def __len__(self) -> int:
        return len(self.device)

    @property
    def cheapest(self) -> Column:
        """The least price an hour of each shape."""
        return self.prices[self.start[:-1]]

    @property
    def sellers(self) -> Index:
        """How many offers each shape has."""
        return np.diff(self.start)

    def offer(self, shape: int) -> Offer:
        """The cheapest offer of a shape, of equal ones the first by name."""
        return self.offers[int(self.start[shape])]

    def sold(self, shape: int) -> tuple[Offer, ...]:
        """All offers of a shape, the cheapest first."""
        return self.offers[int(self.start[shape]) : int(self.start[shape + 1])]

    def platform(self, shape: int) -> Platform:
        """The platform of a shape."""
        return self.devices[int(self.device[shape])].platform


def shapes(offers: Sequence[Offer], platforms: Mapping[str, Platform], headroom: float) -> Shapes:
    """Shapes in the order of their first offers, which have to be in a fixed order; every platform has to be known."""
    devices: dict[tuple[str, float], int] = {}
    members: dict[tuple[int, int, int | None], list[Offer]] = {}
    for offer in offers:
        platform = platforms[offer.platform]
        device = devices.setdefault((offer.platform, offer.share), len(devices))
        members.setdefault((device, offer.count, free_bytes(offer, platform, headroom)), []).append(offer)
    # The sort is stable: of equal prices the first by name stays first.
    ordered = [offer for found in members.values() for offer in sorted(found, key=lambda offer: offer.usd_per_hour)]
    keys = list(members)
    found = tuple(Device(platform=platforms[name], share=share) for name, share in devices)
    own = [found[device].platform for device, _, _ in keys]
    return Shapes(
        devices=found,
        device=np.array([device for device, _, _ in keys], dtype=np.intp),
        count=np.array([count for _, count, _ in keys], dtype=np.intp),
        free=np.array([math.nan if free is None else free for _, _, free in keys], dtype=np.float64),
        link=np.array([platform.link_bytes_per_s or math.nan for platform in own], dtype=np.float64),
        power=np.array(
            [
                (platform.power_w or math.nan) * found[device].share * count
                for (device, count, _), platform in zip(keys, own, strict=True)
            ],
            dtype=np.float64,
        ),
        offers=tuple(ordered),
        start=np.cumsum([0, *(len(sold) for sold in members.values())], dtype=np.intp),
        prices=np.array([offer.usd_per_hour for offer in ordered], dtype=np.float64),
    )
