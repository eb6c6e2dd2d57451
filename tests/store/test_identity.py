from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.errors import StoreError
from perfgate.store.identity import canonical, decode, record_id, short_hash
from perfgate.store.valid import cap_samples
from tests.store.helpers import a_record
from tests.store.strategies import records


def test_record_id__is_the_sha256_of_the_canonical_text():
    text = canonical(a_record())
    assert record_id(a_record()) == hashlib.sha256(text.encode("ascii")).hexdigest()


def test_canonical__sorted_compact_ascii_and_without_defaults():
    text = canonical(a_record(structure=None, files=(), samples={"µ": (1, 2)}))
    tree = json.loads(text)
    assert text == json.dumps(tree, sort_keys=True, separators=(",", ":"))
    assert text.isascii()
    assert tree["samples"] == {"µ": [1.0, 2.0]}
    assert {"structure", "files", "price_usd_per_hour", "pull_request"}.isdisjoint(tree)


def test_record_id__is_kept_from_release_to_release():
    # Written down once: if this changes, every stored record has lost its identity.
    assert record_id(a_record()) == "a0fddb7f9c2aad8f33dfd9d7eaa24d745be5c4d1bc1cae1cbde43b6b5c2a6e8f"


def test_record_id__same_content_however_it_is_spelt():
    spelt = a_record(metrics={"peak_memory": 0, "latency": 13900000}, structure={"layers": [1, 2]})
    other = a_record(metrics={"latency": 13.9e6, "peak_memory": 0.0}, structure={"layers": (1, 2)})
    assert record_id(spelt) == record_id(other)


@pytest.mark.parametrize("field", ["commit", "run_nonce", "software_id", "namespace", "recorded_at"])
def test_record_id__every_field_counts(field):
    fields: dict[str, Any] = {field: "x"}
    changed = a_record(**fields)
    assert record_id(changed) != record_id(a_record())


@given(record=records())
def test_decode__is_the_inverse(record):
    assert decode(record_id(record), canonical(record), "store") == record


def test_decode__refuses_text_that_was_not_hashed():
    with pytest.raises(StoreError, match=r"store\.db: record 000000000000 was changed after it was stored"):
        decode("0" * 64, canonical(a_record()), "store.db")


@pytest.mark.parametrize("text", ['{"model_key":"a"}', '{"colour":1}', "[]", "x"])
def test_decode__refuses_what_this_release_cannot_read(text):
    identifier = hashlib.sha256(text.encode("ascii")).hexdigest()
    with pytest.raises(StoreError, match=r"cannot be read by this perfgate .* install a newer perfgate"):
        decode(identifier, text, "store.db")


@given(facts=st.dictionaries(st.text(), st.text(), max_size=4))
def test_short_hash__whatever_the_order(facts):
    assert short_hash(facts) == short_hash(dict(reversed(facts.items())))
    assert len(short_hash(facts)) == 12
    assert short_hash(facts) != short_hash(facts | {"one more": "x"})


@given(samples=st.lists(st.integers(0, 10**9), max_size=300), cap=st.integers(1, 64))
def test_cap_samples__evenly_spaced_and_in_order(samples, cap):
    kept = cap_samples(list(range(len(samples))), cap)
    assert len(kept) == min(cap, len(samples))
    gaps = {int(after - before) for before, after in pairwise(kept)}
    assert max(gaps, default=1) - min(gaps, default=1) <= 1
    assert min(gaps, default=1) >= 1
    assert [samples[int(position)] for position in kept] == list(cap_samples(samples, cap))
