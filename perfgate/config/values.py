"""Floor 2, config. The kinds of values people write in ``perfgate.toml``, each with its reader.

In: one TOML value. Out: the same value in the unit of the records (ns, bytes, shares). Every
reader raises ValueError with one sentence that says what to write instead.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator

from perfgate import expressions, units
from perfgate.records import metrics

T = TypeVar("T")

FLOATING = ("float16", "bfloat16", "float32", "float64")
AUTOCAST = ("amp-bfloat16", "amp-float16")
COMPILE_MODES = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_share(value: object) -> float:
    """0.03 of ``"3%"``, ``"0.03"`` or ``0.03``. A bare number of 1 or more is taken for a forgotten ``%``."""
    if isinstance(value, str):
        return units.parse_fraction(value)
    if isinstance(value, (int, float)) and _is_number(value):
        if not math.isfinite(value) or value < 0:
            msg = f"{value} is not a share; write a number of at least 0, as in '3%'"
            raise ValueError(msg)
        if value >= 1:
            msg = f"{value} would be {100 * value:g} %; write '{value:g}%' if percent is meant"
            raise ValueError(msg)
        return float(value)
    msg = f"{value!r} is not a share; write it as '3%' or 0.03"
    raise ValueError(msg)


def _between_0_and_1(value: float) -> float:
    if not 0 < value < 1:
        msg = f"{units.share(value)} is out of range; write more than 0 and less than 100 %"
        raise ValueError(msg)
    return value


def read_limit(value: object) -> float | None:
    """A relative limit, or None for ``false``: the metric is shown and not gated."""
    if value is False or value is None:
        return None
    if value is True:
        msg = "true says no limit; write a share such as '1%', or false to show the metric without gating it"
        raise ValueError(msg)
    return read_share(value)


def _quantity(
    parse: Callable[[str], float], example: str, *, most: float = sys.float_info.max, shown: str = ""
) -> Callable[[object], float]:
    def read(value: object) -> float:
        if not isinstance(value, str):
            msg = f"{value!r} has no unit; write it as {example!r}"
            raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueError only
        result = parse(value)
        if not 0 < result <= most:
            bound = f" and at most {shown}" if shown else ""
            msg = f"{value!r} is out of range; write more than 0{bound}, as in {example!r}"
            raise ValueError(msg)
        return result

    return read


# GitHub ends every job after five days, and sockets and polls cannot wait for longer than 24 days.
read_duration_ns = _quantity(units.parse_duration_ns, "10min", most=120 * 3600e9, shown="120h")
read_bytes = _quantity(units.parse_bytes, "22GiB")
read_energy_j = _quantity(units.parse_energy_j, "35mJ")


def read_count(value: object) -> float:
    """A plain number of at least 0, for FLOP and counts: no graph break at all is a natural ceiling."""
    if isinstance(value, (int, float)) and _is_number(value) and 0 <= value < math.inf:
        return float(value)
    msg = f"{value!r} is not a count; write a plain number of at least 0, as in 8.2e9"
    raise ValueError(msg)


def read_reference(value: object) -> str:
    """``package.module:attribute``; neither part may be empty."""
    if isinstance(value, str):
        module, colon, attribute = value.partition(":")
        parts = [*module.split("."), *attribute.split(".")]
        if colon and all(part.isidentifier() for part in parts):
            return value
    msg = f"{value!r} names no callable; write 'package.module:callable'"
    raise ValueError(msg)


def read_entry(value: object) -> str:
    """A reference, or the path of an ``.onnx`` file below the checkout."""
    if isinstance(value, str) and value.endswith(".onnx"):
        return read_relative(value)
    return read_reference(value)


def read_operator_name(value: str) -> str:
    """``namespace::operator``, as torch and ONNX domains name them."""
    namespace, colons, name = value.partition("::")
    if not colons or not namespace or not name or any(char.isspace() for char in value):
        msg = f"{value!r} names no operator; write 'namespace::operator', as `perfgate count` lists it"
        raise ValueError(msg)
    return value


def read_formula(value: str) -> str:
    """A formula of FLOP, checked for its form only: which names it may use depends on the operator."""
    expressions.parse(value)
    return value


def no_nul(value: str) -> str:
    """A text that can be an argument of a program."""
    if "\0" in value:
        msg = f"{value!r} holds a NUL character; leave it out"
        raise ValueError(msg)
    return value


def read_relative(value: object) -> str:
    """A path or glob below the checkout: relative, with ``/``, without ``..``."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        msg = f"{value!r} is not a path; write one relative to the repository's root"
        raise ValueError(msg)
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or "\\" in value:
        msg = f"{value!r} leaves the checkout; write a path relative to the repository's root, with / and without .."
        raise ValueError(msg)
    return path.as_posix()


def read_device(value: object) -> str:
    """``cpu`` or ``cuda:N``; ``cuda`` means ``cuda:0``."""
    if value == "cuda":
        return "cuda:0"
    if isinstance(value, str) and re.fullmatch(r"cpu|cuda:(0|[1-9][0-9]?)", value):
        return value
    msg = f"{value!r} is no device; write 'cpu', 'cuda' or 'cuda:N'"
    raise ValueError(msg)


def read_place(value: object) -> str:
    """``cpu``, ``cuda:N``, or ``NAME:N`` of a compute library of another package; ``cuda`` means ``cuda:0``."""
    if value == "cuda":
        return "cuda:0"
    if isinstance(value, str) and re.fullmatch(r"cpu|[a-z][a-z0-9_-]{0,29}:(0|[1-9][0-9]?)", value):
        return value
    msg = f"{value!r} is no device; write 'cpu', 'cuda', 'cuda:N', or 'NAME:N' of a compute library of your own"
    raise ValueError(msg)


def read_library(value: object) -> str:
    """Name of a compute library; which ones there are, only the runner knows."""
    if isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9-]{0,59}", value):
        return value
    msg = f"{value!r} is no name of a compute library; write one as `perfgate place` lists them"
    raise ValueError(msg)


def read_dtype(value: object) -> str:
    """A floating-point torch dtype, or ``amp-`` and one that autocast knows."""
    if isinstance(value, str) and value in {*FLOATING, *AUTOCAST}:
        return value
    msg = f"{value!r} is no dtype to run a model in; write one of {', '.join((*FLOATING, *AUTOCAST))}"
    raise ValueError(msg)


def read_compile(value: object) -> str:
    """``eager`` for false, ``default`` for true, or a mode of ``torch.compile``."""
    if isinstance(value, bool):
        return "default" if value else "eager"
    if isinstance(value, str) and value in COMPILE_MODES:
        return value
    msg = f"{value!r} is no compile setting; write true, false or one of {', '.join(COMPILE_MODES)}"
    raise ValueError(msg)


def read_batch(value: object) -> int:
    """A whole number of at least 1."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31:
        return value
    msg = f"{value!r} is no batch size; write a whole number of at least 1, and {2**31 - 1} at most"
    raise ValueError(msg)


def read_store(value: object) -> str:
    """A database URL without a password: the file it stands in is committed."""
    if not isinstance(value, str) or "\0" in value or not re.match(r"(sqlite|postgresql)(\+\w+)?://|memory:", value):
        msg = f"{value!r} is no store; write 'sqlite:///path/to/file.db', 'postgresql://host/database' or 'memory:'"
        raise ValueError(msg)
    if re.match(r"[^/]*//[^/@]*:[^/@]+@", value):
        msg = "the URL holds a password; leave it out and set PGPASSWORD in the publish job"
        raise ValueError(msg)
    return value


def known_metric(name: str) -> str:
    """A metric that can be gated: known to the registry and measured as a value to compare."""
    try:
        kind = metrics.metric(name).kind
    except KeyError:
        names = ", ".join(gateable())
        msg = f"no metric is called {name!r}; the metrics are {names} and span:NAME"
        raise ValueError(msg) from None
    if kind == metrics.SHOWN:
        msg = f"{name} is only shown by this version; limits go on {', '.join(gateable())} and span:NAME"
        raise ValueError(msg)
    return name


def gateable() -> tuple[str, ...]:
    """Names of all metrics that a limit or a ceiling can be put on, spans aside."""
    return tuple(name for name, metric in metrics.METRICS.items() if metric.kind != metrics.SHOWN)


def model_name(name: str) -> str:
    """A name that is safe in ``MODEL/MODE/METRIC``, in paths and in commands: word characters, ``.``, ``+``, ``-``."""
    if re.fullmatch(r"\w[\w.+-]{0,99}", name):
        return name
    msg = f"{name!r} is no name for a model; use letters, digits, '_', '.', '+' and '-', at most 100"
    raise ValueError(msg)


def as_list(value: object) -> object:
    """One value stands for a list of one."""
    return value if isinstance(value, list) else [value]


def distinct(values: list[T]) -> list[T]:
    """The list, which may neither be empty nor name a value twice."""
    if not values:
        msg = "the list is empty; name at least one value, or leave the key out"
        raise ValueError(msg)
    if len(set(values)) != len(values):
        msg = "a value stands there twice; name each once"
        raise ValueError(msg)
    return values


def _looks(values: list[int]) -> list[int]:
    if not values or values[0] < 2 or any(later <= earlier for earlier, later in itertools.pairwise(values)):
        msg = f"{values} does not increase from at least 2; write pair counts such as [5, 8, 12, 16, 20]"
        raise ValueError(msg)
    if values[-1] > 1000:
        msg = f"{values[-1]} pairs are too many; write at most 1000"
        raise ValueError(msg)
    return values


def _not_bool(value: Any) -> Any:
    # True == 1, and Literal[1] would take it.
    if isinstance(value, bool) or value != 1:
        msg = f"{value!r} is not a version that this perfgate reads; write version = 1"
        raise ValueError(msg)
    return value


def _reader(function: Callable[[object], Any]) -> BeforeValidator:
    return BeforeValidator(function)


Version = Annotated[Literal[1], BeforeValidator(_not_bool)]
Share = Annotated[float, _reader(read_share), AfterValidator(_between_0_and_1)]
LimitShare = Annotated[float | None, _reader(read_limit)]
DurationNs = Annotated[float, _reader(read_duration_ns)]
Bytes = Annotated[float, _reader(read_bytes)]
EnergyJ = Annotated[float, _reader(read_energy_j)]
Count = Annotated[float, _reader(read_count)]
Reference = Annotated[str, _reader(read_reference)]
Entry = Annotated[str, _reader(read_entry)]
Relative = Annotated[str, _reader(read_relative)]
Argument = Annotated[str, AfterValidator(no_nul)]
StoreUrl = Annotated[str, _reader(read_store)]
MetricName = Annotated[str, AfterValidator(known_metric)]
OperatorName = Annotated[str, AfterValidator(read_operator_name)]
Formula = Annotated[str, AfterValidator(read_formula)]
ModelName = Annotated[str, AfterValidator(model_name)]
Looks = Annotated[list[int], AfterValidator(_looks)]
Globs = Annotated[list[Relative], AfterValidator(distinct)]
Modes = Annotated[list[Literal["infer", "train", "step"]], BeforeValidator(as_list), AfterValidator(distinct)]
Batches = Annotated[list[Annotated[int, _reader(read_batch)]], BeforeValidator(as_list), AfterValidator(distinct)]
Dtypes = Annotated[list[Annotated[str, _reader(read_dtype)]], BeforeValidator(as_list), AfterValidator(distinct)]
Devices = Annotated[list[Annotated[str, _reader(read_device)]], BeforeValidator(as_list), AfterValidator(distinct)]
Places = Annotated[list[Annotated[str, _reader(read_place)]], BeforeValidator(as_list), AfterValidator(distinct)]
Libraries = Annotated[list[Annotated[str, _reader(read_library)]], BeforeValidator(as_list), AfterValidator(distinct)]
Compiles = Annotated[list[Annotated[str, _reader(read_compile)]], BeforeValidator(as_list), AfterValidator(distinct)]
