from __future__ import annotations

import pytest

from perfgate.hardware.short_names import short


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("l4", "L4"),
        ("l40s", "L40S"),
        ("h100-sxm", "H100 SXM"),
        ("a100-pcie-80gb", "A100 PCIe 80GB"),
        ("a100-sxm-40gb-mig-1g.5gb", "A100 SXM 40GB MIG 1g.5gb"),
        ("l4-1of8", "L4 1of8"),
        ("rtx-4070-ti-super", "RTX 4070 Ti SUPER"),
        ("rtx-6000-ada", "RTX 6000 Ada"),
        ("rtx-pro-6000-max-q", "RTX PRO 6000 Max-Q"),
        ("titan-v", "TITAN V"),
        ("mi300x", "MI300X"),
        ("tpu-v5e", "TPU v5e"),
        ("trainium2", "Trainium2"),
        ("graviton3", "Graviton3"),
        ("xeon-6975p-c", "Xeon 6975P-C"),
        ("epyc-7r13", "EPYC 7R13"),
        ("core-i9-10940x", "Core i9-10940X"),
    ],
)
def test_label__as_the_maker_writes_it(name, expected):
    assert short(name) == expected


@pytest.mark.parametrize("name", ["NVIDIA L4", "our rack", "", "<b>", "a--b", "Ünit"])
def test_label__what_is_no_key_stays(name):
    assert short(name) == name
