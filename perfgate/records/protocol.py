"""Messages between ``bench`` (parent) and ``worker`` (child).

Transport: a Unix stream socket pair, one JSON object a line (``wire.tagged``), never stdout.
A *factory* is a fresh process of one side: it imports torch and the user's modules once,
touches no device, and forks one *child* for each workload; the child's own socket travels
with :class:`Fork` (``socket.send_fds``). Where forking is unsafe the child is started fresh and
gets the socket by inheritance. Every request has exactly one reply; the side that is not
being timed is stopped (SIGSTOP) by the parent.

::

    bench -> factory:  Prepare -> Prepared | Failed     Fork -> Forked      (EOF ends the factory)
    bench -> child:    Open    -> Opened   | Failed     Time -> Timed | Failed
                       Finish  -> Finished | Failed     Count -> Counted | Failed
                       Sample  -> Sampled  | Failed     (EOF ends the child)
                       Lower, ProfileNodes, Build: see ``records.placing``
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.graph import Profile, Trace
from perfgate.records.placing import Advanced, Build, Built, Lower, Lowered, Profiled, ProfileNodes, Wanted
from perfgate.records.sampling import Condition
from perfgate.records.workload import ModelSpec, Workload

# What a model runs in, by the name of the module.
TORCH = "torch"
ONNXRUNTIME = "onnxruntime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """First message to a factory, and to a child that was started fresh.

    ``checkout`` and ``repository`` are absolute paths: the side's worktree, and the main checkout
    of the same repository, from which nothing may be loaded (outside the interpreter's prefix).
    ``tracked`` names the checkout's importable top-level modules found in git, mapped to their file, so that
    "installed elsewhere" can be told from "third-party". ``cpus`` None: leave the affinity mask.
    ``frameworks``: what the models run in; only these need to be installed.
    """

    side: str
    checkout: str
    repository: str
    pythonpath: tuple[str, ...]
    modules: tuple[str, ...]
    tracked: dict[str, str] = field(default_factory=dict)
    threads: int = 1
    cpus: tuple[int, ...] | None = None
    frameworks: tuple[str, ...] = (TORCH,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What runs a side: versions by name (``python``, ``torch``, ``torchvision``, ``numpy``, ``cuda``, ...)."""

    versions: dict[str, str] = field(default_factory=dict)
    threads: int = 1
    interop_threads: int = 1
    flags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """``can_fork`` False comes with the reason (threads alive after import, CUDA initialised at import)."""

    pid: int
    software: Software
    can_fork: bool
    reason: str = ""
    import_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Fork a child; the file descriptor of its socket comes as ancillary data of this message."""

    child: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """The new child's process id."""

    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Build the model and inputs and warm up until two windows agree.

    ``probe`` True also collects what a comparison needs once per process: the trace, the profile,
    digests, and the files loaded; such a child is never timed. ``real`` True traces on real tensors, also where
    the model would run on tensors without contents (so that both sides are traced alike).
    """

    workload: Workload
    spec: ModelSpec
    seed: int
    probe: bool = False
    real: bool = False
    warmup_min_calls: int = 3
    warmup_min_ns: int = 300_000_000
    warmup_agree: float = 0.02
    warmup_cap_ns: int = 30_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A tree of tensors: checksum of all bytes, and up to 256 evenly spaced values for "differs by X".

    ``values`` holds None where a value is NaN or infinite. ``layout`` is one line a tensor,
    ``path dtype[shape]``.
    """

    checksum: str
    layout: tuple[str, ...] = ()
    values: tuple[float | None, ...] = ()
    nonfinite: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What one process found out about a workload without timing it.

    ``exact``: metric name -> value (``params``, ``weight_bytes``, and on CUDA ``peak_memory``; ``flop``,
    ``traffic`` and ``operators`` are counted from the trace by the parent); a metric that could not be had is
    absent and named in ``not_counted``. ``trace`` is None in what is kept. ``breaks``: where and why a compiled
    model's graph breaks, one sentence each.
    ``files``: files of the checkout that were imported or opened, relative to it, sorted.
    ``spans`` and the two times are those of this process's :class:`Opened` (times for planning, not judged).
    ``structure``: what the estimator needs later (counts by module class ...), free form.
    """

    exact: dict[str, float]
    inputs: Digest
    outputs: Digest
    files: tuple[str, ...] = ()
    not_counted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    items: int = 1
    spans: tuple[str, ...] = ()
    first_step_ns: int = 0
    step_ns: int = 0
    structure: object = None
    breaks: tuple[str, ...] = ()
    trace: Trace | None = None
    profile: Profile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """``step_ns`` is the warm median; ``first_step_ns`` the very first call, compilation included.

    ``devices`` are the devices used (``cpu``, ``cuda:0`` and the UUID where known as ``cuda:0=GPU-...``).
    ``spans`` are the names that a generator step yields. ``ready_ns`` is what building and warming up took, without
    the probe.
    """

    step_ns: int
    first_step_ns: int
    warmup_calls: int
    settled: bool
    items: int = 1
    spans: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu",)
    ready_ns: int = 0
    probe: Probe | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Time one block: throw away calls until both ``discard_*`` are reached, then take ``samples`` samples.

    Each sample is ``inner`` calls timed together and divided by ``inner`` (for calls under 200 us).
    """

    samples: int
    inner: int = 1
    discard_calls: int = 2
    discard_ns: int = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Samples in ns per call; ``spans_ns`` one list per span name, as long as ``samples_ns``.

    ``cpu_ns`` is the process's CPU time in the block, ``wall_ns`` the block's length including
    nothing thrown away. ``items`` is the number of items of each call (must agree within a side).
    ``recompiles`` > 0 or ``graph_breaks`` > 0 voids the worker.
    """

    samples_ns: tuple[int, ...]
    spans_ns: dict[str, tuple[int, ...]] = field(default_factory=dict)
    device_ns: tuple[int, ...] = ()
    cpu_ns: int = 0
    wall_ns: int = 0
    items: int = 1
    recompiles: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Ask for the peak since warm-up; the child exits after answering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """``peak_bytes``: VmHWM since the end of warm-up on the CPU, allocator peak on CUDA; None if unknown."""

    peak_bytes: int | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Trace one step of a model that is built without weights where it can be. The child is of no use afterwards."""

    workload: Workload
    spec: ModelSpec
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """``peak_rss_bytes``: VmHWM of the child at the end."""

    trace: Trace
    peak_rss_bytes: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturate:
    """Reach pi and beta of ``device`` by large products and streams; no model is built.

    ``stream_bytes``: least size of each of the stream's three arrays (on an accelerator the worker takes more where
    there is room). ``probe_ns``: time for each rate.
    """

    device: str
    dtypes: tuple[str, ...]
    stream_bytes: int
    probe_ns: int = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturated:
    """``flop_per_s``: dtype -> fastest product; a dtype that does not run is in ``notes``.

    ``sizes``: dtype -> n of the n x n products; ``spread``: how far the median repetition is from the fastest, the
    largest of all probes, as a share. ``cache_bytes`` of an accelerator's last-level cache where the driver tells it.
    """

    label: str
    flop_per_s: dict[str, float]
    bandwidth_bytes_per_s: float
    stream_bytes: int
    spread: float
    sizes: dict[str, int] = field(default_factory=dict)
    cache_bytes: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Build a sample network and take its first step; ``Time`` and ``Finish`` follow as after ``Open``.

    ``trace`` True: trace one step instead, on tensors without contents; nothing runs, and nothing may follow.
    """

    condition: Condition
    seed: int = 0
    trace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A sample network that has taken its first step, or its trace.

    Sizes in bytes: ``weight_bytes`` parameters and buffers, ``disk_bytes`` the saved weights, ``input_bytes`` the
    inputs of one step, ``resting_bytes`` what the process held before the network was built (None: unknown),
    ``reserved_bytes`` what the accelerator's allocator keeps after the first step (None: no accelerator).
    """

    first_step_ns: int = 0
    devices: tuple[str, ...] = ("cpu",)
    params: int = 0
    weight_bytes: int = 0
    disk_bytes: int = 0
    input_bytes: int = 0
    resting_bytes: int | None = None
    reserved_bytes: int | None = None
    structure: object = None
    trace: Trace | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The user's code, or the tree it came from, is at fault.

    ``kind``: ``raised``, ``oom``, ``exited``, ``hung``, ``killed``, ``foreign-code`` (loaded from
    another checkout), ``import``, ``inputs``, ``protocol``, ``unsupported``. ``phase``: ``setup``, ``import``,
    ``build``, ``inputs``, ``first-step``, ``warm-up``, ``timing``, ``probe``, ``finish``.
    ``message`` is one line for people, ``trace`` the last lines of the traceback (capped).
    """

    kind: str
    phase: str
    message: str
    trace: str = ""


FactoryRequest = Prepare | Fork
FactoryReply = Prepared | Forked | Failed
ChildRequest = Prepare | Open | Time | Finish | Count | Saturate | Sample | Lower | ProfileNodes | Build
ChildReply = (
    Prepared | Opened | Timed | Finished | Counted | Saturated | Sampled | Failed
    | Lowered | Advanced | Profiled | Built | Wanted
)  # fmt: skip
