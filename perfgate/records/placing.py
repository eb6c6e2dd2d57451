"""Messages about placement between ``bench`` and a worker's child: lower a model, time its nodes, deploy a plan.

::

    Lower         -> Lowered  | Wanted | Failed     once, before the others
    ProfileNodes  -> Profiled | Wanted | Advanced | Failed
    Build         -> Built    | Wanted | Failed

``Wanted``: the child needs files cut from an ONNX file, which only the parent can read as such; the parent writes them
and sends the same request again. ``Advanced``: there is more to do; the parent shows how far it is and sends the same
request again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.placement import Border, PlacementPlan, Support, Target
from perfgate.records.workload import ModelSpec, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Lower:
    """Build the model and take its operators apart. ``folder``: absolute, the child's own for files while it lives."""

    workload: Workload
    spec: ModelSpec
    folder: str
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossingValue:
    """A tensor that one node makes, or the model is given, and another node reads or the model returns.

    Attributes:
        maker: Index of the node; -1: an input of the model.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    maker: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredNode:
    """Operators that stay together: one that does real work, and cheap ones and views that go with it.

    Attributes:
        name: Unique and in the user's terms (``layer3.0.conv2``); ``module`` the path of its first operator's module.
        ops: Names of its operators in order; ``kind`` of the first (``convolution``).
        inputs, outputs: Names of values that it reads from outside, and that are read outside of it.
        sources: Indices of the nodes that it reads from, all smaller than its own.
        weight_bytes: Of parameters, buffers and constants that it holds.
        signature: Of operators, attributes, shapes and dtypes; equal ones take the same time.
        together: Nodes with the same text hold a tensor in common and belong on one target; empty: free.
        state: What it changes in place and keeps from call to call; empty: nothing.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    module: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()
    weight_bytes: int = 0
    signature: str = ""
    together: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryFound:
    """A compute library of this interpreter on one device.

    Attributes:
        missing: Why it cannot be used, with what to do about it; empty: it is there.
        compiler: It is the deep-learning compiler, which takes what no other library takes.
        whole: See :class:`Target`. ``tolerance``: largest difference from the reference, relative to the largest
            value of a tensor, that counts as equal.
    """

    name: str
    device: str = "cpu"
    version: str = ""
    missing: str = ""
    compiler: bool = False
    whole: bool = False
    tolerance: float = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """Nodes in a topological order. ``inputs``, ``outputs``: names of values in the order of arguments and results.

    ``fingerprint``: equal for graphs of equal nodes that are joined alike. ``framework``: ``torch`` or ``onnxruntime``.
    ``problems``: what is wrong with the installed libraries, one sentence each.
    """

    framework: str
    nodes: tuple[LoweredNode, ...]
    values: tuple[CrossingValue, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fingerprint: str
    libraries: tuple[LibraryFound, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One file to be cut: the operators with these numbers as a model of their own.

    ``outputs``: names of values that it returns; ``values``: dtypes and shapes of what it reads and returns, as far as
    they are known (a size of -1: it depends on the data). ``nodes`` empty: a model that returns its one input, which is
    of one number.
    """

    file: str
    nodes: tuple[int, ...] = ()
    outputs: tuple[str, ...] = ()
    values: tuple[CrossingValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the child needs of the ONNX file ``source``: a description of its operators in the file ``describe``
    (JSON of :class:`Described`; empty: none), and files cut from it. All paths are absolute.
    """

    source: str
    describe: str = ""
    cuts: tuple[Cut, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedOperator:
    """An operator of an ONNX file.

    ``reads`` holds names of values in the order of its inputs (empty where one is absent), those that its sub-graphs
    take from outside after them; ``attributes`` is text that is equal for equal attributes. ``domain`` empty: ONNX's
    own.
    ``module``: its path in the user's terms.
    """

    op: str
    domain: str = ""
    module: str = ""
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    attributes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An ONNX file: its operators in order. ``weights``: bytes of its constants by name; ``texts``: dtype and shape of
    each, of small ones also the values.
    """

    operators: tuple[DescribedOperator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileNodes:
    """Time every distinct node on every target that takes it, borders between targets, and the whole model on each.

    ``budget_s``: all of it; what does not fit is left out and said. ``nodes``: names, to time these only; empty: all.
    """

    targets: tuple[Target, ...]
    budget_s: float = 120.0
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """``done`` of ``total`` pieces are timed."""

    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTime:
    """Nodes of one signature on one target: ``seconds`` of one call, net of an empty call of the library.

    ``raw_s`` with it; ``low_s``, ``high_s``: quartiles of the blocks that ``raw_s`` is the median of.
    """

    signature: str
    target: str
    seconds: float
    raw_s: float
    low_s: float
    high_s: float
    blocks: int
    difference: float = 0.0


# Why something was not measured that could have been.
NO_TIME = "no time was left"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTime:
    """The whole model on one target. ``seconds`` None: not measured, ``reason`` says why (``NO_TIME``, or a refusal).

    ``nodes_s``: what its nodes come to when each runs alone, with one ``piece_s``. ``factor``: whole over nodes, by
    which times of nodes are multiplied so that they add up; 1 where one of the two is not known.
    """

    target: str
    seconds: float | None = None
    nodes_s: float | None = None
    factor: float = 1.0
    low_s: float | None = None
    high_s: float | None = None
    difference: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """``targets``: those asked for that can be used, with ``piece_s``. ``unmeasured``: sentences about what is lacking.

    ``distinct``: signatures; ``measured``: pairs of signature and target that were timed.
    """

    targets: tuple[Target, ...]
    times: tuple[NodeTime, ...]
    wholes: tuple[WholeTime, ...]
    borders: tuple[Border, ...]
    supports: tuple[Support, ...]
    unmeasured: tuple[str, ...] = ()
    distinct: int = 0
    measured: int = 0
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Nodes (indices of :class:`Lowered`) that one target runs in one go."""

    target: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Deploy a plan: ``parts`` in order of execution, into ``folder`` (absolute, made anew).

    ``predicted_s``, ``objective`` and ``best_single`` only go into the plan.
    """

    parts: tuple[Part, ...]
    targets: tuple[Target, ...]
    folder: str
    objective: str = "latency"
    predicted_s: float | None = None
    best_single: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A folder that runs by itself. ``differences``: of each piece's file from the reference, its own inputs given.

    ``step_s``: median of some warm steps in this process, no measurement to decide by.
    """

    plan: PlacementPlan
    differences: dict[str, float] = field(default_factory=dict)
    step_s: float | None = None
    build_s: float = 0.0
    notes: tuple[str, ...] = ()
