from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.report.roofline_chart import HEIGHT, WIDTH, roofline
from tests.report.cost_builders import operator, roof
from tests.report.drawings import number, points, text
from tests.report.test_escape import HOSTILE

BASE, HEAD = roof(13.92e6), roof(15.02e6)


def drawn(base=BASE, head=HEAD, name="resnet50 · train · b32") -> ET.Element:
    return ET.fromstring(str(roofline(base, head, name).picture))


def of(svg: ET.Element, kind: str) -> list[ET.Element]:
    return [node for node in svg.iter() if node.get("class") == kind]


def middle(node: ET.Element) -> tuple[float, float]:
    corners = points(node)
    return sum(x for x, _ in corners) / len(corners), sum(y for _, y in corners) / len(corners)


def decades(svg: ET.Element) -> tuple[float, float]:
    """Units of the drawing a decade, along x and y, by the tick labels 1 and 10, 1 T and 10 T."""
    at = {text(node): (number(node, "x"), number(node, "y")) for node in svg.iter("text")}
    return at["10"][0] - at["1"][0], at["1 T"][1] - at["10 T"][1]


def test_roofline__the_roof_rises_by_beta_and_is_flat_at_pi():
    svg = drawn()
    (start, ridge, end) = points(of(svg, "roof")[0])
    wide, high = decades(svg)
    assert ridge[1] == end[1]
    # beta x I: a decade up for every decade to the right.
    assert (start[1] - ridge[1]) / high == pytest.approx((ridge[0] - start[0]) / wide, abs=0.02)
    (line,) = of(svg, "ridge")
    assert number(line, "x1") == ridge[0]
    assert "I_max = 403" in {node.text for node in svg.iter("text")}


def test_roofline__steps_stand_at_their_intensity_and_rate():
    svg = drawn()
    wide, high = decades(svg)
    head, ridge = middle(of(svg, "step head")[0]), points(of(svg, "roof")[0])[1]
    assert (ridge[0] - head[0]) / wide == pytest.approx(math.log10(403.3 / 19.1), abs=0.02)
    assert (head[1] - ridge[1]) / high == pytest.approx(math.log10(121 / 3.329), abs=0.02)
    (base,) = of(svg, "step base")
    lower = number(base, "y") + number(base, "height") / 2
    assert (head[1] - lower) / high == pytest.approx(math.log10(15.02 / 13.92), abs=0.02)
    texts = {node.text for node in svg.iter("text")}
    assert {"head 3.33 TFLOP/s", "base 3.59 TFLOP/s"} <= texts


def test_roofline__operators_lie_on_the_roof_and_grow_with_their_time():
    svg = drawn()
    wide, high = decades(svg)
    (start, ridge, _) = points(of(svg, "roof")[0])
    circles = {text(node[0]).split(" ")[0]: node for node in of(svg, "operator")}
    assert set(circles) == {"layer4.*.conv2", "layer3.*.conv2", "bn1/batch_norm", "fc"}
    on_slope = circles["layer3.*.conv2"]
    across = (number(on_slope, "cx") - start[0]) / wide
    assert (start[1] - number(on_slope, "cy")) / high == pytest.approx(across, abs=0.02)
    assert number(circles["layer4.*.conv2"], "cy") == ridge[1]
    radii = {name: number(node, "r") for name, node in circles.items()}
    assert radii["layer4.*.conv2"] > radii["layer3.*.conv2"] > radii["fc"]
    assert "24.0 % of the least time" in text(on_slope[0])


def test_roofline__what_has_no_products_is_counted_as_undrawn():
    assert roofline(BASE, HEAD, "m").undrawn == 1
    assert roofline(None, replace(HEAD, operators=(operator(flop=0),) * 3), "m").undrawn == 3


def test_roofline__labels_say_where_the_roof_comes_from():
    texts = {node.text for node in drawn().iter("text")}
    assert {"π = 121 TFLOP/s, measured", "β = 300 GB/s, measured"} <= texts
    published = {node.text for node in drawn(None, replace(HEAD, measured=False)).iter("text")}
    assert {"π = 121 TFLOP/s, published", "β = 300 GB/s, published"} <= published


def test_roofline__another_roof_of_base_is_drawn_apart():
    half = replace(BASE, flop_per_s=60.5e12)
    svg = drawn(half)
    (dashed,), (solid,) = of(svg, "roof base"), of(svg, "roof")
    assert points(dashed)[-1][1] > points(solid)[-1][1]
    assert "base: π = 60.5 TFLOP/s, measured" in {node.text for node in svg.iter("text")}
    assert of(drawn(), "roof base") == []


def test_roofline__what_was_not_measured_is_hollow_at_what_is_attainable():
    svg = drawn(None, roof(None))
    (mark,) = of(svg, "step head unmeasured")
    assert "head, attainable 5.73 TFLOP/s" in text(mark[0])
    assert of(svg, "gap head") == []


def test_roofline__says_in_words_what_it_shows():
    svg = drawn()
    said = "Roofline of resnet50 · train · b32: memory bound at I = 19.1 < 403 FLOP/B, achieved 3.33 TFLOP/s, "
    assert svg.get("role") == "img"
    assert svg.get("aria-label") == svg[0].text == said + "attainable 5.73 TFLOP/s"
    assert svg[0].tag == "title"


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, 1e308])
def test_roofline__without_a_roof_there_is_no_drawing(value):
    assert roofline(None, replace(HEAD, flop_per_s=value), "m").picture == ""
    assert roofline(None, replace(HEAD, bandwidth_bytes_per_s=value), "m").picture == ""
    assert roofline(None, None, "m").picture == ""


def test_roofline__no_work_at_all_leaves_the_roof():
    svg = drawn(None, replace(HEAD, intensity=0.0, attainable_flop_per_s=0.0, achieved_flop_per_s=0.0, operators=()))
    assert len(of(svg, "roof")) == 1
    assert of(svg, "step head") == []


@pytest.mark.parametrize("name", HOSTILE)
def test_roofline__hostile_names_are_texts(name):
    text = HOSTILE[name]
    named = replace(HEAD, operators=(operator(text, kind=text, dtype=text, bound=text, share=0.9),), bound=text)
    tags = {node.tag for node in drawn(None, named, text).iter()}
    assert tags <= {"svg", "title", "line", "polyline", "text", "circle", "polygon", "rect"}


@given(
    st.floats(1e-3, 1e18),
    st.floats(1e-3, 1e15),
    st.floats(0, 1e12),
    st.one_of(st.none(), st.floats(0, 1e20)),
    st.lists(
        st.tuples(st.integers(0, 10**18), st.integers(0, 10**15), st.floats(0, 1e18), st.floats(0, 1)), max_size=8
    ),
)
@settings(max_examples=80, deadline=None)
def test_roofline__everything_lies_inside_the_picture(pi, beta, intensity, achieved, found):
    operators = tuple(operator(f"o{n}", f, m, bound_ns=ns, share=part) for n, (f, m, ns, part) in enumerate(found))
    summary = replace(
        HEAD,
        flop_per_s=pi,
        bandwidth_bytes_per_s=beta,
        ridge=pi / beta,
        intensity=intensity,
        attainable_flop_per_s=min(pi, beta * intensity),
        achieved_flop_per_s=achieved,
        operators=operators,
    )
    svg = drawn(None, summary)
    places = [(number(node, name), most) for node in svg.iter() for name, most in LIMITS if node.get(name)]
    places += [(x, WIDTH) for node in svg.iter("polyline") for x, _ in points(node)]
    assert all(math.isfinite(at) and -1 <= at <= most + 1 for at, most in places)
    assert len(of(svg, "operator")) <= len(operators)


LIMITS = (("x", WIDTH), ("x1", WIDTH), ("x2", WIDTH), ("cx", WIDTH), ("y", HEIGHT), ("y1", HEIGHT), ("cy", HEIGHT))


def test_roofline__one_roof_for_sides_that_differ_in_the_last_digit_alone():
    head = roof()
    base = replace(head, flop_per_s=head.flop_per_s * (1 + 1e-12))
    lines = [text(node) for node in drawn(base, head).iter("text")]
    assert [line for line in lines if "π" in line and line.startswith("base")] == []
    other = replace(head, flop_per_s=head.flop_per_s / 2)
    lines = [text(node) for node in drawn(other, head).iter("text")]
    assert [line for line in lines if "π" in line and line.startswith("base")] != []
