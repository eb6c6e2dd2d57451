"""Arithmetic that users write in ``perfgate.toml``: numbers, shapes and nothing that could run code.

``2 * numel(out0) * weight[0]``: names are given by the caller and stand for whole numbers or tuples of them (shapes);
``[N]`` takes one size, negative from the end. Operators ``+ - * / // % **`` and functions ``numel(shape)``,
``min(...)``, ``max(...)``.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Number = int | float
Given = Number | tuple[int, ...]

MAX_LENGTH = 1000
_MAX_EXPONENT = 8
_MAX_RESULT = 2.0**63

_BINARY: dict[type, Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS = ("numel", "min", "max")
_EXAMPLE = "write it as in '2 * numel(out0) * weight[1]'"


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked formula."""

    text: str
    _tree: ast.expr

    def value(self, names: Mapping[str, Given]) -> int:
        """The value as a whole number of at least 0. Raises ValueError with one sentence."""
        try:
            result = _number(self._tree, names)
        except ZeroDivisionError:
            msg = f"{self.text!r} divides by zero"
            raise ValueError(msg) from None
        except OverflowError:
            result = math.inf
        # A root of a negative number is complex in Python.
        if isinstance(result, complex) or not (math.isfinite(result) and 0 <= result < _MAX_RESULT):
            msg = f"{self.text!r} comes to no count of at least 0 and below 2^63"
            raise ValueError(msg)
        return round(result)


def parse(text: str) -> Expression:
    """The expression that ``text`` says. Raises ValueError with one sentence."""
    if len(text) > MAX_LENGTH:
        msg = f"longer than {MAX_LENGTH} characters"
        raise ValueError(msg)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        msg = f"{text!r} is no formula; {_EXAMPLE}"
        raise ValueError(msg) from None
    _check(tree, text)
    return Expression(text, tree)


def _check(node: ast.expr, text: str) -> None:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float()) | ast.Name():
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            _check(left, text)
            _check(right, text)
            return
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            _check(inner, text)
            return
        case ast.Subscript(value=ast.Name(), slice=index):
            _check(index, text)
            return
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            for argument in args:
                _check(argument, text)
            return
    msg = f"{text!r}: {ast.unparse(node)!r} is not allowed in a formula; {_EXAMPLE}"
    raise ValueError(msg)


def _number(node: ast.expr, names: Mapping[str, Given]) -> Number:
    value = _value(node, names)
    if isinstance(value, tuple):
        msg = f"{ast.unparse(node)!r} is a shape where a number is due; take one size, as in {ast.unparse(node)}[0]"
        raise ValueError(msg)  # noqa: TRY004 - callers report ValueError
    return value


def _value(node: ast.expr, names: Mapping[str, Given]) -> Given:
    match node:
        case ast.Constant(value=int() | float() as constant):
            return constant
        case ast.Name(id=name):
            if name not in names:
                msg = f"there is no {name!r}; known are {', '.join(sorted(names))}"
                raise ValueError(msg)
            return names[name]
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _number(left, names), _number(right, names)
            if isinstance(op, ast.Pow) and abs(other) > _MAX_EXPONENT:
                msg = f"the exponent {other} is over {_MAX_EXPONENT}"
                raise ValueError(msg)
            return _BINARY[type(op)](one, other)
        case ast.UnaryOp(operand=inner):
            return -_number(inner, names)
        case ast.Subscript(value=ast.Name() as whole, slice=index):
            return _size(_value(whole, names), _number(index, names), ast.unparse(node))
        case ast.Call(func=ast.Name(id=name), args=args):
            values = [_value(argument, names) for argument in args]
            flat = [size for value in values for size in (value if isinstance(value, tuple) else (value,))]
            if name == "numel":
                return math.prod(flat)
            return min(flat) if name == "min" else max(flat)
    raise AssertionError(ast.dump(node))


def _size(shape: Given, index: Number, text: str) -> int:
    if not isinstance(shape, tuple) or not isinstance(index, int) or not -len(shape) <= index < len(shape):
        msg = f"{text!r}: there is no such size in {shape}"
        raise ValueError(msg)
    return shape[index]
