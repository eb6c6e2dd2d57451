"""Floor 3, graph. Names of operators in the user's terms, and what an operator is whatever its name.

In: calls. Out: names, texts of attributes, signatures.

A name is the path of the module where that has one operator in the forward pass and no modules inside
(``layer3.0.conv2``), else the path and the operator (``layer3.0/add_``); the model itself has an empty path
(``/add``). The second of its kind in one module is ``layer3.0/add_#2``. Backward operators stand at the module of their
forward operator: ``layer3.0.conv2/convolution_backward``, and where the operator's name does not say so,
``fc/mm@backward``. What an optimiser does is ``optimizer/_foreach_add_``.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence

from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER, Call

_MAX_ATTRIBUTE = 80


def names(calls: Sequence[Call]) -> tuple[str, ...]:
    """One name for each call, all different; the same trace gives the same names."""
    counts = Counter(call.module for call in calls if call.phase == FORWARD)
    alone = {module for module, count in counts.items() if module and count == 1} - _containers(counts)
    used: Counter[str] = Counter()
    taken: set[str] = set()
    found = []
    for call in calls:
        base = _base(call, alone=call.module in alone)
        used[base] += 1
        name = base if used[base] == 1 else f"{base}#{used[base]}"
        while name in taken:
            # A module may be called what another name was made into.
            used[base] += 1
            name = f"{base}#{used[base]}"
        taken.add(name)
        found.append(name)
    return tuple(found)


def _base(call: Call, *, alone: bool) -> str:
    op = short(call.op)
    if call.phase == OPTIMIZER:
        return f"optimizer/{op}"
    if call.phase == BACKWARD:
        return f"{call.module}/{op}" if "backward" in op else f"{call.module}/{op}@backward"
    return call.module if alone else f"{call.module}/{op}"


def _containers(modules: Iterable[str]) -> set[str]:
    """Paths above the given ones."""
    found: set[str] = set()
    for module in modules:
        above = module.rpartition(".")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition(".")[0]
    return found


def short(op: str) -> str:
    """An operator without its namespace."""
    return op.rpartition("::")[2]


def attributes(call: Call) -> dict[str, str]:
    """Arguments that are no tensors, as short text; those that were left out (None) are not there."""
    return {name: _text(value) for name, value in call.attributes.items() if value is not None}


def _text(value: object) -> str:
    text = f"[{', '.join(_text(item) for item in value)}]" if isinstance(value, (list, tuple)) else str(value)
    return text if len(text) <= _MAX_ATTRIBUTE else f"{text[: _MAX_ATTRIBUTE - 1]}…"


def signature(call: Call, layouts: Sequence[str]) -> str:
    """16 digits: equal for equal operators with equal attributes, shapes, dtypes and layouts, whatever their names.

    ``layouts``: a text for every value of the trace.
    """
    told = [
        call.op,
        call.overload,
        call.repeat,
        {name: [layouts[i] if i >= 0 else "" for i in indices] for name, indices in call.operands.items()},
        [layouts[i] if i >= 0 else "" for i in call.outputs],
        call.attributes,
    ]
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
