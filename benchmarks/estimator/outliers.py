"""What is answered where the estimate is far off: families that are slower or faster than their structure says.

In: examples with their times, and estimates by models that saw none of their relatives. Out: the families that are odd,
and how well flags (``Estimate.novel``) and wide intervals pick out what is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.estimator.held_out import errors, time_of
from perfgate.records.estimate import Estimate, Example

# Median error of a family from which it is odd, and from which its answers have to say so.
ODD, FAR = 0.3, 0.5
# Share of all answers that counts as the worst; high over low of a wide interval; share of the others that may be
# flagged: a warning that comes with everything warns of nothing.
WORST, WIDE, FALSE_ALARMS = 0.02, 2.0, 0.05
HEADER = ("held out", "family", "n", "error", "high/low", "covered", "flagged", "why")
SHARES_HEADER = ("held out", "worst 2 %: flagged", "flagged or wide", "others: flagged", "wide")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """``error``: median of estimate over measured, less 1. ``answered``: share of rows that are covered or flagged.

    ``why``: the first cause that is given, or empty.
    """

    name: str
    n: int
    error: float
    far: float
    width: float
    covered: float
    flagged: float
    answered: float
    why: str

    def cells(self) -> tuple[str, ...]:
        """As :data:`HEADER` has them, but for the first."""
        return (
            self.name,
            str(self.n),
            f"{self.error:+.0%}",
            f"{self.width:.2f}",
            f"{self.covered:.0%}",
            f"{self.flagged:.0%}",
            self.why,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outliers:
    """``families``: odd ones, the worst first. Shares of the worst answers and of the others that are ``flagged``, that
    are ``wide``, and of the worst that are one of both.
    """

    families: tuple[Family, ...]
    worst_flagged: float
    worst_answered: float
    others_flagged: float
    others_wide: float

    def cells(self) -> tuple[str, ...]:
        """As :data:`SHARES_HEADER` has them, but for the first."""
        found = (self.worst_flagged, self.worst_answered, self.others_flagged, self.others_wide)
        return tuple(f"{one:.1%}" for one in found)


def of(examples: Sequence[Example], estimates: Sequence[Estimate]) -> Outliers:
    """Of at least one example."""
    by_family: dict[str, list[int]] = {}
    for number, one in enumerate(examples):
        by_family.setdefault(one.group, []).append(number)
    families = [
        _family(name, [examples[row] for row in rows], [estimates[row] for row in rows])
        for name, rows in by_family.items()
    ]
    flagged = np.array([bool(one.novel) for one in estimates])
    wide = np.array([one.high >= WIDE * one.low for one in estimates])
    # As far off by a half as by twice as much.
    off = np.array([abs(np.log(found.value / time_of(one))) for one, found in zip(examples, estimates, strict=True)])
    worst = np.zeros(len(off), bool)
    worst[np.argsort(-off, kind="stable")[: max(1, round(WORST * len(off)))]] = True
    others = ~worst if (~worst).any() else worst
    return Outliers(
        families=tuple(sorted((one for one in families if one.far > ODD), key=lambda one: -one.far)),
        worst_flagged=float(flagged[worst].mean()),
        worst_answered=float((flagged | wide)[worst].mean()),
        others_flagged=float(flagged[others].mean()),
        others_wide=float(wide[others].mean()),
    )


def _family(name: str, examples: Sequence[Example], estimates: Sequence[Estimate]) -> Family:
    pairs = list(zip(examples, estimates, strict=True))
    covered = np.array([found.low <= time_of(one) <= found.high for one, found in pairs])
    flagged = np.array([bool(found.novel) for found in estimates])
    return Family(
        name=name,
        n=len(pairs),
        error=float(np.median([found.value / time_of(one) - 1 for one, found in pairs])),
        far=float(np.median(errors(examples, estimates))),
        width=float(np.median([found.high / max(found.low, 1e-9) for found in estimates])),
        covered=float(covered.mean()),
        flagged=float(flagged.mean()),
        answered=float((covered | flagged).mean()),
        why=next((found.novel[0] for found in estimates if found.novel), ""),
    )


def missed(name: str, found: Outliers) -> list[str]:
    """Families that are far off and neither covered nor given a cause, and too many flags; a sentence each."""
    wrong = [
        f"{name}: {one.name} is {one.error:+.0%} off, and {1 - one.answered:.0%} of it neither covered nor flagged"
        for one in found.families
        if one.far > FAR and one.answered <= 0.5
    ]
    if found.others_flagged > FALSE_ALARMS:
        wrong.append(f"{name}: {found.others_flagged:.1%} of ordinary answers are flagged, above {FALSE_ALARMS:.0%}")
    return wrong
