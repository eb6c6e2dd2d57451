"""Floor 3, bench. Where a run says how far it is; who shows it is not this room's business."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told between blocks, never while a block is timed."""

    def step(self, text: str, done: int, total: int, seconds_left: float | None) -> None:
        """``done`` of ``total`` pieces are through; ``total`` may grow. ``seconds_left`` None: not known."""


class NullProgress:
    """Shows nothing."""

    def step(self, text: str, done: int, total: int, seconds_left: float | None) -> None:
        """Ignore the news."""
