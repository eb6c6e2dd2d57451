"""Floor 3, cost. An allocation in the words of what starts jobs.

In: an allocation and the catalogue. Out: text for GitHub's ``runs-on``, Kubernetes, Slurm or SkyPilot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from perfgate.cost import emit_kubernetes, emit_skypilot, emit_slurm
from perfgate.cost.emit_facts import Ask, ask, card
from perfgate.errors import UsageError
from perfgate.hardware import catalogue
from perfgate.records.allocation import Allocation
from perfgate.records.hardware import OWN, Platform

RUNS_ON = "runs-on"
KUBERNETES = "kubernetes"
SLURM = "slurm"
SKYPILOT = "skypilot"


def emit(allocation: Allocation, form: str, *, name: str, platforms: Mapping[str, Platform] | None = None) -> str:
    """The text in ``form`` (one of ``FORMS``), ending with a line feed; ``name`` of the job.

    Raises UsageError for another form, where nothing was allocated, and for platforms that nobody knows.
    """
    if form not in FORMS:
        msg = f"no form is called {form!r}; write one of {', '.join(FORMS)}"
        raise UsageError(msg)
    if allocation.chosen is None:
        msg = "no machine does the job, so there is none to ask for"
        raise UsageError(msg)
    known = catalogue.platforms() if platforms is None else platforms
    return FORMS[form](ask(allocation.chosen, allocation.job, name, known))


def labels(ask: Ask) -> tuple[str, ...]:
    """Labels of a self-hosted runner: of a machine of yours its name, else what it is and how much of it.

    A runner has to have all of them. ``self-hosted``, the system and the architecture each runner has by itself; the
    others (an own machine's name; ``gpu`` and the card, as ``l4`` or ``l4-x4``; of a processor the type of the machine)
    are those to register it with.
    """
    own = ask.offer.provider == OWN
    if own:
        machine = ask.offer.instance
    elif ask.devices:
        one = ask.platform.name if ask.mig or ask.fraction else card(ask)
        machine = f"{one}-x{ask.machine_devices}" if ask.machine_devices > 1 else one
    else:
        machine = ask.offer.instance
    kind = (ask.whole.kind,) if ask.devices and not own else ()
    return ("self-hosted", "linux", ask.arch, *kind, machine)


def _runs_on(ask: Ask) -> str:
    return json.dumps(labels(ask)) + "\n"


FORMS: dict[str, Callable[[Ask], str]] = {
    RUNS_ON: _runs_on,
    KUBERNETES: emit_kubernetes.text,
    SLURM: emit_slurm.text,
    SKYPILOT: emit_skypilot.text,
}
