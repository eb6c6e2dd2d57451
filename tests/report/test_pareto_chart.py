from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.records.cost import ITEMS, Requirements, Volume
from perfgate.report.pareto_chart import HEIGHT, WIDTH, pareto
from tests.report.builders import model
from tests.report.cost_builders import (
    answer,
    front,
    infeasible,
    offer,
    point,
    roof,
    side,
    tied,
    unpriced,
    workload_cost,
)
from tests.report.drawings import number, points, text
from tests.report.test_escape import HOSTILE

ENTRY = model("resnet50")


def drawn(base, head, **fields) -> ET.Element:
    return ET.fromstring(str(pareto(workload_cost(ENTRY, base, head, **fields), "resnet50")))


def of(svg: ET.Element, kind: str) -> list[ET.Element]:
    return [node for node in svg.iter() if node.get("class") == kind]


def at(node: ET.Element) -> tuple[float, float]:
    return number(node, "cx"), number(node, "cy")


def titles(svg: ET.Element, kind: str) -> list[str]:
    return [text(node[0]) for node in of(svg, kind)]


def test_pareto__places_by_the_logarithms_of_cost_and_utilisation():
    found = [point(offer(usd=usd), utilisation=used) for usd, used in ((1.0, 0.01), (10.0, 0.1), (100.0, 0.4))]
    svg = drawn(None, unpriced(answer(*found)))
    (x1, y1), (x2, y2), (x3, y3) = (at(node) for node in of(svg, "config"))
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert (y2 - y3) / (y1 - y2) == pytest.approx(math.log10(4), abs=0.01)


def test_pareto__the_front_is_joined_by_steps():
    svg = drawn(None, side())
    (joined,) = of(svg, "joined front")
    steps = points(joined)
    assert len(steps) == 7
    # Along, then up: between two points nothing is better than the left one.
    assert all(one[0] == other[0] or one[1] == other[1] for one, other in pairwise(steps))
    assert [x for x, _ in steps] == sorted(x for x, _ in steps)
    dots = {at(node) for node in of(svg, "config")}
    assert dots <= set(steps)


def test_pareto__points_that_are_good_at_other_things_are_not_joined():
    fast = point(offer("h100-sxm", 40.0), 1e6, utilisation=0.05)
    svg = drawn(None, side(answer(*front(), fast)))
    assert len(points(of(svg, "joined front")[0])) == 7
    assert len(of(svg, "config")) == 4  # the knee is a diamond


def test_pareto__cheapest_and_knee_have_shapes_and_names_of_their_own():
    svg = drawn(None, side())
    assert at(of(svg, "ring")[0]) == at(of(svg, "config")[0])
    assert titles(svg, "config knee")[0].endswith("(knee)")
    texts = {node.text for node in svg.iter("text")}
    assert {"L4 · cheapest", "L40S · knee", "H100 SXM", "this runner"} <= texts


def test_pareto__ties_are_hollow_with_intervals():
    svg = drawn(None, side(tied()))
    assert len(of(svg, "config tied")) == 2
    assert any("≈ 1" in title for title in titles(svg, "config tied"))
    assert len(of(svg, "bar")) == 3 * 3
    left, right = (number(of(svg, "bar")[0], name) for name in ("x1", "x2"))
    x, _ = at(of(svg, "ring")[0])
    # The interval is a factor of 1.3 both ways.
    assert right - x == pytest.approx(x - left, abs=0.3)


def test_pareto__base_is_drawn_where_it_differs():
    assert of(drawn(side(), side()), "config base") == []
    svg = drawn(side(answer(front()[0])), side(answer(*front()[1:])))
    assert len(of(svg, "config base")) == 1
    assert titles(svg, "config base")[0].startswith("base: L4 (")


def test_pareto__this_runner_needs_price_and_rate():
    assert titles(drawn(None, side()), "step") == ["this runner: $0.105 per 1 M items, utilisation 2.8 %"]
    assert of(drawn(None, unpriced()), "step") == []
    assert of(drawn(None, side(roofline=roof(None))), "step") == []


def test_pareto__limits_are_dashed_lines():
    wanted = Requirements(min_utilisation=0.15, max_usd_per_month=600.0)
    svg = drawn(None, side(), requirements=wanted, volume=Volume(amount=3e9, unit=ITEMS))
    flat, upright = of(svg, "limit")
    assert flat.get("y1") == flat.get("y2")
    assert upright.get("x1") == upright.get("x2")
    texts = {node.text for node in svg.iter("text")}
    # 600 USD for 3 000 M items.
    assert {"at least 15 %", "at most $0.20"} <= texts
    assert at(of(svg, "config")[0])[1] > number(flat, "y1") > at(of(svg, "config")[-1])[1]


def test_pareto__limits_far_away_leave_the_points_their_room():
    wanted = Requirements(min_utilisation=1e-9, max_usd_per_month=1e12)
    svg = drawn(None, side(), requirements=wanted, volume=Volume(amount=1.0, unit=ITEMS))
    assert of(svg, "limit") == []


def test_pareto__says_in_words_what_it_shows():
    svg = drawn(None, side())
    assert svg.get("role") == "img"
    assert svg.get("aria-label") == svg[0].text
    assert text(svg[0]).startswith(
        "Cost against utilisation of resnet50: 4 configurations that nothing beats; cheapest L4 (aws/g6.xlarge"
    )


@pytest.mark.parametrize(
    "head",
    [
        None,
        unpriced(infeasible()),
        unpriced(answer(point(utilisation=0.0))),
        unpriced(answer(point(offer(usd=0.0)))),
        unpriced(answer(point(usd_per_1m_items=1e308))),
    ],
)
def test_pareto__nothing_to_draw(head):
    assert pareto(workload_cost(ENTRY, None, head), "m") == ""


@pytest.mark.parametrize("name", HOSTILE)
def test_pareto__hostile_names_are_texts(name):
    text = HOSTILE[name]
    rented = offer(text, provider=text, instance=text, region=text, terms=text, date=text)
    svg = ET.fromstring(str(pareto(workload_cost(ENTRY, None, side(answer(point(rented)))), text)))
    tags = {node.tag for node in svg.iter()}
    assert tags <= {"svg", "title", "line", "polyline", "text", "circle", "polygon", "rect"}


@given(st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 1e3), st.floats(0, 1e15)), min_size=1, max_size=12))
@settings(max_examples=80, deadline=None)
def test_pareto__everything_lies_inside_the_picture(found):
    points = [point(usd_per_1m_items=usd, utilisation=used, low_ns=low, high_ns=2 * low) for usd, used, low in found]
    picture = str(pareto(workload_cost(ENTRY, None, side(answer(*points, tied=tuple(points[1:])))), "m"))
    drawable = sum(1 for usd, used, _ in found if usd > 0 and used > 0)
    if not picture:
        assert drawable == 0 or min(min(usd, used) for usd, used, _ in found if usd > 0 and used > 0) < 1e-250
        return
    svg = ET.fromstring(picture)
    names = (("x", WIDTH), ("x1", WIDTH), ("x2", WIDTH), ("cx", WIDTH), ("y", HEIGHT), ("cy", HEIGHT))
    places = [(number(node, name), most) for node in svg.iter() for name, most in names if node.get(name)]
    assert all(math.isfinite(place) and 0 <= place <= most for place, most in places)
