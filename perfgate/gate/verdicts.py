"""Floor 3, gate. The verdicts of a run in; its exit code and the check run's conclusion out.

This is the only place that knows this table:

==============================  =====================================  ==========================================
verdict                         exit code                              check
==============================  =====================================  ==========================================
``regression``, ``missing``     1                                      failure
``invalid``                     3, unless something is red             neutral, or action_required
``inconclusive``                0, or 1 if ``fail_on`` lists it        neutral, or action_required
``no-baseline``                 0, or 1 if ``fail_on`` lists it        neutral
``accepted``                    0                                      success
``new``, ``improvement``        0, or 1 if ``fail_on`` lists it        success
``pass``, ``unchanged``         0                                      success
``error``                       3, or the error's own code             failure ("not judged")
==============================  =====================================  ==========================================

action_required stands where the gate is enforced and ``on_inconclusive`` is ``block``. In report mode no verdict
makes the exit code 1 or 3 and what would have failed is neutral; an error is not a verdict and keeps its code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfgate.errors import EXIT_PASS, EXIT_REGRESSION, MeasuringError
from perfgate.records.policy import ENFORCE, Policy
from perfgate.records.report import (
    ACCEPTED,
    ERROR,
    IMPROVEMENT,
    INCONCLUSIVE,
    INVALID,
    MISSING,
    NEW,
    NO_BASELINE,
    NOT_MEASURED,
    PASS,
    REGRESSION,
    SEVERITY,
    SHOWN,
    UNCHANGED,
)

SUCCESS = "success"
NEUTRAL = "neutral"
FAILURE = "failure"
ACTION_REQUIRED = "action_required"

RED = frozenset({REGRESSION, MISSING})
_CONCLUSION = {
    REGRESSION: FAILURE,
    MISSING: FAILURE,
    INVALID: NEUTRAL,
    INCONCLUSIVE: NEUTRAL,
    NO_BASELINE: NEUTRAL,
    ACCEPTED: SUCCESS,
    NEW: SUCCESS,
    IMPROVEMENT: SUCCESS,
    PASS: SUCCESS,
    SHOWN: SUCCESS,
    UNCHANGED: SUCCESS,
    NOT_MEASURED: NEUTRAL,
    ERROR: FAILURE,
}
_BLOCKABLE = frozenset({INVALID, INCONCLUSIVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the run ends with; ``would_fail``: it is red, and only a mode keeps the exit code from being 1."""

    exit_code: int
    check: str
    would_fail: bool


def worst(verdicts: Iterable[str]) -> str:
    """The most severe of ``verdicts`` in the order of ``SEVERITY``; ``shown`` for none."""
    found = set(verdicts)
    return next((verdict for verdict in SEVERITY if verdict in found), SHOWN)


def outcome(verdict: str, *, enforced: Iterable[str], reported: Iterable[str], policy: Policy) -> Outcome:
    """The end of a run with ``verdict``, given the verdicts of its enforced rows and of its report-only rows."""
    failing = RED | set(policy.fail_on)
    held, told = set(enforced), set(reported)
    would_fail = bool((held | told | {verdict}) & failing)
    if held & failing:
        return Outcome(exit_code=EXIT_REGRESSION, check=FAILURE, would_fail=True)
    blocks = bool(held & _BLOCKABLE) and policy.on_inconclusive == "block"
    check = ACTION_REQUIRED if blocks else NEUTRAL if would_fail else _CONCLUSION[verdict]
    code = MeasuringError.exit_code if INVALID in held else EXIT_PASS
    return Outcome(exit_code=code, check=check, would_fail=would_fail)


def of_run(verdict: str, policy: Policy) -> Outcome:
    """The end of a run without rows (``unchanged``, ``no-baseline``), enforced as the policy's mode says."""
    enforce = policy.mode == ENFORCE and policy.has_base
    held = (verdict,) if enforce else ()
    return outcome(verdict, enforced=held, reported=() if enforce else (verdict,), policy=policy)


def of_error(exit_code: int) -> Outcome:
    """The end of a run that measured nothing believable; a code that belongs to a verdict (0, 1) becomes 3."""
    code = exit_code if exit_code not in (EXIT_PASS, EXIT_REGRESSION) else MeasuringError.exit_code
    return Outcome(exit_code=code, check=FAILURE, would_fail=False)
