"""What a model does, operator by operator: the trace a worker writes down, and the graph that is counted from it.

``Trace`` holds facts without formulas: a worker (torch) or a file (ONNX) gives it. ``Graph`` holds the counted
operators: F (FLOP = 2 x MAC), bytes and edges. ``Difference`` says what changed between two graphs.
Names of dtypes are torch's (``float32``, ``int64``), also for ONNX.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# How a trace came about: on tensors without contents, on real ones (device type), or from an ONNX file.
META = "meta"
REAL = "real"
ONNX = "onnx"

FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"

# Roles of a value. What an operator makes is ``intermediate``; ``constant`` existed before the step and is
# none of the others (a tensor in an attribute, an initialiser that is no weight).
INPUT = "input"
PARAMETER = "parameter"
BUFFER = "buffer"
CONSTANT = "constant"
INTERMEDIATE = "intermediate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor as one operator sees it: a layout over a storage. Views of one storage are several values.

    Attributes:
        shape: Sizes; ``strides`` and ``offset`` in elements (empty strides: contiguous).
        storage: Number of the storage; equal numbers share memory (views, tied weights).
        bits: Bits of one logical element in memory (32 for float32, 4 for packed int4).
        role: See the constants above; of the storage.
        name: Parameter or buffer path, path of the input (``inputs[0]``, ``inputs.mask``), or empty.
        logical: Number of logical elements where memory packs or hides them; None: the product of ``shape``.
        device: ``cpu``, ``cuda:0``, as the model has it; ``meta`` stands for the workload's own device.
    """

    shape: tuple[int, ...]
    dtype: str
    storage: int
    strides: tuple[int, ...] = ()
    offset: int = 0
    bits: int = 32
    role: str = INTERMEDIATE
    name: str = ""
    logical: int | None = None
    device: str = META


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One executed operator that is no view, in order of execution.

    Attributes:
        op: ``aten::convolution``, ``mylib::fused``, ``ai.onnx::Conv``, ``com.microsoft::Attention``.
        overload: torch's overload (``default``, ``Tensor``); for ONNX the operator set's version.
        module: Path of the innermost module in the user's terms (``layer3.0.conv2``; ONNX: the node's name made
            the same way); for a backward operator the module of its forward operator. Empty: the model itself.
        module_class: Class of that module (``Conv2d``), or empty.
        phase: ``forward``, ``backward``, ``optimizer``.
        operands: Argument name of the operator's schema -> indices of values; -1 where a tensor is absent.
            Variadic ONNX inputs and unknown operators: ``in0``, ``in1``, ...
        attributes: Argument name -> value of every argument that is no tensor, defaults included. JSON only.
        outputs: Indices of values, -1 where absent.
        writes: Indices of operand values that the call changes in place.
        group: Calls that came from one composite call share it (``scaled_dot_product_attention#3``); or empty.
        span: Name of the step's span that the call belongs to, or empty.
        repeat: How often the call happens (a loop body with a known trip count); counts and bytes are per call.
    """

    op: str
    overload: str = "default"
    module: str = ""
    module_class: str = ""
    phase: str = FORWARD
    operands: dict[str, tuple[int, ...]] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)
    outputs: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    group: str = ""
    span: str = ""
    repeat: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One step, as it was dispatched.

    Attributes:
        source: ``meta``, ``real`` or ``onnx``.
        parameters: Elements of all parameters, tied ones once, packed weights by their logical size.
        weight_bytes: Bytes of all parameters and buffers, shared storage once.
        results: Indices of the values that the model returned.
        lasting: Indices of values made in the step that outlive it (gradients that stay, results).
        peak_bytes: Largest sum of bytes alive at one moment of tensors made in the step; None where not known.
        batch: Items of the step.
        software: What decided the decomposition (``torch 2.14.1``, ``onnx opset 17``).
        untraced: What was seen to work outside of the dispatcher, one sentence each.
    """

    source: str
    values: tuple[Value, ...]
    calls: tuple[Call, ...]
    parameters: int = 0
    weight_bytes: int = 0
    results: tuple[int, ...] = ()
    lasting: tuple[int, ...] = ()
    peak_bytes: int | None = None
    batch: int = 1
    software: str = ""
    untraced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One counted operator.

    Attributes:
        name: Unique in its graph and in the user's terms: ``layer3.0.conv2``, ``layer3.0/add_``,
            ``layer3.0.conv2/convolution_backward``.
        kind: ``convolution``, ``matmul``, ``attention``, ``rnn``, ... (``graph/operators/definition.py``).
        inputs: One text for each tensor read, ``float32[1,64,56,56]``, with a layout where it is not contiguous
            (``float32[1,64,56,56] channels_last``); ``outputs`` alike.
        flop: Matmul-like FLOP; 0 for other kinds; None where nobody knows (see ``Graph.not_counted``).
        read_bytes, written_bytes: Traffic of the kernel alone (eager).
        sources: Indices of operators whose outputs this one reads, ascending.
        signature: Hash of operator, attributes, shapes, dtypes and layouts; not of names.
        fused: Index of the operator whose kernel this one joins when chains are fused; its own index if none.
        repeat: How often it happens; ``flop`` and bytes are per call.
        attributes: Arguments that are no tensors, by name, as short text (``stride``: ``[2, 2]``).
        origins: Where each of ``inputs`` comes from, parallel to it: name of the parameter, buffer or model input
            (a tied one has one name); empty for what an operator made and for constants.
        module_class: Class of the module (``Conv2d``), or empty.
        group: The composite call that it belongs to (``scaled_dot_product_attention#3``), or empty.
    """

    name: str
    op: str
    kind: str
    module: str = ""
    phase: str = FORWARD
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    flop: int | None = 0
    read_bytes: int = 0
    written_bytes: int = 0
    sources: tuple[int, ...] = ()
    signature: str = ""
    fused: int = 0
    repeat: int = 1
    attributes: dict[str, str] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    module_class: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCounted:
    """An operator whose work is not in F: its name, how many calls, the first place, and what to do about it."""

    op: str
    calls: int
    first: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes of one step. ``eager``: every kernel for itself; ``fused``: chains merged; ``min``: all in one kernel."""

    eager: int
    fused: int
    min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """All operators of one kind: how many calls, their FLOP and their eager bytes."""

    calls: int = 0
    flop: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGroup:
    """Equal kernels of one step: the same kind, dtype, F and bytes. What a roofline is applied to.

    Attributes:
        name: The first of them, in the user's terms.
        kind: Of the operator that the kernel began with; ``attention`` where it is a fused one. ``dtype``: what its
            products are computed in, by its first floating-point (or, in quantised operators, integer) tensor;
            ``phase``: of the step.
        calls: How many there are. ``flop``, ``bytes`` and ``written_bytes`` (part of ``bytes``) are of one call.
        weight_bytes: Part of ``bytes`` that does not grow with the batch: parameters and buffers, their gradients.
    """

    name: str
    kind: str
    dtype: str
    flop: int
    bytes: int
    calls: int = 1
    phase: str = FORWARD
    written_bytes: int = 0
    weight_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a graph comes to. ``kinds`` maps an operator kind to its share; ``kernels`` is the number of calls.

    ``eager_kernels``, ``fused_kernels``: the same step as groups of equal kernels, the most bytes first, each
    operator a kernel of its own (but ``scaled_dot_product_attention``, which devices run as one), and with chains
    joined. Where there are very many, similar ones are averaged.

    ``fingerprint`` is equal for equal graphs whatever the names; parameters' values do not enter.
    """

    source: str
    flop: int
    params: int
    weight_bytes: int
    traffic: Traffic
    kernels: int
    fingerprint: str
    peak_activation_bytes: int | None = None
    not_counted: tuple[NotCounted, ...] = ()
    kinds: dict[str, Share] = field(default_factory=dict)
    batch: int = 1
    software: str = ""
    notes: tuple[str, ...] = ()
    eager_kernels: tuple[KernelGroup, ...] = ()
    fused_kernels: tuple[KernelGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Counted operators in order of execution, and their totals."""

    totals: Totals
    operators: tuple[Operator, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """Time of all outermost calls of ``op`` in ``module`` and ``phase``, in ns of one step (median over the steps).

    It holds what those calls call themselves, and nothing of submodules. ``op`` ``python`` is the rest of a module's
    own time. ``device_ns`` is the accelerator's time, None on the host alone.
    """

    module: str
    op: str
    phase: str = FORWARD
    calls: int = 1
    host_ns: float = 0.0
    device_ns: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One process's profiled steps. Profiling slows everything down, so only shares of it are used."""

    times: tuple[OperatorTime, ...]
    steps: int
    step_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorChange:
    """One finding of a comparison: operators that changed in the same way.

    Attributes:
        what: ``added``, ``removed``, ``changed`` (same place, other signature), ``slower`` or ``faster`` (the same
            operator, another time).
        name: In the user's terms, several as a pattern: ``layer3.*.conv2``. ``count``: how many operators.
        op: The operator on head (on base if removed); ``kind`` alike.
        how: What is different, in words: ``float32 → bfloat16``, ``channels_last → contiguous``, ``stride 1 → 2``.
        base, head: Example of the operator's inputs and outputs; empty where it is not there.
        flop, bytes, calls: Change of F, of eager traffic and of kernel calls in one step, head minus base.
        time_ns: Change of its time in one step, head minus base; None where it was not profiled. ``share``: part of
            the whole change of step time (1 = all of it), None where that is not known.
    """

    what: str
    name: str
    op: str
    kind: str
    count: int = 1
    phase: str = FORWARD
    how: tuple[str, ...] = ()
    base: str = ""
    head: str = ""
    flop: int = 0
    bytes: int = 0
    calls: int = 0
    time_ns: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Base against head, most important first; ``more`` counts findings left off.

    ``equal`` True: the same graph, whatever its names. ``notes``: what limits the comparison, one sentence each.
    ``sentences``: the findings in plain words for people, most important first, without full stop or markup.
    """

    equal: bool
    changes: tuple[OperatorChange, ...] = ()
    more: int = 0
    flop: int = 0
    bytes: int = 0
    kernels: int = 0
    notes: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
