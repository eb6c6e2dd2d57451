"""What a run is asked to do, and the outside world it may touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from perfgate.bench.progress import Progress
from perfgate.records.evidence import CiRun

CONFIG_FILE = "perfgate.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """Which revisions of which repository to measure.

    ``base`` None: nothing to compare with; head is measured against itself and recorded.
    ``merge_base`` True takes the merge base of ``base`` and ``head`` (a pull request). ``models``
    empty: all that are touched. ``python`` overrides both sides' interpreter. ``refuse`` is the reason
    for which nothing of this pull request may run here; empty: it may. ``fixed_pairs`` takes exactly so many
    pairs with one look at the end.
    """

    root: Path
    head: str = "HEAD"
    base: str | None = None
    merge_base: bool = True
    config_file: str = CONFIG_FILE
    python: str = ""
    models: tuple[str, ...] = ()
    everything: bool = False
    seed: int | None = None
    ci: CiRun | None = None
    refuse: str = ""
    fixed_pairs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Effects that a run needs: progress to show, and the process environment to read.

    ``check_store`` is told the configured database before minutes are spent on measuring; it raises StoreError.
    """

    progress: Progress
    environ: Mapping[str, str]
    check_store: Callable[[str], None] = lambda _: None
