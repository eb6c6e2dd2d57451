"""Floor 3, graph. Kind and FLOP of one call: the user's formula, perfgate's, or the reason why there is none.

In: a call, the table of operators, the formulas of ``perfgate.toml``. Out: :class:`Work`. What nobody knows is never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfgate import expressions
from perfgate.expressions import Expression, Given
from perfgate.graph.operators import table
from perfgate.graph.operators.definition import (
    ATTENTION,
    CONVOLUTION,
    CUSTOM,
    MATMUL,
    OTHER,
    RNN,
    Definition,
    Operands,
)
from perfgate.records.graph import Value

# A multiply-add of complex numbers is four of real ones.
_COMPLEX = 4
_MATMUL_LIKE = frozenset({MATMUL, CONVOLUTION, ATTENTION, RNN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """``flop`` None: nobody knows, ``reason`` says why. ``note``: how exact the count is, or empty."""

    kind: str
    flop: int | None = 0
    reason: str = ""
    note: str = ""


def parse(formulas: Mapping[str, str]) -> dict[str, Expression]:
    """The user's formulas. Raises ValueError with the operator's name and one sentence."""
    parsed = {}
    for op, text in formulas.items():
        try:
            parsed[op] = expressions.parse(text)
        except ValueError as error:
            msg = f"operators.{op}: {error}"
            raise ValueError(msg) from None
    return parsed


def work(operands: Operands, definition: Definition | None, formulas: Mapping[str, Expression]) -> Work:
    """Kind and FLOP of a call. ``definition`` is what :func:`table.lookup` says of its operator."""
    op = operands.call.op
    kind = _kind(operands, definition)
    formula = formulas.get(op)
    if formula is not None:
        try:
            return Work(kind=kind, flop=formula.value(names(operands)))
        except ValueError as error:
            return Work(kind=kind, flop=None, reason=f"the formula of {op} in perfgate.toml: {error}")
    if definition is None:
        return _unknown(operands, kind)
    if definition.flop is None:
        return Work(kind=kind, note=_note(operands, definition))
    try:
        flop = definition.flop(operands)
    except KeyError as error:
        return Work(kind=kind, flop=None, reason=f"its formula needs {error}, which this call does not have")
    except (ValueError, IndexError, TypeError, ArithmeticError) as error:
        return Work(kind=kind, flop=None, reason=f"{error}" or "its arguments do not fit its formula")
    if flop < 0:
        return Work(kind=kind, flop=None, reason="its sizes depend on data")
    return Work(kind=kind, flop=flop * _factor(operands, kind), note=_note(operands, definition))


def _kind(operands: Operands, definition: Definition | None) -> str:
    if definition is None:
        return OTHER if table.known_namespace(operands.call.op) else CUSTOM
    return definition.kind_of(operands) if definition.kind_of is not None else definition.kind


def _note(operands: Operands, definition: Definition) -> str:
    return definition.note(operands) if definition.note is not None else ""


def _factor(operands: Operands, kind: str) -> int:
    if kind not in _MATMUL_LIKE:
        return 1
    outputs = operands.call.outputs
    made = operands.trace.values[outputs[0]].dtype if outputs and outputs[0] >= 0 else ""
    return _COMPLEX if made.startswith("complex") else 1


def _unknown(operands: Operands, kind: str) -> Work:
    """Work without a definition: 0 only where nothing that it takes could enter a matrix product."""
    op = operands.call.op
    if kind != CUSTOM and not any(_weighty(value) for value in _tensors(operands)):
        return Work(kind=kind)
    what = "is no operator that perfgate knows" if kind == CUSTOM else "has no formula in perfgate"
    return Work(
        kind=kind,
        flop=None,
        reason=f'it {what}; give its FLOP under [operators] in perfgate.toml, as "{op}" = "2 * numel(out0) * in0[-1]"',
    )


def _weighty(value: Value) -> bool:
    return len(value.shape) >= 2 and value.dtype.startswith(("float", "bfloat", "complex"))


def _tensors(operands: Operands) -> list[Value]:
    values = operands.trace.values
    return [values[index] for indices in operands.call.operands.values() for index in indices if index >= 0]


def names(operands: Operands) -> dict[str, Given]:
    """What a user's formula may use.

    Shapes of tensors by the names of the operator's schema (of a list ``name0``, ``name1``), of all given tensors in
    order as ``in0``, ``in1``, of all outputs as ``out0``, ``out1``; whole numbers and lists of them by name.
    """
    values = operands.trace.values
    call = operands.call
    given: dict[str, Given] = {f"in{place}": value.shape for place, value in enumerate(_tensors(operands))}
    given.update({f"out{place}": values[index].shape for place, index in enumerate(call.outputs) if index >= 0})
    for name, attribute in call.attributes.items():
        number = _whole(attribute)
        if number is not None:
            given[name] = number
    for name, indices in call.operands.items():
        if len(indices) == 1 and indices[0] >= 0:
            given[name] = values[indices[0]].shape
        for place, index in enumerate(indices):
            if index >= 0:
                given.setdefault(f"{name}{place}", values[index].shape)
    return given


def _whole(attribute: object) -> Given | None:
    if isinstance(attribute, int) and not isinstance(attribute, bool):
        return attribute
    if not isinstance(attribute, (list, tuple)) or not attribute:
        return None
    numbers = [item for item in attribute if isinstance(item, int) and not isinstance(item, bool)]
    return tuple(numbers) if len(numbers) == len(attribute) else None
