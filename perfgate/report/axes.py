"""Floor 3, report. Numbers in; places, ticks and labels of a drawing out.

Places are in the user units of an SVG drawing: x to the right, y down.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

# Mean width of a character over the size of the letters: enough for the fonts of the page.
_CHARACTER = 0.56
_WIDE = "WF"
# Finer steps than a decade where an axis spans little; the finest give at least three ticks within a factor of 2.
_STEPS = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), tuple(1 + n / 4 for n in range(36)))
_FEWEST_TICKS = 3
_MOST_TICKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAxis:
    """``low`` to ``high`` (positive, ``low`` < ``high``) onto ``start`` to ``end``, by their logarithms."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a positive ``value``, which may lie outside."""
        return self.start + (math.log(value) - math.log(self.low)) / self._span * (self.end - self.start)

    def ticks(self) -> tuple[float, ...]:
        """Powers of ten, every second or more of them on a long axis; multiples of them on a short one."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        inside: list[float] = []
        for steps in _STEPS:
            every = [10.0**n * factor for n in range(first, last + 1) for factor in steps]
            inside = [value for value in every if self.low <= value <= self.high]
            if len(inside) >= _FEWEST_TICKS:
                break
        return tuple(inside[:: math.ceil(len(inside) / _MOST_TICKS) or 1])

    @property
    def _span(self) -> float:
        return math.log(self.high) - math.log(self.low)


def log_axis(values: Iterable[float | None], start: float, end: float, *, room: float = 1.6) -> LogAxis | None:
    """An axis that holds all positive finite ``values`` and ``room`` (a factor) on both sides; None without any."""
    known = [value for value in values if value is not None and positive(value)]
    if not known:
        return None
    return LogAxis(low=min(known) / room, high=max(known) * room, start=start, end=end)


def positive(value: float | None) -> bool:
    """True for what has a place on a logarithmic axis; false for None, 0 and what is not finite."""
    # Beyond these there is no room left for the factor on either side.
    return value is not None and 1e-290 < value < 1e290


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle that is taken."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """True if both have a place in common."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def inside(self, other: Box) -> bool:
        """True if all of it lies within ``other``."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text with its base line at ``x``, ``y``; ``anchor`` is ``start``, ``middle`` or ``end``."""

    x: float
    y: float
    anchor: str
    text: str

    def box(self, letters: float) -> Box:
        """What the text takes, at ``letters`` units a line."""
        width = text_width(self.text, letters)
        left = {"start": self.x, "middle": self.x - width / 2, "end": self.x - width}[self.anchor]
        return Box(left=left, top=self.y - 0.8 * letters, right=left + width, bottom=self.y + 0.25 * letters)


def text_width(text: str, letters: float) -> float:
    """About how wide ``text`` is."""
    return letters * _CHARACTER * columns(text)


def columns(text: str) -> int:
    """How many columns ``text`` takes where all letters are equally wide."""
    marks = sum(1 for char in text if unicodedata.combining(char))
    return len(text) - marks + sum(1 for char in text if unicodedata.east_asian_width(char) in _WIDE)


def around(x: float, y: float, half: float) -> Box:
    """What a sign at ``x``, ``y`` takes."""
    return Box(left=x - half, top=y - half, right=x + half, bottom=y + half)


def along(points: Sequence[tuple[float, float]], *, step: float = 6.0) -> list[Box]:
    """What the straight lines from point to point take, as small boxes."""
    boxes = []
    for (x1, y1), (x2, y2) in pairwise(points):
        count = max(1, math.ceil(math.hypot(x2 - x1, y2 - y1) / step))
        boxes += [around(x1 + (x2 - x1) * n / count, y1 + (y2 - y1) * n / count, 2) for n in range(count + 1)]
    return boxes


def place(
    wanted: Sequence[tuple[float, float, str, float]],
    taken: Sequence[Box],
    within: Box,
    *,
    letters: float,
    lines: Sequence[Box] = (),
) -> list[Label | None]:
    """A label for each point ``(x, y, text, gap)``, the first ones first: ``gap`` beside it, where nothing else is.

    ``lines`` are crossed only where there is no other place.

    None where every place around the point is taken. A text that is empty gets none.
    """
    occupied = list(taken)
    found: list[Label | None] = []
    for x, y, text, gap in wanted:
        free = [at for at in _around(x, y, text, letters, gap) if _free(at.box(letters), occupied, within)]
        clear = (at for at in free if not any(at.box(letters).meets(line) for line in lines))
        label = next(clear, free[0] if free else None) if text else None
        if label is not None:
            occupied.append(label.box(letters))
        found.append(label)
    return found


def _around(x: float, y: float, text: str, letters: float, gap: float) -> list[Label]:
    middle = y + 0.3 * letters
    above, below = y - gap, y + gap + 0.75 * letters
    return [
        Label(x=x + gap, y=middle, anchor="start", text=text),
        Label(x=x - gap, y=middle, anchor="end", text=text),
        Label(x=x, y=above, anchor="middle", text=text),
        Label(x=x, y=below, anchor="middle", text=text),
        Label(x=x + 0.7 * gap, y=above, anchor="start", text=text),
        Label(x=x - 0.7 * gap, y=above, anchor="end", text=text),
        Label(x=x + 0.7 * gap, y=below, anchor="start", text=text),
        Label(x=x - 0.7 * gap, y=below, anchor="end", text=text),
    ]


def _free(box: Box, occupied: Sequence[Box], within: Box) -> bool:
    return box.inside(within) and not any(box.meets(other) for other in occupied)
