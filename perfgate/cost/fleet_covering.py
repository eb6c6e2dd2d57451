"""Floor 3, cost. A load as a covering problem: integer units, each with a price and a value, that reach a demand.

In: price, value and name of every column. Out: the columns that can be part of an optimum, and the rows of the integer
program. Money and demand have whatever unit the caller gives them; :mod:`perfgate.cost.fleet` says which.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]

# Costs that differ by less are equal.
EXACT = 1e-9
# Size of a row, so that the solver's tolerance of 1e-6 is little of it.
_FINE = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Covering:
    """Columns in order of price, then of value (the highest first), then of egress; all arrays have one entry each.

    Attributes:
        price: Of one unit: a machine, or one paid hour of one. ``value``: what of the demand it serves.
        egress: Price of one unit of demand that is served from the column's provider.
        names: What limits count by. ``minimum``, ``maximum``: name -> machines.
        hours: Units that one machine has. ``partial``: Value of a machine's further, cut unit as a share of a whole one
            (0: there is none).
        spares: Units, any of them, without which the demand is still met.
    """

    price: Vector
    value: Vector
    egress: Vector
    names: tuple[str, ...]
    demand: float
    minimum: dict[str, int] = field(default_factory=dict)
    maximum: dict[str, int] = field(default_factory=dict)
    hours: int = 1
    partial: float = 0.0
    spares: int = 0

    def of(self, columns: Integers) -> Covering:
        """The same problem with these columns only."""
        names = tuple(self.names[column] for column in columns)
        return replace(
            self, price=self.price[columns], value=self.value[columns], egress=self.egress[columns], names=names
        )

    def need(self, cap: float) -> float:
        """What values cut at ``cap`` must sum to, see :func:`program`."""
        return self.demand + (self.spares * cap if self.spares else 0.0)

    def named(self, name: str) -> Integers:
        """Columns that count towards the limits of ``name``."""
        return np.flatnonzero(np.array([other == name for other in self.names]))


def undominated(covering: Covering) -> Integers:
    """Columns that at least one optimum does without the others of.

    A column falls only where another one costs no more, serves no less and has no dearer egress, so that every unit
    can be exchanged one for one: a better ratio is not enough in an integer program. The exchange must also keep the
    limits. Within a name it does. Between names the column that falls must have no minimum, and those that stand in for
    it no maximum, or room for the whole demand: then either one of them has a unit left, or the demand is met already.
    """
    limited = covering.minimum.keys() | covering.maximum.keys()
    best: dict[tuple[str, float], float] = {}
    kept: list[int] = []
    for column, (value, egress, name) in enumerate(
        zip(covering.value.tolist(), covering.egress.tolist(), covering.names, strict=True)
    ):
        group = (name if name in limited else "", egress)
        if value > best.get(group, 0.0):
            best[group] = value
            kept.append(column)
    return _between_groups(covering, np.array(kept, dtype=np.int64))


def _between_groups(covering: Covering, columns: Integers) -> Integers:
    """Of ``columns``, in order, those that no earlier ones make superfluous."""
    value, egress = covering.value[columns], covering.egress[columns]
    names = [covering.names[column] for column in columns]
    number = {name: index for index, name in enumerate(dict.fromkeys(names))}
    name = np.array([number[one] for one in names], dtype=np.int64)
    room = _room(covering, names, value)
    keep = np.zeros(len(columns), dtype=bool)
    for index in range(len(columns)):
        # Columns come in order of price, so only value and egress are left to compare.
        better = np.flatnonzero(keep[:index] & (value[:index] >= value[index]) & (egress[:index] <= egress[index]))
        replaced = bool((name[better] == name[index]).any())
        if not replaced and names[index] not in covering.minimum and len(better):
            reserve = covering.spares * value[better].max()
            replaced = room[better].sum() >= covering.demand + reserve
        keep[index] = not replaced
    return columns[keep]


def _room(covering: Covering, names: list[str], value: Vector) -> Vector:
    """What of the demand all machines of each column serve; 0 where columns share a maximum: a safe understatement."""
    shared = Counter(names)
    most = [np.inf if one not in covering.maximum else covering.maximum[one] * (shared[one] == 1) for one in names]
    return np.array(most) * covering.hours * value


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Minimise ``cost @ x`` with ``low <= rows @ x <= high`` and ``0 <= x <= upper``.

    x holds the units of every column, the partial units of the columns ``cut``, the machines of the columns ``counted``
    (both are there only where a machine has several units and their number is limited: a single column's number follows
    from its units), and the demand that each distinct price of egress serves.
    """

    cost: Vector
    upper: Vector
    integral: Integers
    rows: csr_array
    low: Vector
    high: Vector
    cut: Integers
    counted: Integers


class _Rows:
    """Sparse rows, gathered one by one."""

    def __init__(self) -> None:
        self.entries: list[tuple[Integers, Vector]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, columns: Integers, factors: Vector | float, low: float, high: float = np.inf) -> None:
        self.entries.append((columns, np.broadcast_to(np.asarray(factors, dtype=np.float64), columns.shape)))
        self.low.append(low)
        self.high.append(high)

    def matrix(self, width: int) -> csr_array:
        counts = [len(columns) for columns, _ in self.entries]
        rows = np.repeat(np.arange(len(counts)), counts)
        columns = np.concatenate([columns for columns, _ in self.entries])
        factors = np.concatenate([factors for _, factors in self.entries])
        return csr_array((factors, (rows, columns)), shape=(len(counts), width))


def program(covering: Covering, *, cap: float = np.inf, below: float = np.inf) -> Program:
    """The integer program, its rows in units of the smallest value, so that tolerances are small against any unit.

    ``cap``: with s spares, the value at which the s machines that fail are counted. The s largest values sum to the
    minimum over all c of s c + sum of max(0, value - c) (duality of the selection), reached at one of the values; so a
    fleet survives just if, for one of them, the values cut at c sum to the demand + s c. ``below``: only solutions
    that cost less.
    """
    need = covering.need(cap)
    value = np.minimum(np.minimum(covering.value, cap), need)
    scale = float(value.min())
    cut, counted = _limited(covering)
    prices, which = np.unique(covering.egress, return_inverse=True)
    shares = len(prices) if len(prices) > 1 else 0
    partial = len(value) + np.arange(len(cut))
    machines = len(value) + len(cut) + np.arange(len(counted))
    share = len(value) + len(cut) + len(counted) + np.arange(shares)
    width = len(value) + len(cut) + len(counted) + shares

    rows = _Rows()
    served = np.concatenate((covering.value, covering.partial * covering.value[cut]))
    paid = np.arange(len(served))
    rows.add(paid, np.concatenate((value, np.minimum(served[partial], need))) / scale, need / scale)
    for index in range(shares):
        mine = np.flatnonzero(np.concatenate((which, which[cut])) == index)
        rows.add(np.append(mine, share[index]), np.append(served[mine] / scale, -1.0), 0.0)
    if shares:
        rows.add(share, 1.0, covering.demand / scale, covering.demand / scale)
    for name, least in covering.minimum.items():
        rows.add(covering.named(name), 1.0, float(least))
    _most(rows, covering, dict(zip(cut.tolist(), partial.tolist(), strict=True)), counted, machines)
    cost = np.concatenate(
        (covering.price, covering.price[cut], np.zeros(len(counted)), prices * scale if shares else np.zeros(0))
    )
    if 0 < below < np.inf:
        rows.add(np.arange(width), cost / below * _FINE, -np.inf, _FINE * (1 - EXACT / 2))
    return Program(
        cost=cost, upper=np.concatenate((_upper(covering, value, need, cut, counted), np.full(shares, np.inf))),
        integral=(np.arange(width) < width - shares).astype(np.int64),
        rows=rows.matrix(width), low=np.array(rows.low), high=np.array(rows.high), cut=cut, counted=counted,
    )  # fmt: skip


def _limited(covering: Covering) -> tuple[Integers, Integers]:
    """Columns that need partial units, and those whose machines must be counted."""
    limited = [index for index, name in enumerate(covering.names) if name in covering.maximum]
    shared = Counter(covering.names)
    cut = limited if covering.partial > 0 else []
    several = covering.hours > 1 or covering.partial > 0
    counted = [index for index in limited if several and shared[covering.names[index]] > 1]
    return np.array(cut, dtype=np.int64), np.array(counted, dtype=np.int64)


def _most(rows: _Rows, covering: Covering, partial: dict[int, int], counted: Integers, machines: Integers) -> None:
    """Most machines of a name that several columns share; a single column's are in the upper bounds."""
    machine = dict(zip(counted.tolist(), machines.tolist(), strict=True))
    for column, place in machine.items():
        rows.add(np.array([place, column]), np.array([float(covering.hours), -1.0]), 0.0)
        if column in partial:
            rows.add(np.array([place, partial[column]]), np.array([1.0, -1.0]), 0.0)
    for name, most in covering.maximum.items():
        columns = covering.named(name)
        if len(columns) > 1:
            rows.add(np.array([machine.get(column, column) for column in columns.tolist()]), 1.0, -np.inf, float(most))


def _upper(covering: Covering, value: Vector, need: float, cut: Integers, counted: Integers) -> Vector:
    """No optimum has more units of a column than the whole need takes, or than its name must have; nor than it may."""
    least = np.array([covering.minimum.get(name, 0) for name in covering.names], dtype=np.float64)
    most = np.array([covering.maximum.get(name, np.inf) for name in covering.names])
    units = np.maximum(np.ceil(need / value * (1 - 1e-12)), least)
    return np.concatenate((np.minimum(units, most * covering.hours), most[cut], most[counted]))
