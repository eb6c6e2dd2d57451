from __future__ import annotations

import pytest

from perfgate.bench.nvml import Gpu
from perfgate.bench.visible import find, hashed, raw_uuid, visible
from perfgate.errors import UsageError

A = Gpu(index=0, uuid="GPU-af7b61d8-1111-0000-0000-000000000001", name="a", memory_bytes=1)
B = Gpu(index=1, uuid="GPU-af7b61d9-2222-0000-0000-000000000002", name="b", memory_bytes=1)
S = Gpu(index=1, uuid="MIG-0000aaaa-2222-0000-0000-000000000003", name="s", memory_bytes=1, mig=True)
ALL = (A, B, S)


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (None, (A, B)),
        ("0", (A,)),
        ("1,0", (B, A)),
        (" 1 , 0 ", (B, A)),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("0,-1,1", (A,)),
        ("0,7,1", (A,)),
        ("0,0", (A,)),
        ("GPU-af7b61d8", (A,)),
        ("gpu-AF7B61D9", (B,)),
        ("GPU-ffffffff,0", ()),
        ("MIG-0000aaaa", (S,)),
        ("GPU-af7b61d9,0", (B, A)),
    ],
)
def test_visible__every_form_that_cuda_reads(value, seen):
    """M22."""
    assert visible(ALL, value) == seen


def test_visible__short_name_of_two_cards_is_an_error():
    with pytest.raises(UsageError, match=r"CUDA_VISIBLE_DEVICES: 'GPU-af7b61d' names 2 GPUs"):
        visible(ALL, "GPU-af7b61d")


@pytest.mark.parametrize(
    ("device", "environ", "card"),
    [
        ("cpu", {}, None),
        (f"cuda:0={B.uuid}", {}, B),
        ("cuda:0=AF7B61D9222200000000000000000002", {}, B),
        ("cuda:0=GPU-00000000-0000-0000-0000-000000000000", {}, None),
        (f"cuda:0={S.uuid}", {}, S),
        # Two cards and CUDA's own order: nobody can tell which comes first.
        ("cuda:0", {}, None),
        ("cuda:1", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, B),
        ("cuda:0", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}, B),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "1"}, B),
        ("cuda:3", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, None),
    ],
)
def test_find__the_card_or_nothing(device, environ, card):
    assert find(device, ALL, environ) == card


def test_raw_uuid__zero_byte_is_a_byte():
    """M23."""
    text = "130961397ada8313ee08000dd8540fe1"
    spelled = "GPU-13096139-7ada-8313-ee08-000dd8540fe1"
    assert raw_uuid(text) == raw_uuid(spelled) == bytes.fromhex(text)
    assert raw_uuid(spelled) != raw_uuid(spelled[:-1] + "2")
    assert hashed(text) == hashed(spelled.upper().replace("GPU", "gpu"))
    assert "13096139" not in hashed(text)
