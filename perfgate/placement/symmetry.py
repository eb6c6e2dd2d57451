"""Floor 3, placement. In: a compiled problem. Out: targets that may be renamed into one another without any difference.

Four equal accelerators make twenty-four equal answers of each; exact methods look at one.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.placement.compiled import Compiled


class Equals:
    """Classes of equal targets. Of a class, the first that is not in use yet stands for all that are not.

    Attributes:
        class_of: Of each target, the first target that is equal to it.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.class_of = _classes(compiled)
        sizes = [self.class_of.count(each) for each in self.class_of]
        # Targets of which there is only one of the kind are no bit of ``used``.
        self._bit = [1 << target if sizes[target] > 1 else 0 for target in range(compiled.target_count)]

    def fresh(self, targets: Sequence[int], used: int) -> list[int]:
        """Those of ``targets`` that are worth a look; ``used``: bits of the targets in use."""
        seen: set[int] = set()
        found = []
        for target in targets:
            bit = self._bit[target]
            if bit and not used & bit:
                if self.class_of[target] in seen:
                    continue
                seen.add(self.class_of[target])
            found.append(target)
        return found

    def use(self, used: int, target: int) -> int:
        """``used`` once something is on ``target``."""
        return used | self._bit[target]


def _classes(compiled: Compiled) -> list[int]:
    """For each target the first that is equal to it: swapping both changes nothing in the problem."""
    classes: list[int] = []
    for target in range(compiled.target_count):
        equal = (each for each in sorted(set(classes)) if _swappable(compiled, each, target))
        classes.append(next(equal, target))
    return classes


def _swappable(compiled: Compiled, one: int, other: int) -> bool:
    problem = compiled.problem
    first, second = problem.targets[one], problem.targets[other]
    if (first.piece_s, first.whole) != (second.piece_s, second.whole):
        return False
    if any(row[one] != row[other] for row in compiled.seconds):
        return False
    # Values of the same size share their tables.
    tables = {id(table): table for crossing in compiled.crossings for table in (crossing.send, crossing.receive)}
    return _devices_alike(compiled, one, other) and all(_borders_alike(table, one, other) for table in tables.values())


def _devices_alike(compiled: Compiled, one: int, other: int) -> bool:
    first, second = compiled.device_of[one], compiled.device_of[other]
    if first == second:
        return True
    if compiled.device_of.count(first) > 1 or compiled.device_of.count(second) > 1:
        return False
    devices = compiled.problem.devices
    return compiled.limits[first] == compiled.limits[second] and devices[first].lanes == devices[second].lanes


def _borders_alike(table: Sequence[Sequence[float]], one: int, other: int) -> bool:
    if table[one][other] != table[other][one]:
        return False
    return all(
        table[one][third] == table[other][third] and table[third][one] == table[third][other]
        for third in range(len(table))
        if third not in (one, other)
    )
