"""Floor 3, report. Shapes in; SVG markup out.

Texts are escaped here; colours come from the page's style sheet by class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from perfgate.report import escape
from perfgate.report.axes import Label, LogAxis

NOTHING = Markup("")
_TEXT = 200


def number(value: float) -> str:
    """A place, to a tenth of a unit."""
    # Adding 0 takes the sign from a rounded -0.0.
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def drawing(width: float, height: float, label: str, parts: Iterable[Markup]) -> Markup:
    """The whole picture; ``label`` says to those who cannot see it what it shows."""
    return Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg>').format(
        number(width), number(height), escape.clean(label, 400), escape.clean(label, 400), NOTHING.join(parts)
    )


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """A straight line of class ``kind``."""
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, number(x1), number(y1), number(x2), number(y2)
    )


def path(kind: str, points: Sequence[tuple[float, float]]) -> Markup:
    """Straight lines from point to point."""
    where = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return Markup('<polyline class="{}" fill="none" points="{}"/>').format(kind, where) if points else NOTHING


def text(kind: str, x: float, y: float, said: str, *, turn: float = 0.0) -> Markup:
    """A text of class ``kind``, turned by ``turn`` degrees clockwise about its place."""
    turned = Markup(' transform="rotate({} {} {})"').format(number(turn), number(x), number(y)) if turn else NOTHING
    return Markup('<text class="{}" x="{}" y="{}"{}>{}</text>').format(
        kind, number(x), number(y), turned, escape.clean(said, _TEXT)
    )


def axes(
    x: LogAxis,
    y: LogAxis,
    height: float,
    *,
    names: tuple[str, str],
    texts: tuple[Callable[[float], str], Callable[[float], str]],
) -> list[Markup]:
    """Both axes of a picture of this ``height`` with their grid; ``names`` and the ``texts`` of ticks: x first."""
    left, right, top, bottom = x.start, x.end, y.end, y.start
    parts = []
    for value in x.ticks():
        at = x.at(value)
        parts += [line("grid", at, top, at, bottom), text("", at, bottom + 17, texts[0](value))]
    for value in y.ticks():
        at = y.at(value)
        parts += [line("grid", left, at, right, at), text("end", left - 6, at + 4, texts[1](value))]
    parts += [line("axis", left, bottom, right, bottom), line("axis", left, top, left, bottom)]
    return [*parts, text("", (left + right) / 2, height - 8, names[0]), text("start", 6, 16, names[1])]


def label(kind: str, placed: Label) -> Markup:
    """A placed label."""
    return text(f"{kind} {placed.anchor}".strip(), placed.x, placed.y, placed.text)


def circle(kind: str, x: float, y: float, radius: float, title: str) -> Markup:
    """A circle; ``title`` is shown where the pointer rests on it."""
    return Markup('<circle class="{}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
        kind, number(x), number(y), number(radius), escape.clean(title, 400)
    )


def square(kind: str, x: float, y: float, half: float, title: str) -> Markup:
    """A square with its middle at ``x``, ``y``."""
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
        kind, number(x - half), number(y - half), number(2 * half), number(2 * half), escape.clean(title, 400)
    )


def diamond(kind: str, x: float, y: float, half: float, title: str) -> Markup:
    """A square on its corner."""
    corners = ((x, y - half), (x + half, y), (x, y + half), (x - half, y))
    where = " ".join(f"{number(left)},{number(top)}" for left, top in corners)
    return Markup('<polygon class="{}" points="{}"><title>{}</title></polygon>').format(
        kind, where, escape.clean(title, 400)
    )
