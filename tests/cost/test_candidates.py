"""Every configuration as a row: forms, counts, and figures by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfgate.cost import memory
from perfgate.cost.candidates import Candidates
from perfgate.cost.parallel import HOP_NS, LINK_EFFICIENCY
from perfgate.cost.shapes import shapes
from perfgate.records.cost import DATA, FORMS, PIPELINE, ROOFLINE, SINGLE, TENSOR
from perfgate.records.graph import OPTIMIZER, KernelGroup
from tests.cost.problems import GIB, FakeTimes, make_offer, make_platform, make_way, with_kernels

LINK = 300e9
PLATFORMS = {"a": make_platform("a", link_bytes_per_s=LINK), "b": make_platform("b")}
TIMES = {"a": 1e6, "b": 2e6}
# As F, which the times here follow, the update is a tenth of the 40 GFLOP of a batch of 4.
UPDATE = KernelGroup(
    name="sgd", kind="pointwise", dtype="float16", flop=4 * 10**9, bytes=10**9, phase=OPTIMIZER, weight_bytes=10**9
)


def candidates(*given, offers=None, forms=()):
    found = offers or [make_offer("a", 4.0, count=4)]
    return Candidates(given or [make_way()], shapes(found, PLATFORMS, 0.1), FakeTimes(TIMES), forms)


def training():
    way = make_way(4, mode="train")
    return with_kernels(way, *way.totals.eager_kernels, UPDATE)


def row(found, form, devices, way=0):
    rows = found.rows
    places = np.flatnonzero((rows.form == FORMS.index(form)) & (rows.devices == devices) & (rows.way == way))
    assert len(places) == 1
    return int(places[0])


def test_candidates__which_forms_on_how_many_devices():
    def variants(*given):
        rows = candidates(*given).rows
        return {(FORMS[form], int(used)) for form, used in zip(rows.form, rows.devices, strict=True)}

    split = {(form, used) for form in (TENSOR, PIPELINE) for used in (2, 4)}

    assert variants(make_way()) == {(SINGLE, 1), (DATA, 4)} | split
    # Replicas that wait for one another may be better off as fewer.
    assert variants(training()) == {(SINGLE, 1), (DATA, 2), (DATA, 4)} | split


def test_candidates__one_device_has_one_form():
    assert len(candidates(offers=[make_offer("a", 1.0)]).rows) == 1
    assert len(candidates(offers=[make_offer("a", 1.0)], forms=(DATA,)).rows) == 0


def test_candidates__both_modes_side_by_side():
    found = candidates(make_way(4), training())

    assert found.rows.ns[row(found, DATA, 4, way=0)] == pytest.approx(4e6)
    assert found.rows.ns[row(found, DATA, 4, way=1)] > 4.4e6
    assert found.rows.link[row(found, DATA, 4, way=0)] == 0
    assert np.isfinite(found.rows.ns).all()


def test_candidates__tensor_by_hand():
    found = candidates(make_way(4), forms=(TENSOR,))
    place = row(found, TENSOR, 2)

    # Half of F, which is all that these times follow; ten products write 40 MB each.
    sent = 2 * (1 / 2) * (400e6 / 2) / (LINK_EFFICIENCY * LINK) * 1e9 + 5 * 2 * HOP_NS
    assert found.rows.ns[place] == pytest.approx(2e6 + sent)
    assert found.rows.link[place] == pytest.approx(sent)
    assert found.rows.items[place] == pytest.approx(4e9 / (2e6 + sent))
    # P is the whole step's, pi that of all four devices.
    assert found.rows.utilisation[place] == pytest.approx(40e9 / ((2e6 + sent) * 1e-9) / 400e12)
    time = found.time(place)
    assert time is not None
    assert time.ns == pytest.approx(2e6)


def test_candidates__pipeline_of_training_by_hand():
    found = candidates(training(), forms=(PIPELINE,))
    place = row(found, PIPELINE, 4)

    # A batch of 4 in four micro-batches of 1: 1 ms each, a quarter of it in each of four stages, 7 turns; the update
    # has 0.4 ms over 4. A cut is the mean output of a product, 10 MB an item.
    sent = 10e6 / (LINK_EFFICIENCY * LINK) * 1e9 + HOP_NS
    assert found.rows.ns[place] == pytest.approx(7 * (2.5e5 + 2 * sent) + 1e5)
    assert found.rows.items[place] == pytest.approx(4e9 / found.rows.ns[place])


def test_candidates__memory_is_that_of_the_form():
    found = candidates(training())

    for form, used in ((SINGLE, 1), (DATA, 4), (TENSOR, 2), (PIPELINE, 4)):
        assert found.rows.memory[row(found, form, used)] == memory.bytes_needed(training(), form, used)


def test_candidates__energy_is_of_all_devices():
    found = candidates(forms=(SINGLE,))

    # Four devices of 100 W, 1 000 items a second.
    assert found.rows.energy[0] == pytest.approx(0.4)


def test_candidates__without_a_link_there_is_no_time_but_a_row():
    found = candidates(make_way(), offers=[make_offer("b", 4.0, count=2)])
    linked = {FORMS[form]: bool(flag) for form, flag in zip(found.rows.form, found.rows.linked, strict=True)}

    assert linked == {SINGLE: True, DATA: True, TENSOR: False, PIPELINE: False}
    assert np.isnan(found.rows.ns[~found.rows.linked]).all()
    assert np.isfinite(found.rows.ns[found.rows.linked]).all()


def test_sources__count_every_offer():
    offers = [make_offer("a", price, instance=f"i{price}") for price in (1.0, 2.0, 3.0)]

    assert candidates(make_way(1), make_way(2), offers=offers).sources() == {ROOFLINE: 6}


def test_shapes__offers_that_differ_in_price_and_seller_are_one():
    offers = [
        make_offer("a", 2.0, instance="dear"),
        make_offer("a", 1.0, instance="cheap", region="r9"),
        make_offer("a", 1.0, instance="same"),
        make_offer("a", 1.0, memory_bytes=40 * GIB),
        make_offer("a", 0.5, share=0.5),
        make_offer("b", 9.0, count=2),
    ]

    found = shapes(offers, PLATFORMS, 0.1)

    assert len(found) == 4
    assert found.sellers.tolist() == [3, 1, 1, 1]
    assert found.cheapest.tolist() == [1.0, 1.0, 0.5, 9.0]
    assert found.offer(0).instance == "cheap"
    assert found.platform(3).name == "b"
    assert found.power.tolist() == [100.0, 100.0, 50.0, 200.0]
    assert math.isnan(found.link[3])
    assert found.free.tolist()[:2] == [int(16 * GIB * 0.9), 36 * GIB]
