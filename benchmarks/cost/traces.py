"""Traces of many models, each made once and kept: what changes in the counting later needs no tracing again.

In: :class:`Sought`. Out: files ``.cache/bench-cost/traces/SET/NAME.json.gz`` (:class:`Trace` as the wire has it), and
``failed.jsonl`` beside them with a reason for each that could not be traced. Resumable: what is there is left alone.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.counting.journal import Journal
from benchmarks.counting.packages import version
from benchmarks.counting.zoo.limits import DEFAULT_BYTES, VARIABLE
from perfgate import wire
from perfgate.bench.progress import NullProgress
from perfgate.bench.session import HEAD, Options, Session, Side
from perfgate.records.graph import Trace
from perfgate.records.protocol import Counted, Failed
from perfgate.records.workload import ModelSpec, SideConfig

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench-cost"
ZOO = "benchmarks.cost.zoo"
TIMEOUT_S = 120.0
# The first count of a factory waits for its imports, so it is one of nobody's.
_FIRST = ModelSpec(name="first", entry="torch.nn:Identity", inputs=("float32[1]",), timeout_s=600.0)
_MODELS_PER_FACTORY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """``entry`` is ``module:callable`` below ``benchmarks.cost.zoo``; ``inputs`` as in perfgate.toml."""

    name: str
    entry: str
    inputs: object
    mode: str = "infer"

    def spec(self) -> ModelSpec:
        """As the worker wants it."""
        return ModelSpec(
            name=self.name,
            entry=f"{ZOO}.{self.entry}",
            inputs=_frozen(self.inputs),
            modes=(self.mode,),
            timeout_s=TIMEOUT_S,
        )


Answered = Counted | Failed


class Traces:
    """The folder of one set of models (``timm-amp``), traced with the packages that are installed now."""

    def __init__(self, name: str, packages: Sequence[str]) -> None:
        self.folder = CACHE / "traces" / name
        self.folder.mkdir(parents=True, exist_ok=True)
        key = {package: version(package) for package in packages}
        self.failed = Journal(self.folder / "failed.jsonl", key, resume=True)

    def path(self, name: str) -> Path:
        """Where ``name``'s trace is or would be."""
        return self.folder / f"{name}.json.gz"

    def read(self, name: str) -> Trace | None:
        """A trace that is there."""
        path = self.path(name)
        return wire.loads(Trace, gzip.decompress(path.read_bytes())) if path.is_file() else None

    def make(self, sought: Sequence[Sought], *, niceness: int = 15) -> None:
        """Trace what is not there and has not failed."""
        waiting = [one for one in sought if not self.path(one.name).is_file() and one.name not in self.failed.entries]
        begun = time.monotonic()
        for number, (name, reply) in enumerate(_traced(waiting, niceness), 1):
            if isinstance(reply, Failed):
                self.failed.add(name, {"reason": f"{reply.phase}: {reply.message}"[:500]})
            else:
                self._write(name, reply.trace)
            if number % 50 == 0:
                took = time.monotonic() - begun
                print(f"{number} of {len(waiting)} in {took:.0f} s, {len(self.failed.entries)} failed", file=sys.stderr)

    def _write(self, name: str, trace: Trace) -> None:
        path = self.path(name)
        part = path.with_suffix(".part")
        part.write_bytes(gzip.compress(wire.dumps(trace).encode(), compresslevel=3))
        part.replace(path)


def _traced(sought: Sequence[Sought], niceness: int) -> Iterator[tuple[str, Counted | Failed]]:
    os.environ.setdefault(VARIABLE, str(DEFAULT_BYTES))
    for start in range(0, len(sought), _MODELS_PER_FACTORY):
        waiting = list(sought[start : start + _MODELS_PER_FACTORY])
        while waiting:
            done = 0
            for one, (_, reply) in _one_factory(waiting, niceness):
                done += 1
                yield one.name, reply
                if isinstance(reply, Failed) and reply.kind == "hung":
                    break
            del waiting[: max(done, 1)]


def _one_factory(sought: Sequence[Sought], niceness: int) -> Iterator[tuple[Sought, tuple[ModelSpec, Answered]]]:
    specs = [_FIRST, *(one.spec() for one in sought)]
    modules = tuple(dict.fromkeys(spec.entry.partition(":")[0] for spec in specs))
    side = Side(
        name=HEAD, checkout=ROOT, repository=ROOT, python=sys.executable, config=SideConfig(source="benchmarks")
    )
    options = Options(threads=1, niceness=niceness, environ=os.environ)
    with (
        tempfile.TemporaryDirectory(prefix="bench-cost-") as folder,
        Session({HEAD: side}, run_dir=Path(folder), options=options, progress=NullProgress()) as session,
    ):
        replies = session.count_all(HEAD, specs, modules)
        try:
            next(replies)
            yield from zip(sought, replies, strict=True)
        finally:
            replies.close()


def _frozen(tree: object) -> object:
    if isinstance(tree, dict):
        return {key: _frozen(item) for key, item in tree.items()}
    return tuple(map(_frozen, tree)) if isinstance(tree, (list, tuple)) else tree
