"""Which operator runs where: what is asked of the search, what it answers, and what is deployed.

``Problem`` is data alone: nodes with a time on each target, and what crossing a border costs. ``Placement`` is an
answer to it. ``PlacementPlan`` is what a folder of deployed pieces says about itself.

Costs of a border. A value that node i makes on target a and that nodes on another target b read is sent once by a (at
the dearest of its destinations) and received once by each such b. Both times are linear in ``output_bytes``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# What is made least.
LATENCY = "latency"  # one request: pieces one after another, or side by side where targets are apart
THROUGHPUT = "throughput"  # the largest load of a device when requests follow one another in a pipeline
MEMORY = "memory"  # the most memory that a device holds, with a limit on latency
OBJECTIVES = (LATENCY, THROUGHPUT, MEMORY)

# How a latency comes about.
IN_TURN = "in turn"  # one host thread: one piece at a time, in order
SIDE_BY_SIDE = "side by side"  # a piece starts when its inputs are there; targets work at the same time
UNLIMITED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device. ``memory_bytes``: what its nodes may hold together, None: no limit. ``lanes``: pieces or nodes that
    run at the same time on it, 0 for any number (a processor with more cores than branches).
    """

    name: str
    memory_bytes: int | None = None
    lanes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A compute library on a device. ``threads`` is part of it: the same library with other threads is another target.

    Attributes:
        name: Unique: ``onnxruntime cpu 1``.
        device: Name of a :class:`Device`.
        piece_s: Fixed time of starting one piece (a session's call).
        default: The compiler's own target, which takes what no library takes; the one that wins ties.
        whole: Pieces of this target start when all of their inputs are there and end together (an accelerator that is
            handed a sub-graph); False: node by node.
    """

    name: str
    library: str
    device: str
    threads: int = 0
    piece_s: float = 0.0
    default: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """From one target to another, by name: fixed seconds and seconds per byte, of the sender and of the receiver."""

    source: str
    target: str
    send_s: float = 0.0
    send_s_per_byte: float = 0.0
    receive_s: float = 0.0
    receive_s_per_byte: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An operator or a group of operators that a compiler fuses.

    Attributes:
        seconds: On each target of the problem, in its order; None: not supported there.
        sources: Indices of the nodes whose output it reads, all smaller than its own: nodes are in a topological order.
        output_bytes: Of what it makes, for borders.
        memory_bytes: That it holds on its device all the time: weights, state.
        together: Nodes with the same text must have the same target (tied weights, in-place writes, forward and
            backward of one layer); empty: free.
        kind: Of operator (``convolution``). ``signature``: equal ones are measured once.
        fixed: Name of the target it must have, or empty.
    """

    name: str
    seconds: tuple[float | None, ...]
    sources: tuple[int, ...] = ()
    output_bytes: float = 0.0
    memory_bytes: float = 0.0
    together: str = ""
    kind: str = ""
    signature: str = ""
    fixed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is searched. ``borders`` that are missing cost nothing. ``latency_s``: limit where memory is made least."""

    nodes: tuple[Node, ...]
    devices: tuple[Device, ...]
    targets: tuple[Target, ...]
    borders: tuple[Border, ...] = ()
    objective: str = LATENCY
    order: str = IN_TURN
    latency_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """Everything on one target, with what it does not take on the default. ``value`` None: it does not fit.

    ``moved``: how many nodes the default took for it.
    """

    target: str
    value: float | None
    moved: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """A better assignment was found: after how many seconds and evaluations, its value, and by which move."""

    at_s: float
    evaluations: int
    value: float
    move: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """An answer: a target for each node.

    Attributes:
        targets: Index of the target of each node, in the order of ``Problem.nodes``.
        value: Of the objective: seconds, or bytes for memory.
        bound: No assignment is better than this; ``optimal``: it is proven (or the space was exhausted).
        feasible: False: no assignment was found that keeps memory limits and support; ``problem`` says what lacks.
        singles: All single-target assignments, which were candidates.
        stopped: Why the search ended: ``optimal``, ``no better neighbour``, ``time``, ``evaluations``.
    """

    targets: tuple[int, ...]
    value: float
    bound: float = 0.0
    optimal: bool = False
    feasible: bool = True
    problem: str = ""
    singles: tuple[Single, ...] = ()
    stopped: str = ""
    evaluations: int = 0
    elapsed_s: float = 0.0
    seed: int = 0
    history: tuple[Improvement, ...] = ()

    @property
    def gap(self) -> float:
        """How far the value may be above the best, as a share of the value; 0 where it is proven."""
        return 0.0 if self.optimal or not self.value else max(0.0, 1 - self.bound / self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What one library said about one kind of node: ``reason`` empty where it takes it; ``how`` it was asked."""

    target: str
    signature: str
    name: str
    kind: str
    reason: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a deployed model: ``target`` runs ``file``. Texts in ``inputs`` and ``outputs`` are names of values."""

    target: str
    library: str
    device: str
    file: str
    threads: int = 0
    nodes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPlan:
    """What ``plan.json`` holds: a model's pieces in order, and what is known of them.

    Attributes:
        model: As the user calls it. ``fingerprint``: of the graph it was made for; a plan for another graph is refused.
        inputs, outputs: Names of values, in the order of the model's arguments and results. ``given``: specifications
            of inputs from the command line; empty: the configuration's.
        tolerance: Largest relative difference of the outputs from the reference that its libraries may make;
            ``difference``: what was seen.
        predicted_s: By the cost model. ``measured_s``, ``low_s``, ``high_s``: median step and its interval.
        best_single: Name of the best single target, ``single_s`` its measured median; empty: none keeps the limits.
        faster: Interval of (plan over best single) - 1 by the gate's statistics, lower and upper; None: not measured.
        recommended: The plan is certainly faster than the best single target, or there is none; where memory is made
            least, it holds less and certainly keeps the limit of the step.
    """

    model: str
    fingerprint: str
    pieces: tuple[Piece, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    objective: str = LATENCY
    batch: int = 1
    dtype: str = "float32"
    software: dict[str, str] = field(default_factory=dict)
    tolerance: float = 0.0
    difference: float | None = None
    predicted_s: float | None = None
    measured_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    best_single: str = ""
    single_s: float | None = None
    faster: tuple[float, float] | None = None
    recommended: bool = False


# When a run of the gate searches.
NEVER = "never"
SCHEDULED = "scheduled"  # by `schedule` and `workflow_dispatch` events
ALWAYS = "always"  # in pull requests too


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPolicy:
    """``[placement]``: what a search may use, and when the gate searches.

    Attributes:
        when: ``never``, ``scheduled`` or ``always``.
        devices: That operators may be placed on; empty: the workload's own device, and the CPU.
        libraries: Compute libraries that are considered; empty: all that are installed.
        objective: One of ``OBJECTIVES``.
        latency_s: Limit of the step where ``objective`` is memory.
        budget_s: For profiling, searching and measuring one workload; None: a fifth of the gate's budget.
    """

    when: str = SCHEDULED
    devices: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    objective: str = LATENCY
    latency_s: float | None = None
    budget_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlacement:
    """What a run found out on where the operators of one workload belong.

    Attributes:
        key: Of the workload. ``fingerprint``: of head's graph.
        plan: The best that was found and measured; None: nothing was, and ``reason`` says why.
        singles: All single-target assignments by the cost model.
        nodes: How many operators (fused groups) were placed. ``bound_s``: no placement is predicted to be faster.
        reused: The graph is that of an earlier search here, whose answer this is.
        previous: What was recommended for this workload before; None: nothing was known.
        changed: The recommendation is another than before (or there was none, and this one is not the single target
            that the model runs on by itself).
        seconds: What profiling, searching and measuring took.
    """

    model: str
    key: str
    fingerprint: str = ""
    plan: PlacementPlan | None = None
    reason: str = ""
    singles: tuple[Single, ...] = ()
    nodes: int = 0
    bound_s: float | None = None
    reused: bool = False
    previous: PlacementPlan | None = None
    changed: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementReport:
    """Placement in a run of the gate; shown, never judged."""

    workloads: tuple[WorkloadPlacement, ...] = ()
    notes: tuple[str, ...] = ()
