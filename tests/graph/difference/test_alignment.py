from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.graph.difference import alignment
from perfgate.graph.difference.alignment import align, increasing

KEYS = st.lists(st.integers(0, 4), max_size=12)


def longest(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Length of a longest common subsequence, by the definition."""
    if not one or not other:
        return 0
    if one[0] == other[0]:
        return 1 + longest(one[1:], other[1:])
    return max(longest(one[1:], other), longest(one, other[1:]))


@given(KEYS.filter(lambda keys: len(keys) < 9), KEYS.filter(lambda keys: len(keys) < 9))
@settings(max_examples=100, deadline=None)
def test_align__short_sequences_are_aligned_as_long_as_can_be(base, head):
    assert len(align(base, head)) == longest(tuple(base), tuple(head))


@given(KEYS, KEYS)
@settings(deadline=None)
def test_align__pairs_equal_keys_in_order(base, head):
    pairs = align(base, head)
    assert all(base[i] == head[j] for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


def test_align__long_sequences_are_cut_at_unique_keys(monkeypatch):
    monkeypatch.setattr(alignment, "_MAX_CELLS", 0)
    base, head = [9, 1, 1, 2, 3, 8], [7, 1, 2, 1, 3, 7]
    pairs = align(base, head)
    assert (4, 4) in pairs
    assert (3, 2) in pairs
    assert all(base[i] == head[j] for i, j in pairs)


def test_align__a_block_taken_out_of_many_equal_ones_leaves_the_others_paired():
    block = list(range(10))
    base = [*[99], *block * 300, *[98]]
    assert len(align(base, [97, *block * 200, 96])) == 2000


def test_increasing__is_the_longest_chain():
    assert increasing([(0, 3), (1, 0), (2, 1), (3, 9), (4, 2)]) == [(1, 0), (2, 1), (4, 2)]
    assert increasing([(0, 1), (0, 2), (1, 2)]) == [(0, 1), (1, 2)]
    assert increasing([]) == []
