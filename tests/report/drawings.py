"""Reading of SVG drawings in tests."""

from __future__ import annotations

from xml.etree import ElementTree as ET


def number(node: ET.Element, name: str) -> float:
    """A number that must be there."""
    text = node.get(name)
    assert text is not None, f"{node.tag} has no {name}"
    return float(text)


def text(node: ET.Element) -> str:
    """The text of an element, or nothing."""
    return node.text or ""


def points(node: ET.Element) -> list[tuple[float, float]]:
    """The corners of a polyline."""
    pairs = (pair.partition(",") for pair in node.get("points", "").split())
    return [(float(x), float(y)) for x, _, y in pairs]
