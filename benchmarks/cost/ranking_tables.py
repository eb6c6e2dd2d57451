"""What the ranking check prints: a summary over all decisions, then a table for each market.

In: scores of every method by market. Out: Markdown on standard output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cost.choosers import Chooser
from benchmarks.cost.scores import Score, pooled
from benchmarks.tables import print_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A row of the tables; a later source of times is one more. ``summary``: its name there; empty: not in it."""

    name: str
    choose: Chooser
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``source`` of the measurements, ``title`` of the market; ``note``: its prices, empty where they were drawn."""

    source: str
    title: str
    cases: int
    models: int
    rows: Sequence[tuple[Method, Score]]
    note: str = ""


def print_all(tables: Sequence[Table]) -> None:
    """The summary of listed prices and that of drawn ones, then every table."""
    decided = [one for one in tables if one.cases]
    for title, some in (
        ("Summary: at listed prices", [one for one in decided if one.note]),
        ("Summary: at random prices", [one for one in decided if not one.note]),
    ):
        if some:
            print_summary(title, some)
    for one in tables:
        _print_table(one)


def print_summary(title: str, tables: Sequence[Table]) -> None:
    """One row for each method that is in the summary, over all decisions of a source."""
    sources = list(dict.fromkeys(one.source for one in tables))
    names = list(dict.fromkeys(method.summary for one in tables for method, _ in one.rows if method.summary))
    header = [f"{source}{what}" for source in sources for what in (": right", ", or tied", ", mean regret")]
    print(f"\n### {title}\n")
    rows = [(name, *(cell for source in sources for cell in _cells(_of(tables, source, name)))) for name in names]
    print_table(("chosen by", *header), rows)
    counts = [f"{source} {sum(one.cases for one in tables if one.source == source)}" for source in sources]
    print(f"\nDecisions: {', '.join(counts)}.")


def _of(tables: Sequence[Table], source: str, name: str) -> Score:
    own = [one for one in tables if one.source == source]
    return pooled([score for one in own for method, score in one.rows if method.summary == name])


def _cells(one: Score) -> tuple[str, ...]:
    return (f"{one.right:.1%}", f"{one.right_or_tied:.1%}", f"{one.regret:.1%}")


def _print_table(one: Table) -> None:
    print(f"\n### {one.source}: {one.title}\n")
    if not one.cases:
        print("nothing to decide")
        return
    print(f"{one.cases} decisions over {one.models} models\n")
    rows = [(method.name, *_cells(each), f"{each.broken:.1%}", f"{each.refused:.1%}") for method, each in one.rows]
    print_table(("times by", "right", "right or tied", "mean regret", "limit broken", "refused"), rows)
    if one.note:
        print(f"\n{one.note}")
