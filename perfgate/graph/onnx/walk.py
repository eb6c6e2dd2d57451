"""Floor 3, graph. An ONNX model walked node by node, with the sizes of its inputs known.

In: the model's proto and :class:`Bound` inputs. Out: the model's outputs as :class:`Known`; everything that is executed
is in the recorder. Functions of the model are entered, so that their nodes count under the place that calls them;
a standard operator that has a function for a body stays one operator, and so does a fused one of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto, helper

from perfgate.errors import UsageError
from perfgate.graph.onnx import control, sequences, shapes, views
from perfgate.graph.onnx.calls import Calls
from perfgate.graph.onnx.folding import fold
from perfgate.graph.onnx.known import Known, dimensions, sequence_type, tensor_type
from perfgate.graph.onnx.naming import place, shown
from perfgate.graph.onnx.recording import Recorder, Storage
from perfgate.graph.onnx.scope import Frame, Scope
from perfgate.graph.onnx.shapes_attention import ATTENTION
from perfgate.graph.onnx.shapes_fused import FUSED
from perfgate.graph.onnx.shapes_old import OLD
from perfgate.graph.onnx.shapes_quantized import QUANTIZED
from perfgate.graph.onnx.site import OpenError, Site
from perfgate.graph.onnx.specifications import Bound, resolve
from perfgate.graph.onnx.stored import Contents
from perfgate.graph.operators.onnx_table import DEFINITIONS
from perfgate.records.graph import INPUT

_LAST_VERSION = 2**31 - 1
# Functions that call functions: deeper than this is a circle.
MAX_DEPTH = 64

_OWN = {**OLD, **FUSED, **QUANTIZED, **ATTENTION}
_CONTROL = {
    "ai.onnx::If": control.branch,
    "ai.onnx::Loop": control.loop,
    "ai.onnx::Scan": control.scan,
    "ai.onnx::SequenceMap": control.mapped,
}


class Walker:
    """Walks one model once."""

    def __init__(self, model: ModelProto, recorder: Recorder, bound: Bound) -> None:
        self.recorder = recorder
        self._model = model
        self._bound = bound
        self._contents = Contents(recorder)
        self._calls = Calls(recorder)
        self._functions: dict[tuple[str, str, str], FunctionProto] = {
            (_domain(function.domain), function.name, getattr(function, "overload", "")): function
            for function in model.functions
        }

    def run(self) -> list[Known]:
        """The model's outputs."""
        opsets = _opsets(self._model.opset_import)
        opsets.setdefault("", 1)
        scope = Scope(frame=Frame(opsets=opsets, imports=_imports(opsets)))
        stored = {tensor.name for tensor in self._model.graph.initializer}
        names = [info.name for info in self._model.graph.input if info.name not in stored]
        return self.graph(self._model.graph, scope, [self._input(name) for name in names])

    def graph(self, graph: GraphProto, scope: Scope, inputs: list[Known]) -> list[Known]:
        """Walk a graph whose inputs are known; its outputs."""
        for tensor in graph.initializer:
            scope.names[tensor.name] = self._contents.initializer(tensor, scope.key)
        for sparse in graph.sparse_initializer:
            scope.names[sparse.values.name] = self._contents.sparse(sparse, scope.key)
        free = [info.name for info in graph.input if info.name not in scope.names]
        scope.names |= dict(zip(free, inputs, strict=False))
        scope.declared = {info.name: info.type for info in (*graph.output, *graph.value_info)}
        self._nodes(graph.node, scope)
        return [self._found(info.name, scope, f"output {info.name!r}") for info in graph.output]

    def _input(self, name: str) -> Known:
        bound = self._bound
        if name in bound.items:
            items = [
                self._tensor(name, f"{bound.places[name]}[{n}]", entry) for n, entry in enumerate(bound.items[name])
            ]
            return Known(type=bound.types[name], items=items)
        return self._tensor(name, bound.places[name], bound.types[name])

    def _tensor(self, name: str, path: str, type_: TypeProto) -> Known:
        storage = self.recorder.storage(Storage(role=INPUT, name=path))
        return Known(type=type_, data=self._bound.data.get(name), storage=storage)

    def _nodes(self, nodes: Iterable[NodeProto], scope: Scope) -> None:
        for given in nodes:
            self.recorder.visit(given)
            node = _filled(given, scope) if scope.frame.depth else given
            made = self._node(node, scope)
            if len(made) < len(node.output):
                made = [*made, *(Known(type=TypeProto()) for _ in range(len(node.output) - len(made)))]
            scope.names |= {name: known for name, known in zip(node.output, made, strict=False) if name}

    def _node(self, node: NodeProto, scope: Scope) -> list[Known]:
        domain = _domain(node.domain)
        if node.op_type == "Constant" and not domain:
            constant = self._contents.constant(node, scope.key)
            return [constant or Known(type=TypeProto())]
        site = Site(
            node=node,
            inputs=[self._found(name, scope, shown(node)) if name else None for name in node.input],
            domain=domain,
            version=scope.frame.opsets.get(domain, 1),
            imports=scope.frame.imports,
            ir_version=min(max(self._model.ir_version, 3), helper.VERSION_TABLE[-1][1]),
            attributes={attribute.name: attribute for attribute in node.attribute},
        )
        function = self._functions.get((domain, node.op_type, getattr(node, "overload", "")))
        if function is not None and site.op not in DEFINITIONS:
            return self._called(function, site, scope)
        try:
            if site.op in _CONTROL:
                return _CONTROL[site.op](site, scope, self)
            if site.op in sequences.FOLLOWED:
                return sequences.FOLLOWED[site.op](site)
        except OpenError as error:
            return self._calls.opened(site, scope, str(error))
        return self._operator(site, scope)

    def _operator(self, site: Site, scope: Scope) -> list[Known]:
        declared = [self._declared(name, scope) for name in site.node.output]
        try:
            types, reason = shapes.infer(site, _OWN.get(site.op), declared)
        except shapes.MisfitError as error:
            sizes = ", ".join(str(list(known.shape or ())) for known in site.inputs if known is not None)
            msg = (
                f"{self.recorder.file}: {shown(site.node)} cannot work on the sizes {sizes}: {error}; check the sizes "
                "in inputs, and the file with onnx.checker.check_model(path, full_check=True)"
            )
            raise UsageError(msg) from None
        if site.op == "ai.onnx::SplitToSequence":
            return self._split(site, scope, types)
        if site.op == "ai.onnx::ConcatFromSequence":
            types, reason = _joined(site, types)
        data = fold(site, types)
        if data is not None:
            types = [tensor_type(_element(array), array.shape) if array is not None else TypeProto() for array in data]
            reason = ""
        values = data or [None] * len(types)
        static = data is not None and (
            site.node.op_type in ("Shape", "Size") or all(known is None or known.static for known in site.inputs)
        )
        looked_at = views.source(site, types)
        known = None if looked_at is None else site.known(looked_at)
        if known is not None and not (static and known.storage < 0):
            mask = tensor_type(TensorProto.BOOL, dimensions(known.type))
            return [known.viewed(types[0], values[0]), *(Known(type=mask, static=True) for _ in types[1:])]
        made = [Known(type=type_, data=array, static=static) for type_, array in zip(types, values, strict=True)]
        if not static:
            self._calls.record(site, scope, made, reason)
        return made

    def _split(self, site: Site, scope: Scope, types: list[TypeProto]) -> list[Known]:
        try:
            items = [Known(type=type_) for type_ in sequences.parts(site)]
        except OpenError as error:
            self._calls.record(site, scope, [Known(type=types[0])], str(error))
            return [Known(type=types[0])]
        self._calls.record(site, scope, items, "")
        return [Known(type=sequence_type(items[0].type if items else site.type(0)), items=items)]

    def _called(self, function: FunctionProto, site: Site, scope: Scope) -> list[Known]:
        frame = scope.frame
        if frame.depth >= MAX_DEPTH:
            msg = f"{self.recorder.file}: function {function.name!r} lies {MAX_DEPTH} calls deep; does it call itself?"
            raise UsageError(msg)
        opsets = frame.opsets | _opsets(function.opset_import)
        attributes = {entry.name: entry for entry in function.attribute_proto} | site.attributes
        module, _ = place(site.node, frame.module)
        inner = Scope(
            frame=Frame(
                opsets=opsets, imports=_imports(opsets), attributes=attributes, module=module, depth=frame.depth + 1
            ),
            key=(f"{function.domain}::{function.name}::{getattr(function, 'overload', '')}",),
        )
        inner.names = {
            name: known for name, known in zip(function.input, site.inputs, strict=False) if known is not None
        }
        inner.declared = {info.name: info.type for info in getattr(function, "value_info", ())}
        inner.absent = frozenset(function.input) - set(inner.names)
        self._nodes(function.node, inner)
        # Outputs that the call does not ask for need not be made.
        return [
            self._found(name, inner, f"output {name!r} of function {function.name!r}")
            if asked
            else Known(type=TypeProto())
            for name, asked in zip(function.output, site.node.output, strict=False)
        ]

    def _found(self, name: str, scope: Scope, reader: str) -> Known:
        known = scope.find(name)
        if known is None:
            msg = f"{self.recorder.file}: {reader} reads {name!r}, which nothing before it makes; export the model anew"
            raise UsageError(msg)
        return known

    def _declared(self, name: str, scope: Scope) -> TypeProto:
        found = scope.declared.get(name)
        return TypeProto() if found is None else resolve(found, self._bound.sizes)


def _joined(site: Site, types: list[TypeProto]) -> tuple[list[TypeProto], str]:
    try:
        return [sequences.joined(site)], ""
    except OpenError as error:
        return types, str(error)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _element(array: object) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))  # type: ignore[attr-defined]


def _opsets(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Version of each operator set, within what any could have."""
    return {_domain(entry.domain): min(max(entry.version, 1), _LAST_VERSION) for entry in imports}


def _imports(opsets: dict[str, int]) -> list[OperatorSetIdProto]:
    return [helper.make_opsetid(domain, version) for domain, version in opsets.items()]


def _filled(node: NodeProto, scope: Scope) -> NodeProto:
    """A function's node as the call makes it: with the call's attributes, without inputs that the call leaves out."""
    refers = any(attribute.ref_attr_name for attribute in node.attribute)
    if not refers and not any(scope.is_absent(name) for name in node.input):
        return node
    made = NodeProto()
    made.CopyFrom(node)
    made.input[:] = ["" if scope.is_absent(name) else name for name in node.input]
    del made.attribute[:]
    given = scope.frame.attributes
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            made.attribute.add().CopyFrom(attribute)
        elif attribute.ref_attr_name in given:
            added = made.attribute.add()
            added.CopyFrom(given[attribute.ref_attr_name])
            added.name = attribute.name
    return made
