"""The counting benchmarks run on a few models, find what is wrong, and say what is missing."""

from __future__ import annotations

import importlib
import time
from pathlib import Path

import pytest

from benchmarks.counting import apart, journal, other_counters, packages, timm_sweep, torchvision_table
from benchmarks.counting.ours import Count
from benchmarks.counting.torchvision_exceptions import Example
from benchmarks.counting.torchvision_published import CLASSIFICATION, Published
from perfgate.records.graph import Graph, Totals, Traffic

TOTALS = Totals(
    source="meta", flop=3_628_000_000, params=11_689_512, weight_bytes=0, traffic=Traffic(eager=3, fused=2, min=1),
    kernels=68, fingerprint="",
)  # fmt: skip
RESNET18 = Published(
    model="resnet18", task=CLASSIFICATION, weights=("V1",), variant="", inputs=(), size="224", params=11_689_512,
    gmac=1.814,
)  # fmt: skip


def _judged(**changed: int) -> str:
    totals = Totals(
        source="meta", flop=changed.get("flop", TOTALS.flop), params=changed.get("params", TOTALS.params),
        weight_bytes=0, traffic=TOTALS.traffic, kernels=1, fingerprint="",
    )  # fmt: skip
    count = Count(name="resnet18", graph=Graph(totals=totals))
    return torchvision_table.judge(Example(entry=RESNET18, count=count), "resnet18").result


def test_judge__takes_what_rounds_to_the_published_digits_only():
    assert _judged() == "equal"
    assert _judged(flop=3_628_900_000) == "equal"
    assert _judged(flop=3_629_100_000) == "DIFFERS"
    assert _judged(params=11_689_511) == "DIFFERS"


def test_judge__names_the_reason_where_there_is_no_count():
    row = torchvision_table.judge(
        Example(entry=RESNET18, count=Count(name="resnet18", graph=None, reason="build: no memory")), "resnet18"
    )
    assert (row.result, row.text) == ("DIFFERS", "build: no memory")
    assert torchvision_table.cells(row)[0] == "resnet18"


@pytest.mark.torch
@pytest.mark.slow
def test_torchvision_table__quick_has_no_unexplained_difference(capsys):
    assert torchvision_table.main(["--quick"]) == 0
    out = capsys.readouterr().out
    assert "0 unexplained differences" in out
    for model in ("squeezenet1_1", "mobilenet_v3_small", "resnet18", "quantized_mobilenet_v2 (int8)"):
        assert f"| {model} " in out


@pytest.mark.torch
def test_torchvision_table__refuses_an_unknown_model(capsys):
    assert torchvision_table.main(["--only", "resnet19"]) == 2
    assert "resnet19" in capsys.readouterr().err


@pytest.mark.torch
@pytest.mark.slow
def test_other_counters__quick_shows_torchs_own_counter_wrong_and_ours_right(capsys):
    assert other_counters.main(["--quick"]) == 0
    out = capsys.readouterr().out
    (attention,) = (line for line in out.splitlines() if line.startswith("| SDPA"))
    assert [cell.strip() for cell in attention.strip("|").split("|")][1:] == ["6 291 456", "**0**", "6 291 456"]
    assert "perfgate: 4 of 4 rows right" in out


def test_cell__marks_wrong_figures_and_crashes():
    assert other_counters.cell(1000.0, 1000) == "1 000"
    assert other_counters.cell(999.0, 1000) == "**999**"
    assert other_counters.cell(None, 1000, "KeyError: x") == "**KeyError**"
    assert other_counters.cell(None, 1000, "forward only") == "forward only"


@pytest.mark.torch
@pytest.mark.slow
def test_onnx_table__quick_is_equal(capsys, monkeypatch, tmp_path):
    from benchmarks.counting import onnx_table, ours

    monkeypatch.setattr(ours, "CACHE", tmp_path)
    assert onnx_table.main(["--only", "squeezenet1_1", "--exporter", "torchscript"]) == 0
    assert "1 of 1 files and 1 of 1 models: F is equal" in capsys.readouterr().out
    # The weights take no room.
    (data,) = tmp_path.rglob("*.data")
    assert data.stat().st_size > 1_000_000
    assert data.stat().st_blocks * 512 < 100_000


@pytest.mark.torch
@pytest.mark.slow
def test_speed__quick_prints_every_row(capsys):
    from benchmarks.counting import speed

    speed.main(["--quick"])
    out = capsys.readouterr().out
    for row in ("count of resnet50", "count of a large graph", "difference: nothing changed", "difference: half"):
        assert f"| {row}" in out
    assert "5000 operators" in out
    assert "equal" in out


@pytest.mark.parametrize(
    ("module", "package"), [("timm_sweep", "timm"), ("transformers_sweep", "transformers"), ("onnx_table", "onnx")]
)
def test_table__without_its_package_says_in_one_line_how_to_get_it(module, package, capsys, monkeypatch):
    table = importlib.import_module(f"benchmarks.counting.{module}")
    monkeypatch.setattr(table, "missing", lambda *names: tuple(name for name in names if name == package))
    assert table.main([]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(f"-m pip install {package}")


def test_missing__names_what_is_not_installed():
    assert packages.missing("json", "no_such_package") == ("no_such_package",)


def test_journal__goes_on_after_a_broken_line_and_keeps_other_versions(tmp_path):
    path = tmp_path / "sweep.jsonl"
    old = journal.Journal(path, {"timm": "1"}, resume=False)
    old.add("resnet50", {"status": "counted"})
    new = journal.Journal(path, {"timm": "2"}, resume=True)
    assert new.entries == {}
    new.add("vit", {"status": "failed"})
    new.add("vit", {"status": "counted"})
    with path.open("a") as stream:
        stream.write('{"model": "half a li')
    again = journal.Journal(path, {"timm": "2"}, resume=True)
    assert {name: entry["status"] for name, entry in again.entries.items()} == {"vit": "counted"}
    assert journal.Journal(path, {"timm": "2"}, resume=False).entries == {}
    assert list(journal.Journal(path, {"timm": "1"}, resume=True).entries) == ["resnet50"]


def _entry(**facts: object) -> dict[str, object]:
    return {"status": "counted", "reason": "", "params": 10, "own_params": 10, "flop": 1, "source": "meta",
            "seconds": 1.0, "peak_rss_bytes": 2**20, "not_counted": [], **facts}  # fmt: skip


def test_timm_report__is_red_where_parameters_differ(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(timm_sweep, "version", lambda name: "0")
    found = journal.Journal(tmp_path / "timm.jsonl", {}, resume=False)
    found.add("good", _entry())
    found.add("broken", {"status": "failed", "reason": "timm itself cannot build it: ValueError"})
    assert timm_sweep.report(["good", "broken", "later"], found) == 0
    assert "* broken: timm itself cannot build it" in capsys.readouterr().out
    found.add("later", _entry(own_params=11))
    assert timm_sweep.report(["good", "broken", "later"], found) == 1
    out = capsys.readouterr().out
    assert "* later: 10 parameters counted, 11 of timm's own" in out
    (row,) = (line for line in out.splitlines() if line.startswith("| parameters equal"))
    assert row.endswith("| 1 of 2 |")


def test_apart__tells_value_error_hang_and_death():
    assert apart.apart(divmod, 7, 2).value == (3, 1)
    assert "ZeroDivisionError" in apart.apart(divmod, 7, 0).reason
    assert apart.apart(time.sleep, 60, timeout_s=0.2).reason.startswith("no answer within")
    assert "status 3" in apart.apart(_die).reason


def _die() -> None:
    import os

    os._exit(3)


def test_apart__limits_memory():
    reason = apart.apart(bytearray, 8 * 2**30, memory=2**30).reason
    assert "MemoryError" in reason


def test_hollow__keeps_the_size_only(tmp_path: Path):
    from benchmarks.counting.onnx_table import hollow

    file = tmp_path / "weights"
    file.write_bytes(b"x" * 2**20)
    hollow(file)
    assert file.stat().st_size == 2**20
    assert file.stat().st_blocks == 0
