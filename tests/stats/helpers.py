"""Pairs from short descriptions: one number a side, or a list of samples."""

from __future__ import annotations

from perfgate.records.evidence import Block, Pair, SideSamples


def side(samples=(100, 100, 100, 100), **rest) -> SideSamples:
    if isinstance(samples, (int, float)):
        samples = (int(samples),) * 4
    block = {key: rest.pop(key) for key in ("energy_j", "spans_ns", "cpu_ns", "wall_ns") if key in rest}
    blocks = rest.pop("blocks", None) or (Block(samples_ns=tuple(samples), **block),)
    return SideSamples(blocks=blocks, first_step_ns=rest.pop("first_step_ns", 1000), **rest)


def pair(base, head, index: int = 0, **rest) -> Pair:
    as_side = [value if isinstance(value, SideSamples) else side(value) for value in (base, head)]
    order = rest.pop("order", "ABBA")
    round_ = rest.pop("round", index)
    return Pair(index=index, round=round_, order=order, base=as_side[0], head=as_side[1], **rest)


def pairs(*sides) -> tuple[Pair, ...]:
    return tuple(pair(base, head, index) for index, (base, head) in enumerate(sides))
