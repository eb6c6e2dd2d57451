"""Floor 3, graph. Which items of two sequences stand for one another: alignment that keeps the order.

In: two sequences of keys. Out: pairs of positions, ascending in both. Never quadratic in long sequences.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

# Cells of the exact table (longest common subsequence) for one stretch; longer ones are cut at anchors first.
_MAX_CELLS = 40_000

Pair = tuple[int, int]


def increasing(pairs: Sequence[Pair]) -> list[Pair]:
    """The longest part of ``pairs`` that ascends in both positions (patience sorting, O(n log n))."""
    ordered = sorted(pairs, key=lambda pair: (pair[0], -pair[1]))
    tails: list[int] = []
    at: list[int] = []
    before: list[int] = [-1] * len(ordered)
    for number, (_, second) in enumerate(ordered):
        place = bisect_left(tails, second)
        if place:
            before[number] = at[place - 1]
        if place == len(tails):
            tails.append(second)
            at.append(number)
        else:
            tails[place], at[place] = second, number
    chain: list[Pair] = []
    number = at[-1] if at else -1
    while number >= 0:
        chain.append(ordered[number])
        number = before[number]
    return chain[::-1]


def align(base: Sequence[int], head: Sequence[int]) -> list[Pair]:
    """Pairs of positions with equal keys, in order: a longest common subsequence, or nearly one in long sequences."""
    found: list[Pair] = []
    stretches = [(0, len(base), 0, len(head), False)]
    while stretches:
        low, high, first, last, anchored = stretches.pop()
        while low < high and first < last and base[low] == head[first]:
            found.append((low, first))
            low, first = low + 1, first + 1
        while low < high and first < last and base[high - 1] == head[last - 1]:
            high, last = high - 1, last - 1
            found.append((high, last))
        if low == high or first == last:
            continue
        if (high - low) * (last - first) <= _MAX_CELLS:
            found += [(low + i, first + j) for i, j in _table(base[low:high], head[first:last])]
            continue
        anchors = increasing(_anchors(base, head, (low, high), (first, last), unique=not anchored))
        if not anchors and not anchored:
            stretches.append((low, high, first, last, True))
            continue
        found += anchors
        if anchored:
            # Anchors of repeated keys are all there is: another turn might find nothing new for ever.
            continue
        edges = [(low - 1, first - 1), *anchors, (high, last)]
        for (i, j), (k, m) in pairwise(edges):
            if k > i + 1 and m > j + 1:
                stretches.append((i + 1, k, j + 1, m, False))
    return sorted(found)


def _anchors(base: Sequence[int], head: Sequence[int], rows: Pair, columns: Pair, *, unique: bool) -> list[Pair]:
    """Items whose key occurs once on both sides; without ``unique`` the n-th of a key goes with the n-th."""
    places: dict[int, list[int]] = defaultdict(list)
    for number in range(*columns):
        places[head[number]].append(number)
    own: dict[int, list[int]] = defaultdict(list)
    for number in range(*rows):
        own[base[number]].append(number)
    found: list[Pair] = []
    for key, numbers in own.items():
        others = places.get(key, [])
        if unique and not len(numbers) == len(others) == 1:
            continue
        found += zip(numbers, others, strict=False)
    return found


def _table(base: Sequence[int], head: Sequence[int]) -> list[Pair]:
    """Longest common subsequence by the usual table, from the end so that early items are taken first."""
    rows, columns = len(base), len(head)
    lengths = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        row, below, key = lengths[i], lengths[i + 1], base[i]
        for j in range(columns - 1, -1, -1):
            if key == head[j]:
                row[j] = below[j + 1] + 1
            else:
                down, right = below[j], row[j + 1]
                row[j] = down if down > right else right
    pairs: list[Pair] = []
    i = j = 0
    while i < rows and j < columns:
        if base[i] == head[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
