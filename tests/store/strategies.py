"""Hypothesis strategies for records that a store must accept."""

from __future__ import annotations

from hypothesis import strategies as st

from perfgate.records.baseline import BaselineRecord
from perfgate.records.metrics import METRICS
from perfgate.records.workload import Workload
from perfgate.store.identity import short_hash

FINITE = st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=20)
TEXTS = st.text(max_size=20)
FACTS = st.dictionaries(TEXTS, TEXTS, max_size=3)
COMMITS = st.integers(0, 2**160 - 1).map(lambda number: f"{number:040x}")
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FINITE | TEXTS,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
WORKLOADS = st.builds(
    Workload,
    model=KEYS,
    mode=st.sampled_from(["infer", "train", "step"]),
    batch=st.integers(1, 2**31),
    dtype=st.just("float32"),
    device=st.sampled_from(["cpu", "cuda:0"]),
    compile=st.just("eager"),
)


@st.composite
def records(draw: st.DrawFn, *, namespaces: tuple[str, ...] = ("base", "pr/7", "local")) -> BaselineRecord:
    values = draw(st.dictionaries(st.sampled_from(sorted(METRICS)), FINITE, max_size=4))
    software = draw(FACTS)
    return BaselineRecord(
        model_key=draw(KEYS),
        workload=draw(WORKLOADS),
        namespace=draw(st.sampled_from(namespaces)),
        commit=draw(COMMITS),
        hardware_id=draw(st.sampled_from(["cpu-1", "gpu 2", "..", ".x/y"])),
        software_id=short_hash(software),
        run_nonce=draw(KEYS),
        recorded_at="2025-01-31T12:00:00.25Z",
        metrics=values,
        units={name: METRICS[name].unit for name in values},
        samples=draw(st.dictionaries(TEXTS, st.lists(FINITE, max_size=5).map(tuple), max_size=2)),
        hardware={"cpu": "Example 9000"},
        software=software,
        structure=draw(TREES),
        input_bytes=draw(st.none() | st.integers(0, 2**62)),
        input_checksum=draw(st.none() | TEXTS),
        hyper_parameters=draw(FACTS),
        utilisation=draw(st.none() | FINITE),
        files=tuple(draw(st.lists(TEXTS, max_size=3))),
        price_usd_per_hour=draw(st.none() | FINITE),
        attempt=draw(st.none() | st.integers(0, 2**62)),
        pull_request=draw(st.none() | st.integers(1, 2**40)),
        workflow=draw(st.none() | KEYS),
    )
