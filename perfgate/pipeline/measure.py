"""Revisions in, raw evidence out: everything up to and including the interleaved measurement."""

from __future__ import annotations

from perfgate.bench import machine
from perfgate.changes.touched import only_documentation
from perfgate.errors import Interrupted, PerfgateError
from perfgate.pipeline import roofline
from perfgate.pipeline.draft import Draft
from perfgate.pipeline.request import MeasureRequest, Ports
from perfgate.pipeline.sides import measure_sides
from perfgate.pipeline.sources import read_sources
from perfgate.records.evidence import Changes, Measurements, Revision, RunError, Skipped

SWITCH = "PERFGATE_MODE"


def start(request: MeasureRequest) -> Draft:
    """An empty draft for ``request``."""
    base = Revision(sha="", name=request.base or "")
    return Draft(base=base, head=Revision(sha="", name=request.head), ci=request.ci)


def measure(draft: Draft, request: MeasureRequest, ports: Ports) -> Measurements:
    """Evidence for ``base`` against ``head``.

    An expected fault ends up in ``Measurements.error`` with its exit code; nothing that was measured
    before it is lost, and nothing is left running or lying about.
    """
    error = None
    try:
        _fill(draft, request, ports)
    except PerfgateError as fault:
        error = RunError(exit_code=fault.exit_code, message=str(fault))
    except KeyboardInterrupt:
        error = RunError(exit_code=Interrupted.exit_code, message="interrupted before measuring was finished")
    return draft.measurements(error)


def _fill(draft: Draft, request: MeasureRequest, ports: Ports) -> None:
    sources = read_sources(request)
    draft.base, draft.head = sources.revisions.base, sources.revisions.head
    draft.policy = sources.policy
    draft.store_url = sources.store_url
    draft.root = sources.git.root
    draft.notes = sources.notes
    draft.changes = Changes(files=len(sources.changed), banners=sources.banners)
    names = sources.model_names
    switched_off = f"switched off by {SWITCH}=off" if ports.environ.get(SWITCH) == "off" else ""
    draft.unmeasured = request.refuse or switched_off
    if draft.unmeasured:
        draft.skipped = _skip(names, draft.unmeasured)
        return
    specs = {**sources.specs("head"), **sources.specs("base")}
    if sources.changed and not request.everything and only_documentation(sources.changed, specs):
        draft.skipped = _skip(names, "only documentation changed")
        return
    ports.check_store(draft.store_url)
    draft.environment = machine.environment()
    draft.rooflines = roofline.known(sources.git.root, draft.environment.hardware_id)
    measure_sides(draft, sources, request, ports)


def _skip(names: tuple[str, ...], reason: str) -> tuple[Skipped, ...]:
    return tuple(Skipped(model=name, reason=reason) for name in names)
