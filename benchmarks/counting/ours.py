"""perfgate's own count of many models: each in a forked child of one process that has imported their libraries.

In: :class:`Wanted` models. Out: one :class:`Count` each, in order. The same path as ``perfgate count``: the worker
traces, the parent counts.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.bench.progress import NullProgress
from perfgate.bench.session import HEAD, Options, Session, Side
from perfgate.records.graph import Graph
from perfgate.records.protocol import Counted, Failed
from perfgate.records.workload import ModelSpec, SideConfig

ROOT = Path(__file__).resolve().parents[2]
ZOO = "benchmarks.counting.zoo"
CACHE = ROOT / ".cache" / "bench-count"
# The first count of a factory waits for its imports, so it is one of nobody's.
_FIRST = ModelSpec(name="first", entry="torch.nn:Identity", inputs=("float32[1]",), timeout_s=600.0)
# A factory is replaced now and then, so that nothing piles up in a sweep of a thousand models.
_MODELS_PER_FACTORY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """``entry`` is ``module:callable`` below ``benchmarks.counting.zoo``; ``inputs`` as in perfgate.toml."""

    name: str
    entry: str
    inputs: object
    mode: str = "infer"
    dtype: str = "float32"
    operators: tuple[tuple[str, str], ...] = ()

    def spec(self, timeout_s: float) -> ModelSpec:
        """As the worker wants it."""
        return ModelSpec(
            name=self.name,
            entry=f"{ZOO}.{self.entry}",
            inputs=_frozen(self.inputs),
            modes=(self.mode,),
            dtype=(self.dtype,),
            timeout_s=timeout_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """``graph`` None: not counted, ``reason`` says why. ``seconds`` from the fork to the counted graph."""

    name: str
    graph: Graph | None
    reason: str = ""
    seconds: float = 0.0
    peak_rss_bytes: int | None = None
    notes: tuple[str, ...] = ()


def counts(wanted: Sequence[Wanted], *, timeout_s: float = 600.0, niceness: int = 0) -> Iterator[Count]:
    """One :class:`Count` for each of ``wanted``, as they come; a child that hangs is ended before the next begins."""
    waiting = list(wanted)
    while waiting:
        done = 0
        for count, hung in _one_factory(waiting[:_MODELS_PER_FACTORY], timeout_s, niceness):
            done += 1
            yield count
            if hung:
                break
        waiting = waiting[done:]


def count(wanted: Wanted, *, timeout_s: float = 600.0) -> Count:
    """:func:`counts` of a single model."""
    return next(counts([wanted], timeout_s=timeout_s))


def _one_factory(wanted: Sequence[Wanted], timeout_s: float, niceness: int) -> Iterator[tuple[Count, bool]]:
    # The counter itself; late, so that a table's help needs no more than this file.
    build = importlib.import_module("perfgate.graph.build").build
    specs = [_FIRST, *(each.spec(timeout_s) for each in wanted)]
    modules = tuple(dict.fromkeys(spec.entry.partition(":")[0] for spec in specs))
    with _session(niceness) as session:
        replies = session.count_all(HEAD, specs, modules)
        try:
            next(replies)
            begun = time.perf_counter()
            for each, (_, reply) in zip(wanted, replies, strict=True):
                found = _count(each, reply)
                if isinstance(reply, Counted):
                    try:
                        found = replace(found, graph=build(reply.trace, dict(each.operators)))
                    except Exception as error:  # noqa: BLE001 - a fault of the counter is one line of its table
                        found = replace(found, reason=f"perfgate's counter: {type(error).__name__}: {error}")
                yield replace(found, seconds=time.perf_counter() - begun), _hung(reply)
                begun = time.perf_counter()
        finally:
            replies.close()


def _count(wanted: Wanted, reply: Counted | Failed) -> Count:
    if isinstance(reply, Failed):
        return Count(name=wanted.name, graph=None, reason=f"{reply.phase}: {reply.message}")
    notes = tuple(dict.fromkeys((*reply.trace.notes, *reply.notes)))
    return Count(name=wanted.name, graph=None, peak_rss_bytes=reply.peak_rss_bytes, notes=notes)


def _hung(reply: Counted | Failed) -> bool:
    return isinstance(reply, Failed) and reply.kind == "hung"


@contextmanager
def _session(niceness: int) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(prefix="bench-count-") as folder:
        side = Side(
            name=HEAD, checkout=ROOT, repository=ROOT, python=sys.executable, config=SideConfig(source="benchmarks")
        )
        options = Options(threads=1, niceness=niceness, environ=os.environ)
        with Session({HEAD: side}, run_dir=Path(folder), options=options, progress=NullProgress()) as session:
            yield session


def _frozen(tree: object) -> object:
    if isinstance(tree, dict):
        return {key: _frozen(item) for key, item in tree.items()}
    return tuple(map(_frozen, tree)) if isinstance(tree, (list, tuple)) else tree
