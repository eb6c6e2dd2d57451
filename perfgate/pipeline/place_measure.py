"""Deployed folders in; by the gate's own statistics which of two is faster, out.

Each folder is a side of a comparison as two revisions are: processes of their own, interleaved pair by pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from perfgate.bench.session import BASE, HEAD, Options, Session, Side, Work
from perfgate.errors import MeasuringError
from perfgate.gate.plan import Cell, make_plan
from perfgate.pipeline.request import Ports
from perfgate.records.evidence import WorkloadEvidence
from perfgate.records.policy import Policy
from perfgate.records.report import REGRESSION
from perfgate.records.workload import ModelSpec, SideConfig
from perfgate.stats import pairs as pair_statistics
from perfgate.stats import sequential

# What a plan must gain at least to be worth having more than one library.
LEAST_GAIN = 0.01
_MODULE = "perfgate_ready"
# Runs the inputs that the folder was checked with. A file of its own: the folder itself knows nothing of measuring.
_TEXT = '''"""Times the model of this folder on the inputs that it was checked with."""

import pathlib

import placed


def ready():
    """The model as a callable without arguments."""
    folder = pathlib.Path(__file__).resolve().parent
    model = placed.load(folder)
    inputs, _ = placed.stored(folder, model.interface["framework"])
    requests = {requests}
    if requests == 1:
        return lambda: model.flat(inputs)
    return lambda: list(model.flat_stream([inputs] * requests))
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """``plan_s`` and ``other_s``: median seconds of a request; ``low_s``, ``high_s``: the plan's, by the interval of
    the pairs.

    ``faster``: 95 % interval of plan over other, minus 1. ``certain``: the plan gains at least ``LEAST_GAIN``, at the
    error rate of a gate.
    """

    plan_s: float
    other_s: float
    low_s: float
    high_s: float
    faster: tuple[float, float]
    certain: bool
    pairs: int


def race(
    plan: Path,
    other: Path,
    *,
    python: str,
    device: str,
    threads: int,
    run_dir: Path,
    budget_s: float,
    ports: Ports,
    requests: int = 1,
) -> Raced:
    """The other folder is judged against the plan as a pull request against its base: red: the plan is faster.

    ``requests``: of one step, one after another through the pipeline; filling and emptying it counts. Raises
    MeasuringError where one of them does not run.
    """
    for folder in (plan, other):
        (folder / f"{_MODULE}.py").write_text(_TEXT.replace("{requests}", str(requests)), encoding="utf-8")
    sides = {BASE: _side(BASE, plan, python, threads), HEAD: _side(HEAD, other, python, threads)}
    spec = ModelSpec(name="placement", entry=f"{_MODULE}:ready", modes=("infer",), device=(device,))
    (workload,) = spec.workloads
    options = Options(threads=threads, environ=ports.environ)
    policy = Policy(source="placement", tolerance=LEAST_GAIN)
    test = make_plan(policy, [Cell(workload=workload)], seed=options.seed)
    with Session(sides, run_dir=run_dir, options=options, progress=ports.progress) as session:
        known = session.probe({BASE: {spec.name: spec}, HEAD: {spec.name: spec}})
        work = Work(
            workload=workload,
            base_spec=spec,
            head_spec=spec,
            base=known[BASE][workload.key],
            head=known[HEAD][workload.key],
            tolerances={"latency": LEAST_GAIN},
        )
        for name, side in known.items():
            failure = side[workload.key].failure
            if failure is not None:
                msg = f"the deployed model of {sides[name].checkout} does not run: {failure.message}"
                raise MeasuringError(msg)
        (evidence,) = session.compare([work], test, budget_s)
    return judged(evidence, alpha=test.alpha, looks=test.looks, requests=requests)


def judged(evidence: WorkloadEvidence, *, alpha: float, looks: tuple[int, ...], requests: int = 1) -> Raced:
    """Pairs of plan (base) and other (head), each of ``requests``. Raises MeasuringError where they are too few."""
    ratios = pair_statistics.log_ratios(evidence.pairs, "latency")
    if len(ratios) < sequential.MIN_PAIRS:
        failed = next((side.failure for side in (evidence.base, evidence.head) if side.failure), None)
        why = failed.message if failed else f"measuring ended ({evidence.end}) after {len(ratios)} pairs"
        msg = f"the placement could not be measured: {why}; raise the budget"
        raise MeasuringError(msg)
    found = sequential.decide(ratios, tolerance=LEAST_GAIN, alpha=alpha, looks=looks, final=True)
    plan, other = (median(values) / requests / 1e9 for values in pair_statistics.side_values(evidence.pairs, "latency"))
    low, high = found.ci_low or math.nan, found.ci_high or math.nan
    spread = math.sqrt(high / low)
    return Raced(
        plan_s=plan,
        other_s=other,
        low_s=plan / spread,
        high_s=plan * spread,
        faster=(1 / high - 1, 1 / low - 1),
        certain=found.state == REGRESSION,
        pairs=len(ratios),
    )


def _side(name: str, folder: Path, python: str, threads: int) -> Side:
    config = SideConfig(source="placement", models={}, pythonpath=(".",), threads=threads)
    return Side(name=name, checkout=folder, repository=folder, python=python, config=config)
