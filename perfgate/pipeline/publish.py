"""The second stage: an artifact in, a judged report on GitHub out. Trusts nothing that the first stage wrote.

Policy and plan are made anew from the base revision, which GitHub is asked for; every verdict is derived
again from the raw samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.config.load import load as load_config
from perfgate.errors import EXIT_PASS, MeasuringError
from perfgate.gate.limits import hardware_names
from perfgate.gate.plan import Cell, make_plan
from perfgate.github import outputs, trusted
from perfgate.github.artifact import cross_check, load_measurements
from perfgate.github.checks import Check, check_run
from perfgate.github.client import Gateway, connect
from perfgate.github.events import Event, read
from perfgate.github.publish import PublishResult, Texts, Unjudged, publish, publish_unjudged, why_unmeasured
from perfgate.pipeline.run import MEASUREMENTS_FILE, Result, derive, record, save
from perfgate.records.cost import Prices
from perfgate.records.evidence import Measurements, WorkloadEvidence
from perfgate.records.policy import REPORT, Policy
from perfgate.records.report import MISSING, REGRESSION
from perfgate.report.write import Links


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRequest:
    """``measurements`` is the artifact's file; ``measure_result`` is ``needs.measure.result`` of the workflow.

    ``prices`` are private: they enter here and nowhere before.
    """

    measurements: Path
    out: Path
    root: Path
    config_file: str
    measure_result: str = ""
    comment_mode: str = "edit"
    store_url: str = ""
    template: str | None = None
    prices: Prices | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """``result`` None: there was nothing to judge, see ``unjudged``. ``exit_code`` is the command's."""

    exit_code: int
    posted: PublishResult
    result: Result | None = None
    unjudged: Unjudged | None = None


def publish_measurements(request: PublishRequest, environ: Mapping[str, str]) -> Published:
    """Judge the artifact and write check run, comment, summary and outputs.

    Raises GitHubError, UsageError and MeasuringError after the check run was ended as "not judged".
    """
    event = read(environ)
    gateway = connect(environ)
    with check_run(gateway, event) as check:
        if not request.measurements.exists() and not request.measurements.is_symlink():
            unjudged = why_unmeasured(event, request.measure_result)
            return _unjudged(unjudged, event, gateway, check, request, environ)
        try:
            measurements = load_measurements(request.measurements)
            base = trusted.base_sha(gateway, event)
            cross_check(measurements, event, base=base)
            # Which run and branch this is comes from GitHub, whatever the artifact says of itself; and nobody
            # accepts a regression by writing it into the artifact.
            measurements = replace(measurements, run=replace(measurements.run, ci=event.ci), accepted=())
        except MeasuringError as error:
            unjudged = Unjudged(conclusion="failure", title="not judged", message=str(error), exit_code=error.exit_code)
            return _unjudged(unjudged, event, gateway, check, request, environ)
        policy, config = _trusted_policy(gateway, measurements, base, request.config_file)
        measurements = _trusted_plan(measurements, policy)
        if request.store_url:
            measurements = record(
                measurements,
                request.store_url,
                root=request.root,
                default_branch=event.default_branch,
                private=request.prices,
            )
        # Beside the report lies the evidence that it was derived from.
        save(measurements, request.out)
        result = derive(
            measurements,
            policy,
            out=request.out,
            links=_links(event, gateway),
            template=request.template,
            private=request.prices,
        )
        if result.problem is not None:
            raise result.problem
        texts = Texts(comment=_read(request.out / "comment.md"), summary=_read(request.out / "summary.md"))
        posted = publish(
            result.report, texts, event, gateway, check=check, config=config, comment_mode=request.comment_mode
        )
    write_step_outputs(result, environ)
    code = result.exit_code
    if code == EXIT_PASS and posted.error is not None:
        code = posted.error.exit_code
    return Published(exit_code=code, posted=posted, result=result)


def _unjudged(
    unjudged: Unjudged,
    event: Event,
    gateway: Gateway,
    check: Check,
    request: PublishRequest,
    environ: Mapping[str, str],
) -> Published:
    posted = publish_unjudged(unjudged, event, gateway, check=check, comment_mode=request.comment_mode)
    outputs.write_summary(environ, f"### perfgate: {unjudged.title}\n\n{unjudged.message}\n")
    outputs.write_outputs(environ, {"verdict": "error" if unjudged.exit_code else "not-measured", "regressions": ""})
    return Published(exit_code=unjudged.exit_code, posted=posted, unjudged=unjudged)


def _trusted_policy(
    gateway: Gateway, measurements: Measurements, base: str | None, config_file: str
) -> tuple[Policy, tuple[str, str] | None]:
    """The policy at base, read through the API; without one there only reporting is left."""
    sha = base or measurements.head.sha
    names = trusted.POLICY_FILES if config_file in trusted.POLICY_FILES else (config_file,)
    files = trusted.policy_files(gateway, sha, names)
    config = load_config(files, where="base" if base else "head", sha=sha)
    place = next(iter(files.items()), None)
    if config is None:
        return replace(measurements.policy, has_base=False, mode=REPORT), place
    return (config.policy if base else replace(config.policy, mode=REPORT)), place


def _trusted_plan(measurements: Measurements, policy: Policy) -> Measurements:
    """The artifact with the plan that ``policy`` gives for its workloads: alpha is not the artifact's to choose."""
    measurements = replace(measurements, policy=policy)
    if measurements.plan is None:
        return measurements
    compared = [w for w in measurements.workloads if w.base.status == w.head.status == "ok" and not w.informative]
    plan = make_plan(
        policy,
        [_cell(workload) for workload in compared],
        seed=measurements.plan.seed,
        hardware=hardware_names(measurements.environment),
    )
    return replace(measurements, plan=plan)


def _cell(evidence: WorkloadEvidence) -> Cell:
    spans = evidence.base.probes[0].spans if evidence.base.probes else ()
    blocks = [block for pair in evidence.pairs for block in pair.base.blocks]
    return Cell(workload=evidence.workload, spans=spans, energy=any(block.energy_j is not None for block in blocks))


def _links(event: Event, gateway: Gateway) -> Links:
    repository = f"{gateway.server_url}/{event.repository}"
    run = f"{repository}/actions/runs/{event.ci.run_id}"
    # The report files are artifacts of the run: its page is as near as an address gets.
    return Links(full_report=run, commit=f"{repository}/commit/")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def write_step_outputs(result: Result, environ: Mapping[str, str]) -> None:
    """Job summary and step outputs of a judged run; nothing outside of GitHub Actions. Raises GitHubError."""
    rows = [row for model in result.report.models if not model.informative for row in model.metrics]
    red = [row for row in rows if row.verdict in {REGRESSION, MISSING}]
    folder = result.directory
    outputs.write_summary(environ, _read(folder / "summary.md"))
    outputs.write_outputs(
        environ,
        {
            "verdict": result.report.verdict,
            "report-json": str(folder / "report.json"),
            "report-html": str(folder / "report.html"),
            "measurements": str(folder / MEASUREMENTS_FILE),
            "regressions": str(len(red)),
        },
    )
