"""Room ``store``: what a record must satisfy before it is kept.

In: a record. Out: nothing, or a StoreError that names the field. Checked at the door, once, because a
row that is in a store stays as it is for ever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfgate.errors import StoreError
from perfgate.records import metrics
from perfgate.records.baseline import NAMESPACE_BASE, BaselineRecord
from perfgate.records.sampling import NAMESPACE_SAMPLE

NAMESPACE_LOCAL = "local"
NAMESPACE_UNMERGED = "unmerged"  # measured in CI, neither on the default branch nor for a known pull request

MAX_SAMPLES = 64

_NAMESPACE = re.compile(rf"{NAMESPACE_BASE}|{NAMESPACE_LOCAL}|{NAMESPACE_UNMERGED}|{NAMESPACE_SAMPLE}|pr/[1-9][0-9]*")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def check(record: BaselineRecord) -> None:
    """Raises StoreError with the first thing that is wrong with ``record``.

    Namespaces are ``base``, ``pr/N``, ``local``, ``unmerged`` and ``sample``. ``commit`` is a full id; it may be
    empty (an uncommitted tree) outside of ``base``. Every metric is a registered one in the
    registry's own unit, so that 1.2 ms and 1200 us can never be compared as 1.2 and 1200.
    """
    problem = _keys(record) or _origin(record) or _numbers(record)
    if problem:
        msg = f"baseline record of {record.model_key!r} ({record.workload.key}): {problem}; it was not recorded"
        raise StoreError(msg)


def is_full_commit(commit: str) -> bool:
    """True for 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal digits."""
    return _COMMIT.fullmatch(commit) is not None


def cap_samples(samples: Sequence[float], cap: int = MAX_SAMPLES) -> tuple[float, ...]:
    """At most ``cap`` (>= 1) of ``samples``, evenly spaced by position, in their order.

    Of n > cap samples those at positions floor(i * n / cap) for i = 0 .. cap - 1 are kept. The choice
    depends on the position alone, never on the value, so slow and fast samples keep their shares.
    """
    count = len(samples)
    if count <= cap:
        return tuple(float(value) for value in samples)
    return tuple(float(samples[index * count // cap]) for index in range(cap))


def _keys(record: BaselineRecord) -> str:
    texts = {
        "model_key": record.model_key,
        "workload": record.workload.key,
        "hardware_id": record.hardware_id,
        "software_id": record.software_id,
        "run_nonce": record.run_nonce,
    }
    for name, text in texts.items():
        if not text or len(text) > 500 or _CONTROL.search(text):
            return f"{name} {text[:60]!r} must be 1 to 500 printable characters"
    if not _NAMESPACE.fullmatch(record.namespace):
        return f"namespace {record.namespace!r} is none of base, pr/N, local, unmerged, sample"
    if record.commit and not is_full_commit(record.commit):
        return f"commit {record.commit!r} is not a full commit id; give all 40 digits"
    if record.namespace == NAMESPACE_BASE and not record.commit:
        return "commit is empty, and a baseline needs one; commit the tree before measuring"
    if not _TIME.fullmatch(record.recorded_at):
        return f"recorded_at {record.recorded_at!r} is not UTC in the form 2025-01-31T12:00:00Z"
    return ""


def _origin(record: BaselineRecord) -> str:
    for name in ("repository", "run_id", "workflow", "event"):
        text = getattr(record, name)
        if text is not None and _CONTROL.search(text):
            return f"{name} {text[:60]!r} holds control characters"
    return ""


def _numbers(record: BaselineRecord) -> str:
    for name in record.metrics:
        try:
            unit = metrics.metric(name).unit
        except KeyError:
            return f"metrics: {name!r} is not a metric; known are {', '.join(metrics.METRICS)}"
        if record.units.get(name) != unit:
            return f"units: {name} is in {record.units.get(name)!r}, but is stored in {unit!r}; convert it first"
    for name, values in record.samples.items():
        if len(values) > MAX_SAMPLES:
            return f"samples: {name} has {len(values)}, the limit is {MAX_SAMPLES}; cap them with cap_samples"
    return ""
