"""Floor 3, cost. Which configurations the times cannot tell from the cheapest.

In: candidates, the feasible rows, the cheapest. Out: one row for each other machine that may be as cheap.

Prices are exact, so what is uncertain of a ratio of two costs is the ratio of the two times. Two configurations are
tied where the interval of 90 % of that ratio holds 1:

    |ln(cost / cost of the cheapest)| <= 1.645 s,    s^2 = s_1^2 + s_2^2 - 2 r s_1 s_2

with the correlation r of ``residuals``: 1 for the same way on the same device in the same form (there only the price
differs, and nothing is tied but equal costs), 0.9 for another way or form on that platform, less between platforms,
and 0 where one of both times was measured and the other not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perfgate.cost import residuals
from perfgate.cost.candidates import Candidates
from perfgate.cost.shapes import Column, Index
from perfgate.cost.tables import SOURCES
from perfgate.records.cost import MEASURED
from perfgate.roofline.step import Z90

# Costs that differ by less are equal: rounding of the same product in another order.
_EQUAL = 1e-12
_MEASURED = SOURCES.index(MEASURED)


def rounded(values: Column) -> Column:
    """To 36 bits, some 11 digits: products of the same factors in another order are equal, nothing else is."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**36) / 2.0**36, exponent))


def inseparable(candidates: Candidates, rows: Index, cost: Column, cheapest: int) -> NDArray[np.bool_]:
    """For each of ``rows`` whether its cost (``cost``, dollars an item, of all rows) may be that of ``cheapest``."""
    table = candidates.rows
    own = residuals.spreads(table.low[rows], table.high[rows])
    other = residuals.spreads(table.low[[cheapest]], table.high[[cheapest]])[0]
    sigma = residuals.of_ratio(own, other, _correlation(candidates, rows, cheapest))
    distance = np.abs(np.log(cost[rows] / cost[cheapest]))
    return np.asarray(distance <= Z90 * sigma + _EQUAL)


def tied(candidates: Candidates, feasible: Index, cost: Column, cheapest: int) -> list[int]:
    """The cheapest row of every other machine (platform and number of devices) that cannot be told apart.

    The cheapest machine's own variants are none: another region, provider or batch is the same recommendation.
    """
    shapes, table = candidates.shapes, candidates.rows
    names = [device.platform.name for device in shapes.devices]
    codes = np.unique(names, return_inverse=True)[1][shapes.device]
    machine = codes * (int(shapes.count.max()) + 1) + shapes.count
    own = machine[table.shape]
    # No ratio is more uncertain than both times together: what is dearer than that needs no sorting.
    widest = residuals.spreads(table.low[feasible], table.high[feasible]).max()
    widest += residuals.spreads(table.low[[cheapest]], table.high[[cheapest]])[0]
    near = feasible[cost[feasible] <= cost[cheapest] * np.exp(Z90 * widest + 2 * _EQUAL)]
    ordered = near[np.argsort(cost[near], kind="stable")]
    firsts = ordered[np.unique(own[ordered], return_index=True)[1]]
    firsts = firsts[own[firsts] != own[cheapest]]
    found = firsts[inseparable(candidates, firsts, cost, cheapest)]
    return [int(row) for row in found[np.lexsort((found, cost[found]))]]


def _correlation(candidates: Candidates, rows: Index, cheapest: int) -> Column:
    shapes, table = candidates.shapes, candidates.rows
    device = shapes.device[table.shape[rows]]
    own = int(shapes.device[table.shape[cheapest]])
    platforms = [device.platform for device in shapes.devices]
    across = np.array([residuals.across_platforms(one.kind, platforms[own].kind) for one in platforms])
    same_platform = np.array([one.name == platforms[own].name for one in platforms])
    across = np.where(same_platform, residuals.ACROSS_WAYS, across)[device]
    mixed = (table.source[rows] == _MEASURED) != (table.source[cheapest] == _MEASURED)
    result = np.where(mixed, 0.0, across)
    same = device == own
    for column in (table.way, table.form, table.devices):
        same &= column[rows] == column[cheapest]
    return np.where(same, 1.0, result)
