"""Floor 3, graph. Values, storages and calls of the trace that an ONNX file comes to.

In: what the walk finds, node by node. Out: the parts of a :class:`Trace`. Views share the storage of what they look
at; contents of the file get their role by what they are used for.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from onnx import NodeProto

from perfgate.errors import UsageError
from perfgate.graph.onnx.elements import bits, dtype, weight_like
from perfgate.graph.onnx.known import Known, dimensions
from perfgate.records.graph import CONSTANT, INTERMEDIATE, PARAMETER, Call, Value

# A file with more operators than this (functions within functions, unrolled loops) is not read to its end.
MAX_CALLS = 200_000
_MAX_BYTES = 2**62

ARGUMENT = "argument"
SCALE = "scale"
BIAS = "bias"


@dataclass(slots=True, kw_only=True)
class Storage:
    """Memory that values look at.

    Attributes:
        uses: What file contents are used as, where that decides on their role: see the constants above; ``""`` for
            every other use.
        bits, logical: Packing of file contents that hold several elements in a byte; 0 where they do not.
    """

    role: str
    name: str = ""
    dtype: str = ""
    rank: int = 0
    elements: int = 0
    inline: bool = False
    uses: set[str] = field(default_factory=set)
    bits: int = 0
    logical: int = 0
    recorded: bool = False


class Recorder:
    """Collects the trace. ``notes`` are sentences for the user; ``open`` places whose sizes are not known."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: list[Value] = []
        self.storages: list[Storage] = []
        self.calls: list[Call] = []
        self.notes: list[str] = []
        self.open: list[str] = []
        self.node: NodeProto | None = None
        self._repeat = 1
        self._visited = 0

    def visit(self, node: NodeProto) -> None:
        """Count one node against the limit, and remember it for messages. Raises UsageError."""
        self.node = node
        self._visited += 1
        if self._visited > MAX_CALLS:
            msg = f"{self.file}: comes to more than {MAX_CALLS} operators; its functions or loops multiply each other"
            raise UsageError(msg)

    def storage(self, storage: Storage) -> int:
        """A new storage's number."""
        self.storages.append(storage)
        return len(self.storages) - 1

    def index(self, known: Known) -> int:
        """The trace's value for what is known, made on first need. Unknown sizes are -1, an unknown rank ``[-1]``.

        -1 for what is no tensor.
        """
        if known.index >= 0:
            return known.index
        if not known.type.HasField("tensor_type") and known.type.WhichOneof("value"):
            return -1
        sizes = dimensions(known.type)
        shape = (-1,) if sizes is None else tuple(-1 if size is None else size for size in sizes)
        if math.prod(shape) * bits(known.element) > _MAX_BYTES:
            msg = f"{self.file}: a tensor of {list(shape)} is larger than any memory; check the sizes in inputs"
            raise UsageError(msg)
        if known.storage < 0:
            role = CONSTANT if known.static else INTERMEDIATE
            known.storage = self.storage(Storage(role=role))
        storage = self.storages[known.storage]
        value = Value(
            shape=shape,
            dtype=dtype(known.element),
            storage=known.storage,
            bits=bits(known.element),
            role=storage.role,
            name=storage.name,
        )
        self.values.append(value)
        known.index = len(self.values) - 1
        return known.index

    def call(self, call: Call) -> None:
        """Append a call, repeated as often as the loops around it are."""
        self.calls.append(dataclasses.replace(call, repeat=call.repeat * self._repeat))

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """Calls inside happen ``times`` times as often."""
        before = self._repeat
        self._repeat = before * max(times, 1)
        if self._repeat > _MAX_BYTES:
            msg = f"{self.file}: its loops come to {self._repeat} repetitions; check their trip counts"
            raise UsageError(msg)
        try:
            yield
        finally:
            self._repeat = before

    @contextmanager
    def apart(self) -> Iterator[Attempt]:
        """Calls and notes inside go to the attempt, not to the trace, until :meth:`keep` takes them."""
        attempt = Attempt()
        before = self.calls, self.notes, self.open
        self.calls, self.notes, self.open = attempt.calls, attempt.notes, attempt.open
        try:
            yield attempt
        finally:
            self.calls, self.notes, self.open = before

    def keep(self, attempt: Attempt) -> None:
        """Take what was recorded apart."""
        self.calls += attempt.calls
        self.notes += attempt.notes
        self.open += attempt.open


@dataclass(slots=True, kw_only=True)
class Attempt:
    """What was recorded apart: a branch, a loop's body."""

    calls: list[Call] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


def settled_role(storage: Storage) -> str:
    """Role of contents of the file by type, rank and use; of all others their own.

    Weights are floating or of up to 16 bits, with dimensions. What only says how something is done (shapes, limits)
    and what scales quantised values is ``constant``; so are single numbers in ``Constant`` nodes.
    """
    if storage.role != PARAMETER:
        return storage.role
    uses = storage.uses
    if uses and uses <= {ARGUMENT, SCALE}:
        return CONSTANT
    if storage.rank == 0 or (storage.inline and storage.elements == 1):
        return CONSTANT
    if weight_like(storage.dtype) or (BIAS in uses and storage.dtype == "int32"):
        return PARAMETER
    return CONSTANT
