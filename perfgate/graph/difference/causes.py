"""Floor 3, graph. Which edits are causes, and which only follow from them.

In: edits in the order of execution. Out: for each edit the edit that it follows from, itself for a cause.

One layer with another output changes everything behind it. An edit follows where all that changed about it came in
with what it reads from edited operators: shapes, dtypes, layouts, and weights that changed in the same way. A cast or
a copy follows from the operator that needs it; if nobody needs it for a reason of its own, it is the cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import islice

from perfgate.graph.difference.edits import ADDED, CHANGED, REMOVED, Edit
from perfgate.graph.difference.matching import Matching
from perfgate.graph.difference.opnames import base_name, family
from perfgate.records.graph import BACKWARD, FORWARD, Operator

RECOMPUTED = "computed again in the backward pass"

# A width is looked for among the sizes of so many causes: a model in which each layer changed on its own has no one.
_COMPARED = 32
# Their dtype is set by the model's weights or by a context around them: a cast before them serves them.
_HEAVY = frozenset({"convolution", "matmul", "attention", "rnn"})


def roots(found: Matching, edits: Sequence[Edit]) -> list[int]:
    """For each edit the index of its cause. ``edits`` in order of execution; recomputed ones are given their line."""
    return _Causes(found, edits).roots()


class _Causes:
    def __init__(self, found: Matching, edits: Sequence[Edit]) -> None:
        self._found = found
        self._edits = edits
        self._root = list(range(len(edits)))
        # Sizes that turned, by cause; and the cause of the first turned sizes in a module.
        self._sizes: dict[int, set[tuple[int, int]]] = {}
        self._beside: dict[str, int] = {}
        of_base = {i: number for number, edit in enumerate(edits) for i in edit.base}
        of_head = {j: number for number, edit in enumerate(edits) for j in edit.head}
        self._sources: list[list[int]] = []
        self._readers: list[list[int]] = [[] for _ in edits]
        for number, edit in enumerate(edits):
            near = {of_head.get(s, -1) for j in edit.head for s in found.head[j].sources}
            near |= {of_base.get(s, -1) for i in edit.base for s in found.base[i].sources}
            self._sources.append(sorted(near - {-1, number}))
        for number, sources in enumerate(self._sources):
            for source in sources:
                self._readers[source].append(number)

    def roots(self) -> list[int]:
        solid = [number for number, edit in enumerate(self._edits) if not edit.passing]
        for number in solid:
            if self._edits[number].phase == FORWARD:
                self._root[number] = self._of_forward(number)
                self._keep_sizes(number)
        for number, edit in enumerate(self._edits):
            if edit.passing and edit.phase == FORWARD:
                self._root[number] = self._of_passing(number)
        for number in range(len(self._edits)):
            if self._edits[number].phase != FORWARD:
                self._root[number] = self._of_later(number)
        return [self._end(number) for number in range(len(self._edits))]

    def _end(self, number: int) -> int:
        """The cause at the end of the chain; edits that follow each other end at the first of them."""
        seen: dict[int, None] = {}
        while self._root[number] != number and number not in seen:
            seen[number] = None
            number = self._root[number]
        return min(seen) if number in seen else number

    def _behind(self, number: int) -> tuple[set[int], set[int]]:
        """Edits that it reads from: those that do work (looking through casts and copies), and those that do not."""
        solid: set[int] = set()
        passing: set[int] = set()
        waiting = list(self._sources[number])
        while waiting:
            source = waiting.pop()
            if not self._edits[source].passing:
                solid.add(source)
            elif source not in passing:
                passing.add(source)
                waiting += self._sources[source]
        solid.discard(number)
        return solid, passing

    def _of_forward(self, number: int) -> int:
        edit = self._edits[number]
        solid, passing = self._behind(number)
        if edit.soft:
            wider = self._wider(number)
            return number if wider is None else wider
        if edit.what == CHANGED and len(edit.base) == len(edit.head) == 1 and not edit.own:
            if solid:
                return self._first(solid)
            # The first of the casts is where the change begins, unless this operator is what they are for.
            return number if self._needs(number) or not passing else min(passing)
        if edit.what in (ADDED, REMOVED) and not edit.region:
            # What was put in or taken out together, one after the other, is one cause.
            chain = {source for source in solid if self._edits[source].what == edit.what}
            return self._first(chain) if chain else number
        return number

    def _wider(self, number: int) -> int | None:
        """The first cause whose sizes changed in the same way: one number of the configuration, seen again."""
        turned = self._edits[number].turned
        if not turned:
            return self._beside.get(self._place(number))
        for cause, seen in islice(self._sizes.items(), _COMPARED):
            if all(pair in seen or any(_in_proportion(pair, other) for other in seen) for pair in turned):
                # Its like in another place is no consequence: both are the cause, under one name.
                return number if self._alike(number, cause) else cause
        return None

    def _alike(self, number: int, cause: int) -> bool:
        one, other = self._edits[number], self._edits[cause]
        head = self._found.head
        return one.sizes == other.sizes and [head[j].op for j in one.head] == [head[j].op for j in other.head]

    def _place(self, number: int) -> str:
        edit = self._edits[number]
        return self._found.head[edit.head[0]].module if edit.head else self._found.base[edit.base[0]].module

    def _keep_sizes(self, number: int) -> None:
        turned = self._edits[number].turned
        if turned:
            cause = self._end(number)
            self._sizes.setdefault(cause, set()).update(turned)
            self._beside.setdefault(self._place(number), cause)

    def _first(self, numbers: set[int]) -> int:
        return min(self._end(source) for source in numbers)

    def _needs(self, number: int) -> bool:
        """Whether an operator is what a cast before it is for: one with weights whose dtype turned with it."""
        edit = self._edits[number]
        return edit.recast and any(family(self._found.head[j].op) in _HEAVY for j in edit.head)

    def _of_passing(self, number: int) -> int:
        readers = self._beyond(number)
        recast = [reader for reader in readers if self._edits[reader].recast]
        served = [reader for reader in recast if self._root[reader] == reader]
        if served:
            return min(served)
        if self._edits[number].apart:
            return number
        solid, _ = self._behind(number)
        solid = {source for source in solid if self._reaches(source)}
        if solid:
            return self._first(solid)
        # A weight's cast has nothing before it; it serves what its reader follows from.
        return self._end(min(recast)) if recast else number

    def _reaches(self, number: int) -> bool:
        """Whether what is behind an edit can see it: not where the same operator makes the same tensors."""
        edit = self._edits[number]
        if edit.what != CHANGED or len(edit.base) != 1 or len(edit.head) != 1:
            return True
        return self._found.base[edit.base[0]].outputs != self._found.head[edit.head[0]].outputs

    def _beyond(self, number: int) -> set[int]:
        """Edits that do work and read from it, through other casts and copies."""
        found: set[int] = set()
        seen: set[int] = set()
        waiting = list(self._readers[number])
        while waiting:
            reader = waiting.pop()
            if not self._edits[reader].passing:
                found.add(reader)
            elif reader not in seen:
                seen.add(reader)
                waiting += self._readers[reader]
        return found

    def _of_later(self, number: int) -> int:
        """Of the backward pass and the optimizer: what follows from the forward pass, and what was done to it."""
        edit = self._edits[number]
        if edit.phase == BACKWARD and edit.what == ADDED and self._recomputed(edit):
            edit.lines = (RECOMPUTED,)
            chain = {source for source in self._sources[number] if self._edits[source].lines == (RECOMPUTED,)}
            return min(chain) if chain else number
        for side, indices in ((self._found.head, edit.head), (self._found.base, edit.base)):
            for index in indices:
                here = self._forward.get((side is self._found.head, side[index].module))
                if here is not None:
                    return here
        solid, passing = self._behind(number)
        earlier = {source for source in solid | passing if source < number}
        if earlier:
            return min(earlier)
        first = min(self._forward.values(), default=None)
        if first is None or (edit.phase != BACKWARD and self._other_operators(edit)):
            return number
        return first

    def _other_operators(self, edit: Edit) -> bool:
        """Whether an optimizer works otherwise, and not only on more, fewer or other parameters."""
        before = {self._found.base[i].op for i in edit.base}
        after = {self._found.head[j].op for j in edit.head}
        if before and after:
            return before != after
        kept = {self._found.head[j].op for _, j in self._found.pairs() if self._found.head[j].phase == edit.phase}
        return not (before | after) <= kept

    @cached_property
    def _forward(self) -> dict[tuple[bool, str], int]:
        """First cause of the forward pass in each module of head (True) and base (False)."""
        first: dict[tuple[bool, str], int] = {}
        for number, edit in enumerate(self._edits):
            if edit.phase == FORWARD:
                for j in edit.head:
                    first.setdefault((True, self._found.head[j].module), self._end(number))
                for i in edit.base:
                    first.setdefault((False, self._found.base[i].module), self._end(number))
        return first

    @cached_property
    def _twins(self) -> set[tuple[str, str, tuple[str, ...]]]:
        edited = {j for edit in self._edits for j in edit.head}
        forward = (j for j, operator in enumerate(self._found.head) if operator.phase == FORWARD)
        return {_twin(self._found.head[j]) for j in forward if j not in edited}

    def _recomputed(self, edit: Edit) -> bool:
        return all(_twin(self._found.head[j]) in self._twins for j in edit.head)


def _in_proportion(pair: tuple[int, int], other: tuple[int, int]) -> bool:
    return pair[0] * other[1] == pair[1] * other[0]


def _twin(operator: Operator) -> tuple[str, str, tuple[str, ...]]:
    return base_name(operator.op), operator.module, operator.outputs


def clusters(root: Sequence[int]) -> dict[int, list[int]]:
    """Cause -> its edits, itself first, the others in order of execution."""
    members: dict[int, list[int]] = defaultdict(list)
    for number, cause in enumerate(root):
        if cause != number:
            members[cause].append(number)
    return {cause: [cause, *members[cause]] for cause in sorted({*root})}
