"""A placement for people: what was recommended, what each library takes, and what was measured."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfgate import units
from perfgate.cli.text import plain, say
from perfgate.records.placement import MEMORY, THROUGHPUT
from perfgate.report import placements

if TYPE_CHECKING:
    from perfgate.pipeline.place import Placed
    from perfgate.records.placement import PlacementPlan

_NS = 1e9
# Kinds of operators that a library does not take, which a row names.
_NAMED = 3
_MOST_NOTES = 8


def tree(found: Placed) -> dict[str, Any]:
    """Everything as JSON."""
    return {
        "plan": None if found.advised is None else asdict(found.advised),
        "nodes": [
            {"name": node.name, "kind": node.kind, "target": found.problem.targets[target].name}
            for node, target in zip(found.lowered.nodes, found.answer.targets, strict=True)
        ],
        "objective": found.problem.objective,
        "value": _finite(found.answer.value),
        "bound": _finite(found.answer.bound),
        "optimal": found.answer.optimal,
        "gap": found.answer.gap,
        "singles": [asdict(one) for one in found.singles],
        "wholes": [asdict(one) for one in found.profiled.wholes],
        "targets": [asdict(one) for one in found.profiled.targets],
        "borders": [asdict(one) for one in found.profiled.borders],
        "supports": [asdict(one) for one in found.supports],
        "libraries": [asdict(one) for one in found.lowered.libraries],
        "candidates": [
            {
                "name": one.name,
                "predicted_s": one.predicted_s,
                "value": _finite(one.value),
                "pieces": len(one.parts),
                "difference": one.built.plan.difference,
                "problem": one.problem,
                "raced": None if one.raced is None else asdict(one.raced),
            }
            for one in found.candidates
        ],
        "history": [asdict(one) | {"value": _finite(one.value)} for one in found.answer.history],
        "notes": list(found.notes),
        "seconds": found.seconds,
    }


def show(console: Console, found: Placed, out: Path | None) -> None:
    """Prints the table form: the verdict first, then why."""
    plan = found.plan
    if plan is None:
        say(console, f"No placement keeps the limits: {found.answer.problem}")
        console.print(_targets(found))
        if out is not None:
            say(console, f"Nothing was written to {out}")
        return
    for line in _verdict(found, plan):
        say(console, line)
    say(console, _proof(found))
    console.print(_targets(found))
    measured = [one for one in found.candidates if one.raced is not None]
    if measured:
        console.print(_candidates(found))
    for note in found.notes[:_MOST_NOTES]:
        say(console, note, style="dim")
    if len(found.notes) > _MOST_NOTES:
        say(console, f"… {len(found.notes) - _MOST_NOTES} more notes; --json has all", style="dim")
    if out is not None and found.advised is not None:
        what = placements.words(found.advised)
        say(console, f"Plan: {out} ({what}); deploy it with perfgate place --apply {out} --to DIR")


def _verdict(found: Placed, plan: PlacementPlan) -> list[str]:
    """What is recommended, and on which grounds."""
    alone = f"{plan.best_single} alone {_time(plan.single_s)}"
    each = "request of a pipeline" if plan.objective == THROUGHPUT else "step"
    if not plan.recommended and plan.best_single:
        single = f"{_time(plan.single_s)} a {each}"
        if any(one.raced is not None for one in found.candidates):
            single += f" measured ({_time(found.candidates[0].predicted_s)} predicted)"
        return [f"{plan.model}: all on {plan.best_single}, {single}", _why(found)]
    lines = [f"{plan.model}: {placements.words(plan)}"]
    if plan.faster is None:
        runs = any(one.seconds is not None for one in found.profiled.wholes)
        why = "no target keeps the limits alone" if runs else "no library runs the whole model"
        if not plan.recommended:
            why += "; beyond the limit of a step when it ran"
        measured = "not timed" if plan.measured_s is None else f"{_time(plan.measured_s)} measured"
        return [*lines, f"{_time(plan.predicted_s)} a {each} predicted, {measured}; {why}"]
    low, high = (units.percent(end, sign=True) for end in plan.faster)
    step = f"{_time(plan.measured_s)} a {each} measured ({_time(plan.predicted_s)} predicted)"
    lines.append(f"{step}, {alone}: {low} to {high}")
    if plan.objective == MEMORY:
        most, *others = (one.value for one in found.candidates)
        lines.append(
            f"{units.size(min(others))} on the fullest device, with {plan.best_single} alone {units.size(most)}"
        )
    return lines


def _why(found: Placed) -> str:
    """Why nothing mixed is recommended."""
    from perfgate.pipeline.place_measure import LEAST_GAIN

    mixed = [one for one in found.candidates[1:] if not one.runner_up]
    raced = [one for one in mixed if one.raced is not None]
    if raced and found.problem.objective == MEMORY:
        return "The best mixed placement does not certainly keep the limit of the step when measured"
    if raced and raced[0].raced is not None and raced[0].raced.faster[1] < -LEAST_GAIN:
        pairs = raced[0].raced.pairs
        return f"The best mixed placement was faster in {pairs} pairs, too few to be certain of it; raise --budget"
    if raced:
        return (
            f"The best mixed placement ({_time(raced[0].predicted_s)} predicted) is not certainly faster when measured"
        )
    if mixed:
        return "The best mixed placement was not measured, so it is not recommended"
    if found.undeployed:
        return f"The best mixed placement is not to be had: {found.undeployed[0]}"
    if found.problem.objective == MEMORY:
        return "No placement that keeps the limit holds less on any device"
    return "No mixed placement is predicted to be faster"


def _value(found: Placed, value: float) -> str:
    return units.size(value) if found.problem.objective == MEMORY else _time(value)


def _proof(found: Placed) -> str:
    answer = found.answer
    took = units.duration(answer.elapsed_s * _NS)
    better = {MEMORY: "smaller", THROUGHPUT: "better"}.get(found.problem.objective, "faster")
    if answer.optimal:
        return f"By the cost model no placement is {better} (proven in {took})"
    count = f"{units.quantity(answer.evaluations, 'count')} placements evaluated in {took}"
    return f"By the cost model nothing is more than {units.percent(answer.gap)} {better} ({count}; {answer.stopped})"


def _targets(found: Placed) -> Table:
    table = Table(title="One target for everything", title_justify="left", box=None, pad_edge=False)
    for name in ("Target", "Takes", "Step", "Predicted", "Does not take"):
        table.add_column(name, justify="left" if name in {"Target", "Does not take"} else "right")
    wholes = {one.target: one for one in found.profiled.wholes}
    predicted = {one.target: one.value for one in found.singles}
    for target in found.profiled.targets:
        refused = [one for one in found.supports if one.target == target.name and one.reason]
        asked = {one.signature for one in found.supports if one.target == target.name}
        kinds = Counter(one.kind for one in refused)
        named = ", ".join(kind for kind, _ in kinds.most_common(_NAMED))
        whole = wholes.get(target.name)
        value = predicted.get(target.name)
        table.add_row(
            Text(plain(target.name)),
            f"{len(asked) - len(refused)} of {len(asked)}",
            "–" if whole is None or whole.seconds is None else _time(whole.seconds),
            "–" if value is None else _value(found, value),
            Text(plain(named)),
        )
    for library in found.lowered.libraries:
        if library.missing and (not found.wanted or library.name in found.wanted):
            table.add_row(Text(plain(library.name)), "", "", "", Text(plain(library.missing)))
    return table


def _candidates(found: Placed) -> Table:
    table = Table(title="Deployed and measured", title_justify="left", box=None, pad_edge=False)
    for name in ("Candidate", "Pieces", "Predicted", "Measured", "Against the single", "Difference"):
        table.add_column(name, justify="left" if name == "Candidate" else "right")
    against = next((one.raced.other_s for one in found.candidates if one.raced is not None), None)
    for one in found.candidates:
        raced = one.raced
        change = "" if raced is None else " to ".join(units.percent(end, sign=True) for end in raced.faster)
        difference = one.built.plan.difference
        table.add_row(
            Text(plain(one.name)),
            str(len(one.parts)),
            _time(one.predicted_s),
            _time(against) if one.single else "" if raced is None else _time(raced.plan_s),
            change,
            "" if difference is None else f"{difference:.1e}",
        )
    return table


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else units.duration(seconds * _NS)
