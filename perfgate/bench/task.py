"""Floor 3, bench. What a session is asked to do: its sides, its options, its works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perfgate.records.evidence import SideEvidence
from perfgate.records.workload import ModelSpec, SideConfig, Workload

BASE = "base"
HEAD = "head"
SIDES = (BASE, HEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One revision, ready to run.

    Attributes:
        name: ``base`` or ``head``.
        checkout: The side's worktree; the working directory of its workers.
        repository: Main checkout of the same repository, from which nothing may be loaded.
        python: Absolute path of the interpreter.
        config: This side's own configuration.
        tracked: Importable top-level module -> its file in git (see ``protocol.Prepare``).
        env: Variables that this side's ``setup`` asks for, added to the allowed ones.
    """

    name: str
    checkout: Path
    repository: Path
    python: str
    config: SideConfig
    tracked: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to measure, apart from the plan of the test.

    Attributes:
        seed: Seeds weights and inputs, equally on both sides.
        threads: Compute threads of a worker. cpus: logical CPUs that it may use, None for no pinning.
        probe_processes: Processes that collect a workload's facts, at least 2 to tell constant from varying.
        hang_s: Upper bound, in seconds, on the wait for one reply; None leaves the model's own ``timeout_s``.
        block_hang_s: Least wait for a timed block, which is otherwise bounded by 50 times its predicted length.
        grace_s: How long a worker may take to end by itself before it is ended.
        warmup_min_ns: Least warm-up on the CPU; CUDA devices get at least 0.5 s. warmup_cap_ns: the most.
        niceness: Scheduling priority of workers, where the system allows it (negative needs privileges): other
            processes then take less from a timed block. Equal on both sides.
        lock_dir: Folder of the lock files; None: ``PERFGATE_LOCK_DIR`` or the temporary folder.
        lock_wait_s: How long to wait for another gate on this machine.
        environ: Environment to pick the allowed variables from; None: this process's own.
    """

    seed: int = 0
    threads: int = 1
    cpus: tuple[int, ...] | None = None
    probe_processes: int = 2
    hang_s: float | None = None
    block_hang_s: float = 30.0
    grace_s: float = 2.0
    warmup_min_ns: int = 300_000_000
    warmup_cap_ns: int = 30_000_000_000
    niceness: int = -10
    lock_dir: Path | None = None
    lock_wait_s: float = 3600.0
    environ: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One workload to compare.

    ``tolerances``: gated noisy metric -> tau (0.03 = 3 %); measuring ends when each is decided. Empty: nothing is
    decided, and measuring ends at ``max_pairs``, or at the first look where that is None.
    """

    workload: Workload
    base_spec: ModelSpec
    head_spec: ModelSpec
    base: SideEvidence
    head: SideEvidence
    tolerances: dict[str, float] = field(default_factory=dict)
    informative: bool = False
    max_pairs: int | None = None

    def spec(self, side: str) -> ModelSpec:
        """How ``side`` builds and steps the model."""
        return self.base_spec if side == BASE else self.head_spec

    def known(self, side: str) -> SideEvidence:
        """What was found out about ``side`` before timing."""
        return self.base if side == BASE else self.head
