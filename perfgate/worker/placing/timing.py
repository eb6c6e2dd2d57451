"""Floor 3, worker. Times of loaded pieces: candidates in turn, round by round, so that drift hits all alike.

In: callables. Out: medians of blocks in seconds. No torch. A block in which this process waited for a processor counts
only where too few were undisturbed; that is seen by processor time, not by how long the block took. Of work in one
thread on the CPU the processor time then stands for the time without the wait.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LEAST_BLOCKS = 3
MOST_BLOCKS = 41
_ENOUGH_BLOCKS = 15
_BLOCK_S = 0.002
_WARM_CALLS = 3
_WARM_SHARE = 0.3
# Of a block's time that the process has a processor; both clocks are read one after the other.
_BUSY = 0.97


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Median of blocks, their quartiles, and how many there are. ``disturbed``: share of blocks with a wait."""

    median_s: float
    low_s: float
    high_s: float
    blocks: int
    disturbed: float = 0.0


@dataclass(frozen=True, slots=True)
class _Block:
    wall_s: float
    busy: float


def interleaved(
    calls: Sequence[Callable[[], None]],
    budget_s: float,
    *,
    single: bool = False,
    clock: Callable[[], float] = time.perf_counter,
    work: Callable[[], float] = time.process_time,
) -> list[Times]:
    """Times of one call of each of ``calls``, warm. At least ``LEAST_BLOCKS`` rounds are taken, whatever they take.

    A block is as many calls as fill 2 ms. Which one goes first changes from round to round. ``work``: processor time of
    this process in seconds. ``single``: all of the work is done by one thread on the CPU.
    """
    begun = clock()
    warm_s = _WARM_SHARE * budget_s / max(1, len(calls))
    inner = [_calls_in_a_block(call, warm_s, clock) for call in calls]
    blocks: list[list[_Block]] = [[] for _ in calls]
    for round_ in range(MOST_BLOCKS):
        before_round = clock()
        for step in range(len(calls)):
            place = (step + round_) % len(calls)
            blocks[place].append(_block(calls[place], inner[place], clock, work))
        now = clock()
        enough = all(sum(map(_undisturbed, one)) >= _ENOUGH_BLOCKS for one in blocks)
        # Another round has to fit.
        if round_ + 1 >= LEAST_BLOCKS and (enough or now - begun + (now - before_round) > budget_s):
            break
    return [_times(samples, single=single) for samples in blocks]


def _calls_in_a_block(call: Callable[[], None], warm_s: float, clock: Callable[[], float]) -> int:
    """After warming up: ``_WARM_CALLS`` calls, fewer where they take longer than ``warm_s``."""
    once, begun = math.inf, clock()
    for _ in range(_WARM_CALLS):
        before = clock()
        call()
        once = min(once, clock() - before)
        if clock() - begun > warm_s:
            break
    return max(1, math.ceil(_BLOCK_S / max(once, 1e-7)))


def _block(call: Callable[[], None], count: int, clock: Callable[[], float], work: Callable[[], float]) -> _Block:
    worked, before = work(), clock()
    for _ in range(count):
        call()
    wall = clock() - before
    return _Block(wall / count, (work() - worked) / wall if wall > 0 else 1.0)


def _undisturbed(block: _Block) -> bool:
    return block.busy >= _BUSY


def _times(blocks: Sequence[_Block], *, single: bool) -> Times:
    clean = [block.wall_s for block in blocks if _undisturbed(block)]
    # Work on an accelerator leaves this process idle: then nothing can be told apart.
    whole = [block.wall_s * min(1.0, block.busy if single else 1.0) for block in blocks]
    samples = clean if len(clean) >= LEAST_BLOCKS else whole
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [samples[0]] * 3
    return Times(
        median_s=statistics.median(samples),
        low_s=low,
        high_s=high,
        blocks=len(samples),
        disturbed=1 - len(clean) / len(blocks),
    )
