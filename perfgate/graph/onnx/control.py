"""Floor 3, graph. Control flow of ONNX: If, Loop, Scan.

In: a :class:`Site`, the scope around it, the walk. Out: what is known of the outputs; the calls of branches and bodies
are recorded. Of two branches the dearer one counts; a body counts as often as its trip count says, or once where
nobody can tell it, with a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from onnx import GraphProto

from perfgate.errors import UsageError
from perfgate.graph.onnx.folding import integers
from perfgate.graph.onnx.known import Known, as_int, dimensions, sequence_type, tensor_type
from perfgate.graph.onnx.naming import shown
from perfgate.graph.onnx.recording import Attempt, Recorder
from perfgate.graph.onnx.scope import Scope, Walk
from perfgate.graph.onnx.site import OpenError, Site
from perfgate.graph.operators.definition import Operands
from perfgate.graph.operators.onnx_sizes import byte_size
from perfgate.graph.operators.onnx_table import DEFINITIONS
from perfgate.records.graph import ONNX, Trace

# Bodies whose sizes change from turn to turn are walked turn by turn, up to this many turns.
MAX_UNROLLED = 256
# Bytes that two branches may differ by without a word: flags and counters.
_WORTH_A_NOTE = 2**20
# Exporters write "until the condition says stop" as the largest number that there is, of 32 or of 64 bits.
_LARGEST = 2**31 - 1
_ENDLESS = 2**62


def branch(site: Site, scope: Scope, walk: Walk) -> list[Known]:
    """``If``: the branch that a known condition takes, else the dearer of both."""
    condition = site.scalar(0)
    if condition is not None:
        name = "then_branch" if condition else "else_branch"
        return walk.graph(site.graph(name), scope.inner(site.node, name), [])
    tried: list[tuple[tuple[int, int, int], str, Attempt, list[Known]]] = []
    for name in ("then_branch", "else_branch"):
        with walk.recorder.apart() as attempt:
            made = walk.graph(site.graph(name), scope.inner(site.node, name), [])
        tried.append((_cost(attempt, walk.recorder), name, attempt, made))
    cost, name, attempt, made = max(tried, key=lambda entry: entry[0])
    other = min(tried, key=lambda entry: entry[0])[0]
    walk.recorder.keep(attempt)
    if cost[0] != other[0] or cost[1] - other[1] >= _WORTH_A_NOTE:
        walk.recorder.notes.append(
            f"{shown(site.node)}: which branch runs depends on data; the dearer one counts "
            f"({name}: {cost[0]} FLOP, {cost[1]} bytes; the other: {other[0]} FLOP, {other[1]} bytes)"
        )
    return [_forgotten(known) for known in made]


def loop(site: Site, scope: Scope, walk: Walk) -> list[Known]:
    """``Loop``: its body as often as the trip count says."""
    body: GraphProto = site.graph("body")
    carried = [known or Known(type=tensor_type(0, None)) for known in site.inputs[2:]]
    if site.scalar(1) == 0 or site.scalar(0) == 0:
        return [*carried, *(_empty(output.type.tensor_type.elem_type) for output in body.output[1 + len(carried) :])]
    turns = site.scalar(0)
    turns = None if turns is None or turns == _LARGEST or turns >= _ENDLESS else turns
    turn = _Turn(site, scope, walk, body, len(carried))
    with walk.recorder.apart() as attempt, walk.recorder.repeated(turns or 1):
        made = turn.once([_forgotten(known) for known in carried], number=None)
    if turns is not None and turns <= MAX_UNROLLED and (attempt.open or not turn.stable(carried, made)):
        return turn.unrolled(carried, turns)
    walk.recorder.keep(attempt)
    _note_loop(site, walk.recorder, turns, made, stable=turn.stable(carried, made))
    last = [_forgotten(known) for known in made[1 : 1 + len(carried)]]
    return [*last, *(_stacked(known, turns, 0) for known in made[1 + len(carried) :])]


def scan(site: Site, scope: Scope, walk: Walk) -> list[Known]:
    """``Scan``: its body once for each slice of the scanned inputs."""
    body: GraphProto = site.graph("body")
    many = site.integer("num_scan_inputs", 1)
    # The first version had a batch in front, and lengths as its first input.
    batched = site.version < 9 and not site.domain
    inputs = [known or Known(type=tensor_type(0, None)) for known in site.inputs[1 if batched else 0 :]]
    states, scanned = inputs[: len(inputs) - many], inputs[len(inputs) - many :]
    axes = [1] * many if batched else site.integers("scan_input_axes") or [0] * many
    slices = [_slice(known, axis, batched=batched) for known, axis in zip(scanned, axes, strict=True)]
    length = _length(scanned, axes)
    batch = _length(inputs, [0] * len(inputs)) or 1 if batched else 1
    if batched:
        states = [_slice(known, 0, batched=False) for known in states]
    with walk.recorder.repeated((length or 1) * batch):
        made = walk.graph(body, scope.inner(site.node, "body"), [*map(_forgotten, states), *slices])
    if length is None:
        walk.recorder.notes.append(f"{shown(site.node)}: its length depends on data; its body counts once")
    after = site.integers("scan_output_axes") or [0] * len(made)
    stacked = [_stacked(known, length, axis) for known, axis in zip(made[len(states) :], after, strict=False)]
    results = [*map(_forgotten, made[: len(states)]), *stacked]
    return [_stacked(known, batch, 0) for known in results] if batched else results


def mapped(site: Site, scope: Scope, walk: Walk) -> list[Known]:
    """``SequenceMap``: its body once for each tensor of the sequence."""
    first = site.known(0)
    if first is None or first.items is None:
        msg = "how many tensors its sequence has depends on data"
        raise OpenError(msg)
    made = []
    for position in range(len(first.items)):
        turn = [known if known.items is None else known.items[position] for known in site.inputs if known is not None]
        made.append(walk.graph(site.graph("body"), scope.inner(site.node, "body"), turn))
    results = []
    for output in range(len(site.node.output)):
        items = [outputs[output] for outputs in made]
        results.append(Known(type=sequence_type(items[0].type if items else tensor_type(0, None)), items=items))
    return results


class _Turn:
    """One loop's body, walked for all turns at once or turn by turn."""

    def __init__(self, site: Site, scope: Scope, walk: Walk, body: GraphProto, carried: int) -> None:
        self._site, self._scope, self._walk, self._body, self._carried = site, scope, walk, body, carried

    def once(self, carried: list[Known], number: int | None) -> list[Known]:
        """Outputs of the body: condition, carried values, scanned ones."""
        turn = Known(
            type=tensor_type(7, ()), static=number is not None, data=None if number is None else integers(number)
        )
        going = Known(type=tensor_type(9, ()), static=True, data=integers(1))
        made = self._walk.graph(self._body, self._scope.inner(self._site.node, "body"), [turn, going, *carried])
        if len(made) < 1 + self._carried:
            msg = f"{self._walk.recorder.file}: {shown(self._site.node)}: its body gives back too little"
            raise UsageError(msg)
        return made

    def stable(self, before: Sequence[Known], made: Sequence[Known]) -> bool:
        """Whether a second turn would see the same sizes."""
        return all(_sizes(one) == _sizes(other) for one, other in zip(before, made[1:], strict=False))

    def unrolled(self, carried: list[Known], turns: int) -> list[Known]:
        """Every turn for itself: exact where sizes grow. Stops where the condition is known to end the loop."""
        scanned: list[list[Known]] = []
        for number in range(turns):
            made = self.once(carried, number)
            carried, rest = made[1 : 1 + self._carried], made[1 + self._carried :]
            scanned.append(rest)
            if as_int(made[0]) == 0:
                break
        return [*carried, *(_stacked(known, len(scanned), 0) for known in scanned[-1])]


def _note_loop(site: Site, recorder: Recorder, turns: int | None, made: list[Known], *, stable: bool) -> None:
    if turns is None:
        recorder.notes.append(f"{shown(site.node)}: how often it turns depends on data; its body counts once")
    elif as_int(made[0]) != 1:
        recorder.notes.append(f"{shown(site.node)}: may end before its {turns} turns; all of them count")
    if not stable:
        recorder.notes.append(f"{shown(site.node)}: sizes change from turn to turn; those of the first turn count")


def _cost(attempt: Attempt, recorder: Recorder) -> tuple[int, int, int]:
    """FLOP, bytes written and calls: what makes a branch dearer."""
    trace = Trace(source=ONNX, values=tuple(recorder.values), calls=())
    flop = size = 0
    for call in attempt.calls:
        definition = DEFINITIONS.get(call.op)
        if definition is not None and definition.flop is not None:
            with suppress(KeyError, IndexError, TypeError, ValueError):
                flop += definition.flop(Operands(trace, call)) * call.repeat
        size += sum(byte_size(recorder.values[index]) for index in call.outputs if index >= 0) * call.repeat
    return flop, size, len(attempt.calls)


def _forgotten(known: Known) -> Known:
    """The same tensor, its values unknown: they differ from turn to turn, or from branch to branch."""
    if known.data is None and not known.static:
        return known
    return Known(type=known.type, storage=known.storage, index=known.index, items=known.items, stored=known.stored)


def _sizes(known: Known) -> object:
    if known.items is not None:
        return [_sizes(item) for item in known.items]
    return dimensions(known.type), known.element


def _slice(known: Known, axis: int, *, batched: bool) -> Known:
    """One slice along ``axis``: the memory stays the same."""
    sizes = dimensions(known.type)
    if not sizes:
        return Known(type=tensor_type(known.element, None))
    axis %= len(sizes)
    rest = tuple(size for position, size in enumerate(sizes) if position != axis and not (batched and position == 0))
    return Known(type=tensor_type(known.element, rest), storage=known.storage, stored=known.stored)


def _length(inputs: list[Known], axes: list[int]) -> int | None:
    for known, axis in zip(inputs, axes, strict=False):
        sizes = dimensions(known.type)
        if sizes and sizes[axis % len(sizes)] is not None:
            return sizes[axis % len(sizes)]
    return None


def _stacked(known: Known, count: int | None, axis: int) -> Known:
    """All turns' outputs in one tensor, which is written where the body writes."""
    sizes = dimensions(known.type)
    if sizes is None:
        return Known(type=tensor_type(known.element, None), storage=known.storage)
    axis %= len(sizes) + 1
    whole = (*sizes[:axis], count, *sizes[axis:])
    return Known(type=tensor_type(known.element, whole), storage=known.storage)


def _empty(element: int) -> Known:
    return Known(type=tensor_type(element, (0,)))
