"""Floor 3, graph. A node that does work becomes a call of the trace.

In: a :class:`Site`, the scope around it, what is known of its outputs. Out: a :class:`Call` in the recorder: operands
by the schema's names, attributes as JSON with the schema's defaults, arguments that came as tensors among them.
"""

from __future__ import annotations

from onnx import TypeProto

from perfgate.graph.onnx import operands as roles
from perfgate.graph.onnx import schemas
from perfgate.graph.onnx.attributes import MAX_ENTRIES, array, as_json
from perfgate.graph.onnx.elements import dtype
from perfgate.graph.onnx.known import Known
from perfgate.graph.onnx.naming import place, shown
from perfgate.graph.onnx.recording import ARGUMENT, BIAS, SCALE, Recorder
from perfgate.graph.onnx.scope import Scope
from perfgate.graph.onnx.site import Site
from perfgate.records.graph import Call

# Lists that the standard fills with ones or zeros for every spatial dimension where a node leaves them out.
_PER_AXIS = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}


class Calls:
    """Records calls."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def record(self, site: Site, scope: Scope, outputs: list[Known], reason: str) -> None:
        """One call; ``reason`` says why an output's size is not known, if so."""
        names = schemas.input_names(site.domain, site.node.op_type, site.version)
        attributes = self._attributes(site)
        operands: dict[str, tuple[int, ...]] = {}
        for position, known in enumerate(site.inputs):
            if known is None:
                continue
            name = schemas.input_name(names, position)
            if roles.is_argument(site.op, name) and known.data is not None and known.data.size <= MAX_ENTRIES:
                attributes[name] = array(known.data)
                self._use(site, name, known, ARGUMENT)
                continue
            self._use(site, name, known, SCALE if roles.is_scale(site.op, name) else "")
            tensors = [known] if known.items is None else known.items
            operands[name] = tuple(self._recorder.index(tensor) for tensor in tensors)
        if reason:
            self._recorder.open.append(f"{shown(site.node)}: {reason}")
        module, module_class = place(site.node, scope.frame.module)
        self._recorder.call(
            Call(
                op=site.op,
                overload=schemas.since(site.domain, site.node.op_type, site.version),
                module=module,
                module_class=module_class,
                operands=operands,
                attributes=attributes,
                outputs=self._outputs(site, outputs),
            )
        )

    def opened(self, site: Site, scope: Scope, reason: str) -> list[Known]:
        """A call of which only its inputs are known."""
        outputs = [Known(type=TypeProto()) for _ in site.node.output]
        self.record(site, scope, outputs, reason)
        return outputs

    def _outputs(self, site: Site, outputs: list[Known]) -> tuple[int, ...]:
        # A sequence that was split up has more tensors than the node has outputs.
        split = len(outputs) != len(site.node.output)
        made = [
            self._recorder.index(known) if split or site.node.output[position] else -1
            for position, known in enumerate(outputs)
        ]
        while not split and made and not site.node.output[len(made) - 1]:
            made.pop()
        return tuple(made)

    def _use(self, site: Site, name: str, known: Known, use: str) -> None:
        if known.storage < 0 or not known.stored:
            return
        storage = self._recorder.storages[known.storage]
        storage.uses.add(BIAS if not use and roles.is_quantised_bias(site.op, name) else use)
        bits = roles.packed_bits(site, name, dtype(known.element))
        if bits:
            storage.bits = bits
            storage.logical = roles.logical_elements(site, name, known, bits)

    def _attributes(self, site: Site) -> dict[str, object]:
        made = dict(schemas.defaults(site.domain, site.node.op_type, site.version))
        made |= {name: as_json(attribute) for name, attribute in site.attributes.items()}
        schema = schemas.schema(site.domain, site.node.op_type, site.version)
        known = site.known(0)
        if schema is None or known is None or known.shape is None or "strides" not in schema.attributes:
            return made
        spatial = max(len(known.shape) - 2, 0)
        for name, value in _PER_AXIS.items():
            if name in schema.attributes and name not in made:
                made[name] = (value,) * (2 * spatial if name == "pads" else spatial)
        return made
