"""Simple ways to place a graph, to compare with: best of single moves, and textbook annealing of single moves.

In: a problem. Out: the value of what they find. They use the same incremental evaluation as the search.
"""

from __future__ import annotations

import math
import random
import time

from perfgate.placement.compiled import Compiled, compiled
from perfgate.placement.states import State, state
from perfgate.records.placement import Problem

# Share of the value: the temperature that annealing begins and ends with.
HOT, COLD = 0.1, 1e-4


def hill_climbing(problem: Problem, seconds: float, *, seed: int = 0) -> float:
    """From everything on the default: the first single move that is better is made, until there is none."""
    draw = random.Random(seed)
    read = compiled(problem)
    found = state(read, [read.default if read.default in allowed else allowed[0] for allowed in read.allowed])
    energy, value = found.measure()
    end = time.process_time() + seconds
    better = True
    while better and time.process_time() < end:
        better = False
        pairs = [(unit, target) for unit, allowed in enumerate(read.allowed) for target in allowed]
        draw.shuffle(pairs)
        for unit, target in pairs:
            before = found.targets[unit]
            found.move(unit, target)
            after, reached = found.measure()
            if after < energy:
                energy, value, better = after, reached, True
            else:
                found.move(unit, before)
    return value


def annealing(problem: Problem, seconds: float, *, seed: int = 0) -> float:
    """From everything on the default: a random unit to a random target, cooled once over ``seconds``."""
    draw = random.Random(seed)
    read = compiled(problem)
    found = state(read, [read.default if read.default in allowed else allowed[0] for allowed in read.allowed])
    scale = 1.0
    energy, best = found.measure()
    begun = time.process_time()
    temperature, step = HOT, 0
    while True:
        if not step % 64:
            done = (time.process_time() - begun) / seconds
            if done >= 1:
                return best
            temperature = scale * HOT * (COLD / HOT) ** done
        step += 1
        energy, best = _step(read, found, draw, energy, best, temperature)


def _step(
    read: Compiled, found: State, draw: random.Random, energy: float, best: float, temperature: float
) -> tuple[float, float]:
    unit = draw.randrange(len(read.units))
    target, before = draw.choice(read.allowed[unit]), found.targets[unit]
    if target == before:
        return energy, best
    found.move(unit, target)
    after, value = found.measure()
    if after <= energy or draw.random() < math.exp((energy - after) / temperature):
        return after, min(best, value)
    found.move(unit, before)
    return energy, best
