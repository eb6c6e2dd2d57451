from __future__ import annotations

import pytest

from perfgate.graph.layout import describe, elements, region, size, union_bytes
from perfgate.records.graph import Value


def value(shape: tuple[int, ...], strides: tuple[int, ...] = (), **more) -> Value:
    fields = {"dtype": "float32", "storage": 0, **more}
    return Value(shape=shape, strides=strides, **fields)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (value((2, 3)), 6),
        (value(()), 1),
        (value((0, 3)), 0),
        (value((4, 3), (0, 1)), 3),  # expanded: once
        (value((4, 3), (1, 4)), 12),
        (value((8, 2), (8, 1)), 16),
        (value((6, 3), (1, 1)), 8),  # windows that overlap: at most their span
        (value((16, 32), logical=46), 46),
        (value((2, -1, 8), logical=64), 64),
        (value((2, -1, 8)), 16),
    ],
)
def test_elements__counts_memory_once(one, expected):
    assert elements(one) == expected


@pytest.mark.parametrize(("bits", "expected"), [(32, 28), (16, 14), (8, 7), (4, 4), (1, 1)])
def test_size__rounds_up_to_whole_bytes(bits, expected):
    assert size(value((7,), bits=bits)) == expected


def test_size__of_packed_weights_is_that_of_their_logical_elements():
    assert size(value((32, 16), bits=4, logical=1024)) == 512


@pytest.mark.parametrize(
    ("shape", "strides", "word"),
    [
        ((2, 3, 4, 5), (), ""),
        ((2, 3, 4, 5), (60, 20, 5, 1), ""),
        ((2, 3, 4, 5), (60, 1, 15, 3), "channels_last"),
        ((2, 3, 4, 5, 6), (360, 1, 90, 18, 3), "channels_last_3d"),
        ((2, 3, 1, 1), (3, 1, 3, 3), ""),  # one position: both layouts are the same
        ((4, 3), (1, 4), "transposed"),
        ((2, 3, 4), (4, 8, 1), "transposed"),
        ((4, 3), (6, 2), "strided"),
        ((4, 3), (8, 1), "strided"),
        ((4, 3), (0, 1), "expanded"),
        ((1, 3), (0, 1), ""),
        ((0, 3), (7, 9), ""),
        ((), (), ""),
    ],
)
def test_describe__names_the_layout_where_it_is_not_contiguous(shape, strides, word):
    sizes = ",".join(map(str, shape))
    assert describe(value(shape, strides)) == f"float32[{sizes}]{' ' if word else ''}{word}"


def test_describe__says_which_sizes_are_not_known():
    assert describe(value((2, -1, 8), dtype="bfloat16", bits=16)) == "bfloat16[2,?,8]"


def test_region__sees_through_the_order_of_dimensions():
    assert region(value((4, 3))).key == region(value((3, 4), (1, 3))).key == region(value((12,))).key
    assert region(value((4, 3))).key != region(value((4, 3), storage=1)).key
    assert region(value((4, 2), (3, 1))).key == region(value((2, 4), (1, 3))).key
    assert region(value((4, 2), (3, 1))).key != region(value((4, 2), (3, 1), offset=1)).key


def test_region__knows_what_it_covers_and_overlaps():
    whole, row, column = region(value((4, 3))), region(value((3,), offset=3)), region(value((4,), (3,)))
    assert whole.covers(row)
    assert whole.covers(column)
    assert not column.covers(row)
    assert not row.covers(whole)
    assert column.overlaps(row)
    assert not region(value((3,))).overlaps(row)
    # The same bytes as another dtype.
    assert region(value((24,), dtype="float16", bits=16)).covers(whole)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([value((4, 3)), value((4, 3))], 48),
        ([value((3,)), value((3,), offset=2)], 20),
        ([value((3,)), value((3,), offset=6)], 24),
        ([value((4,), (3,)), value((4,), (3,), offset=1)], 32),
        ([value((4,), (3,)), value((4, 3))], 48),
        ([], 0),
    ],
)
def test_union_bytes__counts_what_is_shared_once(parts, expected):
    assert union_bytes([region(part) for part in parts]) == expected
