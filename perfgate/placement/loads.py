"""Floor 3, placement. Loads and memory under an assignment, kept up to date move by move.

In: a compiled problem and a target for each unit. Out: what each device (or each target) is busy with, and what each
device holds; a move costs as much as the moved unit has values. The same numbers as
:func:`perfgate.placement.evaluate.loads`, without ``piece_s``.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.placement.compiled import Compiled

# As the definition has it: sums of the same bytes in another order differ in their last digits.
ROUNDING = 1e-9


class Loads:
    """Attributes: ``targets`` of units; ``load``, seconds of each device; ``held``, bytes of each device.

    ``by_target``: loads are those of targets instead of devices.
    """

    def __init__(self, compiled: Compiled, targets: Sequence[int], *, by_target: bool = False) -> None:
        self.compiled = compiled
        self.targets = list(targets)
        self.load: list[float] = []
        self.held: list[float] = []
        self._slot = tuple(range(compiled.target_count)) if by_target else compiled.device_of
        self._slots = compiled.target_count if by_target else compiled.device_count
        self._readers: list[dict[int, int]] = []
        self.reset(targets)

    def reset(self, targets: Sequence[int]) -> None:
        """From the beginning: also takes away what many additions have rounded."""
        compiled = self.compiled
        self.targets[:] = targets
        self.load[:] = [0.0] * self._slots
        self.held[:] = [0.0] * compiled.device_count
        for unit, target in enumerate(targets):
            self.load[self._slot[target]] += compiled.seconds[unit][target]
            self.held[compiled.device_of[target]] += compiled.memory[unit]
        self._readers[:] = [self._count(crossing.readers) for crossing in compiled.crossings]
        for index in range(len(compiled.crossings)):
            self._add(index, 1.0)

    def move(self, unit: int, target: int) -> None:
        """``unit`` goes to ``target``, which must take it."""
        compiled = self.compiled
        before = self.targets[unit]
        if before == target:
            return
        made, read = compiled.made[unit], compiled.read[unit]
        for index in made:
            self._add(index, -1.0)
        for index in read:
            self._add(index, -1.0)
            readers = self._readers[index]
            if readers[before] == 1:
                del readers[before]
            else:
                readers[before] -= 1
            readers[target] = readers.get(target, 0) + 1
        self.targets[unit] = target
        for index in made:
            self._add(index, 1.0)
        for index in read:
            self._add(index, 1.0)
        seconds, slot = compiled.seconds[unit], self._slot
        self.load[slot[before]] -= seconds[before]
        self.load[slot[target]] += seconds[target]
        one, other = compiled.device_of[before], compiled.device_of[target]
        if one != other:
            self.held[one] -= compiled.memory[unit]
            self.held[other] += compiled.memory[unit]

    def beyond(self) -> float:
        """Memory over the limits, as a share of the limit, summed over the devices; 0: all limits are kept."""
        over = 0.0
        for held, limit in zip(self.held, self.compiled.limits, strict=True):
            if held > limit * (1 + ROUNDING):
                over += (held - limit) / limit if limit else 1.0 + held
        return over

    def _count(self, readers: Sequence[int]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for reader in readers:
            target = self.targets[reader]
            counts[target] = counts.get(target, 0) + 1
        return counts

    def _add(self, index: int, sign: float) -> None:
        """Sends and receives of one value, added to the loads or taken off them."""
        crossing = self.compiled.crossings[index]
        source = self.targets[crossing.unit]
        readers = self._readers[index]
        if len(readers) == 1 and source in readers:
            return
        send, receive = crossing.send[source], crossing.receive[source]
        slot, load = self._slot, self.load
        dearest = 0.0
        for target in readers:
            if target != source:
                if send[target] > dearest:
                    dearest = send[target]
                load[slot[target]] += sign * receive[target]
        load[slot[source]] += sign * dearest
