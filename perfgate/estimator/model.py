"""Floor 3, estimator. The fitted model: questions in, estimates with intervals, causes and terms out.

``Model.estimate`` takes one :class:`Example` without targets. Step time is in ns, peak memory in bytes (of the process
on the device: weights, optimiser state, activations, workspace, context), energy in joule, utilisation a share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from perfgate.errors import UsageError
from perfgate.estimator import anchors, columns, features, kernels, memory, novelty, parts, support
from perfgate.estimator.anchors import Found, Places
from perfgate.estimator.columns import Columns, Names
from perfgate.estimator.held_out import ANCHORED as CLOSE
from perfgate.estimator.intervals import COVERAGE, Calibrated, Quantiles
from perfgate.estimator.kernels import Kernels, Single
from perfgate.estimator.novelty import Seen
from perfgate.estimator.parts import Answer, Parts
from perfgate.estimator.support import Rare
from perfgate.estimator.transfer import Setting
from perfgate.records.estimate import (
    ANCHORED,
    FITTED,
    PEAK_MEMORY,
    STEP_TIME,
    TRANSFERRED,
    UTILISATION,
    Accuracy,
    Estimate,
    Example,
    Term,
)

Floats = NDArray[np.float64]

_TERMS = 12
RELATIVES = "correction by measured relatives"
REST = "other kernels"
# Errors of a step whose time on another machine is known, where too few were seen: from GPU to GPU with none or some
# measurements 4 to 5 % at the median, and three times as much at the 90th percentile.
_ACROSS = Quantiles(low=-0.13, high=0.13)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """One target's fit.

    ``columns``, ``units`` (k,): of the core. ``places``, ``residual``, ``errors``, ``models``: relatives that are kept.
    ``calibrated``: of intervals; ``own``: that of single settings that are measured enough; ``across``: quantiles where
    close relatives ran on other machines alone.
    ``context``: kind of machine -> least bytes beside what is counted. ``errors_by_digest``: held-out error of
    each example, by which two fits are compared.
    """

    target: str
    columns: tuple[str, ...]
    units: tuple[str, ...]
    parts: Parts
    kernels: Kernels | None
    scale: float
    settings: tuple[Setting, ...]
    names: Names
    places: Places
    residual: Floats
    errors: Floats
    models: tuple[str, ...]
    calibrated: Calibrated
    own: dict[str, Calibrated]
    across: Quantiles | None
    context: dict[str, float]
    seen: Seen
    accuracy: Accuracy
    errors_by_digest: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relatives:
    """What may serve as an anchor: kept rows, and those that a question brings along."""

    places: Places
    residual: Floats
    errors: Floats
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A fit of several targets; ``key`` is the hash of what it was learned from (``fit.key``)."""

    key: str
    seed: int
    fitted: dict[str, Fitted]
    notes: tuple[str, ...] = ()

    @property
    def accuracy(self) -> dict[str, Accuracy]:
        """Of each target on held-out groups."""
        return {target: one.accuracy for target, one in self.fitted.items()}

    def estimate(self, example: Example, target: str = STEP_TIME, anchors: Sequence[Example] = ()) -> Estimate:
        """One answer; see :meth:`estimates`."""
        return self.estimates([example], target, anchors)[0]

    def estimates(
        self, examples: Sequence[Example], target: str = STEP_TIME, anchors: Sequence[Example] = ()
    ) -> list[Estimate]:
        """An answer for each question; equal questions get equal answers.

        ``anchors``: measured examples beside those learned from, such as the same model before a change.

        Raises:
            UsageError: The model does not estimate this target, or a question has no kernels.
        """
        if target not in self.fitted:
            msg = (
                f"this model does not estimate {target}, only {', '.join(self.fitted)}; fit it on examples that have it"
            )
            raise UsageError(msg)
        for one in examples:
            if not one.kernels:
                msg = f"{one.model}: no kernels to estimate from; count the model first"
                raise UsageError(msg)
        if not examples:
            return []
        timed = self.fitted.get(STEP_TIME)
        asked = _Asked(self.fitted[target], None if timed is None else timed.parts.general)
        # As in a fit: on busy cores, threads that wait for one another take longer than the arithmetic.
        with threadpool_limits(1):
            return asked.estimates(examples, anchors)


class _Asked:
    """Questions to one target."""

    def __init__(self, fitted: Fitted, time_coefficients: Floats | None) -> None:
        self.fitted = fitted
        self.time = time_coefficients

    def estimates(self, examples: Sequence[Example], measured: Sequence[Example]) -> list[Estimate]:
        fitted = self.fitted
        found, settings = self._columns(examples), columns.settings_of(examples)
        names, relatives = self._relatives(measured)
        places = columns.places(examples, settings, found.calls, names, add=False)
        said = anchors.interpolate(relatives.places, relatives.residual, places, errors=relatives.errors)
        linear, trees = parts.linear(fitted.parts, found.x, settings, fitted.settings)
        given = Answer(linear=linear, trees=trees, found=said)
        value = np.maximum(np.exp(given.log(fitted.scale)), self._floor(examples, found))
        doubt = given.doubts()
        single = kernels.answer(fitted.kernels, examples, settings, found.calls)
        rare = self._rare(examples, settings, said)
        return [
            self._estimate(
                row, examples[row], found, settings[row], float(value[row]), said, relatives, places, doubt, rare[row]
            )
            if (alone := self._single(single, row, said, relatives, places)) is None
            else self._of_kernel(row, examples[row], found, settings[row], alone)
            for row in range(len(examples))
        ]

    def _rare(self, examples: Sequence[Example], settings: Sequence[Setting], said: Found) -> list[tuple[Rare, ...]]:
        """Of each question, what hardly any group tells; what a close relative took holds for its kernels too."""
        found: list[tuple[Rare, ...]] = [()] * len(examples)
        rows = [int(row) for row in np.flatnonzero(said.variance >= CLOSE)]
        fitted = self.fitted
        if not rows or not fitted.seen.support.groups:
            return found
        shares = support.shares(
            [examples[row] for row in rows],
            np.stack([parts.coefficients(fitted.parts, settings[row], fitted.settings) for row in rows]),
        )
        for row, share in zip(rows, shares, strict=True):
            found[row] = support.rare(share, fitted.seen.support)
        return found

    def _single(
        self, single: Single | None, row: int, said: Found, relatives: _Relatives, places: Places
    ) -> tuple[float, float, float] | None:
        """What is known of a step of one kernel, unless the very same one was measured here."""
        if single is None or np.isnan(single.value[row]):
            return None
        nearest = int(said.nearest[row])
        same = nearest >= 0 and all(
            part[nearest] == own[row]
            for part, own in (
                (relatives.places.model, places.model),
                (relatives.places.setting, places.setting),
                (relatives.places.group, places.group),
            )
        )
        if same:
            return None
        return float(single.value[row]), float(single.low[row]), float(single.high[row])

    def _of_kernel(
        self, row: int, example: Example, found: Columns, setting: Setting, known: tuple[float, float, float]
    ) -> Estimate:
        why = novelty.causes(example, self.fitted.seen).why
        value, low, high = known
        return Estimate(
            target=self.fitted.target,
            value=value,
            low=min(low, value),
            high=max(high, value),
            coverage=COVERAGE,
            source=FITTED if setting.key in self.fitted.names.settings else TRANSFERRED,
            terms=self._terms(found.x[row], setting, value),
            novel=why,
        )

    def _columns(self, examples: Sequence[Example]) -> Columns:
        return columns.of(examples, self.fitted.target, self.time)

    def _floor(self, examples: Sequence[Example], found: Columns) -> Floats:
        if self.fitted.target != PEAK_MEMORY:
            return np.zeros(len(examples))
        least = self.fitted.context
        beside = [least.get(one.machine.kind, float(memory.CONTEXT_BYTES)) for one in examples]
        return memory.floor(found.x, np.array(beside, np.float64))

    def _relatives(self, measured: Sequence[Example]) -> tuple[Names, _Relatives]:
        fitted = self.fitted
        usable = [one for one in measured if one.kernels and one.targets.get(fitted.target, 0) > 0]
        if not usable:
            kept = _Relatives(
                places=fitted.places, residual=fitted.residual, errors=fitted.errors, models=fitted.models
            )
            return fitted.names, kept
        names, settings = fitted.names.copy(), columns.settings_of(usable)
        found = self._columns(usable)
        places = columns.places(usable, settings, found.calls, names, add=True)
        linear, _ = parts.linear(fitted.parts, found.x, settings, fitted.settings)
        y = np.array([columns.measured(one, fitted.target) for one in usable], np.float64)
        # The nearest of equals counts, and that should be what was measured last.
        return names, _Relatives(
            places=columns.joined(places, fitted.places),
            residual=np.concatenate([np.log(y / linear), fitted.residual]),
            errors=np.concatenate([np.full(len(usable), np.nan), fitted.errors]),
            models=(*(one.model for one in usable), *fitted.models),
        )

    def _estimate(
        self, row: int, example: Example, found: Columns, setting: Setting, value: float, said: Found,
        relatives: _Relatives, places: Places, doubt: Floats, rare: tuple[Rare, ...],
    ) -> Estimate:  # fmt: skip
        fitted = self.fitted
        new = novelty.causes(example, fitted.seen, rare)
        # That nothing was measured there is in errors between machines already.
        but = 1.0
        close = bool(said.variance[row] < CLOSE)
        measured_here = setting.key in fitted.names.settings
        nearest = int(said.nearest[row])
        related = close and nearest >= 0
        anchored_here = related and relatives.places.setting[nearest] == places.setting[row]
        if related and not anchored_here:
            wide = fitted.across or _ACROSS
            low, high = wide.low, wide.high
            if fitted.across is None and not measured_here:
                but = novelty.HARDWARE
        else:
            ends = fitted.own.get(setting.key, fitted.calibrated).ends(doubt[row : row + 1])
            low, high = (float(end[0]) for end in ends)
        low, high = (value * np.exp(end) for end in new.ends(low, high, but))
        source = FITTED if measured_here else TRANSFERRED
        if anchored_here:
            source = ANCHORED
        if fitted.target == UTILISATION:
            value = min(value, 1.0)
        return Estimate(
            target=fitted.target,
            value=value,
            low=min(float(low), value),
            high=_high(fitted.target, float(high), value),
            coverage=COVERAGE,
            source=source,
            terms=self._terms(found.x[row], setting, value),
            novel=new.why,
            anchor=relatives.models[nearest] if related else "",
        )

    def _terms(self, x: Floats, setting: Setting, value: float) -> tuple[Term, ...]:
        """Parts of the core's estimate, the largest first; they add up to the value."""
        fitted = self.fitted
        each = parts.coefficients(fitted.parts, setting, fitted.settings) * x
        if fitted.target == PEAK_MEMORY:
            # What is counted is there byte for byte; the other two are what was learned.
            each[: memory.COUNTED] = x[: memory.COUNTED]
        named: dict[str, float] = {}
        for name, part in zip(fitted.columns, each, strict=True):
            if part > 0:
                named[_label(name)] = named.get(_label(name), 0.0) + float(part)
        largest = sorted(named.items(), key=lambda item: (-item[1], item[0]))
        terms = [Term(name=name, value=part) for name, part in largest[:_TERMS]]
        rest = sum(part for _, part in largest[_TERMS:])
        if rest > 0:
            terms.append(Term(name=REST, value=rest))
        correction = value - sum(term.value for term in terms)
        if abs(correction) > 1e-12 * value:
            terms.append(Term(name=RELATIVES, value=correction))
        return tuple(terms)


def _high(target: str, high: float, value: float) -> float:
    return min(max(high, value), 1.0) if target == UTILISATION else max(high, value)


def _label(name: str) -> str:
    """Columns of halves and wider elements are one term: ``activation bytes``."""
    if name in memory.NAMES:
        return name
    try:
        unit = features.unit(name)
    except (KeyError, StopIteration):
        return name
    words = {features.FLOP: "FLOP", features.BYTES: "bytes", features.CALLS: "launches"}
    return f"{features.kernel_class(name)} {words[unit]}" if unit in words else "each step"
