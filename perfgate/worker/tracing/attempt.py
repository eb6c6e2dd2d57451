"""Floor 3, worker. One attempt at tracing a step, on one kind of tensors.

In: a :class:`Job`. Out: ``Trace``. Nothing of the model, of torch's settings or of the random generators is different
afterwards, also where the step fails.

The step runs twice and the second time is traced: what the first one leaves (state of the optimiser, caches) is there
in every step that is timed, too. Where that is there already it runs once.
"""

from __future__ import annotations

import copy
import gc
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from perfgate.records import graph
from perfgate.records.graph import BUFFER, INPUT, PARAMETER, Trace
from perfgate.worker import counting, trees
from perfgate.worker.inputs import Arguments
from perfgate.worker.tracing import compiler, packing
from perfgate.worker.tracing.backups import Backups
from perfgate.worker.tracing.mixing import Mixer
from perfgate.worker.tracing.places import clean
from perfgate.worker.tracing.standin import generators_kept, standing_in
from perfgate.worker.tracing.substitutes import FAKE, META, REAL, VALUES, Substitutes
from perfgate.worker.tracing.tracer import Tracer, as_it_is
from perfgate.worker.tracing.values import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to trace.

    Attributes:
        plain: The model: a module, any callable, or None where the step needs none.
        modules: Path -> every module that the step uses; the model itself has the empty path.
        arguments: What the step is called with.
        make: The step of a model with arguments: a function of the tracer that is to be told of spans.
        trains: Whether parameters get gradients.
        warm: Whether the step ran before, so that the model has all that a first step leaves.
        device: Where the model is: its tensors are said to be on ``meta``, others where they are.
        items: Items of a step, read when it has run.
    """

    plain: Any
    modules: Mapping[str, Any]
    arguments: Arguments
    make: Callable[[Any, Arguments], Callable[[Tracer], object]]
    trains: bool = False
    warm: bool = False
    device: str = "cpu"
    items: Callable[[], int] = lambda: 1

    def owners(self) -> list[Any]:
        """The modules whose parameters are the model's: itself where it is one."""
        return [self.plain] if isinstance(self.plain, torch.nn.Module) else list(self.modules.values())


def attempt(job: Job, kind: str, note: str = "") -> Trace:
    """Trace a step on tensors of one kind (see ``substitutes``). Raises what the step raises."""
    substitutes = Substitutes(kind, device=job.device, trains=job.trains)
    backups = Backups()
    lazy = any(torch.nn.parameter.is_lazy(tensor) for owner in job.owners() for tensor in owner.parameters())
    sizes = None if lazy else _sizes(job)
    with ExitStack() as stack:
        stack.enter_context(generators_kept())
        stack.callback(backups.restore)
        scripts = _Scripts(kind, substitutes)
        stack.enter_context(standing_in(list(job.modules.values()), substitutes, scripts=scripts))
        stack.enter_context(_settings(kind))
        plain = scripts(job.plain) if isinstance(job.plain, torch.jit.ScriptModule) else job.plain
        arguments = job.arguments.mapped(substitutes)
        step = job.make(plain, arguments)
        stack.enter_context(substitutes.fake_mode or nullcontext())
        if not job.warm:
            first = _tracer(job, kind, backups, arguments)
            with first.running():
                step(first)
        tracer = _tracer(job, kind, backups, arguments)
        _introduce(tracer, {**job.modules, **({"": plain} if plain is not job.plain else {})}, arguments)
        with tracer.running():
            result = step(tracer)
        results, lasting = tracer.finish(result)
        # Lazy parameters have their shapes only in here.
        parameters, weight_bytes = sizes or _sizes(job)
    return Trace(
        source=graph.REAL if kind == REAL else graph.META,
        values=tuple(tracer.values.items),
        calls=tuple(tracer.calls),
        parameters=parameters,
        weight_bytes=weight_bytes,
        results=results,
        lasting=lasting,
        peak_bytes=tracer.values.peak,
        batch=job.items(),
        software=f"torch {torch.__version__.partition('+')[0]}",
        untraced=tuple(tracer.untraced),
        notes=(note,) if note else (),
    )


def _tracer(job: Job, kind: str, backups: Backups, arguments: Arguments) -> Tracer:
    deviceless = kind in {META, VALUES}
    real = [tensor.device for _, tensor in trees.tensors((arguments.args, arguments.kwargs)) if not tensor.is_meta]
    home = None if kind != VALUES else next(iter(real), torch.device("cpu"))
    run = Mixer(home).run if deviceless else as_it_is
    return Tracer(run=run, device=job.device, backups=backups, deviceless=deviceless, home=home)


def _sizes(job: Job) -> tuple[int, int]:
    return counting.total(counting.parameters, job.owners()), counting.total(counting.weight_bytes, job.owners())


class _Scripts:
    """What stands for TorchScript modules, whose tensors cannot be replaced one by one: a copy."""

    def __init__(self, kind: str, substitutes: Substitutes) -> None:
        self._kind = kind
        self._substitutes = substitutes
        self._done: dict[int, tuple[Any, Any]] = {}

    def __call__(self, module: Any) -> Any:
        if self._kind in {REAL, FAKE}:
            return module
        known = self._done.get(id(module))
        if known is None:
            made = copy.deepcopy(module)
            for child in made.modules():
                for name, tensor in list(child._buffers.items()):
                    setattr(child, name, self._substitutes(tensor))
                for name, tensor in list(child._parameters.items()):
                    plain = self._substitutes(tensor).detach()
                    setattr(child, name, torch.nn.Parameter(plain, requires_grad=tensor.requires_grad))
            known = self._done[id(module)] = (module, made)
        return known[1]


def _introduce(tracer: Tracer, modules: Mapping[str, Any], arguments: Arguments) -> None:
    """Tell the tracer what there is before the step."""
    for path, module in modules.items():
        tracer.places.name_modules(module, path)
    for path, module in modules.items():
        for role, named in ((PARAMETER, module.named_parameters()), (BUFFER, module.named_buffers())):
            for inner, tensor in named:
                name = clean(".".join(part for part in (path, inner) if part))
                for part, logical in packing.parts(tensor):
                    tracer.values.know(part, Known(role=role, name=name, logical=logical))
                if role == PARAMETER:
                    tracer.places.name_leaf(tensor, name)
    for inner, tensor in trees.tensors((list(arguments.args), arguments.kwargs)):
        for part, logical in packing.parts(tensor):
            tracer.values.know(part, Known(role=INPUT, name=_input_name(inner), logical=logical))


def _input_name(path: str) -> str:
    """``[0][2]`` is ``inputs[2]``, ``[1]['mask'][0]`` is ``inputs.mask[0]``."""
    rest = path[3:]
    if path.startswith("[0]"):
        return f"inputs{rest}"
    name, _, inner = rest.removeprefix("['").partition("']")
    return f"inputs.{name}{inner}"


@contextmanager
def _settings(kind: str) -> Iterator[None]:
    """Nothing hides operators or joins them, and no collector decides when memory is freed."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    collecting = gc.isenabled()
    complaints = logging.getLogger("torch._subclasses.fake_tensor")
    level = complaints.level
    torch.backends.mha.set_fastpath_enabled(False)
    gc.disable()
    # What fake tensors cannot do is found out by trying: no news for the user.
    complaints.setLevel(logging.CRITICAL)
    try:
        # Tensors without contents have no kernels of attention, so that it comes as plain products there.
        attention = nullcontext() if kind in {META, VALUES} else sdpa_kernel(SDPBackend.MATH)
        with (
            warnings.catch_warnings(),
            counting.uncompiled(),
            compiler.deferred(),
            torch.jit.optimized_execution(False),
            attention,
        ):
            # Nothing is compiled, so that hooks see what they should.
            warnings.filterwarnings("ignore", message="Using `torch.compile.*global hooks")
            yield
    finally:
        complaints.setLevel(level)
        torch.backends.mha.set_fastpath_enabled(fast_path)
        if collecting:
            gc.enable()
