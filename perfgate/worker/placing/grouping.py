"""Floor 3, worker. Operations -> nodes: one that does real work with the cheap ones and views that follow it.

In: :class:`Operation` in order of execution. Out: :class:`Group`, in an order in which they can run. No torch.

As in kernels of a compiler, an operation joins the latest of the groups that it reads from. A group only ever reads
from groups that began before it, so running groups in the order of their beginnings is valid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfgate.records.placing import CrossingValue, LoweredNode
from perfgate.worker.placing.operations import CHEAP, PREFIX, VIEW, WORK, Operation, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """``members``: numbers of operations, ascending. ``inputs``, ``outputs``: values that cross its border."""

    members: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def group(operations: Sequence[Operation], results: Iterable[str]) -> tuple[Group, ...]:
    """The groups of a model that returns the values ``results``."""
    makers = {name: number for number, one in enumerate(operations) for name in one.makes}
    spans = _spans(operations)
    kept: list[int] = []
    for number, one in enumerate(operations):
        sources = [kept[makers[name]] for name in one.reads if name in makers]
        latest = max(sources, default=None)
        whole = spans.get(number)
        if whole is not None and whole < number:
            # There may be one copy only of a state that changes.
            _merge(kept, kept[whole], number)
            kept.append(kept[whole])
        elif latest is not None and (one.role == VIEW or one.role == CHEAP):
            kept.append(latest)
        else:
            kept.append(number)
    kept = _forward(operations, kept, makers)
    members: dict[int, list[int]] = defaultdict(list)
    for number, first in enumerate(kept):
        members[first].append(number)
    wanted = set(results)
    return tuple(bordered(operations, numbers, wanted) for _, numbers in sorted(members.items()))


def _spans(operations: Sequence[Operation]) -> dict[int, int]:
    """For each operation between the first and the last that touch one changed buffer, or a value that cannot cross a
    border: the number of the first."""
    changed = {name for one in operations for name in (*one.state, *one.inseparable)}
    ranges: dict[str, tuple[int, int]] = {}
    for number, one in enumerate(operations):
        for name in {*one.reads, *one.inseparable, *one.state, *(weight for weight, _ in one.weights)}:
            if name in changed:
                ranges[name] = (ranges.get(name, (number, number))[0], number)
    spans: dict[int, int] = {}
    reach, begin = -1, 0
    for first, last in sorted(ranges.values()):
        if first > reach:
            begin, reach = first, last
        reach = max(reach, last)
        for number in range(begin, reach + 1):
            spans[number] = begin
    return spans


def _merge(kept: list[int], first: int, until: int) -> None:
    """Operations from ``first`` on belong to its group."""
    for number in range(first, until):
        kept[number] = first


def _forward(operations: Sequence[Operation], kept: list[int], makers: Mapping[str, int]) -> list[int]:
    """Views of the model's inputs, and what turns integers into floats, join the only group that reads from them."""
    members: dict[int, list[int]] = defaultdict(list)
    for number, first in enumerate(kept):
        members[first].append(number)
    readers: dict[int, set[int]] = defaultdict(set)
    reads: dict[int, set[int]] = defaultdict(set)
    for number, one in enumerate(operations):
        for name in one.reads:
            if name in makers and kept[makers[name]] != kept[number]:
                readers[kept[makers[name]]].add(kept[number])
                reads[kept[number]].add(kept[makers[name]])
    moved = list(kept)
    for first, numbers in sorted(members.items(), reverse=True):
        idle = all(operations[number].role == VIEW for number in numbers) and not reads[first]
        prefix = all(operations[number].role == PREFIX for number in numbers)
        if (idle or prefix) and len(readers[first]) == 1:
            (into,) = readers[first]
            for number in numbers:
                # The reader may have moved itself: its first operation tells where to.
                moved[number] = moved[into]
    return moved


def bordered(operations: Sequence[Operation], numbers: Iterable[int], results: set[str]) -> Group:
    """The group of these operations; what others read, or the model returns, crosses its border."""
    inside = set(numbers)
    made = [name for number in sorted(inside) for name in operations[number].makes]
    own = set(made)
    read = dict.fromkeys(name for number in sorted(inside) for name in operations[number].reads if name not in own)
    elsewhere = {
        name for number, one in enumerate(operations) if number not in inside for name in one.reads if name in own
    }
    outputs = tuple(name for name in made if name in elsewhere or name in results)
    return Group(members=tuple(sorted(inside)), inputs=tuple(read), outputs=outputs)


def nodes(
    operations: Sequence[Operation], groups: Sequence[Group], values: Mapping[str, CrossingValue]
) -> tuple[LoweredNode, ...]:
    """Records of the groups, with unique names, signatures, and what ties them to one another."""
    home = {name: index for index, one in enumerate(groups) for name in one.outputs}
    names = _names(operations, groups)
    together = _together(operations, groups)
    made = []
    for index, one in enumerate(groups):
        members = [operations[number] for number in one.members]
        weights = {name: size for member in members for name, size in member.weights}
        state = sorted({name for member in members for name in member.state})
        made.append(
            LoweredNode(
                name=names[index],
                kind=_head(members).kind,
                ops=tuple(member.op for member in members),
                module=_head(members).module,
                inputs=one.inputs,
                outputs=one.outputs,
                sources=tuple(sorted({home[name] for name in one.inputs if name in home})),
                weight_bytes=sum(weights.values()),
                signature=_signature(members, one, values),
                together=together.get(index, ""),
                state=", ".join(state),
            )
        )
    return tuple(made)


def _head(members: Sequence[Operation]) -> Operation:
    """The operation that a group is named after: the first that does real work."""
    for role in (WORK, CHEAP):
        for member in members:
            if member.role == role:
                return member
    return members[0]


def _names(operations: Sequence[Operation], groups: Sequence[Group]) -> list[str]:
    heads = [_head([operations[number] for number in one.members]) for one in groups]
    count: dict[str, int] = defaultdict(int)
    for head in heads:
        count[head.module] += 1
    plain = [
        head.module if head.module and count[head.module] == 1 else f"{head.module}/{head.base}".lstrip("/")
        for head in heads
    ]
    seen: dict[str, int] = defaultdict(int)
    names = []
    for name in plain:
        seen[name] += 1
        names.append(name if plain.count(name) == 1 else f"{name}#{seen[name]}")
    return names


def _signature(members: Sequence[Operation], one: Group, values: Mapping[str, CrossingValue]) -> str:
    numbers: dict[str, int] = {}
    texts = []
    for member in members:
        names = (*member.reads, *(weight for weight, _ in member.weights), *member.makes)
        wired = [str(numbers.setdefault(name, len(numbers))) for name in names]
        texts.append(f"{member.text}|{','.join(wired)}")
    borders = [
        f"{values[name].dtype}{list(values[name].shape)}" for name in (*one.inputs, *one.outputs) if name in values
    ]
    outputs = [str(numbers[name]) for name in one.outputs]
    return digest(*texts, *borders, *outputs)


def _together(operations: Sequence[Operation], groups: Sequence[Group]) -> dict[int, str]:
    """Groups that hold a parameter in common, by index; chains of them are one."""
    owners: dict[str, list[int]] = defaultdict(list)
    for index, one in enumerate(groups):
        for name in dict.fromkeys(name for number in one.members for name in operations[number].tied):
            owners[name].append(index)
    label: dict[int, str] = {}
    for name, indices in sorted(owners.items()):
        if len(indices) < 2:
            continue
        old = {label[index] for index in indices if index in label}
        for index in [*indices, *(index for index, text in label.items() if text in old)]:
            label[index] = name
    return label


def fingerprint(nodes: Sequence[LoweredNode]) -> str:
    """Equal for equal nodes that are joined alike, whatever their names."""
    makers: dict[str, str] = {}
    for index, one in enumerate(nodes):
        makers.update({name: f"{index}.{place}" for place, name in enumerate(one.outputs)})
    return digest(*(f"{one.signature}:{','.join(makers.get(name, 'x') for name in one.inputs)}" for one in nodes))
