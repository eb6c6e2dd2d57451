"""Floor 3, graph. What is different between an operator on base and the same one on head, in the field's words.

In: two operators that were matched. Out: lines such as ``float32 → bfloat16`` and ``stride 1 → 2``, and whether the
change is the operator's own or came in with the tensors that it reads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from perfgate.graph.difference.labels import composite
from perfgate.graph.difference.opnames import base_name, family, in_place, short
from perfgate.graph.difference.tensors import ARROW, Step, Tensor, parse, shape_text, step
from perfgate.records.graph import Operator

# Paths of model inputs begin so: ``inputs[0]``, ``inputs.mask``.
_INPUTS = ("inputs[", "inputs.")
IN_PLACE = "in place → out of place"
OUT_OF_PLACE = "out of place → in place"
_OTHER = "other arguments"
_SHARED = "operands that share memory otherwise"
_SINGLE = "single operators"

# Arguments in words; the others are called as their operator calls them.
_WORDS = {
    "strides": "stride",
    "pad": "padding",
    "pads": "padding",
    "dilations": "dilation",
    "group": "groups",
    "num_groups": "groups",
    "kernel_size": "kernel",
    "kernel_shape": "kernel",
    "is_causal": "causal",
    "p": "probability",
    "dropout_p": "dropout",
    "train": "training",
    "approximate": "approximation",
    "keepdim": "keep dimension",
    "epsilon": "eps",
}
# Arguments that follow from the sizes of tensors.
_SIZES = frozenset({
    "size", "sizes", "shape", "output_size", "input_size", "input_sizes", "self_size", "self_sizes", "sym_size",
    "normalized_shape", "hidden_size", "bias_sizes", "dim_size", "num_weights", "N", "C", "HxW", "max_q", "max_k",
    "scales_h", "scales_w", "scales_d", "start", "end", "step", "index", "split_size", "split_sizes", "storage_offset",
})  # fmt: skip
# Numbers that a model computes from sizes, such as the scale of attention.
_SCALARS = frozenset({"other", "scale", "value", "scalar", "alpha", "beta", "divisor_override"})
# Arguments that say again what the texts of the outputs say.
_SAID = frozenset({"dtype", "out_dtype", "memory_format", "layout", "stride_order"})


@dataclass(frozen=True, slots=True)
class Description:
    """How one operator differs.

    Attributes:
        lines: What other operators may share: dtypes, layouts, arguments, another operator.
        sizes: What belongs to this place: shapes, channels, features.
        own: The operator itself was changed, or what it reads from outside of the step (its weights) in a way that
            the tensors from other operators do not explain.
        soft: Nothing of its own changed but weights' sizes, or a number that models compute from sizes.
        recast: The dtype of something changed.
        turned: Sizes of its tensors that became others, as (base, head).
    """

    lines: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    own: bool = False
    soft: bool = False
    recast: bool = False
    turned: frozenset[tuple[int, int]] = frozenset()


def describe(base: Operator, head: Operator) -> Description:
    """Compares two matched operators with unequal signatures."""
    one, other = _tensors(base.inputs), _tensors(head.inputs)
    steps = [step(a, b) for a, b in zip(one, other, strict=False)]
    outside = _outside(base, head, len(steps))
    results = [step(a, b) for a, b in zip(_tensors(base.outputs), _tensors(head.outputs), strict=False)]
    changed = [found for found in steps if found]
    weights = [found for found, known in zip(steps, outside, strict=True) if found and known]
    data = [found for found, known in zip(steps, outside, strict=True) if found and not known]
    arguments = _arguments(base, head)
    replaced = _replaced(base, head)
    alike = not replaced or base_name(base.op) == base_name(head.op)
    kernel = _kernel(one, other) if alike and _is_convolution(base, one) and _is_convolution(head, other) else ()
    width = _width(base, head, one, other) if alike and len(one) == len(other) else ()
    composed = _composite(base, head)
    seen = [*changed, *(found for found in results if found)]
    dtypes = _transitions([found.dtype for found in seen])
    lines = (*replaced, *composed, *dtypes, *_transitions([found.layout for found in seen]), *kernel, *arguments)
    count = _count(one, other)
    if base.repeat != head.repeat:
        lines = (*lines, f"{base.repeat}{ARROW}{head.repeat} times")
    sizes = (*_given(base, head, steps), *width, *_shapes(results, changed, weights), *count)
    hard = bool(replaced or composed or kernel or count) or base.repeat != head.repeat
    own_arguments, scalars = _own(base, head, data)
    unlike = not _explained(weights, data, sizes_too=False)
    wider = not _explained(weights, data, sizes_too=True)
    return Description(
        lines=lines if lines or sizes else (_SHARED if base.signature == head.signature else _OTHER,),
        sizes=sizes,
        own=hard or own_arguments or scalars or wider,
        soft=not hard and not own_arguments and not unlike and (scalars or wider),
        recast=bool(dtypes),
        turned=frozenset[tuple[int, int]]().union(*(found.sizes for found in seen)),
    )


def _tensors(texts: tuple[str, ...]) -> list[Tensor]:
    return [parse(text) for text in texts]


def _outside(base: Operator, head: Operator, count: int) -> list[bool]:
    """For each input whether it is a weight or a model input on both sides, or on the side that says so."""
    names = [(*operator.origins, *("",) * count)[:count] for operator in (base, head)]
    known = [operator.origins for operator in (base, head) if operator.origins]
    if len(known) < 2:
        return [any(pair) for pair in zip(*names, strict=True)]
    return [all(pair) for pair in zip(*names, strict=True)]


def _replaced(base: Operator, head: Operator) -> tuple[str, ...]:
    if base.op == head.op:
        return ()
    if base_name(base.op) == base_name(head.op) and in_place(base.op) != in_place(head.op):
        return (IN_PLACE if in_place(base.op) else OUT_OF_PLACE,)
    return (f"{short(base.op)}{ARROW}{short(head.op)}",)


def _composite(base: Operator, head: Operator) -> tuple[str, ...]:
    one, other = composite(base), composite(head)
    return () if one == other else (f"{one or _SINGLE}{ARROW}{other or _SINGLE}",)


def _turned_arguments(base: Operator, head: Operator) -> list[str]:
    names = dict.fromkeys((*base.attributes, *head.attributes))
    return [
        name
        for name in names
        if base.attributes.get(name) != head.attributes.get(name) and name not in _SIZES and name not in _SAID
    ]


def _arguments(base: Operator, head: Operator) -> tuple[str, ...]:
    return tuple(
        f"{_WORDS.get(name, name)} {_plain(base.attributes.get(name))}{ARROW}{_plain(head.attributes.get(name))}"
        for name in _turned_arguments(base, head)
    )


def _own(base: Operator, head: Operator, data: list[Step]) -> tuple[bool, bool]:
    """Whether arguments changed that do not follow from the data's sizes: (true arguments, computed numbers).

    A depthwise convolution's groups follow from its channels.
    """
    sizes = {(str(one), str(other)) for found in data for one, other in found.sizes}
    left = [
        name
        for name in _turned_arguments(base, head)
        if (_plain(base.attributes.get(name)), _plain(head.attributes.get(name))) not in sizes
        and not (sizes and name in _SCALARS)
    ]
    return any(name not in _SCALARS for name in left), any(name in _SCALARS for name in left)


def _plain(text: str | None) -> str:
    """An argument as people write it: ``2`` for ``[2, 2]``, ``on`` for ``true``; None is what its default is."""
    if text is None:
        return "default"
    try:
        value = json.loads(text.replace("(", "[").replace(")", "]").replace(",]", "]"))
    except (ValueError, RecursionError):
        return {"True": "on", "False": "off", "None": "none"}.get(text, text)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list) and value and all(item == value[0] for item in value):
        return str(value[0])
    return "none" if value is None else str(value).replace(" ", "")


def _kernel(one: list[Tensor], other: list[Tensor]) -> tuple[str, ...]:
    before, after = one[1].shape[2:], other[1].shape[2:]
    return () if before == after else (f"kernel {_times(before)}{ARROW}{_times(after)}",)


def _is_convolution(operator: Operator, tensors: list[Tensor]) -> bool:
    """Whether the second input is a convolution's kernel: output channels, input channels and extents."""
    forward = family(operator.op) == "convolution" and "backward" not in operator.op
    return forward and len(tensors) > 1 and len(tensors[1].shape) > 2


def _width(base: Operator, head: Operator, one: list[Tensor], other: list[Tensor]) -> tuple[str, ...]:
    """Channels of a convolution, features of a product with a weight."""
    if _is_convolution(head, other):
        return _turned("output channels", one[1].shape[0], other[1].shape[0])
    weighted = any((*base.origins, *head.origins))
    if family(head.op) == "matmul" and weighted and base.outputs and head.outputs:
        before, after = parse(base.outputs[0]).shape, parse(head.outputs[0]).shape
        return _turned("output features", before[-1], after[-1]) if before and after else ()
    return ()


def _turned(word: str, base: int, head: int) -> tuple[str, ...]:
    return () if base == head else (f"{word} {base}{ARROW}{head}",)


def _times(sizes: tuple[int, ...]) -> str:
    return "×".join(str(size) for size in sizes)


def _transitions(found: list[tuple[str, str] | None]) -> tuple[str, ...]:
    return tuple(f"{one}{ARROW}{other}" for one, other in dict.fromkeys(pair for pair in found if pair))


def _count(one: list[Tensor], other: list[Tensor]) -> tuple[str, ...]:
    return () if len(one) == len(other) else (f"{len(one)}{ARROW}{len(other)} inputs",)


def _given(base: Operator, head: Operator, steps: list[Step | None]) -> tuple[str, ...]:
    """Model inputs of another shape: ``inputs[0] [1,3,64,64] → [1,3,96,96]``."""
    found = zip(base.origins, head.origins, steps, strict=False)
    return tuple(
        f"{one} {shape_text(turned.shape[0])}{ARROW}{shape_text(turned.shape[1])}"
        for one, other, turned in found
        if turned and turned.shape and one == other and one.startswith(_INPUTS)
    )


def _shapes(results: list[Step | None], changed: list[Step], weights: list[Step]) -> tuple[str, ...]:
    """The change of the first output's shape, else of the first input's."""
    for found in results:
        if found and found.shape:
            return (f"{shape_text(found.shape[0])}{ARROW}{shape_text(found.shape[1])}",)
    for found in changed:
        if found.shape:
            word = "weight" if found in weights else "input"
            return (f"{word} {shape_text(found.shape[0])}{ARROW}{shape_text(found.shape[1])}",)
    return ()


def _explained(weights: list[Step], data: list[Step], *, sizes_too: bool) -> bool:
    """Whether weights changed only as the tensors did that they are combined with."""
    dtypes = {found.dtype for found in data}
    layouts = {found.layout for found in data}
    sizes = frozenset[tuple[int, int]]().union(*(found.sizes for found in data))
    return all(
        (found.dtype is None or found.dtype in dtypes)
        and (found.layout is None or found.layout in layouts)
        and (not sizes_too or found.sizes <= sizes)
        for found in weights
    )
