"""Floor 3, worker. What one step is: infer, train, or the user's own.

In: the loaded model, its arguments, the user's loss, optimiser and step. Out: a :class:`Step` to call.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from perfgate.records.protocol import Open
from perfgate.worker import loading, trees
from perfgate.worker.failures import phase, refuse
from perfgate.worker.inputs import Arguments
from perfgate.worker.loading import Loaded
from perfgate.worker.preparing import Side

_REFUSES_INFERENCE = ("Inference tensors", "inference tensor", "inference mode")


class Step:
    """One step as a callable. Contexts are entered once around a run of calls, not inside each.

    ``items`` is the number of items of a call: the batch, or what a generator returned.
    """

    def __init__(self, call: Callable[[], object], *, items: int, no_grad: bool, dtype: str, device: str) -> None:
        self.call = call
        self.items = items
        self.no_grad = no_grad
        self.inference = no_grad
        self._dtype = dtype
        self._device = device

    @contextmanager
    def context(self) -> Iterator[None]:
        """Gradient mode and autocast of a run of calls."""
        with ExitStack() as stack:
            if self.no_grad:
                stack.enter_context(torch.inference_mode() if self.inference else torch.no_grad())
            stack.enter_context(loading.autocast(self._dtype, self._device))
            yield

    def refused_inference_mode(self, error: BaseException) -> bool:
        """Whether ``error`` means that the model only runs under ``no_grad``; from then on it does."""
        if self.inference and isinstance(error, RuntimeError) and any(t in str(error) for t in _REFUSES_INFERENCE):
            self.inference = False
            return True
        return False

    @property
    def spans(self) -> tuple[str, ...]:
        """Names of the spans seen so far."""
        return ()

    def take_spans(self) -> dict[str, int]:
        """Mean time in ns of each span since the last call of this, by name; forgets them."""
        return {}


class GeneratorStep(Step):
    """A step whose generator yields the name of the span that ends there.

    The work queued on the devices belongs to the span, so ``sync`` is called before the clock is read.
    A name yielded several times in a call counts as that many spans, and their mean is given. What
    comes after the last yield belongs to no span. The return value is the number of items.
    """

    def __init__(self, call: Callable[[], Any], **options: Any) -> None:
        super().__init__(self._drain, **options)
        self._generate = call
        self._batch = self.items
        self._totals: dict[str, list[int]] = {}
        self._first: int | None = None
        self.sync: Callable[[], None] = lambda: None
        self.clock: Callable[[], int] = time.perf_counter_ns

    def _drain(self) -> object:
        generator = self._generate()
        before = self.clock()
        while True:
            try:
                name = next(generator)
            except StopIteration as end:
                self._count(end.value)
                return end.value
            self.sync()
            now = self.clock()
            if not isinstance(name, str) or not name:
                message = f"the step yielded {type(name).__name__}; yield the name of the span that ends there"
                raise TypeError(message)
            total = self._totals.setdefault(name, [0, 0])
            total[0] += now - before
            total[1] += 1
            before = self.clock()

    def _count(self, value: object) -> None:
        if value is None:
            items = self._batch
        elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
            items = value
        else:
            message = f"the step returned {value!r}; a generator step returns its number of items, or nothing"
            raise TypeError(message)
        if self._first is not None and items != self._first:
            message = (
                f"the step did {items} items after {self._first} before; a step has to do equal work in every call "
                "(fix the lengths or seed the choices)"
            )
            refuse("unsupported", "timing", message)
        self._first = self.items = items

    @property
    def spans(self) -> tuple[str, ...]:
        """Names of the spans seen so far, in order of appearance."""
        return tuple(self._totals)

    def take_spans(self) -> dict[str, int]:
        """Mean time in ns of each span; 0 for one that did not occur."""
        means = {name: total // count if count else 0 for name, (total, count) in self._totals.items()}
        for total in self._totals.values():
            total[:] = [0, 0]
        return means


def make_step(request: Open, side: Side, loaded: Loaded, arguments: Arguments, *, compiled: bool = True) -> Step:
    """The step of a workload; ``compiled`` False leaves torch.compile away. Raises WorkerError."""
    workload, spec = request.workload, request.spec
    model = loaded.model if compiled else loaded.plain
    options: dict[str, Any] = {"items": workload.batch, "dtype": workload.dtype, "device": workload.device}
    if workload.mode == "step":
        return _user_step(spec.step, spec.name, side, model, arguments, options)
    if workload.mode == "infer":
        return Step(lambda: model(*arguments.args, **arguments.kwargs), no_grad=True, **options)
    return _train_step(request, side, model, loaded.module, arguments, options)


def _user_step(
    path: str, model_name: str, side: Side, model: Any, arguments: Arguments, options: dict[str, Any]
) -> Step:
    if not path:
        message = f"models.{model_name}: mode step needs step; set it to 'package.module:callable'"
        refuse("import", "import", message)
    step = loading.resolve(path, f"models.{model_name}.step", side)
    leading = () if model is None else (model,)

    def call() -> object:
        return step(*leading, *arguments.args, **arguments.kwargs)

    make = GeneratorStep if inspect.isgeneratorfunction(inspect.unwrap(step)) else Step
    return make(call, no_grad=False, **options)


def _train_step(
    request: Open, side: Side, model: Any, module: Any, arguments: Arguments, options: dict[str, Any]
) -> Step:
    spec, workload = request.spec, request.workload
    parameters = [p for p in module.parameters() if p.requires_grad] if module is not None else []
    if not parameters:
        message = f"models.{spec.name}: mode train needs a module with trainable parameters; take train out of modes"
        refuse("unsupported", "build", message)
    with phase("build", side.request.checkout):
        optimizer = make_optimizer(spec.optimizer, spec.name, side, parameters)
    loss_of = loss_function(spec.loss, spec.name, side, arguments)
    checked = False

    def call() -> object:
        nonlocal checked
        optimizer.zero_grad(set_to_none=True)
        with loading.autocast(workload.dtype, workload.device):
            loss = loss_of(model(*arguments.args, **arguments.kwargs))
        if not checked:
            check_loss(loss, spec.name)
            checked = True
        loss.backward()
        optimizer.step()
        return loss

    # Backward passes belong outside of autocast, so the step enters it around the forward pass itself.
    return Step(call, no_grad=False, items=workload.batch, dtype="float32", device=options["device"])


def make_optimizer(path: str, model_name: str, side: Side, parameters: list[Any]) -> Any:
    """The user's optimiser, or plain SGD with a small step."""
    if not path:
        return torch.optim.SGD(parameters, lr=1e-3)
    return loading.resolve(path, f"models.{model_name}.optimizer", side)(parameters)


def loss_function(path: str, model_name: str, side: Side, arguments: Arguments) -> Callable[[Any], Any]:
    """A function of the output alone; the user's gets the inputs too where its signature asks for them."""
    if not path:
        return default_loss
    loss = loading.resolve(path, f"models.{model_name}.loss", side)
    args, kwargs = _extra_for(loss, arguments)
    return lambda output: loss(output, *args, **kwargs)


def _extra_for(loss: Callable[..., Any], arguments: Arguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        parameters = list(inspect.signature(loss).parameters.values())
    except (TypeError, ValueError):
        return (), {}
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    # Only parameters without a default: an optional weight or label smoothing is not an input.
    required = sum(1 for p in positional if p.default is p.empty)
    args = arguments.args if takes_any else arguments.args[: max(0, required - 1)]
    filled = 1 + len(args)
    takes_names = any(p.kind is p.VAR_KEYWORD for p in parameters)
    names = {p.name for p in positional[filled:]} | {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    kwargs = {name: value for name, value in arguments.kwargs.items() if takes_names or name in names}
    return args, kwargs


def default_loss(output: object) -> Any:
    """Sum over all floating-point outputs of the mean of their squares."""
    terms = [t.float().square().mean() for _, t in trees.tensors(output) if t.is_floating_point()]
    if not terms:
        message = "the model returned no floating-point tensor to train on; set loss in perfgate.toml"
        refuse("unsupported", "first-step", message)
    return torch.stack(terms).sum() if len({t.device for t in terms}) == 1 else sum(t.to("cpu") for t in terms)


def check_loss(loss: object, model_name: str) -> None:
    """Raise WorkerError, ``unsupported``, where a loss cannot be trained on."""
    where = f"models.{model_name}.loss"
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        shape = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        refuse("unsupported", "first-step", f"{where} returned {shape}; it has to return a scalar tensor")
    if not loss.requires_grad:
        message = (
            f"models.{model_name}: the loss does not depend on any trainable parameter (no gradient); set loss, "
            "or take train out of modes"
        )
        refuse("unsupported", "first-step", message)
