"""Floor 2, hardware. The validator of hardware tables: ours, a user's, anybody's.

In: platforms, or rows of any table. Out: problems, each with the mistake that makes such a number (sparse for dense,
multiply-adds for operations, another column, another device, a board for a GPU ...). ``rules.py`` judges a row by
itself, ``diagnosis.py`` against the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from perfgate.hardware import catalogue, diagnosis, names, rules
from perfgate.hardware.entries import BANDWIDTH, TOLERANCE, Entry, near, values
from perfgate.hardware.rows import BOARD, DIFFERS, IMPLAUSIBLE, SLICE, SOURCE, Problem, Reference, Row, of_entry, shown
from perfgate.records.hardware import Platform

__all__ = ["Problem", "Row", "compare", "conflicts", "problems", "table_problems"]


def problems(platforms: Iterable[Platform]) -> tuple[Problem, ...]:
    """What is wrong with ``platforms`` by themselves: rates that do not fit one another, impossible memory, slices
    that do not fit their whole, values without a source.

    Architecture and memory chips are looked up in the catalogue by name; a platform that is not there is judged by
    the general rules only.
    """
    known = catalogue.entries()
    found: list[Problem] = []
    for platform in platforms:
        entry = known.get(platform.name)
        stated = values(platform)
        row = replace(of_entry(entry), values=stated) if entry else Row(name=platform.name, values=stated)
        wrong = [*rules.inspect(row), *_slices(platform, known)]
        named = {problem.field for problem in wrong}
        unsaid = [name for name in stated if name not in named and not platform.sources.get(name)]
        found += wrong + [row.problem(name, SOURCE, "no source says so") for name in unsaid]
    return tuple(found)


def compare(
    rows: Iterable[Row], reference: Mapping[str, Entry] | None = None, tolerance: float = TOLERANCE
) -> tuple[Problem, ...]:
    """What is wrong with ``rows`` of a published table, by itself and against ``reference`` (None: the catalogue).

    A row that does not say which platform it is about is looked up by its name (``names.parse``). A value within
    ``tolerance`` of the reference is right. Each wrong value has one problem; its ``platform`` is the row's name.
    """
    against = Reference(entries=dict(catalogue.entries() if reference is None else reference))
    found: list[Problem] = []
    for row in rows:
        entry = against.of(row if row.platform else _recognised(row))
        full = row if entry is None else _completed(row, entry)
        different = {problem.field: problem for problem in diagnosis.differences(full, against, tolerance)}
        alone: dict[str, Problem] = {}
        for problem in rules.inspect(full):
            if entry is None or problem.field not in entry.values() or problem.field in different:
                alone.setdefault(problem.field, problem)
        both = {name: _joined(different[name], alone[name]) for name in different.keys() & alone.keys()}
        wrong = alone | different | both
        found += [wrong[name] for name in row.values if name in wrong]
    return tuple(found)


def table_problems(entries: Iterable[Entry]) -> tuple[Problem, ...]:
    """What is wrong with a table of our own form: :func:`problems`, and sources that disagree without a note."""
    found: list[Problem] = []
    for entry in entries:
        found += problems([entry.platform])
        found += _disagreements(entry)
    return tuple(found)


def _recognised(row: Row) -> Row:
    platform = names.parse(row.name)
    return row if platform is None else replace(row, platform=platform.name)


def _completed(row: Row, entry: Entry) -> Row:
    """``row`` with the architecture and memory chips of the device that it is about."""
    return replace(
        row,
        platform=entry.platform.name,
        family=row.family or entry.family,
        unlike_family=row.unlike_family or entry.unlike_family,
        bus_bits=row.bus_bits or entry.bus_bits,
        memory_type=row.memory_type or entry.memory_type,
    )


def _joined(different: Problem, alone: Problem) -> Problem:
    """The reference's diagnosis; a physical limit is added, and explains what nothing else does."""
    if different.what == alone.what:
        return different
    unexplained = different.what == DIFFERS or (different.what == BOARD and different.field == BANDWIDTH)
    if not unexplained and alone.what != IMPLAUSIBLE:
        return different
    reason = alone.text.partition(": ")[2]
    return replace(different, what=alone.what if unexplained else different.what, text=f"{different.text}; {reason}")


def _slices(platform: Platform, known: Mapping[str, Entry]) -> Iterator[Problem]:
    if not platform.part_of:
        return
    whole = known.get(platform.part_of)
    if whole is None:
        text = f"part of {platform.part_of!r}, which is not in the catalogue"
        yield Problem(platform=platform.name, field="part_of", what=SLICE, text=text)
        return
    limits = whole.values()
    for name, value in values(platform).items():
        share = platform.share if name in platform.peak_flop_per_s else 1.0
        limit = limits.get(name)
        if limit is not None and name != "link" and value > 1.001 * share * limit:
            text = f"{shown(name, value)} is more than its share of {shown(name, limit)}"
            yield Problem(platform=platform.name, field=name, what=SLICE, text=text)


def conflicts(entry: Entry, tolerance: float = TOLERANCE) -> Iterator[tuple[str, str, float]]:
    """(field, source, what it says) of every claim that is further than ``tolerance`` from what ``entry`` takes."""
    stated = entry.values()
    for name, claims in entry.claims.items():
        for source, value in claims.items():
            if name in stated and not near(value, stated[name], tolerance):
                yield name, source, value


def _disagreements(entry: Entry) -> Iterator[Problem]:
    """Conflicts that the note passes over: it has to name the source."""
    note = _letters(entry.platform.note)
    for name, source, value in conflicts(entry):
        if _letters(source) not in note:
            taken = shown(name, entry.values()[name])
            text = f"{source} says {shown(name, value)}, the table {taken}, and the note does not name {source}"
            yield Problem(platform=entry.platform.name, field=name, what=SOURCE, text=text)


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
