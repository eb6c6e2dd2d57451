"""Aligned tables for standard output, in the Markdown that docs/benchmarks.md takes."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """First column left, the others right."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "| " + " | ".join([first, *rest]) + " |"

    print(line(header))
    print("|" + "|".join(("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":") for i, w in enumerate(widths)) + "|")
    for row in rows:
        print(line(row), flush=True)
