"""The catalogue's file: read, in range, sliced, and its mistakes told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cost.catalogue import listing
from perfgate.errors import PerfgateError, UsageError
from perfgate.hardware import catalogue
from perfgate.hardware.entries import Entry
from perfgate.records.hardware import CPU, DTYPES, GPU

GIB = 2**30

TABLE = """
[sources]
sheet = "a data sheet"
other = "another"

[family.f]
vendor = "nvidia"
kind = "gpu"
link_gb_s = 31.5
ratio = { float16 = 4 }

[family.c]
vendor = "intel"
kind = "cpu"
flop_per_cycle = { float32 = 32 }
efficiency_flop_per_cycle = { float32 = 16 }

[one]
label = "One"
family = "f"
tflops = { float32 = 10, float16 = 40 }
bandwidth_gb_s = 300
memory_gib = 24
power_w = 70
sources = { sheet = "float32 tensor bandwidth:310 memory", other = "float32 power:100" }
names = ["One"]

[two]
label = "Two"
family = "c"
cores = 8
ghz = 3.0
efficiency_cores = 16
efficiency_ghz = 2.0
channels = 2
mt_s = 5000
"""


def parsed(text: str) -> dict[str, Entry]:
    return {entry.platform.name: entry for entry in catalogue.parse(text, "t.toml")}


def test_platforms__at_least_75_whole_devices_of_every_kind() -> None:
    wholes = [platform for platform in catalogue.platforms().values() if not platform.part_of]
    assert len(wholes) >= 75
    assert {"nvidia", "amd", "intel", "google", "aws", "arm"} <= {platform.vendor for platform in wholes}
    assert {"gpu", "tpu", "accelerator", "cpu"} == {platform.kind for platform in wholes}


def test_platforms__units_are_flop_byte_and_seconds() -> None:
    h100 = catalogue.find("h100-sxm")
    assert h100.peak_flop_per_s["bfloat16"] == pytest.approx(989.5e12)
    assert h100.bandwidth_bytes_per_s == pytest.approx(3.35e12)
    assert h100.memory_bytes == 80 * GIB
    assert h100.link_bytes_per_s == pytest.approx(450e9)
    assert h100.measured_flop_per_s["bfloat16"] == pytest.approx(794.5e12)
    # I_max of the roofline: 989.5e12 / 3.35e12.
    assert h100.peak_flop_per_s["bfloat16"] / h100.bandwidth_bytes_per_s == pytest.approx(295.4, abs=0.1)


@pytest.mark.parametrize("platform", catalogue.platforms().values(), ids=lambda platform: platform.name)
def test_platforms__every_record_is_complete(platform) -> None:
    assert platform.name == platform.name.lower()
    assert platform.label
    assert set(platform.peak_flop_per_s) <= set(DTYPES)
    assert platform.peak_flop_per_s or platform.name == "gaudi"
    assert (platform.memory_bytes is None) == (platform.kind == CPU)
    assert (platform.cores is not None) == (platform.kind == CPU)
    # E17: two sources, or marked.
    stated = set(platform.sources)
    assert all(len(who) >= 2 or name in platform.single_source for name, who in platform.sources.items())
    assert set(platform.single_source) <= stated
    assert {"bandwidth"} <= stated


def test_platforms__known_figures_of_unlike_devices() -> None:
    # Facts that published tables get wrong: slow float16, half the matrix rate, half a board, dense rates.
    find = catalogue.find
    assert find("p40").peak_flop_per_s["float16"] == pytest.approx(
        find("p40").peak_flop_per_s["float32"] / 64, rel=0.01
    )
    assert find("a10g").peak_flop_per_s["bfloat16"] == pytest.approx(70e12)
    assert find("a10").peak_flop_per_s["bfloat16"] == pytest.approx(125e12)
    assert find("k80").power_w == 150
    # Plain float32 products run on CDNA's matrix units, at twice the vector units' rate; one die is half a module.
    assert find("mi210").peak_flop_per_s["float32"] == find("mi210").peak_flop_per_s["float64"]
    assert find("mi250-gcd").peak_flop_per_s["float32"] == pytest.approx(45.25e12)
    assert find("mi250x").peak_flop_per_s["float32"] == pytest.approx(95.7e12)
    assert find("mi100").peak_flop_per_s["float32"] == pytest.approx(46.1e12)
    assert find("rtx-3090").peak_flop_per_s["float16"] == pytest.approx(71.2e12)
    assert "bfloat16" not in find("v100-sxm-16gb").peak_flop_per_s
    assert "fp8" not in find("a100-sxm-80gb").peak_flop_per_s
    assert find("gaudi3").peak_flop_per_s["float16"] < find("gaudi3").peak_flop_per_s["bfloat16"] / 3


def test_platforms__measured_float32_is_of_the_very_card() -> None:
    names = {name for name, one in catalogue.platforms().items() if "float32" in one.measured_flop_per_s}
    wholes = {"p100-pcie-16gb", "v100-pcie-32gb", "t4", "a100-pcie-40gb", "a100-pcie-80gb", "l4"}
    assert {name for name in names if not catalogue.find(name).part_of} == wholes
    assert {catalogue.find(name).part_of for name in names} - {""} <= wholes
    t4 = catalogue.find("t4")
    assert t4.measured_flop_per_s == {"float32": pytest.approx(4.2e12)}
    assert t4.sources["measured_bandwidth"] == ("habitat", "neusight")
    eighth = catalogue.find("l4-1of8")
    assert eighth.measured_flop_per_s["float32"] == pytest.approx(10.4e12 / 8)


def test_platforms__rates_of_a_cpu_are_cores_times_clock_times_width() -> None:
    xeon = catalogue.find("xeon-8375c")
    assert xeon.peak_flop_per_s["float32"] == pytest.approx(32 * 2.9e9 * 64)
    assert "bfloat16" not in xeon.peak_flop_per_s  # no AMX, no AVX512_BF16
    assert catalogue.find("xeon-8488c").peak_flop_per_s["bfloat16"] == pytest.approx(48 * 2.4e9 * 1024)
    assert catalogue.find("epyc-7r13").bandwidth_bytes_per_s == pytest.approx(8 * 3200e6 * 8)


def test_slices__share_of_compute_and_of_memory() -> None:
    whole, part = catalogue.find("a100-sxm-40gb"), catalogue.find("a100-sxm-40gb-mig-3g.20gb")
    assert part.part_of == "a100-sxm-40gb"
    assert part.share == pytest.approx(3 / 7)
    assert part.peak_flop_per_s["bfloat16"] == pytest.approx(whole.peak_flop_per_s["bfloat16"] * 3 / 7)
    assert part.bandwidth_bytes_per_s == pytest.approx(whole.bandwidth_bytes_per_s / 2)
    assert part.memory_bytes == 20 * GIB
    assert part.link_bytes_per_s is None  # MIG instances have no peer access
    assert set(part.single_source) == set(part.sources)
    eighth = catalogue.find("l4-1of8")
    assert eighth.memory_bytes == 3 * GIB
    assert eighth.power_w == pytest.approx(9)
    assert catalogue.find("mi250-gcd").memory_bytes == 64 * GIB


def test_find__close_matches_and_the_remedy() -> None:
    assert catalogue.find(" L40S ").name == "l40s"
    with pytest.raises(UsageError, match=r"unknown platform 'h100': did you mean h100-pcie, h100-nvl, h100-sxm"):
        catalogue.find("h100")
    with pytest.raises(UsageError, match=r"unknown platform 'rtx4090': did you mean rtx-4090"):
        catalogue.find("rtx4090")
    with pytest.raises(UsageError, match=r"docs/hardware\.md"):
        catalogue.find("qqqqqq")


def test_parse__sources_that_agree_differ_and_follow_from_units() -> None:
    one = parsed(TABLE)["one"]
    assert one.platform.sources["float32"] == ("sheet", "other")
    assert one.platform.sources["float16"] == ("sheet", "architecture")  # 4 x float32
    assert one.platform.sources["bandwidth"] == ("sheet",)  # 310 is within 5 %
    assert one.platform.sources["power"] == ()  # 100 W is not 70
    assert one.claims["power"] == {"other": 100.0}
    assert one.platform.sources["link"] == ("pcie",)
    assert set(one.platform.single_source) == {"bandwidth", "memory", "power", "link"}
    assert one.platform.kind == GPU


def test_parse__hybrid_cpu() -> None:
    two = parsed(TABLE)["two"].platform
    assert two.peak_flop_per_s["float32"] == pytest.approx(8 * 3e9 * 32 + 16 * 2e9 * 16)
    assert two.bandwidth_bytes_per_s == pytest.approx(2 * 5000e6 * 8)
    assert two.cores == 24


SLICES = (
    TABLE
    + """
[[slices]]
of = ["one"]
name = "{}"
compute_parts = 2
memory_parts = 4
profiles = { "1of2" = [1, 1] }
"""
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[sources]", "[sources", r"t\.toml: not valid TOML: .*line 2"),
        ("bandwidth_gb_s = 300", "bandwidth_gbs = 300", r"t\.toml: \[one\] bandwidth_gbs: unknown key"),
        ("bandwidth_gb_s = 300", "", r"\[one\]: misses bandwidth_gb_s"),
        ("bandwidth_gb_s = 300", 'bandwidth_gb_s = "300"', r"\[one\] bandwidth_gb_s: '300' must be a number above 0"),
        ("memory_gib = 24", "memory_gib = -24", r"\[one\] memory_gib: -24 must be a number above 0"),
        ("float16 = 40", "half = 40", r"\[one\] tflops\.half: unknown dtype; known are float64"),
        ("float16 = 40", "float16 = true", r"\[one\] tflops\.float16: True must be a number above 0"),
        ('family = "f"', 'family = "g"', r"\[one\] family: 'g' is not one of the \[family\.NAME\] tables"),
        ("{ sheet =", "{ sheets =", r"\[one\] sources\.sheets: not explained in \[sources\]"),
        ("power:100", "powers:100", r"\[one\] sources\.other: 'powers' is no field"),
        ("power:100", "power:x", r"\[one\] sources\.other: 'x' in 'power:x' is no number"),
        ('kind = "gpu"', 'kind = "chip"', r"\[family\.f\]: needs vendor, and kind"),
        ("[two]", "[Two]", r"\[Two\]: must be lower case"),
        ('of = ["one"]', 'of = ["three"]', r"\[\[slices\]\] 1: unknown platform three"),
        ("[1, 1]", "[3, 1]", r"profiles\.1of2: \[3, 1\] must be \[parts of compute, parts of memory\]"),
        ("compute_parts = 2", "", r"\[\[slices\]\] 1: misses compute_parts"),
    ],
)
def test_parse__one_clear_error_with_place_and_remedy(old: str, new: str, message: str) -> None:
    assert old in SLICES
    with pytest.raises(PerfgateError, match=message):
        catalogue.parse(SLICES.replace(old, new, 1), "t.toml")


def test_parse__all_mistakes_at_once() -> None:
    text = SLICES.replace("memory_gib = 24", "memory_gib = 0").replace("mt_s = 5000", "mts = 5000")
    with pytest.raises(PerfgateError) as caught:
        catalogue.parse(text, "t.toml")
    assert len(str(caught.value).splitlines()) == 2


def test_documentation__lists_every_platform_as_it_is() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "hardware.md").read_text(encoding="utf-8")
    missing = [line for line in listing() if line not in page]
    assert missing == [], "python -m benchmarks.cost.catalogue --list"
