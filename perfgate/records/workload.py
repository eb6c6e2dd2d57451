"""What is measured."""

from __future__ import annotations

from dataclasses import dataclass, field

MODES = ("infer", "train", "step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One measured cell: model x mode x batch x dtype x device x compile setting.

    ``mode`` is ``infer``, ``train`` or ``step``. ``dtype`` is a torch dtype name
    (``float32``, ``bfloat16``) or ``amp-`` and one for autocast. ``device`` is ``cpu`` or
    ``cuda:N``. ``compile`` is ``eager`` or a ``torch.compile`` mode (``default``, ...).
    """

    model: str
    mode: str
    batch: int
    dtype: str
    device: str
    compile: str

    @property
    def key(self) -> str:
        """Stable text form, e.g. ``resnet50/train/b32/float32/cpu/eager``."""
        return f"{self.model}/{self.mode}/b{self.batch}/{self.dtype}/{self.device}/{self.compile}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """How one side builds and steps a model; read from that side's own configuration.

    Attributes:
        entry: ``package.module:callable`` returning a ``torch.nn.Module`` (or any callable), or the path of an
            ``.onnx`` file relative to the checkout.
        inputs: Tree of input specifications: a list (positional arguments) or a table (keyword
            arguments) whose leaves are texts like ``float32[batch,3,224,224]`` or
            ``int64[batch,128] < 30522``, nested lists and tables, or plain numbers and booleans.
        make_inputs: ``module:callable`` called with ``batch=`` and ``device=`` keywords (those it
            accepts); returns a tuple (positional), a dict (keyword) or one value.
        step: ``module:callable`` called as ``step(model, *inputs, **inputs)``, or without a model
            if ``entry`` is empty; any callable as one step. A generator function yields span names.
        loss: ``module:callable`` of (output) or (output, *inputs) -> scalar tensor; empty: the sum of the means
            of all floating-point outputs' squares.
        optimizer: ``module:callable`` of (parameters) -> optimizer; empty: ``torch.optim.SGD(lr=1e-3)``.
        train_mode: True keeps the factory's ``training`` flags in ``infer``; default calls ``eval()``.
        paths: Globs of further files that touch this model.
        timeout_s: Limit for one process of this model from start to first ready.
    """

    name: str
    entry: str = ""
    inputs: object = ()
    make_inputs: str = ""
    step: str = ""
    loss: str = ""
    optimizer: str = ""
    train_mode: bool = False
    modes: tuple[str, ...] = ("infer",)
    batch: tuple[int, ...] = (1,)
    dtype: tuple[str, ...] = ("float32",)
    device: tuple[str, ...] = ("cpu",)
    compile: tuple[str, ...] = ("eager",)
    paths: tuple[str, ...] = ()
    timeout_s: float = 600.0

    @property
    def is_onnx(self) -> bool:
        """Whether ``entry`` is an ONNX file."""
        return self.entry.endswith(".onnx")

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that this model names, in order, each once: what a worker imports for it."""
        texts = ("" if self.is_onnx else self.entry, self.make_inputs, self.step, self.loss, self.optimizer)
        return tuple(dict.fromkeys(module for text in texts if (module := text.partition(":")[0].strip())))

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """All cells of this model, in the order of the configuration."""
        return tuple(
            Workload(model=self.name, mode=mode, batch=batch, dtype=dtype, device=device, compile=compile_)
            for mode in self.modes
            for batch in self.batch
            for dtype in self.dtype
            for device in self.device
            for compile_ in self.compile
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SideConfig:
    """What one revision says about how to run it (``[models.*]``, ``setup``, ``python``, ``pythonpath``).

    ``python`` may be relative: looked for in the checkout first, then in the repository root. ``operators`` maps
    custom operators (``mylib::fused``) to the user's formula of their FLOP.
    """

    source: str
    models: dict[str, ModelSpec] = field(default_factory=dict)
    python: str = ""
    pythonpath: tuple[str, ...] = (".",)
    setup: str = ""
    setup_timeout_s: float = 1800.0
    threads: int | None = None
    operators: dict[str, str] = field(default_factory=dict)
