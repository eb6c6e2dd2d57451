"""Floor 3, worker. ``ProfileNodes`` -> ``Profiled``: times of distinct nodes, of borders, and of the whole model.

In: a lowered model and the libraries of this interpreter. Out: facts for a placement problem, within a time budget.

A node is timed as a piece of its own, which is not what it takes inside a larger piece: compilers fuse across nodes,
and values stay in caches. So the whole model is timed on each target too, and ``WholeTime.factor`` is what the times
of nodes on that target have to be multiplied by to add up to it: factor = (whole - piece_s) / sum of nodes.

Where that is below 1, pieces of one node do work that a larger piece does not, mostly at their borders: bringing
tensors into the library's own order and back. So what the factor takes from nodes is put on the target's borders, in
proportion to bytes: whoever cuts a model into many pieces pays it again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from perfgate.records.placement import Border, Support, Target
from perfgate.records.placing import NO_TIME, Advanced, NodeTime, Profiled, ProfileNodes, WholeTime
from perfgate.worker.placing import borders, empty, timing, trials
from perfgate.worker.placing.libraries.base import Library
from perfgate.worker.placing.libraries.registry import Registry
from perfgate.worker.placing.model import Model
from perfgate.worker.placing.pieces import Piece
from perfgate.worker.placing.timing import Times
from perfgate.worker.placing.trials import Trial

# Shares of what is left of the budget.
_EMPTY_SHARE, _BORDER_SHARE, _WHOLE_SHARE = 0.02, 0.05, 0.15
_NODE_MOST_S = 1.0
# Where an empty call cannot be timed for lack of time: about what one takes.
_USUAL_CALL_S = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A piece to time, with reference outputs."""

    piece: Piece
    wanted: Sequence[Any]


class Profiler:
    """One profile: what was tried, timed and left out so far."""

    def __init__(self, model: Model, registry: Registry, request: ProfileNodes) -> None:
        self._model = model
        self._registry = registry
        self._deadline = time.monotonic() + request.budget_s
        self._begun = time.monotonic()
        self._unmeasured: list[str] = []
        self._targets: list[Target] = []
        for target in request.targets:
            missing = registry.missing(target.library)
            if missing:
                self._unmeasured.append(f"{target.name}: {missing}")
            else:
                self._targets.append(target)
        self._alone = len({target.library for target in self._targets}) == 1
        self._compilers = [target for target in self._targets if self._library(target).compiler]
        self._single = all(one.threads == 1 and one.device == "cpu" for one in self._targets)
        self._costs: dict[str, float] = {}
        self._trials: dict[tuple[str, str], Trial] = {}
        self._node_times: dict[tuple[str, str], Times] = {}
        self._whole_times: dict[str, Times] = {}
        self._calls: dict[str, float] = {}
        self._borders: tuple[Border, ...] = ()
        self._names = set(request.nodes)
        self._signatures: dict[str, _Work] = {}

    def run(self) -> Profiled:
        """All of it without a pause."""
        for _ in self.steps():
            pass
        return self.profiled()

    def steps(self) -> Iterator[Advanced]:
        """Libraries first; the compiler, for which each piece takes long, with what time is left.

        A pause after each piece: how far it is.
        """
        works = self._works()
        plain = [target for target in self._targets if not self._library(target).compiler]
        total = len(works) * (1 + len(self._compilers))
        whole = works.pop("")
        self._signatures = works
        self._empty(plain)
        self._measure("", whole, plain, _WHOLE_SHARE * self._left())
        done = 1
        yield Advanced(done=done, total=total)
        for place, (signature, work) in enumerate(works.items()):
            self._measure(signature, work, plain, min(_NODE_MOST_S, 0.5 * self._left() / (len(works) - place)))
            done += 1
            yield Advanced(done=done, total=total)
        for target in self._compilers:
            # The whole model on the compiler is what everything is compared with, so it comes before the nodes.
            if self._affordable(target, 2):
                self._empty([target])
            self._measure("", whole, [target], _WHOLE_SHARE * self._left())
            done += 1
            yield Advanced(done=done, total=total)
            for signature, work in works.items():
                self._measure(signature, work, [target], _NODE_MOST_S)
                done += 1
                yield Advanced(done=done, total=total)
        self._say_missing(works)
        shutil.rmtree(self._model.folder / "tried", ignore_errors=True)

    def _works(self) -> dict[str, _Work]:
        """Pieces by signature, the heaviest first; the whole model under the empty text."""
        model = self._model
        first = model.representatives()
        counts: dict[str, int] = dict.fromkeys(first, 0)
        for node in model.parts.nodes:
            counts[node.signature] += 1
        chosen = {
            signature: index
            for signature, index in first.items()
            if not self._names or model.parts.nodes[index].name in self._names
        }
        everything = model.piece(range(len(model.parts.nodes)))
        names = {name for index in chosen.values() for name in _border(model, index)}
        values = model.capture([*names, *everything.inputs])
        values.update(zip(model.parts.inputs, model.inputs(), strict=True))
        whole = model.piece(range(len(model.parts.nodes)), values)
        made = {signature: model.piece([index], values, shared=True) for signature, index in chosen.items()}
        model.need([*made.values(), whole], empty=empty.file(model))
        final = dict(zip(model.parts.outputs, model.reference(), strict=True))
        works = {"": _Work(piece=whole, wanted=[final[name] for name in whole.outputs])}
        weight = {
            signature: counts[signature] * (model.parts.nodes[index].weight_bytes + _bytes(model, index))
            for signature, index in chosen.items()
        }
        for signature in sorted(made, key=lambda one: -weight[one]):
            piece = made[signature]
            works[signature] = _Work(piece=piece, wanted=[values[name] for name in piece.outputs])
        return works

    def _empty(self, targets: Sequence[Target]) -> None:
        """Cost of a call that does nothing, and of borders between libraries that are there by then."""
        model = self._model
        piece = empty.piece(model)
        runners: dict[str, Trial] = {}
        for target in targets:
            trial = self._attempt(piece, target, list(piece.examples))
            if trial is not None and trial.runner is not None:
                runners[target.name] = trial
        if not runners:
            return
        times = timing.interleaved(
            [trial.call for trial in runners.values()], _EMPTY_SHARE * self._left(), single=self._single
        )
        self._calls.update({name: one.median_s for name, one in zip(runners, times, strict=True)})
        self._trials.update({(empty.KEY, name): trial for name, trial in runners.items()})
        known = {name: trial.runner for (key, name), trial in self._trials.items() if key == empty.KEY}
        self._borders = borders.borders(known, _BORDER_SHARE * self._left(), empty.maker(model))

    def _measure(self, signature: str, work: _Work, targets: Sequence[Target], budget_s: float) -> None:
        """One piece on ``targets``, in turn with those on which it was timed before."""
        fresh = False
        for target in targets:
            key = (signature, target.name)
            if key in self._trials:
                continue
            trial = self._attempt(work.piece, target, work.wanted)
            if trial is not None:
                self._trials[key] = trial
                fresh = fresh or trial.runner is not None
        ready = {
            target.name: self._trials[signature, target.name]
            for target in self._targets
            if (signature, target.name) in self._trials and self._trials[signature, target.name].runner is not None
        }
        if not ready or not fresh or self._left() <= 0:
            return
        times = timing.interleaved(
            [trial.call for trial in ready.values()], min(budget_s, self._left()), single=self._single
        )
        for name, one in zip(ready, times, strict=True):
            if signature:
                self._node_times[signature, name] = one
            else:
                self._whole_times[name] = one
        if not self._compilers:
            # Nothing is left to be timed next to them, and each holds its weights.
            for trial in ready.values():
                trial.release()

    def _attempt(self, piece: Piece, target: Target, wanted: Sequence[Any]) -> Trial | None:
        """None: there is no time for it."""
        library = self._library(target)
        if not self._affordable(target):
            return None
        before = time.monotonic()
        folder = self._model.folder / "tried" / f"{piece.key}-{target.name}".replace(" ", "-").replace("/", "-")
        trial = trials.attempt(piece, library, target, wanted, folder=folder, alone=self._alone)
        spent = time.monotonic() - before
        self._costs[library.name] = spent if trial.runner is not None else self._costs.get(library.name, 0.0)
        return trial

    def _affordable(self, target: Target, pieces: int = 1) -> bool:
        library = self._library(target)
        usual = self._costs.get(library.name) or (library.cost_s if library.compiler else 0.0)
        return self._left() > pieces * usual

    def _library(self, target: Target) -> Library:
        return self._registry.usable[target.library]

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _say_missing(self, works: dict[str, _Work]) -> None:
        for target in self._targets:
            lacking = [work.piece.name for one, work in works.items() if self._untimed(one, target.name)]
            if lacking:
                shown = ", ".join(lacking[:5]) + (f" and {len(lacking) - 5} more" if len(lacking) > 5 else "")
                count = f"{len(lacking)} distinct node{'s' if len(lacking) > 1 else ''}"
                self._unmeasured.append(f"{target.name}: {NO_TIME} for {count} ({shown}); raise the budget")
            if target.name not in self._calls:
                self._unmeasured.append(
                    f"{target.name}: an empty call was not timed; {_USUAL_CALL_S * 1e6:g} us is assumed"
                )

    def _untimed(self, signature: str, target: str) -> bool:
        trial = self._trials.get((signature, target))
        return trial is None or (trial.runner is not None and (signature, target) not in self._node_times)

    def profiled(self) -> Profiled:
        """What is known after the last of :meth:`steps`."""
        works = self._signatures
        wholes = tuple(self._whole(target) for target in self._targets)
        return Profiled(
            targets=tuple(
                Target(
                    name=one.name,
                    library=one.library,
                    device=one.device,
                    threads=one.threads,
                    piece_s=self._calls.get(one.name, _USUAL_CALL_S),
                    default=one.default,
                    whole=one.whole,
                )
                for one in self._targets
            ),
            times=tuple(self._node(signature, name, one) for (signature, name), one in self._node_times.items()),
            wholes=wholes,
            borders=self._all_borders(wholes),
            supports=tuple(self._support(signature, name) for signature, name in self._trials if signature in works),
            unmeasured=tuple(self._unmeasured),
            distinct=len(works),
            measured=len(self._node_times),
            elapsed_s=time.monotonic() - self._begun,
        )

    def _net(self, name: str, times: Times) -> float:
        """A node's time without its call; never nothing, since a search would move such nodes about at will."""
        return max(times.median_s - self._calls.get(name, _USUAL_CALL_S), 0.02 * times.median_s)

    def _node(self, signature: str, name: str, one: Times) -> NodeTime:
        return NodeTime(
            signature=signature,
            target=name,
            seconds=self._net(name, one),
            raw_s=one.median_s,
            low_s=one.low_s,
            high_s=one.high_s,
            blocks=one.blocks,
            difference=self._trials[signature, name].difference,
        )

    def _whole(self, target: Target) -> WholeTime:
        name = target.name
        call_s = self._calls.get(name, _USUAL_CALL_S)
        nodes_s: float | None = 0.0
        for node in self._model.parts.nodes:
            one = self._node_times.get((node.signature, name))
            nodes_s = None if one is None or nodes_s is None else nodes_s + self._net(name, one)
        times = self._whole_times.get(name)
        trial = self._trials.get(("", name))
        if times is None:
            reason = trial.answer.reason if trial is not None else ""
            return WholeTime(
                target=name, reason=reason or NO_TIME, nodes_s=None if nodes_s is None else nodes_s + call_s
            )
        factor = max(times.median_s - call_s, 0.0) / nodes_s if nodes_s else 1.0
        return WholeTime(
            target=name,
            seconds=times.median_s,
            nodes_s=None if nodes_s is None else nodes_s + call_s,
            factor=factor or 1.0,
            low_s=times.low_s,
            high_s=times.high_s,
            difference=trial.difference if trial is not None else None,
        )

    def _all_borders(self, wholes: Sequence[WholeTime]) -> tuple[Border, ...]:
        """Transfers, and what the factors take from nodes."""
        values = self._model.parts.values
        crossed = [name for node in self._model.parts.nodes for name in (*node.inputs, *node.outputs) if name in values]
        total = sum(values[name].bytes for name in crossed)
        own: dict[str, float] = {}
        for one in wholes:
            call_s = self._calls.get(one.target, _USUAL_CALL_S)
            saved_s = 0.0 if one.nodes_s is None else (1 - one.factor) * (one.nodes_s - call_s)
            own[one.target] = max(0.0, saved_s) / total if total else 0.0
        return borders.with_conversion(self._borders, own)

    def _support(self, signature: str, name: str) -> Support:
        trial = self._trials[signature, name]
        index = self._model.representatives()[signature]
        node = self._model.parts.nodes[index]
        return Support(
            target=name,
            signature=signature,
            name=node.name,
            kind=node.kind,
            reason=trial.answer.reason,
            how=trial.answer.how,
        )


def _border(model: Model, index: int) -> tuple[str, ...]:
    node = model.parts.nodes[index]
    return (*node.inputs, *node.outputs)


def _bytes(model: Model, index: int) -> int:
    return sum(model.parts.values[name].bytes for name in _border(model, index) if name in model.parts.values)
