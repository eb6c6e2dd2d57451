"""Floor 3, graph. Element types of ONNX tensors: their names in torch's terms, and their bits.

In: numbers of ``TensorProto.DataType``. Out: ``float32`` and 32. Packed types (int4) count at their true bits.
"""

from __future__ import annotations

from onnx import TensorProto

_P = TensorProto

# A string has no fixed size; what moves is a reference to it.
_TYPES: dict[int, tuple[str, int]] = {
    _P.FLOAT: ("float32", 32),
    _P.UINT8: ("uint8", 8),
    _P.INT8: ("int8", 8),
    _P.UINT16: ("uint16", 16),
    _P.INT16: ("int16", 16),
    _P.INT32: ("int32", 32),
    _P.INT64: ("int64", 64),
    _P.STRING: ("string", 64),
    _P.BOOL: ("bool", 8),
    _P.FLOAT16: ("float16", 16),
    _P.DOUBLE: ("float64", 64),
    _P.UINT32: ("uint32", 32),
    _P.UINT64: ("uint64", 64),
    _P.COMPLEX64: ("complex64", 64),
    _P.COMPLEX128: ("complex128", 128),
    _P.BFLOAT16: ("bfloat16", 16),
    # By number: older onnx packages do not name the newest ones.
    17: ("float8_e4m3fn", 8),
    18: ("float8_e4m3fnuz", 8),
    19: ("float8_e5m2", 8),
    20: ("float8_e5m2fnuz", 8),
    21: ("uint4", 4),
    22: ("int4", 4),
    23: ("float4_e2m1fn", 4),
    24: ("float8_e8m0fnu", 8),
    25: ("uint2", 2),
    26: ("int2", 2),
}

_NUMBERS = {name: number for number, (name, _) in _TYPES.items()}

# Types that shapes and indices are computed in, and that NumPy can hold.
FOLDABLE = frozenset(
    {_P.FLOAT, _P.DOUBLE, _P.FLOAT16, _P.BOOL, _P.INT64, _P.INT32, _P.INT16, _P.INT8}
    | {_P.UINT8, _P.UINT16, _P.UINT32, _P.UINT64}
)

_INDEX_LIKE = frozenset({"int64", "uint64", "uint32", "int32", "bool", "string"})


def dtype(number: int) -> str:
    """``float32`` for ``TensorProto.FLOAT``; ``unknown`` for 0, ``type99`` for one that is newer than this table."""
    return _TYPES.get(number, (f"type{number}" if number else "unknown", 0))[0]


def bits(number: int) -> int:
    """Bits of one element; 8 where the type is not known."""
    return _TYPES.get(number, ("", 8))[1]


def number(dtype_name: str) -> int | None:
    """``TensorProto.FLOAT`` for ``float32``; None where ONNX has no such type."""
    return _NUMBERS.get(dtype_name)


def weight_like(dtype_name: str) -> bool:
    """Whether weights are kept in this type: floating, complex, or quantised to 16 bits and less."""
    return dtype_name not in _INDEX_LIKE
