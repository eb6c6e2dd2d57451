"""Floor 3, placement. In: a compiled problem whose objective is sums. Out: all states and the steps between them.

Every assignment is a path from the first layer to the last, one step for each unit, and what it adds up to is the sum
of its steps. The number of states grows with the width of the graph, not with its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.placement.amounts import Amounts, Array
from perfgate.placement.compiled import Compiled
from perfgate.placement.steps import State, Step, Steps

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
# Of one problem; so many take about a minute to make.
MOST_STEPS = 1_000_000


class GaveUp(Exception):  # noqa: N818 - no error: a question without an answer in the time given
    """Too long, or too many states or labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Steps from the states of one layer to those of the next, ordered by the state they leave.

    Attributes:
        states: Number of states they leave. ``leaves``, ``reaches``: of each step, numbers of the two states.
        unit, target: What each step places, and where. ``added``: steps x amounts.
    """

    states: int
    leaves: Indices
    reaches: Indices
    unit: Indices
    target: Indices
    added: Array


def build(compiled: Compiled, amounts: Amounts, over: Callable[[], bool]) -> list[Layer]:
    """The layers, one for each unit.

    Raises:
        GaveUp: ``over`` says that time is up, or there are too many steps.
    """
    steps = Steps(compiled, amounts)
    states = [steps.start()]
    layers = []
    count = 0
    for _ in compiled.units:
        number: dict[State, int] = {}
        found: list[tuple[int, Step]] = []
        following: list[State] = []
        for leaves, state in enumerate(states):
            if over() or count > MOST_STEPS:
                raise GaveUp
            for step in steps.after(state):
                found.append((leaves, step))
                count += 1
                if step.state not in number:
                    number[step.state] = len(following)
                    following.append(step.state)
        layers.append(_layer(len(states), found, [number[step.state] for _, step in found]))
        states = following
    return layers


def _layer(states: int, found: Sequence[tuple[int, Step]], reaches: Sequence[int]) -> Layer:
    return Layer(
        states=states,
        leaves=np.array([leaves for leaves, _ in found]),
        reaches=np.array(reaches),
        unit=np.array([step.unit for _, step in found]),
        target=np.array([step.target for _, step in found]),
        added=np.array([step.added for _, step in found]),
    )


def shortest(layers: Sequence[Layer], weights: Array) -> list[Array]:
    """For each layer and the end behind the last: of each state, the least weighted sum of the steps to the end."""
    last = int(layers[-1].reaches.max()) + 1
    ahead = [np.zeros(last)]
    for layer in reversed(layers):
        least = np.full(layer.states, np.inf)
        np.minimum.at(least, layer.leaves, layer.added @ weights + ahead[-1][layer.reaches])
        ahead.append(least)
    return ahead[::-1]


def path(layers: Sequence[Layer], weights: Array, ahead: Sequence[Array]) -> list[int]:
    """The steps of a path with the least weighted sum, by their place in each layer; ``ahead`` of :func:`shortest`."""
    state = 0
    found = []
    for layer, following in zip(layers, ahead[1:], strict=True):
        first, end = np.searchsorted(layer.leaves, (state, state + 1))
        sums = layer.added[first:end] @ weights + following[layer.reaches[first:end]]
        found.append(int(first + sums.argmin()))
        state = int(layer.reaches[found[-1]])
    return found


def targets(layers: Sequence[Layer], steps: Sequence[int]) -> tuple[int, ...]:
    """Target of each unit on a path, given by the place of its step in each layer."""
    placed = {int(layer.unit[step]): int(layer.target[step]) for layer, step in zip(layers, steps, strict=True)}
    return tuple(placed[unit] for unit in range(len(placed)))
