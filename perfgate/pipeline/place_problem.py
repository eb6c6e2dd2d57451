"""What a worker found out about a model's operators in; the problem that is searched out, and its answer as parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfgate.errors import MeasuringError
from perfgate.placement import pieces
from perfgate.records.placement import Device, Node, Placement, Problem, Single, Target
from perfgate.records.placing import NO_TIME, Lowered, LoweredNode, Part, Profiled, WholeTime


def targets(
    lowered: Lowered, *, devices: Sequence[str], libraries: Sequence[str], threads: Sequence[int]
) -> tuple[Target, ...]:
    """Every library that is there on every device that is wanted; on a CPU with each number of threads.

    ``libraries`` empty: all of them. The compiler takes what no library takes, else the first library does.
    """
    there = [one for one in lowered.libraries if not one.missing and one.device in devices]
    wanted = [one for one in there if not libraries or one.name in libraries]
    compiler = next((one for one in wanted if one.compiler), wanted[0] if wanted else None)
    return tuple(
        Target(
            name=f"{one.name} {one.device}" + (f" {count}" if count and len(threads) > 1 else ""),
            library=one.name,
            device=one.device,
            threads=count,
            default=one is compiler and count in {0, threads[0]},
            whole=one.whole,
        )
        for one in wanted
        for count in (threads if one.device == "cpu" else (0,))
    )


def problem(
    lowered: Lowered, profiled: Profiled, devices: Sequence[Device], *, objective: str, latency_s: float | None = None
) -> Problem:
    """Nodes with their times in place: alone, times what makes a target's nodes add up to its whole model."""
    factors = {whole.target: whole.factor for whole in profiled.wholes}
    seconds = {(one.signature, one.target): one.seconds * factors.get(one.target, 1.0) for one in profiled.times}
    size = {value.name: value.bytes for value in lowered.values}
    return Problem(
        nodes=tuple(
            Node(
                name=node.name,
                seconds=tuple(seconds.get((node.signature, target.name)) for target in profiled.targets),
                sources=node.sources,
                output_bytes=float(sum(size.get(name, 0) for name in node.outputs)),
                memory_bytes=float(node.weight_bytes),
                together=_together(node),
                kind=node.kind,
                signature=node.signature,
            )
            for node in lowered.nodes
        ),
        devices=tuple(devices),
        targets=profiled.targets,
        borders=profiled.borders,
        objective=objective,
        latency_s=latency_s,
    )


def homeless(given: Problem, profiled: Profiled) -> str:
    """The first operator that no target takes, with what each target said and the remedy; empty: there is none."""
    for node in given.nodes:
        if any(time is not None for time in node.seconds):
            continue
        said = {one.target: one.reason for one in profiled.supports if one.signature == node.signature and one.reason}
        asked = "; ".join(f"{target}: {reason}" for target, reason in said.items())
        if len(said) < len(given.targets):
            waiting = [one.name for one in given.targets if one.name not in said]
            asked += f"{'; ' * bool(asked)}{', '.join(waiting)}: not measured in time"
            return f"{node.name} has no target ({asked}); raise the budget"
        return f"no library takes {node.name} ({asked}); leave --libraries out, or install more libraries"
    return ""


def best_single(profiled: Profiled, singles: Sequence[Single]) -> WholeTime | None:
    """The fastest whole model that was measured, of those that keep the limits; None: none does, or all refuse it.

    Raises MeasuringError where one might run it that there was no time for.
    """
    measured = [one for one in profiled.wholes if one.seconds is not None]
    if not measured and any(one.reason == NO_TIME for one in profiled.wholes):
        msg = f"the whole model was measured on no library ({_refusals(profiled)}); raise the budget"
        raise MeasuringError(msg)
    beyond = {one.target for one in singles if one.value is None}
    return min((one for one in measured if one.target not in beyond), key=lambda one: one.seconds or 0.0, default=None)


def alone(profiled: Profiled) -> Iterator[str]:
    """A note where no library runs the whole model, so that a placement has nothing to be compared with."""
    if all(one.seconds is None for one in profiled.wholes):
        yield f"no library runs the whole model: {_refusals(profiled)}"


def _refusals(profiled: Profiled) -> str:
    return "; ".join(f"{one.target}: {one.reason}" for one in profiled.wholes if one.reason)


def parted(given: Problem, found: Placement, profiled: Profiled) -> Problem | None:
    """Where ``found`` is everything on a target that refuses the whole model: the same without that target for the
    node that loses least by it. None: it is not so, or nothing can be anywhere else.
    """
    refusing = {one.target for one in profiled.wholes if one.seconds is None and one.reason not in {"", NO_TIME}}
    if not found.feasible or len(set(found.targets)) != 1 or given.targets[found.targets[0]].name not in refusing:
        return None
    target = found.targets[0]
    losses = {
        number: min(others) - (node.seconds[target] or 0.0)
        for number, node in enumerate(given.nodes)
        if (others := [time for place, time in enumerate(node.seconds) if place != target and time is not None])
    }
    if not losses:
        return None
    moved = min(losses, key=lambda number: losses[number])
    nodes = list(given.nodes)
    times = (None if place == target else time for place, time in enumerate(nodes[moved].seconds))
    nodes[moved] = replace(nodes[moved], seconds=tuple(times))
    return replace(given, nodes=tuple(nodes))


def cautious(given: Problem, factor: float) -> Problem:
    """The same with borders and pieces ``factor`` times as dear: an answer with fewer of them."""
    return replace(
        given,
        targets=tuple(replace(one, piece_s=one.piece_s * factor) for one in given.targets),
        borders=tuple(
            replace(
                one,
                send_s=one.send_s * factor,
                receive_s=one.receive_s * factor,
                send_s_per_byte=one.send_s_per_byte * factor,
                receive_s_per_byte=one.receive_s_per_byte * factor,
            )
            for one in given.borders
        ),
    )


def parts(given: Problem, found: Placement | Sequence[int]) -> tuple[Part, ...]:
    """The pieces in order of execution."""
    chosen = found.targets if isinstance(found, Placement) else tuple(found)
    return tuple(Part(target=given.targets[chosen[nodes[0]]].name, nodes=nodes) for nodes in pieces.cut(given, chosen))


def _together(node: LoweredNode) -> str:
    """A tensor that is changed in place belongs with all who read it; what only shares weights with its likes."""
    return node.state or node.together
