"""The estimator on this machine, from nothing: sample networks teach it, torchvision's models are what it is asked.

``python -m benchmarks.estimator.from_nothing --folder FOLDER``: a gate (`perfgate measure`, a revision against itself)
measures torchvision models at two batch sizes, two numbers of threads, in inference and training; `perfgate sample`
fills an empty database for ``--budget``; an estimator fitted on that database alone answers for each measured step.
``--part`` runs a part alone. What FOLDER holds already is not measured again, so that the parts may run at quiet times.

``--clock cpu`` compares processor time instead of wall time, and one thread only: for a machine that others are using.

Exit status 1 where a median error is above the limit that was set for it beforehand (with ``--quick`` none is).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import print_table
from perfgate import units
from perfgate.bench import machine
from perfgate.errors import UsageError
from perfgate.estimator import fit
from perfgate.pipeline import run
from perfgate.pipeline.examples import example
from perfgate.pipeline.sample_record import disturbed
from perfgate.records.baseline import BaselineRecord
from perfgate.records.estimate import PEAK_MEMORY, STEP_TIME, Estimate, Example
from perfgate.records.sampling import NAMESPACE_SAMPLE
from perfgate.store.from_evidence import records_of
from perfgate.store.open import open_store

BUDGET = "10min"
# What `perfgate sample` takes at least.
SHORTEST_S = 5.0
BATCHES = (1, 4)
# Model -> size of its images: so that a training step of four takes less than a second on one core.
MODELS = {
    "resnet18": 160,
    "resnet50": 128,
    "mobilenet_v2": 224,
    "mobilenet_v3_small": 224,
    "efficientnet_b0": 192,
    "densenet121": 128,
    "vgg11": 96,
    "squeezenet1_1": 224,
    "shufflenet_v2_x1_0": 224,
    "googlenet": 160,
    "mnasnet1_0": 224,
    "regnet_y_400mf": 224,
    "convnext_tiny": 128,
    "vit_b_16": 64,
    "inception_v3": 160,
}
QUICK = ("squeezenet1_1", "mobilenet_v3_small")
QUICK_BUDGET, QUICK_SIZE = "20s", 64
# Greatest median error by mode, and of memory.
LIMITS = {"infer": 0.12, "train": 0.15, PEAK_MEMORY: 0.10}
WALL, CPU = "wall", "cpu"
PARTS = ("measure", "sample", "table")

_BUILDERS = """
def {name}():
    return models.{name}(weights=None{options})
"""
# Weights of some are drawn from distributions that take seconds, and a second output takes part in no inference.
_OPTIONS = {
    "googlenet": ", aux_logits=False, init_weights=False",
    "inception_v3": ", aux_logits=False, init_weights=False",
    "vgg11": ", init_weights=False",
    "vit_b_16": ", image_size={size}",
}
_GATE = """version = 1
threads = {threads}

[gate]
mode = "report"
budget = "60min"
groups = 1
looks = [2]

[gate.limits]
latency = false
peak_memory = false
"""
_MODEL = """
[models.{name}]
entry = "zoo:{name}"
inputs = ["float32[batch,3,{size},{size}]"]
modes = ["infer", "train"]
batch = {batches}
"""
_IDENTITY = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.invalid", "-c", "commit.gpgsign=false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured where. ``models``: name -> size of its images; ``folder`` keeps everything."""

    folder: Path
    models: dict[str, int]
    batches: tuple[int, ...] = BATCHES
    threads: tuple[int, ...] = (1,)
    budget: str = BUDGET
    clock: str = WALL

    @property
    def store(self) -> str:
        """The database of sample networks alone."""
        return f"sqlite:///{self.folder / 'samples.sqlite'}"

    def measured(self, model: str, threads: int) -> Path:
        """Folder with the evidence of one model."""
        return self.folder / "measured" / f"{model}-{threads}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A measured step, the mean of two sides of equal code; ``noise``: how far these were apart, by target."""

    example: Example
    noise: dict[str, float]


def repository(plan: Plan) -> Path:
    """A repository whose gate measures ``plan.models``: two revisions that differ in nothing that runs."""
    root = plan.folder / "repository"
    if not (root / ".git").exists():
        root.mkdir(parents=True, exist_ok=True)
        _git(root, "init", "--quiet", "--initial-branch", "main")
    builders = [
        _BUILDERS.format(name=name, options=_OPTIONS.get(name, "").format(size=size))
        for name, size in plan.models.items()
    ]
    (root / "zoo.py").write_text(f"from torchvision import models\n{''.join(builders)}", encoding="utf-8")
    blocks = [_MODEL.format(name=name, size=size, batches=list(plan.batches)) for name, size in plan.models.items()]
    for threads in plan.threads:
        text = _GATE.format(threads=threads) + "".join(blocks)
        (root / _configuration(threads)).write_text(text, encoding="utf-8")
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--allow-empty", "--message", "Models and their gate")
    _git(root, "commit", "--quiet", "--allow-empty", "--message", "The same again")
    return root


def measure(plan: Plan) -> float:
    """Run the gates whose evidence is not there yet; seconds that they took."""
    begun = time.monotonic()
    missing = [
        (model, threads)
        for threads in plan.threads
        for model in plan.models
        if not (plan.measured(model, threads) / "measurements.json").exists()
    ]
    if not missing:
        return 0.0
    root = repository(plan)
    for number, (model, threads) in enumerate(missing, start=1):
        out = plan.measured(model, threads)
        print(f"measuring {model}, {threads} threads ({number} of {len(missing)})", file=sys.stderr, flush=True)
        # Moved there when it is whole: what was interrupted is measured again.
        with tempfile.TemporaryDirectory(dir=plan.folder) as folder:
            _perfgate(
                root, "measure", "--base", "HEAD~1", "--head", "HEAD", "--everything", "--quiet",
                "--config", _configuration(threads), "--model", model, "--python", sys.executable, "--out", folder,
            )  # fmt: skip
            out.mkdir(parents=True, exist_ok=True)
            (Path(folder) / "measurements.json").rename(out / "measurements.json")
    return time.monotonic() - begun


def sample(plan: Plan) -> None:
    """Fill the database with what is left of the budget; a run that ends early, since memory was short, goes on."""
    kept = plan.folder / "sampled.json"
    budget = units.parse_duration_ns(plan.budget) / 1e9
    spent = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else 0.0
    while budget - spent >= SHORTEST_S:
        found = _sampled(plan, budget - spent)
        spent += found["seconds"]
        kept.write_text(json.dumps(spent), encoding="utf-8")
        if not found["recorded"]:
            break


def _sampled(plan: Plan, left: float) -> dict[str, Any]:
    """The summary of one run."""
    threads = ",".join(map(str, plan.threads))
    root = plan.folder / "nothing"
    root.mkdir(parents=True, exist_ok=True)
    print(f"sampling for {left:.0f} s", file=sys.stderr, flush=True)
    text = _perfgate(
        root, "sample", "--budget", f"{left:.0f}s", "--store", plan.store, "--threads", threads, "--dtype", "float32",
        "--python", sys.executable, "--quiet", "--json",
    )  # fmt: skip
    found: dict[str, Any] = json.loads(text)
    return found


def learned(plan: Plan) -> tuple[list[Example], int]:
    """Examples of the database, and how many were disturbed (with the processors' clock they count as well)."""
    with closing(open_store(plan.store)) as store:
        records = store.newest(namespace=NAMESPACE_SAMPLE)
    found = [example(clocked(one, plan.clock)) for one in records if _wanted(one, plan)]
    return [one for one in found if one is not None], sum(map(disturbed, records))


def measured(plan: Plan) -> list[Asked]:
    """Every step that a gate measured, in the order of the plan; models without evidence are left out."""
    found = []
    for threads in plan.threads if plan.clock == WALL else plan.threads[:1]:
        for model in plan.models:
            path = plan.measured(model, threads) / "measurements.json"
            if path.exists():
                found += paired([clocked(one, plan.clock) for one in records_of(run.load(path))])
    return found


def paired(records: Iterable[BaselineRecord]) -> list[Asked]:
    """Both sides of each workload as one step; those that did not run on both sides are left out."""
    sides: dict[str, list[Example]] = {}
    for record in records:
        one = example(record)
        if one is not None:
            sides.setdefault(record.workload.key, []).append(one)
    found = []
    for pair in sides.values():
        if len(pair) == 2:
            both = {target: [one.targets[target] for one in pair] for target in (STEP_TIME, PEAK_MEMORY)}
            targets = {target: math.sqrt(a * b) for target, (a, b) in both.items()}
            noise = {target: abs(math.log(a / b)) for target, (a, b) in both.items()}
            found.append(Asked(example=replace(pair[0], targets=targets), noise=noise))
    return found


def clocked(record: BaselineRecord, clock: str) -> BaselineRecord:
    """The record with its step time by ``clock``; by the processors' it does not matter who else used them."""
    if clock == WALL or "utilisation" not in record.metrics:
        return record
    threads = int(record.resources["threads"])
    # A gate's latency is a median; utilisation is of all the time, and goes with the mean.
    sampled = record.namespace == NAMESPACE_SAMPLE
    mean = record.metrics["latency"] if sampled else float(np.mean(record.samples["latency"]))
    worked = mean * record.metrics["utilisation"] * threads
    resources = {name: text for name, text in record.resources.items() if name != "waited_share"}
    return replace(record, metrics={**record.metrics, "latency": worked}, resources=resources)


def answers(train: Sequence[Example], asked: Sequence[Asked]) -> dict[str, list[Estimate]]:
    """Target -> an estimate for each, made from the sample networks alone."""
    model = fit.fit(train, targets=(STEP_TIME, PEAK_MEMORY))
    questions = [replace(one.example, targets={}, resources={}) for one in asked]
    return {target: model.estimates(questions, target) for target in model.fitted}


HEADER = ("what", "n", "MdAPE", "MAPE", "<= 20 %", "estimate / measured", "covered", "high/low", "noise")


def row(name: str, target: str, asked: Sequence[Asked], estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Cells of the table; ``noise``: median distance of two measurements of the same code."""
    pairs = [(one.example.targets[target], found) for one, found in zip(asked, estimates, strict=True)]
    ratio = np.array([found.value / true for true, found in pairs])
    wrong = abs(ratio - 1)
    inside = [found.low <= true <= found.high for true, found in pairs]
    width = np.median([found.high / max(found.low, 1e-9) for _, found in pairs])
    noise = np.median([one.noise[target] for one in asked])
    return (
        name, str(len(pairs)), f"{np.median(wrong):.1%}", f"{wrong.mean():.1%}", f"{np.mean(wrong <= 0.2):.0%}",
        f"{np.median(ratio):.2f}", f"{np.mean(inside):.0%}", f"{width:.2f}", f"{noise:.1%}",
    )  # fmt: skip


def table(plan: Plan) -> list[str]:
    """Print it; limits that were missed, one sentence each."""
    asked = measured(plan)
    train, noisy = learned(plan)
    if not asked:
        return [f"no measured models in {plan.folder}; run the part measure"]
    try:
        found = answers(train, asked)
    except UsageError:
        noise = f"others had the processors in {noisy}; sample on a quiet machine, or compare with --clock cpu"
        return [f"{len(train)} usable sample networks in {plan.folder}, {noise}"]
    rows, missed = [], []

    def add(name: str, target: str, chosen: Sequence[int], limit: float | None = None) -> None:
        if not chosen or target not in found:
            return
        part, estimates = [asked[number] for number in chosen], [found[target][number] for number in chosen]
        rows.append(row(name, target, part, estimates))
        wrong = [abs(each.value / one.example.targets[target] - 1) for one, each in zip(part, estimates, strict=True)]
        if limit is not None and np.median(wrong) > limit:
            missed.append(f"{name}: median error {np.median(wrong):.1%} is above {limit:.0%}")

    def where(**wanted: object) -> list[int]:
        return [
            number
            for number, one in enumerate(asked)
            if all(getattr(one.example, name) == value for name, value in wanted.items())
        ]

    for mode in ("infer", "train"):
        add(mode, STEP_TIME, where(mode=mode), LIMITS[mode])
        for threads in plan.threads:
            add(f"{mode}, {threads} threads", STEP_TIME, where(mode=mode, threads=threads))
    add("peak memory", PEAK_MEMORY, where(), LIMITS[PEAK_MEMORY])
    for mode in ("infer", "train"):
        add(f"peak memory, {mode}", PEAK_MEMORY, where(mode=mode))
    for model in plan.models:
        for mode in ("infer", "train"):
            add(f"{model}, {mode}", STEP_TIME, where(model=model, mode=mode))
    print_table(HEADER, rows)
    print(f"\nlearned from {len(train)} sample networks; in {noisy} more or less others had the processors")
    return missed


def _wanted(record: BaselineRecord, plan: Plan) -> bool:
    return plan.clock == WALL or record.resources.get("threads") == "1"


def _configuration(threads: int) -> str:
    return f"threads-{threads}.toml"


def _git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *_IDENTITY, *arguments], cwd=root, check=True)


def _perfgate(root: Path, *arguments: str) -> str:
    """Standard output of a command. Exits where it failed, with what it said."""
    here = str(Path(__file__).resolve().parents[2])
    environ = {**os.environ, "PYTHONPATH": here}
    done = subprocess.run(
        [sys.executable, "-m", "perfgate", *arguments], cwd=root, env=environ, text=True, check=False,
        capture_output=True,
    )  # fmt: skip
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        msg = f"perfgate {' '.join(arguments)}: exit status {done.returncode}"
        raise SystemExit(msg)
    return done.stdout


def _plan(arguments: argparse.Namespace, folder: Path) -> Plan:
    cores = len(machine.physical_cores())
    names = arguments.model or (QUICK if arguments.quick else MODELS)
    return Plan(
        folder=folder.resolve(),
        models={name: QUICK_SIZE if arguments.quick else MODELS[name] for name in names},
        batches=BATCHES[:1] if arguments.quick else BATCHES,
        threads=(1,) if arguments.quick or cores == 1 or arguments.clock == CPU else (1, 2),
        budget=arguments.budget or (QUICK_BUDGET if arguments.quick else BUDGET),
        clock=arguments.clock,
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="keeps everything  [default: a temporary one]")
    parser.add_argument("--budget", default="", help=f"of `perfgate sample`  [default: {BUDGET}]")
    parser.add_argument("--part", action="append", default=[], choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--model", action="append", default=[], choices=MODELS, help="only this one; may be repeated")
    parser.add_argument("--clock", choices=(WALL, CPU), default=WALL, help="what a step's time is  [default: wall]")
    parser.add_argument("--quick", action="store_true", help="two models, small images, some seconds of samples")
    arguments = parser.parse_args(argv)
    parts = arguments.part or PARTS
    with tempfile.TemporaryDirectory(prefix="from-nothing-") as own:
        plan = _plan(arguments, arguments.folder or Path(own))
        plan.folder.mkdir(parents=True, exist_ok=True)
        if "measure" in parts:
            seconds = measure(plan)
            print(f"models measured in {seconds:.0f} s", file=sys.stderr)
        if "sample" in parts:
            sample(plan)
        missed = table(plan) if "table" in parts else []
    for sentence in missed:
        print(sentence)
    return int(bool(missed) and not arguments.quick)


if __name__ == "__main__":
    raise SystemExit(main())
