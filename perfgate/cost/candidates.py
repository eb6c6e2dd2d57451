"""Floor 3, cost. Every configuration as a row of columns: way, shape of machine, parallel form, devices used.

In: ways, shapes and times. Out: :class:`Rows`; each stands for as many configurations as its shape has offers.
Nothing is judged here. What is not known is NaN, with a column that says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfgate.cost import memory, parallel, tables, ways
from perfgate.cost.parallel import Running, Spread
from perfgate.cost.shapes import Column, Index, Shapes
from perfgate.cost.tables import SOURCES, Table
from perfgate.cost.times import Times
from perfgate.records.cost import ANCHORED, DATA, FORMS, PIPELINE, SINGLE, TENSOR, StepTime, Way

_ANCHORED = SOURCES.index(ANCHORED)


@dataclass(frozen=True, slots=True)
class Rows:
    """``R`` configurations, form by form, ``single`` first: of equals the simplest comes first.

    Attributes:
        way, shape: Indices. ``form``, ``source``: in ``FORMS``, ``SOURCES``. ``devices``: how many the job uses.
        ns, low, high: Step time at the median with its interval; ``link``: how much of it is sending. NaN: no time.
        items, slow_items: Items a second of the machine, and those at the upper end of the interval.
        utilisation, slow_utilisation: P / pi over all devices of the machine, alike.
        memory: Bytes on the fullest device. ``energy``: joule an item; NaN: power not known.
        linked: Whether the link that the form needs is known, or none is needed.
    """

    way: Index
    shape: Index
    form: Index
    devices: Index
    source: Index
    ns: Column
    low: Column
    high: Column
    link: Column
    items: Column
    slow_items: Column
    utilisation: Column
    slow_utilisation: Column
    memory: Column
    energy: Column
    linked: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.way)

    @property
    def timed(self) -> NDArray[np.bool_]:
        """Rows with a time, and all that follows from it."""
        known = np.isfinite(self.utilisation) & np.isfinite(self.slow_utilisation)
        for column in (self.ns, self.low, self.high, self.items, self.slow_items):
            known &= np.isfinite(column) & (column > 0)
        return known


@dataclass(frozen=True, slots=True)
class _Variant:
    """One form with one number of devices, for some ways on some shapes."""

    form: str
    used: int
    ways: Index
    shapes: Index


class Candidates:
    """All configurations of some ways on some shapes in some forms (none named: in all). ``rows`` holds them."""

    def __init__(self, given: Sequence[Way], shapes: Shapes, times: Times, forms: Sequence[str] = ()) -> None:
        self.ways = tuple(given)
        self.shapes = shapes
        self._times = times
        self._training = np.array([ways.trains(way) for way in given], dtype=bool)
        self._outputs = np.array([ways.product_outputs(way) for way in given], dtype=np.float64).reshape(-1, 2).T
        self._base = self._table(self.ways, np.arange(len(shapes), dtype=np.intp))
        self._split: dict[int, Table] = {}
        self._update: Table | None = None
        self.rows = _joined([self._block(variant) for variant in self._variants(forms or FORMS)])

    def time(self, row: int) -> StepTime | None:
        """The time on one device that a row rests on: of that device's part where products are split."""
        used = int(self.rows.devices[row])
        table = self._split[used] if FORMS[self.rows.form[row]] == TENSOR else self._base
        return table.times[int(self.rows.way[row])][int(self.shapes.device[self.rows.shape[row]])]

    def sources(self) -> dict[str, int]:
        """Where times come from, with how many configurations each; those without a time are not counted."""
        timed = self.rows.timed
        sellers = self.shapes.sellers[self.rows.shape[timed]]
        counts = np.bincount(self.rows.source[timed], weights=sellers, minlength=len(SOURCES))
        return {source: int(count) for source, count in zip(SOURCES, counts, strict=True) if count}

    def _variants(self, forms: Sequence[str]) -> Iterator[_Variant]:
        every, all_ways = np.arange(len(self.shapes), dtype=np.intp), np.arange(len(self.ways), dtype=np.intp)
        if SINGLE in forms:
            yield _Variant(SINGLE, 1, all_ways, every)
        counts = {int(count): parallel.used_counts(int(count)) for count in np.unique(self.shapes.count)}
        several = sorted({used for found in counts.values() for used in found})
        for form in (DATA, TENSOR, PIPELINE):
            for used in several if form in forms else ():
                having = np.isin(self.shapes.count, [count for count, found in counts.items() if used in found])
                if form != DATA:
                    yield _Variant(form, used, all_ways, np.flatnonzero(having))
                    continue
                # Fewer replicas than devices can only pay off where replicas wait for one another: in training.
                full = self.shapes.count == used
                yield _Variant(form, used, all_ways, np.flatnonzero(having & full))
                yield _Variant(form, used, np.flatnonzero(self._training), np.flatnonzero(having & ~full))

    def _block(self, variant: _Variant) -> Rows:
        device, count = self.shapes.device[variant.shapes], self.shapes.count[variant.shapes]
        running = self._running(variant, device)
        chosen = [self.ways[place] for place in variant.ways]
        done, slow = running.per_s(running.period.ns), running.per_s(running.period.high)
        items = np.array([way.items for way in chosen], dtype=np.float64)[:, None]
        flop = np.array([way.totals.flop for way in chosen], dtype=np.float64)[:, None]
        # P over pi of all devices that are paid for, also where some are idle.
        share = flop / (self._base.rate(device)[variant.ways] * count)
        # What is timed in another form is derived of it.
        source = self._base.source(device)[variant.ways]
        if variant.form != SINGLE:
            source = np.maximum(source, _ANCHORED)
        columns: dict[str, Any] = {
            "way": variant.ways[:, None],
            "shape": variant.shapes,
            "form": FORMS.index(variant.form),
            "devices": variant.used,
            "source": np.nan_to_num(source).astype(np.intp),
            "ns": running.step.ns,
            "low": running.step.low,
            "high": running.step.high,
            "link": running.link_ns,
            "items": done * items,
            "slow_items": slow * items,
            "utilisation": share * done,
            "slow_utilisation": share * slow,
            "memory": self._memory(variant, chosen, device),
            "energy": self.shapes.power[variant.shapes] / (done * items),
            "linked": self._linked(variant),
        }
        shape = (len(variant.ways), len(variant.shapes))
        return Rows(**{name: np.broadcast_to(column, shape).reshape(-1) for name, column in columns.items()})

    def _running(self, variant: _Variant, device: Index) -> Running:
        if variant.form == SINGLE:
            return parallel.single(_of(self._base.spread(device), variant.ways))
        return {DATA: self._data, TENSOR: self._tensor, PIPELINE: self._pipeline}[variant.form](variant, device)

    def _data(self, variant: _Variant, device: Index) -> Running:
        gradients = [memory.gradient_bytes(self.ways[place]) for place in variant.ways]
        return parallel.data(
            _of(self._base.spread(device), variant.ways),
            variant.used,
            gradients=np.array(gradients, dtype=np.float64)[:, None],
            link=self.shapes.link[variant.shapes],
            training=self._training[variant.ways][:, None],
        )

    def _tensor(self, variant: _Variant, device: Index) -> Running:
        parts = [ways.tensor_share(way, variant.used) for way in self.ways]
        table = self._split[variant.used] = self._table(parts, self._reachable(variant))
        outputs, products = self._outputs[:, variant.ways]
        return parallel.tensor(
            _of(table.spread(device), variant.ways),
            variant.used,
            outputs=outputs[:, None],
            products=products[:, None],
            link=self.shapes.link[variant.shapes],
            training=self._training[variant.ways][:, None],
        )

    def _pipeline(self, variant: _Variant, device: Index) -> Running:
        work, update, batches = self._stages(variant, device)
        outputs, products = self._outputs[:, variant.ways]
        return parallel.pipeline(
            work,
            update,
            variant.used,
            micro=batches[:, None],
            largest=np.array([ways.largest_share(self.ways[place]) for place in variant.ways])[:, None],
            cut=(outputs / np.maximum(products, 1) / batches)[:, None],
            link=self.shapes.link[variant.shapes],
            training=self._training[variant.ways][:, None],
        )

    def _stages(self, variant: _Variant, device: Index) -> tuple[Spread, Spread, Column]:
        """Times of one micro-batch's forward and backward pass and of the optimiser, and the micro-batches."""
        found = [ways.micro_batches(way, variant.used) for way in self.ways]
        whole = _of(self._base.spread(device), variant.ways)
        nothing = whole.scaled(0.0)
        if not self._training.any():
            return whole, nothing, np.ones(len(variant.ways))
        if self._update is None:
            updates = [ways.optimizer_alone(way) for way in self.ways]
            self._update = self._table(updates, np.arange(len(self.shapes), dtype=np.intp))
        micro = [
            ways.at_batch(ways.without_optimizer(way), size) if training else None
            for way, (_, size), training in zip(self.ways, found, self._training, strict=True)
        ]
        part = _of(self._table(micro, self._reachable(variant)).spread(device), variant.ways)
        update = _of(self._update.spread(device), variant.ways)
        trains = self._training[variant.ways][:, None]
        updates_there = np.array([ways.optimizer_alone(self.ways[place]) is not None for place in variant.ways])
        batches = np.where(self._training, [batches for batches, _ in found], 1.0)[variant.ways]
        return parallel.chosen(trains, part, whole), parallel.chosen(updates_there[:, None], update, nothing), batches

    def _memory(self, variant: _Variant, chosen: Sequence[Way], device: Index) -> NDArray[np.float64]:
        kinds = [self.shapes.devices[place].platform.kind for place in device]
        by_kind = {
            kind: [memory.bytes_needed(way, variant.form, variant.used, kind=kind) for way in chosen]
            for kind in set(kinds)
        }
        table = np.array([by_kind[kind] for kind in kinds], dtype=np.float64)
        return table.reshape(len(kinds), len(chosen)).T

    def _linked(self, variant: _Variant) -> NDArray[np.bool_]:
        known = np.isfinite(self.shapes.link[variant.shapes])
        if variant.form == SINGLE:
            return np.ones_like(known)
        # Replicas that only answer requests never speak to one another.
        return known | ~self._training[variant.ways][:, None] if variant.form == DATA else known

    def _reachable(self, variant: _Variant) -> Index:
        return variant.shapes[np.isfinite(self.shapes.link[variant.shapes])]

    def _table(self, some: Sequence[Way | None], shapes: Index) -> Table:
        return tables.table(some, self.shapes.devices, np.unique(self.shapes.device[shapes]), self._times)


def _of(spread: Spread, some: Index) -> Spread:
    return Spread(spread.ns[some], spread.low[some], spread.high[some])


def _joined(blocks: Sequence[Rows]) -> Rows:
    if not blocks:
        # Only forms of several devices, and machines with one.
        nothing: dict[str, Any] = {item.name: np.empty(0, dtype=np.intp) for item in fields(Rows)}
        return Rows(**nothing)
    columns: dict[str, Any] = {
        item.name: np.concatenate([getattr(block, item.name) for block in blocks]) for item in fields(Rows)
    }
    return Rows(**columns)
