"""False alarms and power of perfgate's rule beside the rules of other tools, on the same simulated noise and budget.

    python -m benchmarks.gate_rules [--runs N] [--smoke] [--seed S]

The natural logarithm of one iteration's time, in process p at wall time s of job j, is

    log(1 + effect) on head  +  JOB_j  +  DRIFT_j(s)  +  PROCESS_p  +  iteration noise

with, at noise level c (the "CV"): iteration noise N(0, c) with a heavy right tail (2 % of the iterations are
longer by a factor 1 + Exp(10 c)); PROCESS ~ N(0, c / 2); DRIFT a first-order autoregression over slots of 10 iterations
(sd c, correlation 0.97) plus, in 15 % of the jobs, a lasting step of 3 c at a random time; JOB ~ N(0, c). Starting
a process costs 3 slots in which drift goes on. Every rule gets 400 measured iterations for one comparison in
the pull request; rules that compare with history get their old jobs, of 400 iterations each, for nothing.

Prints Markdown. The model is not a runner: ``make bench-aa`` measures a real one.
"""

from __future__ import annotations

import argparse
import collections
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.tables import print_table
from perfgate.stats.sequential import decide

Array = np.ndarray

BUDGET = 400
SLOT = 10
START_SLOTS = 3
NOISES = (0.01, 0.03, 0.10)
EFFECTS = (0.0, 0.03, 0.05, 0.10)
LOOKS = (5, 8, 12, 16, 20)
TOLERANCE = 0.03
ALPHA = 0.01
HISTORY_JOBS = 64
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Machine:
    """Noise of many simulated runs at once; all arrays have one row a run, times are natural logarithms."""

    rng: np.random.Generator
    runs: int
    cv: float

    def job(self) -> Array:
        return self.rng.normal(0, self.cv, (self.runs, 1))

    def process(self) -> Array:
        return self.rng.normal(0, 0.5 * self.cv, (self.runs, 1))

    def drift(self, slots: int) -> Array:
        """(runs, slots): the wandering level of one job."""
        kept = 0.97
        level = np.empty((self.runs, slots))
        level[:, 0] = self.rng.normal(0, self.cv, self.runs)
        pushes = self.rng.normal(0, self.cv * math.sqrt(1 - kept**2), (self.runs, slots))
        for slot in range(1, slots):
            level[:, slot] = kept * level[:, slot - 1] + pushes[:, slot]
        begins = self.rng.integers(0, slots, (self.runs, 1))
        hit = self.rng.random((self.runs, 1)) < 0.15
        return level + 3 * self.cv * (hit & (np.arange(slots) >= begins))

    def iterations(self, level: Array, count: int) -> Array:
        """(runs, slots x count): ``count`` iterations at each slot's level."""
        shape = (*level.shape, count)
        noise = self.rng.normal(0, self.cv, shape)
        tail = self.rng.random(shape) < 0.02
        noise[tail] += np.log1p(self.rng.exponential(10 * self.cv, int(tail.sum())))
        return (level[:, :, None] + noise).reshape(self.runs, -1)

    def batch(self, count: int, *, drift: Array | None = None, begin: int = 0) -> Array:
        """(runs, count): one process; ``begin`` is the slot of ``drift`` at which it is started."""
        slots = count // SLOT
        if drift is None:
            drift = self.drift(START_SLOTS + slots)
        first = begin + START_SLOTS
        return self.iterations(drift[:, first : first + slots] + self.process(), SLOT)


def pair_log_ratios(machine: Machine, effect: float, pairs: int = 20) -> Array:
    """(runs, pairs): perfgate's design, two live processes a pair, timed A B B A or B A A B, medians compared."""
    per_block = BUDGET // (4 * pairs)
    per_pair = 2 * START_SLOTS + 4
    drift = machine.drift(pairs * per_pair)
    ratios = np.empty((machine.runs, pairs))
    for pair in range(pairs):
        begin = pair * per_pair + 2 * START_SLOTS
        outer, inner = drift[:, [begin, begin + 3]], drift[:, [begin + 1, begin + 2]]
        base_outside = machine.rng.random((machine.runs, 1)) < 0.5
        base = machine.iterations(np.where(base_outside, outer, inner) + machine.process(), per_block)
        head = machine.iterations(np.where(base_outside, inner, outer) + machine.process(), per_block)
        ratios[:, pair] = np.median(head, 1) - np.median(base, 1) + math.log1p(effect)
    return ratios


@dataclass(frozen=True, slots=True)
class Cell:
    """What the rules need at one noise and effect: each array has one row a run."""

    pairs: Array
    head: Array
    history: Array
    base_batch: Array
    head_batch: Array
    old_batch: Array


def simulate(machine: Machine, effect: float, history: Array) -> Cell:
    shift = math.log1p(effect)
    half = BUDGET // 2
    quarter = half // 2
    drift = machine.drift(4 * (START_SLOTS + quarter // SLOT))
    step = START_SLOTS + quarter // SLOT
    # One job, base first and then head, two processes a side, as a benchmark suite runs them.
    batches = [machine.batch(quarter, drift=drift, begin=index * step) for index in range(4)]
    return Cell(
        pairs=pair_log_ratios(machine, effect),
        head=machine.job() + machine.batch(BUDGET) + shift,
        history=history,
        base_batch=np.concatenate(batches[:2], 1),
        head_batch=np.concatenate(batches[2:], 1) + shift,
        old_batch=machine.job() + machine.batch(half),
    )


def past_jobs(machine: Machine) -> Array:
    """(runs, jobs): mean time of each old job on the default branch, the newest last."""
    means = [np.exp(machine.job() + machine.batch(BUDGET)).mean(1) for _ in range(HISTORY_JOBS)]
    return np.stack(means, 1)


# ---------------------------------------------------------------- the rules


def previous_run(factor: float) -> Callable[[Cell], Array]:
    """github-action-benchmark: this run's mean against the previous run's, times a fixed factor."""
    return lambda cell: np.exp(cell.head).mean(1) > factor * cell.history[:, -1]


def bencher(cell: Cell) -> Array:
    """Bencher's t-test boundary: 99 % prediction bound from the last 64 results."""
    count = cell.history.shape[1]
    spread = cell.history.std(1, ddof=1) * math.sqrt(1 + 1 / count)
    bound = cell.history.mean(1) + float(stats.t.ppf(0.99, count - 1)) * spread
    flagged: Array = np.exp(cell.head).mean(1) > bound
    return flagged


def asv(cell: Cell) -> Array:
    """asv continuous: Mann-Whitney p < 0.002 over iterations and a ratio of medians above 1.1."""
    p = stats.mannwhitneyu(cell.head_batch, cell.base_batch, axis=1, method="asymptotic").pvalue
    change = np.median(cell.head_batch, 1) - np.median(cell.base_batch, 1)
    flagged: Array = (p < 0.002) & (change > math.log(1.1))
    return flagged


def criterion(old: Callable[[Cell], Array]) -> Callable[[Cell], Array]:
    """criterion: 95 % interval of the relative change of the mean entirely above its 1 % noise threshold.

    Its bootstrap over iterations is replaced by the normal interval, which it approaches at 200 a side.
    """

    def flagged(cell: Cell) -> Array:
        base, head = np.exp(old(cell)), np.exp(cell.head_batch)
        ratio = head.mean(1) / base.mean(1)
        count = base.shape[1]
        share = base.var(1, ddof=1) / base.mean(1) ** 2 + head.var(1, ddof=1) / head.mean(1) ** 2
        result: Array = ratio - 1 - 1.96 * ratio * np.sqrt(share / count) > 0.01
        return result

    return flagged


PEERS: dict[str, Callable[[Cell], Array]] = {
    "github-action-benchmark 200 %": previous_run(2.0),
    "github-action-benchmark 110 %": previous_run(1.1),
    "Bencher t-test 0.99, 64 samples": bencher,
    "asv 1.1 and Mann-Whitney 0.002": asv,
    "criterion, baseline of an earlier job": criterion(lambda cell: cell.old_batch),
    "criterion, base and head in one job": criterion(lambda cell: cell.base_batch),
}
OURS = {"perfgate, 1 gated comparison": 1, "perfgate, 10 gated comparisons": 10}


@dataclass(slots=True)
class Tally:
    """Counts over the runs of one noise and effect."""

    flags: collections.Counter[str]
    states: collections.Counter[tuple[str, str]]
    pairs_used: collections.Counter[str]
    runs: int = 0


def measure(rng: np.random.Generator, cv: float, runs: int) -> dict[float, Tally]:
    found = {effect: Tally(collections.Counter(), collections.Counter(), collections.Counter()) for effect in EFFECTS}
    for begin in range(0, runs, CHUNK):
        machine = Machine(rng=rng, runs=min(CHUNK, runs - begin), cv=cv)
        history = past_jobs(machine)
        for effect in EFFECTS:
            count(found[effect], simulate(machine, effect, history), machine.runs)
    return found


def count(tally: Tally, cell: Cell, runs: int) -> None:
    tally.runs += runs
    for name, rule in PEERS.items():
        tally.flags[name] += int(rule(cell).sum())
    for name, comparisons in OURS.items():
        for ratios in cell.pairs.tolist():
            found = decide(ratios, tolerance=TOLERANCE, alpha=ALPHA / comparisons, looks=LOOKS, final=True)
            tally.flags[name] += found.state == "regression"
            tally.states[name, found.state] += 1
            tally.pairs_used[name] += found.n


# ---------------------------------------------------------------- tables


def percent(part: float, whole: float = 1.0) -> str:
    return f"{100 * part / whole:.1f}"


def report(found: dict[float, dict[float, Tally]], runs: int) -> None:
    rules = [*OURS, *PEERS]
    error = 196 * math.sqrt(0.25 / runs)
    small = 196 * math.sqrt(ALPHA * (1 - ALPHA) / runs)
    print(f"{runs} runs a cell; 95 % error of a rate at most {error:.1f} points, {small:.2f} near 1 %.\n")
    print("Flagged as a regression, in %; A/A is false alarms, the others are power:\n")
    head = ["rule", *(f"CV {cv:.0%} {f'+{e:.0%}' if e else 'A/A'}" for cv in NOISES for e in EFFECTS)]
    cells = [(cv, effect) for cv in NOISES for effect in EFFECTS]
    print_table(head, [[r, *(percent(found[cv][e].flags[r], found[cv][e].runs) for cv, e in cells)] for r in rules])
    print("\nAt least one false alarm in a pull request with 10 independent gated comparisons, in %:\n")
    ten = [rule for rule in rules if OURS.get(rule) != 1]
    print_table(
        ["rule", *(f"CV {cv:.0%}" for cv in NOISES)], [[r, *(many(found[cv][0.0], r) for cv in NOISES)] for r in ten]
    )
    print("\nperfgate's verdicts in % (regression / pass or improvement / inconclusive), and pairs used of 20:\n")
    rows = [
        [f"{name}, CV {cv:.0%}", *(verdicts(found[cv][e], name) for e in EFFECTS)] for name in OURS for cv in NOISES
    ]
    print_table(["rule, noise", *(f"+{e:.0%}" if e else "A/A" for e in EFFECTS)], rows)


def many(tally: Tally, rule: str) -> str:
    return percent(1 - (1 - tally.flags[rule] / tally.runs) ** 10)


def verdicts(tally: Tally, rule: str) -> str:
    good = tally.states[rule, "pass"] + tally.states[rule, "improvement"]
    counts = (tally.flags[rule], good, tally.states[rule, "inconclusive"])
    shares = " / ".join(percent(part, tally.runs) for part in counts)
    return f"{shares} ({tally.pairs_used[rule] / tally.runs:.1f} pairs)"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="False alarms and power of gate rules on simulated noise.")
    parser.add_argument("--runs", type=int, default=4000, help="simulated comparisons a cell (default 4000)")
    parser.add_argument("--smoke", action="store_true", help="50 runs a cell: does it work at all")
    parser.add_argument("--seed", type=int, default=20261130)
    options = parser.parse_args(arguments)
    runs = 50 if options.smoke else options.runs
    if runs < 1:
        parser.error("--runs must be at least 1")
    begin = time.monotonic()
    rng = np.random.default_rng(options.seed)
    report({cv: measure(rng, cv, runs) for cv in NOISES}, runs)
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
