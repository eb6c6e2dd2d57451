"""Both checkouts side by side: setup, facts of each model, which are touched, and the comparison."""

from __future__ import annotations

import secrets
from dataclasses import replace

from perfgate.bench import machine
from perfgate.bench.session import SIDES, Options, Session, Side, Work
from perfgate.changes import harness, setup, touched, worktrees
from perfgate.gate.limits import hardware_names
from perfgate.gate.plan import Cell, make_plan, tolerances
from perfgate.pipeline import graphs, place_gate
from perfgate.pipeline.draft import Draft
from perfgate.pipeline.graphs import SideGraphs
from perfgate.pipeline.request import MeasureRequest, Ports
from perfgate.pipeline.sources import Sources
from perfgate.records.evidence import Changes, SideEvidence, WorkloadEvidence
from perfgate.records.policy import Plan
from perfgate.records.protocol import Failed
from perfgate.records.workload import ModelSpec, SideConfig

ABSENT = SideEvidence(status="absent")

# Pairs of the second, informative look with the pull request's own bench code: one look, never judged.
INFORMATIVE_PAIRS = 5

Facts = dict[str, dict[str, SideEvidence]]


def measure_sides(draft: Draft, sources: Sources, request: MeasureRequest, ports: Ports) -> None:
    """Fill the draft's plan, changes and workloads.

    Raises CheckoutError, UsageError and MeasuringError; KeyboardInterrupt passes on after everything
    was stopped and removed, with the pairs measured so far in the draft.
    """
    base_sha, head_sha = sources.revisions.base.sha, sources.revisions.head.sha
    with worktrees.checkouts(sources.git, base_sha, head_sha) as trees:
        draft.notes = (*draft.notes, *trees.notes)
        overlay = harness.overlay(sources.git, trees, side_config(sources, "base"), draft.policy)
        _add_banners(draft, overlay.banners)
        sides, broken = _prepare(sources, trees, ports)
        options = _options(sources, request)
        with Session(sides, run_dir=trees.run_dir, options=options, progress=ports.progress) as session:
            try:
                models = _first_look(draft, sources, request, session, broken, options.seed)
                if overlay.changed and "head" in sides:
                    with overlay.restored():
                        _second_look(draft, sources, session, models)
            except KeyboardInterrupt:
                draft.workloads = (*draft.workloads, *session.partial())
                raise
        if "head" in sides and place_gate.wanted(draft.policy, request.ci.event if request.ci else ""):
            # After the session: placing locks the machine anew.
            head = place_gate.Head(
                side=sides["head"],
                specs=sources.specs("head"),
                policy=draft.policy,
                hardware_id=draft.environment.hardware_id,
                root=sources.git.root,
            )
            draft.placement = place_gate.searched(draft.workloads, head, ports)


def side_config(sources: Sources, side: str) -> SideConfig:
    """The configuration that runs ``side``: its own, or the other side's where it has none."""
    own, other = (sources.base, sources.head) if side == "base" else (sources.head, sources.base)
    config = own or other
    if config is None:
        raise AssertionError(side)
    return config.side


def _prepare(sources: Sources, trees: worktrees.Checkouts, ports: Ports) -> tuple[dict[str, Side], dict[str, Failed]]:
    """Sides that can run, and those whose ``setup`` failed. Base first, so that head cannot disturb it."""
    sides: dict[str, Side] = {}
    broken: dict[str, Failed] = {}
    cache = sources.git.common_dir / "perfgate" / "setup"
    for name in ("base", "head"):
        config = side_config(sources, name)
        checkout = trees.base if name == "base" else trees.head
        sha = sources.revisions.base.sha if name == "base" else sources.revisions.head.sha
        if config.setup:
            ports.progress.step(f"Setting up {name}", 0, 0, None)
        prepared = setup.prepare_side(
            config, checkout, sources.git.root, name=name, cache_dir=cache, log=trees.run_dir / f"setup-{name}.log",
            environ=ports.environ,
        )  # fmt: skip
        if isinstance(prepared, Failed):
            broken[name] = prepared
            continue
        sides[name] = Side(
            name=name,
            checkout=checkout,
            repository=sources.git.root,
            python=prepared.python,
            config=config,
            tracked=worktrees.tracked_modules(sources.git, sha, config.pythonpath),
            env=prepared.env,
        )
    return sides, broken


def _options(sources: Sources, request: MeasureRequest) -> Options:
    threads = side_config(sources, "base").threads or machine.default_threads()
    seed = request.seed if request.seed is not None else secrets.randbelow(2**31)
    return Options(seed=seed, threads=threads, cpus=machine.default_cpus(threads))


def _first_look(
    draft: Draft,
    sources: Sources,
    request: MeasureRequest,
    session: Session,
    broken: dict[str, Failed],
    seed: int,
) -> tuple[str, ...]:
    """Facts, selection, plan and comparison; the names of the models that were compared."""
    specs = {side: sources.specs(side) for side in ("base", "head")}
    facts, counted = _facts(sources, session, {side: own for side, own in specs.items() if side not in broken})
    for side, failure in broken.items():
        failed = SideEvidence(status="failed", failure=failure)
        facts[side] = {w.key: failed for spec in specs[side].values() for w in spec.workloads}
    chosen = _choose(draft, sources, request, facts, specs)
    work, rest = _pair_up(facts, specs, chosen)
    draft.workloads = rest
    hardware = hardware_names(draft.environment)
    cells = [Cell(workload=item.workload, spans=_spans(item.base), energy=_energy(draft, item)) for item in work]
    draft.plan = make_plan(draft.policy, cells, seed=seed, hardware=hardware)
    work = [
        replace(
            item,
            tolerances=tolerances(draft.policy, cell.workload, spans=cell.spans, energy=cell.energy, hardware=hardware),
        )
        for item, cell in zip(work, cells, strict=True)
    ]
    draft.tolerances = {(item.workload.key, name): tau for item in work for name, tau in item.tolerances.items()}
    draft.workloads = (*rest, *session.compare(work, draft.plan, draft.policy.budget_s))
    draft.workloads = tuple(_finished(evidence, counted) for evidence in draft.workloads)
    return chosen


def _finished(evidence: WorkloadEvidence, sides: dict[str, SideGraphs]) -> WorkloadEvidence:
    if "base" in sides and "head" in sides:
        return graphs.with_difference(evidence, sides["base"], sides["head"])
    return evidence


def _facts(
    sources: Sources, session: Session, specs: dict[str, dict[str, ModelSpec]]
) -> tuple[Facts, dict[str, SideGraphs]]:
    """What each side is, counted; where only one of them could be traced without contents, both are traced with."""
    facts: Facts = {}
    found: dict[str, SideGraphs] = {}
    for side, traced in session.probe(specs).items():
        facts[side], found[side] = _counted(sources, session, side, traced, specs[side])
    if len(found) == len(SIDES):
        for side, again in _again(specs, graphs.traced_differently(found["base"], found["head"])).items():
            traced = session.probe({side: again}, real=True)[side]
            counted, more = _counted(sources, session, side, traced, again)
            facts[side] |= counted
            found[side].graphs.update(more.graphs)
            found[side].profiles.update(more.profiles)
    return facts, found


def _counted(
    sources: Sources, session: Session, side: str, traced: dict[str, SideEvidence], specs: dict[str, ModelSpec]
) -> tuple[dict[str, SideEvidence], SideGraphs]:
    base, head = (side_config(sources, name).operators for name in SIDES)
    return graphs.count_side(traced, specs, graphs.formulas_of(base, head), session.checkout(side))


def _again(specs: dict[str, dict[str, ModelSpec]], differently: dict[str, str]) -> dict[str, dict[str, ModelSpec]]:
    chosen: dict[str, dict[str, ModelSpec]] = {}
    for key, side in differently.items():
        for name, spec in specs[side].items():
            if any(workload.key == key for workload in spec.workloads):
                chosen.setdefault(side, {})[name] = spec
    return chosen


def _choose(
    draft: Draft,
    sources: Sources,
    request: MeasureRequest,
    facts: Facts,
    specs: dict[str, dict[str, ModelSpec]],
) -> tuple[str, ...]:
    names = sources.model_names
    if not sources.changed or request.everything:
        return names
    loaded, failed = {}, set()
    for name in names:
        evidence = [facts[side][w.key] for side in specs if name in specs[side] for w in specs[side][name].workloads]
        loaded[name] = frozenset(file for side in evidence for probe in side.probes for file in probe.files)
        if any(side.status == "failed" for side in evidence):
            failed.add(name)
    sides = (side_config(sources, "base"), side_config(sources, "head"))
    answer = touched.decide(
        sources.changed, loaded, _either(specs), failed=failed, sides=sides, committed=_committed(sources)
    )
    draft.skipped = answer.skipped
    draft.changes = replace(draft.changes, environment=answer.environment)
    draft.notes = (*draft.notes, *(f"{name}: measured because {why}" for name, why in answer.models.items()))
    return tuple(answer.models)


def _committed(sources: Sources) -> frozenset[str]:
    """Files that git holds on both sides."""
    base, head = (sources.git.files(end.sha).keys() for end in (sources.revisions.base, sources.revisions.head))
    return frozenset(base & head)


def _either(specs: dict[str, dict[str, ModelSpec]]) -> dict[str, ModelSpec]:
    """One specification per model: base's, with the ``paths`` of both sides."""
    merged = {**specs["head"], **specs["base"]}
    for name in specs["base"].keys() & specs["head"].keys():
        paths = dict.fromkeys((*specs["base"][name].paths, *specs["head"][name].paths))
        merged[name] = replace(merged[name], paths=tuple(paths))
    return merged


def _pair_up(
    facts: Facts,
    specs: dict[str, dict[str, ModelSpec]],
    chosen: tuple[str, ...],
) -> tuple[list[Work], tuple[WorkloadEvidence, ...]]:
    """Full outer join of both sides' workloads: what can be compared, and what cannot with the reason in it."""
    workloads = {w.key: w for side in ("base", "head") for s in specs[side].values() for w in s.workloads}
    work, rest = [], []
    for key, workload in workloads.items():
        if workload.model not in chosen:
            continue
        base, head = facts["base"].get(key, ABSENT), facts["head"].get(key, ABSENT)
        if base.status == head.status == "ok":
            base_spec, head_spec = specs["base"][workload.model], specs["head"][workload.model]
            work.append(
                Work(workload=workload, base_spec=base_spec, head_spec=head_spec, base=base, head=head, tolerances={})
            )
        else:
            rest.append(WorkloadEvidence(workload=workload, base=base, head=head, end=_end(base, head)))
    return work, tuple(rest)


def _end(base: SideEvidence, head: SideEvidence) -> str:
    return "failed" if "failed" in {base.status, head.status} else "recorded"


def _energy(draft: Draft, item: Work) -> bool:
    return item.workload.device != "cpu" and draft.environment.conditions.get("energy") == "counter"


def _spans(side: SideEvidence) -> tuple[str, ...]:
    return side.probes[0].spans if side.probes else ()


def _second_look(draft: Draft, sources: Sources, session: Session, models: tuple[str, ...]) -> None:
    """Measure again with the bench code that the pull request brings: informative, never judged."""
    specs = {
        side: {n: s for n, s in sources.specs(side).items() if n in models and (s.make_inputs or s.step)}
        for side in ("base", "head")
    }
    if not specs["head"] or draft.plan is None:
        return
    facts, found = _facts(sources, session, specs)
    work, rest = _pair_up(facts, specs, models)
    plan: Plan = replace(draft.plan, looks=(INFORMATIVE_PAIRS,))
    informative = [replace(item, tolerances={"latency": draft.policy.tolerance}, informative=True,
                           max_pairs=INFORMATIVE_PAIRS) for item in work]  # fmt: skip
    second = session.compare(informative, plan, draft.policy.budget_s)
    both = (*(replace(w, informative=True) for w in rest), *second)
    draft.workloads = (*draft.workloads, *(_finished(evidence, found) for evidence in both))


def _add_banners(draft: Draft, more: tuple[str, ...]) -> None:
    changes: Changes = draft.changes
    draft.changes = replace(changes, banners=(*changes.banners, *more))
