"""Floor 3, worker. From a model's specification to a model on its device.

In: ``ModelSpec``, ``Workload``, seed. Out: :class:`Loaded`: the module and the callables around it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from perfgate.records.protocol import Open
from perfgate.worker import inputs, naming, preparing, seeds
from perfgate.worker.failures import phase, refuse
from perfgate.worker.inputs import Arguments
from perfgate.worker.preparing import Side

_AMP = "amp-"

resolve = preparing.resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """``model`` is what a step calls (compiled where asked), ``plain`` the same uncompiled; None: no entry.

    ``module`` is ``plain`` where it is a ``torch.nn.Module``, else None.
    """

    model: Any
    plain: Any
    module: Any
    notes: tuple[str, ...] = ()


def load(request: Open, side: Side) -> Loaded:
    """Build the model, seed it by name, set its mode, and move it. Raises WorkerError."""
    spec, workload = request.spec, request.workload
    if not spec.entry:
        if workload.mode != "step" or not spec.step:
            message = f"models.{spec.name}: mode {workload.mode} needs entry; set it to 'package.module:callable'"
            refuse("import", "import", message)
        if workload.compile != "eager":
            message = f"models.{spec.name}: compile = {workload.compile!r} needs an entry that returns a module"
            refuse("unsupported", "build", message)
        return Loaded(model=None, plain=None, module=None)
    entry = resolve(spec.entry, f"models.{spec.name}.entry", side)
    with phase("build", side.request.checkout):
        plain, notes = _build(entry, request.seed)
        module = plain if isinstance(plain, torch.nn.Module) else None
        if module is not None:
            notes += set_mode(module, workload.mode, keep=spec.train_mode)
            cast = fixed_dtype(workload.dtype)
            module.to(torch.device(workload.device))
            if cast is not None:
                module.to(cast)
        elif not callable(plain):
            message = (
                f"models.{spec.name}: entry returned {type(plain).__name__}, neither a torch.nn.Module nor callable"
            )
            refuse("unsupported", "build", message)
        model = _compiled(plain, module, workload.compile)
    return Loaded(model=model, plain=plain, module=module, notes=notes)


def make_arguments(request: Open, side: Side) -> Arguments:
    """Inputs on the workload's device, in its dtype."""
    spec, workload = request.spec, request.workload
    make = resolve(spec.make_inputs, f"models.{spec.name}.make_inputs", side) if spec.make_inputs else None
    with phase("inputs", side.request.checkout):
        if make is not None:
            seeds.set_all(seeds.derive(request.seed, "inputs"))
            arguments = inputs.from_function(make, workload.batch, workload.device)
        else:
            arguments = inputs.from_specification(spec.inputs, workload.batch, request.seed)
        return inputs.placed(arguments, workload.device, fixed_dtype(workload.dtype))


def _build(entry: Callable[..., Any], seed: int) -> tuple[Any, tuple[str, ...]]:
    if isinstance(entry, torch.nn.Module):
        return entry, ("the model was built at import, so its weights are not seeded by name",)
    seeds.set_all(seed)
    with naming.recording(seed) as recorder:
        plain = entry()
    notes = naming.rename(plain, recorder, seed) if isinstance(plain, torch.nn.Module) else ()
    seeds.set_all(seed)
    return plain, notes


def materialise(request: Open, loaded: Loaded, arguments: Arguments) -> tuple[str, ...]:
    """Give lazy parameters their shapes by one forward pass, then seed them by name too; returns notes."""
    module, workload = loaded.module, request.workload
    if module is None or not any(map(torch.nn.parameter.is_lazy, [*module.parameters(), *module.buffers()])):
        return ()
    flags = [(child, child.training) for child in module.modules()]
    module.eval()
    try:
        with (
            torch.no_grad(),
            naming.recording(request.seed) as recorder,
            autocast(workload.dtype, workload.device),
        ):
            module(*arguments.args, **arguments.kwargs)
    finally:
        for child, training in flags:
            child.training = training
    note = "lazy parameters got their shapes in a forward pass before the first step"
    return (note, *naming.rename(module, recorder, request.seed))


def set_mode(module: Any, mode: str, *, keep: bool) -> tuple[str, ...]:
    """``eval()`` to infer and ``train()`` to train, on every submodule; a step sets its own."""
    if mode == "train":
        module.train()
    elif mode == "infer" and not keep:
        module.eval()
        stuck = [name or type(module).__name__ for name, child in module.named_modules() if child.training]
        if stuck:
            return (f"still in training mode after eval(): {', '.join(stuck[:5])}",)
    return ()


def _compiled(plain: Any, module: Any, setting: str) -> Any:
    if setting == "eager":
        return plain
    model = torch.compile(plain, mode=None if setting == "default" else setting)
    if module is not None and model.training != module.training:
        # Some releases' wrapper starts in training mode; only its own flag may be set, not the children's.
        model.training = module.training
    return model


def fixed_dtype(dtype: str) -> Any:
    """What weights and inputs are cast to; None leaves the model as it was built (float32 and autocast)."""
    if dtype == "float32" or dtype.startswith(_AMP):
        return None
    return named_dtype(dtype)


def autocast(dtype: str, device: str) -> AbstractContextManager[Any]:
    """The autocast context of ``amp-...``, else one that does nothing."""
    if not dtype.startswith(_AMP):
        return nullcontext()
    context: AbstractContextManager[Any] = torch.autocast(
        torch.device(device).type, dtype=named_dtype(dtype.removeprefix(_AMP))
    )
    return context


def named_dtype(name: str) -> Any:
    """torch's dtype called ``name``. Raises WorkerError, ``unsupported``."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        refuse("unsupported", "build", f"torch has no dtype {name!r}; write float32, bfloat16 or amp-bfloat16")
    return dtype


def is_plain_float(tensor: Any) -> bool:
    """Whether a tensor's values can be compared as ordinary floating-point numbers."""
    strided = tensor.layout is torch.strided and not tensor.is_quantized and not torch.nn.parameter.is_lazy(tensor)
    return bool(strided and tensor.is_floating_point())
