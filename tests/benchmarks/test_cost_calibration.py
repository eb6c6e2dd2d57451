"""Reading the public tables, fits that find what was put in, and the file of constants."""

from __future__ import annotations

import datetime as dt
import gzip
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.cost import calibration_file, classes, features, fitting, observations, probes, public
from benchmarks.cost.fitting import Varied
from benchmarks.cost.observations import Observed
from benchmarks.cost.zoo.autocast import Autocasted
from benchmarks.cost.zoo.channels_last import ChannelsLast
from perfgate.records.graph import KernelGroup
from perfgate.roofline import calibration as constants

DAY = dt.date(2026, 11, 30)


def shipped(name: str) -> constants.Calibration:
    return next(one for one in constants.shipped() if one.name == name)


def kernel(kind: str, flop: int, size: int) -> KernelGroup:
    return KernelGroup(name=kind, kind=kind, dtype="float32", flop=flop, bytes=size)


def step(kernels: tuple[KernelGroup, ...], seconds: float = 1.0, *, platform: str = "t4", group: str = "g") -> Observed:
    return Observed(
        name=group,
        source="operators",
        group=group,
        platform=platform,
        dtype="float32",
        kernels=kernels,
        seconds=seconds,
    )


def test_fit__finds_the_constants_that_made_the_times():
    truth = fitting.changed(
        shipped("nvidia-low-power"),
        {"reach_flop.default": 0.6, "reach_bandwidth": 0.7, "byte_efficiency.softmax": 0.5, "launch_ns": 9e3},
    )
    rng = np.random.default_rng(0)
    steps = [
        step(
            (
                kernel("matmul", int(rng.integers(1, 100)) * 10**10, 10**7),
                kernel("pointwise", 0, int(rng.integers(1, 100)) * 10**7),
                kernel("softmax", 0, int(rng.integers(1, 100)) * 10**7),
            )
        )
        for _ in range(60)
    ]
    seconds = fitting.Model(steps, published=True)(truth)
    steps = [replace(one, seconds=float(time)) for one, time in zip(steps, seconds, strict=True)]
    keys = ["reach_flop.default", "reach_bandwidth", "byte_efficiency.softmax"]
    start = fitting.changed(truth, {"reach_flop.default": 0.4, "reach_bandwidth": 0.9, "byte_efficiency.softmax": 0.9})
    found = fitting.fit(steps, start, [Varied(key=key, pull=1e-3) for key in keys])
    for key in keys:
        assert fitting.value(found.calibration, key) == pytest.approx(fitting.value(truth, key), rel=0.01)
    assert np.abs(found.residuals).max() < 0.01


def test_fit__overheads_are_the_timing_s_and_not_the_launch_s():
    truth = shipped("nvidia-low-power")
    steps = [step((kernel("pointwise", 0, size * 10**7),)) for size in range(1, 40)]
    seconds = fitting.Model(steps, published=True)(truth) + 40e-6
    steps = [replace(one, seconds=float(time)) for one, time in zip(steps, seconds, strict=True)]
    found = fitting.fit(steps, truth, [Varied(key="reach_bandwidth", pull=1e-3)], overheads=True)
    assert found.calibration.launch_ns == truth.launch_ns
    assert found.calibration.reach_bandwidth == pytest.approx(truth.reach_bandwidth, rel=0.02)


def test_model__published_is_by_peaks_where_the_catalogue_has_measurements():
    free = fitting.changed(shipped("nvidia-low-power"), {"reach_flop.default": 1.0, "launch_ns": 0.0})
    steps = [step((kernel("matmul", 10**13, 10),))]
    assert fitting.Model(steps, published=True)(free)[0] == pytest.approx(10 / 8.1, rel=0.01)
    assert fitting.Model(steps)(free)[0] == pytest.approx(10 / 4.2, rel=0.01)


def test_totals__without_counting_are_those_that_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(features, "CACHE", tmp_path)

    def build(trace):
        raise AssertionError

    monkeypatch.setattr(features, "build", build)
    assert features.totals.__wrapped__("timm-amp", count=False) == {}
    assert not list(tmp_path.iterdir())


def test_totals__are_kept_until_the_code_that_counts_traces_of_torch_changes(monkeypatch, tmp_path):
    folder = tmp_path / "perfgate" / "graph"
    (folder / "onnx").mkdir(parents=True)
    monkeypatch.setattr(features, "ROOT", tmp_path)
    (folder / "kernels.py").write_text("a = 1", encoding="utf-8")
    before = features._digest()
    (folder / "onnx" / "read.py").write_text("b = 1", encoding="utf-8")
    assert features._digest() == before
    (folder / "kernels.py").write_text("a = 2", encoding="utf-8")
    assert features._digest() != before


def test_sought__each_set_of_timm_is_made_in_its_own_way_at_the_sizes_of_its_table(monkeypatch, tmp_path):
    (tmp_path / "timm").mkdir()
    for platform, batch in (("rtx-3090", 256), ("core-i9-10940x", 1)):
        rows = (
            "model,infer_img_size,infer_batch_size,infer_step_time",
            f"resnet50,224,{batch},9",
            f"lost,224,{batch},9",
        )
        (tmp_path / "timm" / f"benchmark-{public.TIMM[platform]}.csv").write_text("\n".join(rows), encoding="utf-8")
    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(is_model="resnet50".__eq__))
    entries = {}
    for name in (features.AMP, features.AMP_NHWC, features.FP32):
        (one,) = features.sought(name, tmp_path)
        assert one.name == "resnet50__s224"
        entries[name] = (one.entry, one.inputs)
    assert entries == {
        features.AMP: ("timm_sized:resnet50__s224__amp", ("float32[256,3,224,224]",)),
        features.AMP_NHWC: ("timm_sized:resnet50__s224__amp_nhwc", ("float32[256,3,224,224]",)),
        features.FP32: ("timm_sized:resnet50__s224", ("float32[1,3,224,224]",)),
    }


def test_changed__and_value_agree_and_leave_others_alone():
    base = shipped("cpu")
    new = fitting.changed(base, {"byte_efficiency.softmax": 0.123, "reach_flop.int8": 0.3, "sigma": 0.4})
    assert fitting.value(new, "byte_efficiency.softmax") == 0.123
    assert fitting.value(new, "reach_flop.int8") == 0.3
    assert fitting.value(new, "reach_flop.float32") == base.reach_flop["default"]
    assert fitting.value(new, "byte_efficiency.matmul") == fitting.value(base, "byte_efficiency.matmul")
    assert new.sigma == 0.4


def test_spread__of_known_residuals():
    found = fitting.spread(np.log(np.array([1.1, 1.1, 1.1, 0.5])))
    assert found.n == 4
    assert found.median == pytest.approx(0.1)
    assert found.mean == pytest.approx((0.3 + 0.5) / 4)
    assert found.within_20 == 0.75


def test_write__changes_the_classes_given_and_nothing_else(monkeypatch, tmp_path):
    path = tmp_path / "calibration.toml"
    text = calibration_file.PATH.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(calibration_file, "PATH", path)
    plan = classes.Plan(name="cpu", fit=[step(())] * 7, check=[], varied=[Varied(key="launch_ns")], data="made up")
    new = fitting.changed(shipped("cpu"), {"launch_ns": 1234.0, "byte_efficiency.softmax": 0.25})
    calibration_file.write({"cpu": (new, plan)}, shipped("amd-gpu"), DAY)
    written = {one.name: one for one in constants.read(path.read_text(encoding="utf-8"))}
    assert written["cpu"].launch_ns == 1234.0
    assert fitting.value(written["cpu"], "byte_efficiency.softmax") == 0.25
    assert [(one.data, one.n, one.date) for one in written["cpu"].sources] == [("made up", 7, "2026-11-30")]
    for one in constants.shipped():
        if one.name != "cpu":
            assert written[one.name] == one
    assert path.read_text(encoding="utf-8").splitlines()[:8] == text.splitlines()[:8]


def test_halves__keep_relatives_together():
    names = [f"family{number}" for number in range(200)]
    rows = [step((), group=name) for name in names for _ in range(2)]
    fit, check = observations.halves(rows)
    assert not {one.group for one in fit} & {one.group for one in check}
    assert 60 < len({one.group for one in fit}) < 140


def test_family__is_what_leads_a_name():
    assert public.family("vit_base_patch16_224") == "vit"
    assert public.family("resnet50") == "resnet"


def test_timm_rows__leave_out_rows_without_a_batch(tmp_path):
    folder = tmp_path / "timm"
    folder.mkdir()
    (folder / "benchmark-x.csv").write_text(
        "model,infer_img_size,infer_batch_size,infer_samples_per_sec,infer_step_time,infer_gmacs\n"
        "a,224,256.0,100,2560.0,nan\n"
        "b,224,,1,1,1\n",
        encoding="utf-8",
    )
    found = public.timm_rows(tmp_path, "x")
    assert list(found) == ["a__s224"]
    assert found["a__s224"].step_s == pytest.approx(2.56)
    assert found["a__s224"].gmacs is None


def test_operators__count_flop_and_bytes(tmp_path):
    folder = tmp_path / "neusight"
    folder.mkdir()
    with gzip.open(folder / "ops.csv.gz", "wt") as stream:
        stream.write("OPName,Latency,Device,B,H,M,N,K\n")
        stream.write("bmm,2.0,Tesla T4,3,,4,5,6\nlinear,1.0,Tesla T4,3,,4,5,6\nadd,1.0,Tesla T4,7,8,,,\n")
        stream.write("relu,1.0,Tesla T4,7,8,,,\nadd,1.0,Unknown,7,8,,,\n")
    found = {one.group: one.kernels[0] for one in observations.operators(tmp_path, "ops", most=10)}
    assert found["bmm"].flop == found["linear"].flop == 2 * 3 * 4 * 5 * 6
    assert found["bmm"].bytes == 4 * 3 * (4 * 6 + 6 * 5 + 4 * 5)
    assert found["linear"].bytes == 4 * (3 * 4 * 6 + 6 * 5 + 3 * 4 * 5)
    assert found["linear"].weight_bytes == 4 * 6 * 5
    assert found["add"].bytes == 3 * 4 * 56
    assert found["relu"].bytes == 2 * 4 * 56
    assert set(found) == {"bmm", "linear", "add", "relu"}


def test_labels__know_batch_mode_and_compiler(tmp_path):
    folder = tmp_path / "neusight"
    folder.mkdir()
    (folder / "labels_e2e.csv").write_text(
        "device,workload,num_layer,e2e_latency,fw_latency,bwall_latency\n"
        "Tesla_T4,bert_large-inf-512-16-fusion,24,725,725,0\n"
        "Tesla_T4,gpt2_large-train-1024-4-dp4,0,452,0,0\n",
        encoding="utf-8",
    )
    (found,) = public.labels(tmp_path)
    assert (found.model, found.mode, found.sequence, found.batch) == ("bert_large", "infer", 512, 16)
    assert found.compiled
    assert found.step_s == pytest.approx(0.725)


def test_probed__are_rates_of_the_largest_operators():
    products = [step((kernel("matmul", 10**12, 1),), 0.25, group="linear") for _ in range(10)]
    streams = [step((kernel("pointwise", 0, 10**9),), 0.005, group="add") for _ in range(10)]
    small = [step((kernel("matmul", 10**6, 1),), 1e-4, group="linear")]
    found = probes.probed([*products, *streams, *small])
    assert found["t4"].flop_per_s == {"float32": pytest.approx(4e12)}
    assert found["t4"].bandwidth_bytes_per_s == pytest.approx(2e11)


def test_spread_of_families__begins_with_one_of_each():
    rows = [
        public.Timed(model=f"{family}{number}", size=224, batch=1, step_s=1.0)
        for family in ("vit", "resnet", "swin")
        for number in range(3)
    ]
    order = features.spread(rows)
    assert {public.family(row.model) for row in order[:3]} == {"vit", "resnet", "swin"}
    assert len(order) == 9


def test_autocast__narrows_products_widens_norms_and_casts_a_weight_once():
    class Twice(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.norm = nn.LayerNorm(8)
            self.seen: list[torch.dtype] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            z = self.norm(y)
            self.seen = [y.dtype, z.dtype, (y + z).dtype]
            return self.linear(z)

    with torch.device("meta"):
        inner = Twice()
        x = torch.empty(2, 8)
    out = Autocasted(inner)(x)
    assert inner.seen == [torch.float16, torch.float32, torch.float32]
    assert out.dtype == torch.float16

    copies = 0

    class Count(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal copies
            copies += "_to_copy" in str(func) and args[0].shape == (8, 8)
            return func(*args, **(kwargs or {}))

    with Count():
        Autocasted(inner)(x)
    assert copies == 1


def test_autocast__attention_is_one_kernel():
    class Attention(nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    names: list[str] = []

    class Names(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with torch.device("meta"):
        x = torch.empty(2, 4, 16, 8)
    with Names():
        out = Autocasted(Attention())(x)
    assert out.shape == (2, 4, 16, 8)
    assert any("flash_attention" in name for name in names)
    assert not any("bmm" in name or "softmax" in name for name in names)


def test_channels_last__convolves_in_that_format_and_changes_no_shape():
    class Seen(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 8, 3, padding=1)
            self.inputs: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.inputs.append(x)
            return self.convolution(x)

    inner = Seen()
    made = ChannelsLast(inner)(torch.randn(2, 3, 5, 7))
    for one in (*inner.inputs, inner.convolution.weight, made):
        assert one.is_contiguous(memory_format=torch.channels_last)
        assert not one.is_contiguous()
    assert inner.inputs[0].shape == (2, 3, 5, 7)
    assert made.shape == (2, 8, 5, 7)
