"""Floor 3, graph. What was done to a graph, place by place.

In: two graphs and their matching. Out: :class:`Edit` s: operators that changed, were replaced by others, were added
or removed, in the order of execution.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from perfgate.graph.difference.describing import describe
from perfgate.graph.difference.labels import composite, label, replacement, told
from perfgate.graph.difference.matching import Matching, key
from perfgate.graph.difference.opnames import base_name, is_passing
from perfgate.graph.difference.places import Part, kinds, parted
from perfgate.graph.difference.ties import ties
from perfgate.graph.difference.weighing import main
from perfgate.records.graph import Operator

ADDED = "added"
REMOVED = "removed"
CHANGED = "changed"

# Leftovers of a stretch without common modules count as one replacement up to this many modules a side.
_FEW = 2


@dataclass(slots=True, kw_only=True)
class Edit:
    """Operators of one place that were changed together. Indices are into the graphs' operators.

    Attributes:
        what: ``added``, ``removed``, ``changed``; ``name``: of the place, in the user's terms.
        place: Where in head's order of execution (removed ones: between two operators of head).
        lines, sizes, own, soft, recast, turned: See ``describing.Description``.
        passing: Only casts or lays out anew.
        region: A whole module that one of the sides does not have.
        apart: Casts or copies that came or went beside a replacement, and not because of it.
    """

    what: str
    name: str
    base: tuple[int, ...]
    head: tuple[int, ...]
    phase: str
    place: float
    lines: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    own: bool = True
    soft: bool = False
    recast: bool = False
    turned: frozenset[tuple[int, int]] = frozenset()
    passing: bool = False
    region: bool = False
    apart: bool = False


def find(found: Matching) -> list[Edit]:
    """All edits, by phase of execution: in the order of head."""
    there = _There(found)
    edits = [*_changed(found), *_left(there)]
    edits = _composites(there, edits)
    edits = _loops(there, edits)
    edits = _regions(found, edits)
    return sorted(edits, key=lambda edit: (edit.place, edit.what))


class _There:
    """The matching, where base's operators would be on head, and how many operators a module has in a phase."""

    def __init__(self, found: Matching) -> None:
        self.found = found
        # The place of an operator's partner, else just behind the last operator that has a partner.
        self.places: list[float] = []
        last = -1
        for j in found.to_head:
            last = j if j >= 0 else last
            self.places.append(j if j >= 0 else last + 0.5)
        self._base, self._head = _members(found.base), _members(found.head)
        self._groups = tuple(Counter(operator.group for operator in side) for side in (found.base, found.head))

    def replacement(self, base: Sequence[Operator], head: Sequence[Operator]) -> tuple[str, ...]:
        """Lines for operators of base in whose place are those of head."""
        complete = [
            {group for group, count in Counter(one.group for one in here).items() if group and count == total[group]}
            for here, total in zip((base, head), self._groups, strict=True)
        ]
        return replacement(base, head, (complete[0], complete[1]))

    def name(self, base: Sequence[Operator], head: Sequence[Operator]) -> str:
        """The module where that is all it does in this phase, else the operator that costs most."""
        here, members = (head, self._head) if head else (base, self._base)
        module, phase = here[0].module, here[0].phase
        alone = module and all(operator.module == module for operator in here)
        if alone and 1 < len(here) == members[(module, phase)]:
            return module
        return main(here).name


def _members(side: Sequence[Operator]) -> Counter[tuple[str, str]]:
    return Counter((operator.module, operator.phase) for operator in side)


def _changed(found: Matching) -> list[Edit]:
    tied = ties(found)
    edits = []
    for i, j in found.pairs():
        one, other = found.base[i], found.head[j]
        tie = tied.get((i, j), ())
        if key(one) == key(other) and composite(one) == composite(other) and not tie:
            continue
        description = describe(one, other)
        lines = tie if tie and key(one) == key(other) else (*description.lines, *tie)
        edits.append(
            Edit(
                what=CHANGED,
                name=other.name,
                base=(i,),
                head=(j,),
                phase=other.phase,
                place=j,
                lines=lines,
                sizes=description.sizes,
                own=description.own or bool(tie),
                soft=description.soft and not tie,
                recast=description.recast,
                turned=description.turned,
                passing=is_passing(one.op) and is_passing(other.op),
            )
        )
    return edits


def _left(there: _There) -> list[Edit]:
    """Operators without partner: replaced where a place has some on both sides, else added or removed."""
    found = there.found
    modules = found.modules()
    edits: list[Edit] = []
    for rows, columns in found.gaps():
        left: dict[tuple[str, str], list[int]] = defaultdict(list)
        right: dict[tuple[str, str], list[int]] = defaultdict(list)
        for i in rows:
            left[(found.base[i].phase, found.base[i].module)].append(i)
        for j in columns:
            module = modules.base(found.head[j].module)
            right[(found.head[j].phase, found.head[j].module if module is None else module)].append(j)
        pairs = [(left.pop(place), right.pop(place)) for place in [*left] if place in right]
        for phase in dict.fromkeys(phase for phase, _ in left):
            mine = [place for place in left if place[0] == phase]
            others = [place for place in right if place[0] == phase]
            if 0 < len(mine) <= _FEW and 0 < len(others) <= _FEW:
                pairs.append((_taken(left, mine), _taken(right, others)))
        breaks = _all(left), _all(right)
        edits += [item for pair in pairs for item in _replaced(there, pair, breaks)]
        edits += [_edit(there, part, []) for numbers in left.values() for part in kinds(found.base, numbers)]
        edits += [_edit(there, [], part) for numbers in right.values() for part in kinds(found.head, numbers)]
    return edits


def _taken(groups: dict[tuple[str, str], list[int]], places: Iterable[tuple[str, str]]) -> list[int]:
    return sorted(number for place in places for number in groups.pop(place))


def _all(groups: dict[tuple[str, str], list[int]]) -> list[int]:
    return sorted(number for numbers in groups.values() for number in numbers)


def _replaced(there: _There, pair: Part, breaks: Part) -> list[Edit]:
    """Edits of a place with leftovers on both sides: the replacement, and what came or went beside it."""
    edits = [_edit(there, *part) for part in parted((there.found.base, there.found.head), pair, breaks)]
    for item in edits[1:]:
        item.apart = item.passing
    return edits


def _edit(there: _There, base: Sequence[int], head: Sequence[int]) -> Edit:
    one, other = [there.found.base[i] for i in base], [there.found.head[j] for j in head]
    here = other or one
    lines = there.replacement(one, other) if base and head else told(here)
    return Edit(
        what=CHANGED if base and head else ADDED if head else REMOVED,
        name=there.name(one, other),
        base=tuple(base),
        head=tuple(head),
        phase=here[0].phase,
        place=min(head) if head else there.places[base[0]],
        lines=lines,
        passing=all(is_passing(operator.op) for operator in (*one, *other)),
    )


def _composites(there: _There, edits: list[Edit]) -> list[Edit]:
    """Joins edits by which a composite call came, went or became another (attention by hand against the built-in)."""
    found = there.found
    joined: dict[tuple[str, str], list[Edit]] = defaultdict(list)
    others: list[Edit] = []
    for item in edits:
        groups = [(item.phase, found.head[j].group) for j in item.head if found.head[j].group]
        groups += [(item.phase, found.base[i].group) for i in item.base if found.base[i].group]
        other = {composite(found.base[i]) for i in item.base} ^ {composite(found.head[j]) for j in item.head}
        if groups and other:
            joined[groups[0]].append(item)
        else:
            others.append(item)
    return [*others, *(item for together in joined.values() for item in _joined(there, together))]


def _loops(there: _There, edits: list[Edit]) -> list[Edit]:
    """Joins the edits of a module in which an operator now runs several times on parts, or once for all of them.

    Its first turn was matched with the whole, the other turns are additions: together they are a replacement.
    """
    cells: dict[tuple[str, str], list[Edit]] = defaultdict(list)
    for item in edits:
        here = [there.found.head[j] for j in item.head] or [there.found.base[i] for i in item.base]
        cells[(item.phase, here[0].module)].append(item)
    found: list[Edit] = []
    for together in cells.values():
        turned = {base_name(there.found.head[item.head[0]].op) for item in together if item.turned}
        more = {
            base_name(operator.op)
            for item in together
            if item.what != CHANGED
            for operator in (*(there.found.head[j] for j in item.head), *(there.found.base[i] for i in item.base))
            if not is_passing(operator.op)
        }
        if turned & more:
            apart = [item for item in together if item.apart]
            found += [*_joined(there, [item for item in together if not item.apart]), *apart]
        else:
            found += together
    return found


def _joined(there: _There, together: list[Edit]) -> list[Edit]:
    """Edits of one place as one replacement, where both sides have a part in it."""
    base = tuple(sorted(i for item in together for i in item.base))
    head = tuple(sorted(j for item in together for j in item.head))
    if len(together) == 1 or not base or not head:
        return together
    one, other = [there.found.base[i] for i in base], [there.found.head[j] for j in head]
    first = min(together, key=lambda item: item.place)
    lines = there.replacement(one, other)
    plain = Edit(what=CHANGED, name=there.name(one, other), base=base, head=head, phase=first.phase,
                 place=first.place, lines=lines)  # fmt: skip
    return [plain]


def _regions(found: Matching, edits: list[Edit]) -> list[Edit]:
    """Joins what was added, or removed, with a whole module that the other side does not have."""
    for what, side, missing in ((ADDED, found.head, found.to_base), (REMOVED, found.base, found.to_head)):
        total, gone = Counter[str](), Counter[str]()
        for operator, partner in zip(side, missing, strict=True):
            for path in containers(operator.module):
                total[path] += 1
                gone[path] += partner < 0
        whole = {path for path, count in gone.items() if path and count == total[path]}
        together: dict[tuple[str, str], list[Edit]] = defaultdict(list)
        others = []
        for item in edits:
            indices = item.head if what == ADDED else item.base
            path = _outermost(side[indices[0]].module, whole) if item.what == what else ""
            if path:
                together[(item.phase, path)].append(item)
            else:
                others.append(item)
        edits = others
        for (_, path), items in together.items():
            edits += [_region(path, items, side, what)] if len(items) > 1 else items
    return edits


def _region(path: str, items: list[Edit], side: Sequence[Operator], what: str) -> Edit:
    indices = tuple(sorted(index for item in items for index in (item.head if what == ADDED else item.base)))
    first = min(items, key=lambda item: item.place)
    lines = (label([side[index] for index in indices]),)
    base, head = ((), indices) if what == ADDED else (indices, ())
    return replace(first, name=path, base=base, head=head, lines=lines, passing=False, region=True)


def _outermost(module: str, whole: set[str]) -> str:
    return next((path for path in reversed(list(containers(module))) if path in whole), "")


def containers(module: str) -> Iterable[str]:
    """A module's path and those of its containers, from the inside."""
    while module:
        yield module
        module = module.rpartition(".")[0]
