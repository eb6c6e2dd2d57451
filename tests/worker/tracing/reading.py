"""Short ways to say what a trace holds."""

from __future__ import annotations

from perfgate.records.graph import Call, Trace, Value


def ops(trace: Trace, phase: str = "") -> list[str]:
    """Names of the operators without their namespace, in order."""
    return [call.op.split("::")[1] for call in trace.calls if phase in {"", call.phase}]


def only(trace: Trace, op: str) -> Call:
    """The one call of an operator."""
    (call,) = [call for call in trace.calls if call.op.split("::")[1] == op]
    return call


def operand(trace: Trace, call: Call, name: str, index: int = 0) -> Value:
    return trace.values[call.operands[name][index]]


def places(trace: Trace, phase: str = "forward") -> list[tuple[str, str]]:
    """Operator and module of every call of a phase."""
    return [(call.op.split("::")[1], call.module) for call in trace.calls if call.phase == phase]
