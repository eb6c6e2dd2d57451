"""Floor 3, worker. Every operator of one step, as torch dispatches it below autograd.

In: a step that runs inside :meth:`Tracer.running`. Out: values and calls; views and bookkeeping are no calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from perfgate.records.graph import CONSTANT, META, PARAMETER, Call
from perfgate.worker import trees
from perfgate.worker.tracing import arguments, higher, kinds, layouts, packing
from perfgate.worker.tracing.backups import Backups
from perfgate.worker.tracing.groups import Groups
from perfgate.worker.tracing.places import Place, Places
from perfgate.worker.tracing.values import Known, Storage, Values

Run = Callable[[Any, Any, Any], Any]


def as_it_is(func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator on what it is given."""
    return func(*args, **kwargs)


class Tracer(TorchDispatchMode):  # type: ignore[misc]
    """Writes down calls; :attr:`places` and :attr:`values` are told what is known before the step.

    ``run`` runs an operator, ``device`` is the model's own. What the step overwrites goes to ``backups`` first.
    ``deviceless`` and ``home``: see ``groups``.
    """

    # Control flow, flex attention and the like come through this mode too.
    supports_higher_order_operators = True

    def __init__(
        self,
        *,
        run: Run = as_it_is,
        device: str = "",
        backups: Backups | None = None,
        deviceless: bool = False,
        home: Any = None,
    ) -> None:
        super().__init__()
        self.values = Values(device)
        self.places = Places()
        self.calls: list[Call] = []
        self.untraced: dict[str, None] = {}
        self._run = run
        self._deviceless = deviceless
        self._backups = backups or Backups()
        self._groups = Groups(self.places, self.values, self.calls, deviceless=deviceless, home=home)
        self.places.functions = self._groups
        self._unpacked: dict[object, list[Any]] = {}
        self._span_starts = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # See naming.Recorder.
        return False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Trace what runs inside."""
        higher.register(Tracer, Tracer._higher_order)
        with self.places.watching(), self._groups, self:
            yield

    def end_span(self, name: str) -> None:
        """The calls since the last span belong to ``name``."""
        for index in range(self._span_starts, len(self.calls)):
            self.calls[index] = replace(self.calls[index], span=name)
        self._span_starts = len(self.calls)

    def finish(self, result: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Values of the tensors in what the step returned, and of what outlives it."""
        results = []
        for _, tensor in trees.tensors(result):
            self._check_filled(tensor, "returned")
            results.append(self.values.index(tensor))
        return tuple(dict.fromkeys(results)), self.values.outliving()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(map(kinds.is_foreign, types)):
            # A subclass with a will of its own: what it does inside comes back here.
            return NotImplemented
        if not isinstance(func, torch._ops.OpOverload):
            return self._higher_order(func, args, kwargs)
        place = self.places.now()
        if kinds.is_composite(func) and not any(leaf.is_nested for leaf in kinds.tensors(args, kwargs)):
            # Under inference mode, and inside of subclasses, operators come undivided.
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        if kinds.is_free(func):
            return self._free(func, args, kwargs, place)
        return self._work(func, args, kwargs, place)

    def _free(self, func: Any, args: Any, kwargs: Any, place: Place) -> Any:
        lift = kinds.is_lift(func)
        for leaf in kinds.tensors(args, kwargs):
            storage = self.values.storage(leaf, made=lift, place=place.module)
            if lift:
                storage.role = CONSTANT
                storage.foreign = self._groups.comes_back
                storage.filled = not storage.foreign
        result = self._run(func, args, kwargs)
        first = args[0] if args and isinstance(args[0], torch.Tensor) else None
        for leaf in kinds.tensors_of(result):
            if kinds.is_view(func) and first is not None:
                self.values.same_memory(leaf, first)
            self.values.storage(leaf, made=True, place=place.module)
        return result

    def _work(self, func: Any, args: Any, kwargs: Any, place: Place) -> Any:
        tensors: dict[str, list[Any]] = {}
        packed: dict[str, Any] = {}
        attributes: dict[str, object] = {}
        read: list[Any] = []
        changed: list[Any] = []
        untold = kinds.untold_writes(func, args)
        for argument, value in arguments.bound(func, args, kwargs):
            if argument.tensors and not isinstance(value, (bool, int, float, complex)):
                found = tensors[argument.name] = kinds.flat(value)
                there = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
                (changed if argument.written else read).extend(there)
                if argument.name in untold:
                    changed.extend(there)
            elif packing.is_packed(value):
                packed[argument.name] = value
            else:
                attributes[argument.name] = arguments.plain(value)
        self._before(func, read, changed)
        operands = {name: self._indices(found) for name, found in tensors.items()}
        for name, value in packed.items():
            operands[name] = self._packed(packing.unpacked(value, name, tensors, attributes), place, name)
        attributes.update(layouts.sparse(tensors))
        result = layouts.settled(func, args, self._run(func, args, kwargs))
        if not changed and self._is_view(result, read):
            return result
        writes = self._indices(changed)
        self._write(func._schema.name, func._overloadname, place, operands, attributes, result, writes)
        return result

    def _packed(self, found: list[tuple[str, Any]], place: Place, argument: str) -> tuple[int, ...]:
        """Values of packed weights and biases, which are those of the module; unpacking gives new tensors."""
        shapes = tuple(None if leaf is None else tuple(leaf.shape) for _, leaf in found)
        held = self._unpacked.setdefault((place.module, argument, shapes), [leaf for _, leaf in found])
        for leaf, (name, _) in zip(held, found, strict=True):
            if leaf is not None and not self.values.seen(leaf):
                path = f"{place.module}.{name}" if place.module else name
                self.values.know(leaf, Known(role=PARAMETER, name=path))
        return self._indices(held)

    def _before(self, func: Any, read: list[Any], changed: list[Any]) -> None:
        for leaf in read:
            self._check_filled(leaf, f"read by {func._schema.name}")
        for leaf in changed:
            storage = self.values.storage(leaf)
            storage.filled = True
            if not storage.made:
                self._backups.keep(leaf)

    def _write(
        self,
        op: str,
        overload: str,
        place: Place,
        operands: dict[str, tuple[int, ...]],
        attributes: dict[str, object],
        result: Any,
        writes: tuple[int, ...] = (),
    ) -> None:
        outputs = []
        for leaf in kinds.flat(result):
            if isinstance(leaf, torch.Tensor):
                fresh = self._deviceless and not self.values.seen(leaf)
                storage = self.values.storage(leaf, made=True, place=place.module)
                storage.filled = True
                if fresh:
                    self._settle(storage, operands, attributes)
                outputs.append(self.values.index(leaf))
            elif leaf is None:
                outputs.append(-1)
        self.calls.append(
            Call(
                op=op,
                overload=overload,
                module=place.module,
                module_class=place.module_class,
                phase=place.phase,
                operands=operands,
                attributes=attributes,
                outputs=tuple(outputs),
                writes=writes,
                group=place.group,
            )
        )

    def _settle(self, storage: Storage, operands: dict[str, tuple[int, ...]], attributes: dict[str, object]) -> None:
        """A result without contents is where the operator was told to put it, else where its first argument is."""
        told = attributes.get("device")
        first = next((index for found in operands.values() for index in found if index >= 0), None)
        if isinstance(told, str) and told != META:
            self.values.move(storage, told)
        elif first is not None and storage.device == META:
            storage.device = self.values.items[first].device

    def _indices(self, leaves: list[Any]) -> tuple[int, ...]:
        return tuple(self.values.index(leaf) if isinstance(leaf, torch.Tensor) else -1 for leaf in leaves)

    def _is_view(self, result: Any, read: list[Any]) -> bool:
        """Whether nothing was made: every result shares memory with an argument (``reshape`` without a copy)."""
        made = kinds.tensors_of(result)
        if not made:
            return False
        given = {self.values.key(leaf) for leaf in read}
        return all(self.values.key(leaf) in given for leaf in made)

    def _check_filled(self, tensor: Any, how: str) -> None:
        """Note a tensor that has contents though nothing that was traced wrote them."""
        storage = self.values.storage(tensor)
        if storage.filled:
            return
        storage.filled = True
        where = storage.place or "the model itself"
        if storage.foreign:
            reason = "it comes from outside of torch, after a tensor was handed to numpy or another library"
        else:
            reason = "no operator wrote it, but maybe a Triton kernel, numpy or a foreign library did"
        self.untraced[f"{where}: a tensor that is {how} was filled by something that is not traced: {reason}"] = None

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = func.name()
        spelled = higher.spelled_out(name)
        if spelled is not None:
            with self:
                return spelled(*args, **kwargs)
        with self.places.grouped(name):
            place = self.places.now()
        if name not in higher.FLEX:
            self.untraced[
                f"{place.module or 'the model itself'}: higher_order::{name} is one call here: "
                "what happens inside is not traced"
            ] = None
        given = higher.named(func, args, kwargs)
        operands = {key: self._indices(tensors) for key, tensors in higher.tensors_of(given).items()}
        attributes = {key: arguments.plain(value) for key, value in higher.numbers_of(given).items()}
        result = func(*args, **kwargs)
        leaves = [leaf for leaf in pytree.tree_leaves(result) if leaf is None or isinstance(leaf, torch.Tensor)]
        self._write(f"higher_order::{name}", "default", place, operands, attributes, leaves)
        return result
