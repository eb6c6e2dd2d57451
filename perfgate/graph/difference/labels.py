"""Floor 3, graph. Several operators in a few words, and what replaced what.

In: operators. Out: ``bmm + _softmax + bmm``, ``8 × mm + stack``, ``addmm → mm + add``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from perfgate.graph.difference.opnames import is_cast, is_passing, short
from perfgate.graph.difference.tensors import ARROW, parse, step
from perfgate.records.graph import FORWARD, Operator

# Kinds of operators that a label names one by one.
_NAMED = 4


def label(operators: Sequence[Operator], *, whole: bool = False) -> str:
    """Operators in a few words, in order; casts and copies only with ``whole``, or where there is nothing else."""
    solid = [operator for operator in operators if not is_passing(operator.op)]
    names = [short(operator.op) for operator in (operators if whole or not solid else solid)]
    runs = Counter(names)
    if len(names) <= _NAMED and len(runs) > 1:
        return " + ".join(names)
    words = [name if count == 1 else f"{count} × {name}" for name, count in runs.items()]
    if len(words) > _NAMED:
        return f"{' + '.join(words[: _NAMED - 1])} + {sum([*runs.values()][_NAMED - 1 :])} more"
    return " + ".join(words)


def told(operators: Sequence[Operator]) -> tuple[str, ...]:
    """Lines for operators that came or went: what casts and copies make of their tensors, else a label.

    Casts among operators that do work have a line of their own behind the label.
    """
    passing = [operator for operator in operators if is_passing(operator.op)]
    turned = tuple(dict.fromkeys(line for operator in passing for line in _transition(operator)))
    if len(passing) == len(operators):
        return turned or ((label(operators),) if len(operators) > 1 else ())
    lines = (label(operators),) if len(operators) > 1 else ()
    dtypes = [line for operator in passing if is_cast(operator.op) for line in _transition(operator)]
    return (*lines, f"with {', '.join(dict.fromkeys(dtypes))}") if dtypes else lines


def _transition(operator: Operator) -> tuple[str, ...]:
    """``float32 → float64`` of a cast, ``transposed → contiguous`` of a copy; nothing where neither changes."""
    if not operator.inputs or not operator.outputs:
        return ()
    # What is copied into another tensor is read last.
    turned = step(parse(operator.inputs[-1]), parse(operator.outputs[0]))
    pairs = (turned.dtype, turned.layout) if turned else ()
    return tuple(f"{one}{ARROW}{other}" for one, other in filter(None, pairs))


def replacement(
    base: Sequence[Operator], head: Sequence[Operator], calls: tuple[Collection[str], Collection[str]]
) -> tuple[str, ...]:
    """Lines for operators that gave their place to others: composite calls or operators, and the modules' classes.

    ``calls``: composite calls of base and of head (``Operator.group``) that the operators are all of.
    """
    before, after = _composite(base, calls[0]), _composite(head, calls[1])
    if before == after:
        before = after = ""
    one, other = before or label(base), after or label(head)
    if one == other:
        one, other = label(base, whole=True), label(head, whole=True)
    lines = (f"{one}{ARROW}{other}",) if one != other else ()
    classes = _class(base), _class(head)
    if all(classes) and classes[0] != classes[1] and head[0].phase == FORWARD:
        lines = (*lines, f"{classes[0]}{ARROW}{classes[1]}")
    return lines or ("the same operators in another order",)


def composite(operator: Operator) -> str:
    """Kind of the composite call that an operator belongs to (``scaled_dot_product_attention``), or empty."""
    return operator.group.rpartition("#")[0] or operator.group


def _composite(operators: Sequence[Operator], calls: Collection[str]) -> str:
    """The composite call that most of the operators belong to, or empty."""
    kinds = Counter(composite(operator) for operator in operators if operator.group in calls)
    kind, count = max(kinds.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    return kind if 2 * count > len(operators) else ""


def _class(operators: Sequence[Operator]) -> str:
    """Class of the module that all of them belong to, or empty."""
    found = {(operator.module, operator.module_class) for operator in operators}
    return found.pop()[1] if len(found) == 1 else ""
