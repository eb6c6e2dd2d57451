"""Floor 3, worker. The request loop of one workload's process.

In: ``Prepare`` (only where started fresh), ``Open`` or ``Sample``, ``Time``, ``Finish``, or ``Count``, or
``Saturate``, or ``Lower`` and what follows it. Out: one reply each. The process ends after ``Finish`` or when the
socket ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfgate.records.placing import Build, Lower, ProfileNodes
from perfgate.records.protocol import ChildRequest, Count, Failed, Finish, Open, Prepare, Sample, Saturate, Time
from perfgate.wire import WireError
from perfgate.worker.failures import WorkerError, describe
from perfgate.worker.preparing import Side, prepare

if TYPE_CHECKING:
    from perfgate.worker.channel import Channel
    from perfgate.worker.placing.answering import Placing
    from perfgate.worker.provenance import OpenedFiles
    from perfgate.worker.session import Session


class Child:
    """``side`` is None in a process that was started fresh and waits for ``Prepare``."""

    def __init__(self, opened: OpenedFiles, side: Side | None) -> None:
        self._opened = opened
        self._side = side
        self._session: Session | None = None
        self._placing: Placing | None = None

    def answer(self, request: object) -> object:
        """The reply to one request; whatever goes wrong is a ``Failed``."""
        try:
            return self._answer(request)
        except WorkerError as failure:
            return failure.failed
        except BaseException as error:
            # perfgate's own fault, or a signal's: still exactly one reply.
            checkout = self._side.request.checkout if self._side else ""
            return describe(error, _PHASES.get(type(request), "build"), checkout, kind="protocol")

    def _answer(self, request: object) -> object:
        if isinstance(request, Prepare):
            if self._side is not None:
                return _protocol("this process is prepared already", request)
            self._side, reply = prepare(request, self._opened)
            return reply
        if self._side is None:
            return _protocol(f"{type(request).__name__} came before Prepare", request)
        if isinstance(request, Count):
            return self._count(request, self._side)
        if isinstance(request, (Saturate, Sample, Lower, ProfileNodes, Build)):
            return self._apart(request, self._side)
        if isinstance(request, Open):
            if self._session is not None:
                return _protocol("a workload is open already: one process measures one workload", request)
            if request.spec.is_onnx:
                from perfgate.worker.onnx.opening import open_workload
            else:
                from perfgate.worker.opening import open_workload

            if request.probe:
                # Imports inside functions show only while the model runs; a timed process does without the wrapper.
                self._side.graph.install()
            self._session, opened = open_workload(request, self._side)
            return opened
        if self._session is None:
            return _protocol(f"{type(request).__name__} came before Open had succeeded", request)
        if isinstance(request, Time):
            return self._session.time(request)
        return self._session.finish()

    def _apart(self, request: Saturate | Sample | Lower | ProfileNodes | Build, side: Side) -> object:
        """What does not begin with ``Open``."""
        if isinstance(request, (Saturate, Sample)):
            return self._without_model(request, side)
        if self._session is not None:
            return _protocol("a workload is open already: its nodes are placed by a process of their own", request)
        from perfgate.worker.placing.answering import Placing

        if self._placing is None:
            self._placing = Placing(side)
        return self._placing.answer(request)

    def _without_model(self, request: Saturate | Sample, side: Side) -> object:
        """What needs nothing of the user's."""
        if isinstance(request, Saturate):
            from perfgate.worker.saturating import saturate

            return saturate(request)
        if self._session is not None:
            return _protocol("a workload is open already: one process samples one condition", request)
        from perfgate.worker.networks import sampling

        if request.trace:
            return sampling.trace(request, side)
        self._session, sampled = sampling.sample(request, side)
        return sampled

    def _count(self, request: Count, side: Side) -> object:
        if self._session is not None:
            return _protocol("a workload is open already: count it in a process of its own", request)
        if request.spec.is_onnx:
            message = f"models.{request.spec.name}: an ONNX file is counted as it is, without running it"
            return Failed(kind="unsupported", phase="build", message=message)
        from perfgate.worker.tracing.building import count

        return count(request, side)


_PHASES: dict[type, str] = {
    Prepare: "import", Open: "build", Count: "build", Sample: "build", Saturate: "timing", Time: "timing",
    Finish: "finish", Lower: "build", ProfileNodes: "timing", Build: "build",
}  # fmt: skip


def _protocol(message: str, request: object) -> Failed:
    return Failed(kind="protocol", phase=_PHASES.get(type(request), "build"), message=message)


def run(channel: Channel, opened: OpenedFiles, side: Side | None) -> None:
    """Answer until ``Finish`` or the end of the socket."""
    child = Child(opened, side)
    while True:
        try:
            request = channel.receive(ChildRequest)
        except WireError as error:
            channel.send(_protocol(f"the child cannot read a request: {error}", None))
            continue
        if request is None:
            return
        channel.send(child.answer(request))
        if isinstance(request, Finish):
            return
