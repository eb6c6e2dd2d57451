"""Floor 3, bench. What the cards did around a block, and whether a pair can be believed.

Everything here is read between blocks, while nothing is timed. A reason to void a pair never looks at the timings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from perfgate.bench.nvml import DISTURBING, POWER_CAP, Gpu, Gpus
from perfgate.bench.visible import find, hashed
from perfgate.records.evidence import Block

CLOCK_TOLERANCE = 0.02
# NVML's counter is renewed about every 0.1 s, so 2 s hold 20 periods.
ENERGY_BLOCK_NS = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Energy counters (J) of the cards in use at one instant; None where a card has none."""

    energy_j: tuple[float | None, ...]


class Watch:
    """The cards used by the pair that is being measured."""

    def __init__(self, gpus: Gpus, environ: Mapping[str, str]) -> None:
        self._gpus = gpus
        self._environ = environ
        self._used: tuple[Gpu, ...] = ()
        self._strangers: dict[str, frozenset[int]] = {}
        self._locked: dict[str, bool] = {}

    @property
    def locked(self) -> bool:
        """Clocks of all cards in use are held at one value."""
        return bool(self._used) and all(self._locked.get(gpu.uuid, False) for gpu in self._used)

    def cards(self, devices: Iterable[str]) -> tuple[Gpu, ...]:
        """Cards behind device names, as far as they can be told."""
        found = (find(device, self._gpus.all(), self._environ) for device in devices)
        return tuple({gpu.uuid: gpu for gpu in found if gpu is not None}.values())

    def survey(self, devices: Iterable[str]) -> None:
        """Before a pair opens its devices: note who computes on them already; none of them is ours."""
        for gpu in self.cards(devices):
            self._strangers[gpu.uuid] = frozenset(self._gpus.processes(gpu.uuid) or ())

    def use(self, devices: Iterable[str]) -> None:
        """From now on watch the cards behind ``devices`` (``cuda:0=GPU-...``)."""
        self._used = self.cards(devices)

    def hold_clocks(self, devices: Iterable[str]) -> None:
        """Try once for each card to hold its clocks, until :meth:`release`."""
        for gpu in self.cards(devices):
            if gpu.uuid not in self._locked:
                self._locked[gpu.uuid] = self._gpus.lock_clocks(gpu.uuid)

    def release(self) -> None:
        """Let the clocks go that :meth:`hold_clocks` held."""
        for uuid, locked in self._locked.items():
            if locked:
                self._gpus.unlock_clocks(uuid)
        self._locked.clear()

    def mark(self) -> Mark:
        """Counters before a block."""
        return Mark(energy_j=tuple(self._gpus.energy_j(gpu.uuid) for gpu in self._used))

    def complete(self, block: Block, before: Mark, elapsed_ns: int) -> Block:
        """``block`` with what the cards say right after it.

        The counters ran for ``elapsed_ns``, thrown-away calls included; the timed part gets its share by time.
        """
        if not self._used:
            return block
        after = self.mark()
        energy = None
        pairs = list(zip(before.energy_j, after.energy_j, strict=True))
        if all(start is not None and end is not None for start, end in pairs) and block.wall_ns >= ENERGY_BLOCK_NS / 2:
            total = sum(end - start for start, end in pairs if start is not None and end is not None)
            energy = total * block.wall_ns / max(elapsed_ns, block.wall_ns, 1)
        clocks = [clock for gpu in self._used if (clock := self._gpus.sm_clock_mhz(gpu.uuid)) is not None]
        reasons = dict.fromkeys(reason for gpu in self._used for reason in self._gpus.throttle(gpu.uuid))
        # The slowest card sets the pace of a step that uses several.
        return replace(block, energy_j=energy, sm_clock_mhz=min(clocks, default=None), throttle=tuple(reasons))

    def foreign(self, ours: Iterable[int]) -> str:
        """Why the cards are not ours alone; empty if they are."""
        mine = set(ours)
        for gpu in self._used:
            now = self._gpus.processes(gpu.uuid)
            if now is None:
                continue
            if mine & set(now):
                others = set(now) - mine
            else:  # a container's process ids are not the host's: go by who was there, and by number
                others = set(now) & self._strangers.get(gpu.uuid, frozenset())
                if len(now) > len(others) + 2:
                    others = set(now)
            if others:
                return f"another process computed on GPU {hashed(gpu.uuid)}"
        return ""

    def notes(self, blocks: Iterable[Block]) -> tuple[str, ...]:
        """Sentences for the report: held down by power, or by something that lasted the whole pair."""
        seen = {reason for block in blocks for reason in block.throttle}
        said = []
        if POWER_CAP in seen:
            said.append("power capped: slower in time, not necessarily in cycles")
        if seen & DISTURBING:
            said.append(f"clocks held down while measuring: {', '.join(sorted(seen & DISTURBING))}")
        return tuple(said)


def disturbance(base: Iterable[Block], head: Iterable[Block], *, locked: bool) -> str:
    """Why a pair does not count, from clocks and throttle reasons alone; empty: it counts.

    A reason that holds in every block slows both sides alike (a card that always runs hot): such a pair counts,
    or nothing could ever be measured there.
    """
    base, head = tuple(base), tuple(head)
    blocks = (*base, *head)
    hit = {reason for reason in DISTURBING if 0 < sum(reason in block.throttle for block in blocks) < len(blocks)}
    if hit:
        return f"clocks held down: {', '.join(sorted(hit))}"
    clocks = [[block.sm_clock_mhz for block in blocks if block.sm_clock_mhz] for blocks in (base, head)]
    if locked and all(clocks):
        low, high = sorted(median(side) for side in clocks)
        if high > low * (1 + CLOCK_TOLERANCE):
            return f"SM clocks differ between the sides: {low:.0f} and {high:.0f} MHz"
    return ""
