"""Graphs written by hand: operators in a chain unless told otherwise."""

from __future__ import annotations

from dataclasses import replace

from perfgate.records.graph import META, Graph, Operator, OperatorTime, Profile, Totals, Traffic

X = "float32[8,64]"
W = "float32[64,64]"


def operator(name: str, op: str = "relu", **more) -> Operator:
    """``module``: the name up to its slash, unless given."""
    more.setdefault("module", name.partition("/")[0])
    more.setdefault("kind", "pointwise")
    more.setdefault("inputs", (X,))
    more.setdefault("outputs", (X,))
    more.setdefault("read_bytes", 2048)
    more.setdefault("written_bytes", 2048)
    return Operator(name=name, op=f"aten::{op}", **more)


def linear(name: str, size: int = 64, width: int = 64, dtype: str = "float32", **more) -> Operator:
    texts = (f"{dtype}[8,{width}]", f"{dtype}[{width},{size}]")
    more.setdefault("origins", ("", f"{name}.weight"))
    more.setdefault("flop", 16 * size * width)
    return operator(name, "mm", kind="matmul", inputs=texts, outputs=(f"{dtype}[8,{size}]",), **more)


def graph(*operators: Operator, chain: bool = True, fingerprint: str = "") -> Graph:
    """``chain``: each operator without sources reads from the one before it."""
    linked = [
        replace(found, sources=(number - 1,)) if chain and number and not found.sources else found
        for number, found in enumerate(operators)
    ]
    moved = sum((found.read_bytes + found.written_bytes) * found.repeat for found in linked)
    totals = Totals(
        source=META,
        flop=sum((found.flop or 0) * found.repeat for found in linked),
        params=0,
        weight_bytes=0,
        traffic=Traffic(eager=moved, fused=moved, min=moved),
        kernels=sum(found.repeat for found in linked),
        fingerprint=fingerprint,
    )
    return Graph(totals=totals, operators=tuple(linked))


def timed(times: dict[tuple[str, str], float], *, device: dict[tuple[str, str], float] | None = None) -> Profile:
    """A profile of (module, operator) -> ns in the forward pass."""
    found = tuple(
        OperatorTime(module=module, op=op, host_ns=ns, device_ns=None if device is None else device.get((module, op)))
        for (module, op), ns in times.items()
    )
    return Profile(times=found, steps=5, step_ns=sum(times.values()))
