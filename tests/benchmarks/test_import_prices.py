"""What names of machines stand for, in the price lists that the package's tables are made of."""

from __future__ import annotations

import csv

import pytest

from benchmarks.cost import import_prices
from benchmarks.cost.prices import aws, azure, fsdl, gcp, skypilot
from benchmarks.cost.prices.machine import LeftOut
from perfgate.hardware import tables

CORES = {"xeon-8488c": 48, "epyc-9r14": 96, "graviton3": 64, "xeon-8124m": 18, "xeon-8275cl": 24, "xeon-8481c": 48}


@pytest.mark.parametrize(
    ("size", "platform", "count", "share"),
    [
        ("Standard_NC24ads_A100_v4", "a100-pcie-80gb", 1, 1),
        ("Standard_NC96ads_A100_v4", "a100-pcie-80gb", 4, 1),
        ("Standard_NC64as_T4_v3", "t4", 4, 1),
        ("Standard_NC16as_T4_v3", "t4", 1, 1),
        ("Standard_NC24rs_v3", "v100-pcie-16gb", 4, 1),
        ("Standard_NC24r_Promo", "k80", 4, 1),
        ("Standard_NC6", "k80", 1, 1),
        ("Standard_NC80adis_H100_v5", "h100-nvl", 2, 1),
        ("Standard_NCC40ads_H100_v5", "h100-nvl", 1, 1),
        ("Standard_ND40rs_v2", "v100-sxm-32gb", 8, 1),
        ("Standard_ND96asr_v4", "a100-sxm-40gb", 8, 1),
        ("Standard_ND96amsr_A100_v4", "a100-sxm-80gb", 8, 1),
        ("Standard_ND96is_noIB_H100_v5", "h100-sxm", 8, 1),
        ("Standard_ND96isr_H200_v5", "h200-sxm", 8, 1),
        ("Standard_NV12_Promo", "m60", 2, 1),
        ("Standard_NV48s_v3", "m60", 4, 1),
        ("Standard_NV6ads_A10_v5", "a10-1of6", 1, 1),
        ("Standard_NV12ads_A10_v5", "a10-1of3", 1, 1),
        ("Standard_NV18ads_A10_v5", "a10-1of2", 1, 1),
        ("Standard_NV36adms_A10_v5", "a10", 1, 1),
        ("Standard_NV72ads_A10_v5", "a10", 2, 1),
        ("Standard_NC24lds_xl_RTXPRO6000BSE_v6", "rtx-pro-6000-1of4", 1, 1),
        ("Standard_NC288ds_xl_RTXPRO6000BSE_v6", "rtx-pro-6000", 2, 1),
    ],
)
def test_azure__devices_follow_from_the_name(size: str, platform: str, count: int, share: float) -> None:
    found = azure.machine(size)
    assert (found.platform, found.count, found.share) == (platform, count, share)


@pytest.mark.parametrize("size", ["Standard_NC8ads_A10_v4", "Standard_NC8lds_xl_RTXPRO6000BSE_v6", "Standard_D4s_v5"])
def test_azure__what_is_not_certain_is_left_out(size: str) -> None:
    with pytest.raises(LeftOut):
        azure.machine(size)


@pytest.mark.parametrize(
    ("instance", "accelerator", "count", "platform", "devices", "share", "vcpus"),
    [
        ("g6f.large", "L4(fraction)", "0.125", "l4-1of8", 1, 1, 2),
        ("g6f.2xlarge", "L4(fraction)", "0.25", "l4-1of4", 1, 1, 8),
        ("gr6f.4xlarge", "L4(fraction)", "0.5", "l4-1of2", 1, 1, 16),
        ("p5.48xlarge", "H100-SXM", "8", "h100-sxm", 8, 1, 192),
        ("g4dn.metal", "T4", "8", "t4", 8, 1, 96),
        ("c7i.xlarge", "", "0", "xeon-8488c", 1, 2 / 48, 4),
        ("c7i.metal-48xl", "", "0", "xeon-8488c", 1, 2, 192),
        ("c7a.medium", "", "0", "epyc-9r14", 1, 1 / 96, 1),
        ("c7g.16xlarge", "", "0", "graviton3", 1, 1, 64),
        ("c5.18xlarge", "", "0", "xeon-8124m", 1, 2, 72),
        ("c5.24xlarge", "", "0", "xeon-8275cl", 1, 2, 96),
    ],
)
def test_aws__devices_cores_and_vcpus(instance, accelerator, count, platform, devices, share, vcpus) -> None:
    found = aws.machine(instance, accelerator, count, CORES)
    assert (found.platform, found.count, found.vcpus) == (platform, devices, vcpus)
    assert found.share == pytest.approx(share)


@pytest.mark.parametrize(
    ("instance", "platform", "count", "share", "gib"),
    [
        ("a2-megagpu-16g", "a100-sxm-40gb", 16, 1, 1360),
        ("a2-ultragpu-2g", "a100-sxm-80gb", 2, 1, 340),
        ("a3-highgpu-8g", "h100-sxm", 8, 1, 1872),
        ("g2-standard-32", "l4", 1, 1, 128),
        ("g2-standard-24", "l4", 2, 1, 96),
        ("g4-standard-6", "rtx-pro-6000-1of8", 1, 1, 22.5),
        ("g4-standard-384", "rtx-pro-6000", 8, 1, 1440),
        ("c3-highcpu-8", "xeon-8481c", 1, 4 / 48, 16),
        ("c3-standard-192-metal", "xeon-8481c", 1, 2, 768),
    ],
)
def test_gcp__devices_and_memory(instance: str, platform: str, count: int, share: float, gib: float) -> None:
    found = gcp.machine(instance, CORES)
    assert (found.platform, found.count, found.ram_gib) == (platform, count, gib)
    assert found.share == pytest.approx(share)


def test_gcp__families_of_several_generations_are_left_out() -> None:
    with pytest.raises(LeftOut, match="several generations"):
        gcp.machine("e2-standard-4", CORES)


def _sky(instance: str, accelerator: str, count: str, **cells: str) -> dict[str, str]:
    return {"InstanceType": instance, "AcceleratorName": accelerator, "AcceleratorCount": count, "vCPUs": "56.0",
            "MemoryGiB": "400.0"} | cells  # fmt: skip


def test_skypilot__memory_is_one_devices_whatever_the_total_says() -> None:
    # Lambda's total for a box of four is one device's.
    cells = _sky("gpu_4x_a6000", "A6000", "4.0", GpuMemMiB="49152", TotalGpuMemMiB="49152")
    found = skypilot.row(cells, "lambda", CORES)
    assert (found.platform, found.count, found.device_gib) == ("rtx-a6000", 4, 48)
    told = "{'Gpus': [{'Name': 'H200', 'Manufacturer': null, 'Count': 8, 'MemoryInfo': {'SizeInMiB': 144384}}]}"
    assert skypilot.row(_sky("8H200", "H200", "8", GpuInfo=told), "verda", CORES).device_gib == 141


@pytest.mark.parametrize(
    ("provider", "instance", "accelerator", "platform"),
    [
        ("lambda", "gpu_1x_h100_pcie", "H100", "h100-pcie"),
        ("lambda", "gpu_8x_h100_sxm5", "H100", "h100-sxm"),
        ("lambda", "gpu_1x_a100", "A100", "a100-pcie-40gb"),
        ("lambda", "gpu_8x_a100", "A100", "a100-sxm-40gb"),
        ("lambda", "gpu_1x_rtx6000", "RTX6000", "quadro-rtx-6000"),
        ("verda", "1RTX6000ADA.10V", "RTX-6000-Ada", "rtx-6000-ada"),
        ("verda", "1A100.22V", "A100-80GB", "a100-sxm-80gb"),
        ("oci", "BM.GPU4.8", "A100", "a100-sxm-40gb"),
        ("hyperstack", "n3-A100x8-NVLink", "A100-80G-PCIe-NVLink", "a100-pcie-80gb"),
    ],
)
def test_skypilot__forms_come_from_the_name_or_the_provider(provider, instance, accelerator, platform) -> None:
    assert skypilot.row(_sky(instance, accelerator, "1"), provider, CORES).platform == platform


@pytest.mark.parametrize(
    ("accelerator", "count", "said"),
    [("H100", "1", "SXM or PCIe"), ("L4", "0.5", "part"), ("", "", "CPU"), ("NPU9", "1", "catalogue")],
)
def test_skypilot__what_is_not_certain_is_left_out(accelerator: str, count: str, said: str) -> None:
    with pytest.raises(LeftOut, match=said):
        skypilot.row(_sky("box", accelerator, count), "jarvislabs", CORES)


def test_fsdl__names_machines_that_have_none_and_hosts_of_several_gpus() -> None:
    cells = {"Cloud": "Cudo Compute", "GPU Type": "A5000 (24 GB)", "GPUs": "2", "vCPUs": "8", "RAM": "16", "Name": ""}
    name, found = fsdl.row(cells)
    assert (name, found.platform, found.count, found.device_gib) == ("2x-a5000-8vcpu", "rtx-a5000", 2, 24)
    host = {"Cloud": "GCP", "GPU Type": "P4 (8 GB)", "GPUs": "2", "vCPUs": "8", "RAM": "52", "Name": "n1-highmem-8"}
    assert fsdl.row(host)[0] == "n1-highmem-8+2xp4"
    promo = {"Cloud": "Azure", "GPU Type": "P100 (16 GB)", "GPUs": "2", "vCPUs": "12", "RAM": "224", "Name": "NC12s v2"}
    name, found = fsdl.row(promo)
    assert (name, found.platform, found.count) == ("Standard_NC12s_v2", "p100-pcie-16gb", 2)


def test_main__writes_tables_that_can_be_read_back(tmp_path, capsys) -> None:
    source = tmp_path / "vms.csv"
    with source.open("w", newline="", encoding="utf-8") as stream:
        rows = [
            _sky("gpu_1x_a10", "A10", "1", Price="1.29", SpotPrice="", Region=""),
            _sky("gpu_1x_odd", "NPU9", "1", Price="1", SpotPrice="", Region=""),
        ]
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    chosen = ["--skypilot", f"lambda={source}", "--date", "2026-11-01", "--out", str(tmp_path)]
    assert import_prices.main(chosen) == 0
    (row,) = tables.read(tmp_path / "lambda_2026-11-01.csv").rows
    assert (row.instance, row.platform, row.on_demand, row.vcpus, row.date) == (
        "gpu_1x_a10", "a10", 1.29, 56.0, "2026-11-01",
    )  # fmt: skip
    assert "gpu_1x_odd" in capsys.readouterr().out


def test_main__without_public_data_says_so_and_ends_well(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("benchmarks.cost.public.folder", lambda chosen: None)
    assert import_prices.main([]) == 0
    assert "no public data" in capsys.readouterr().out
