"""The benchmarks of the estimator: what they hold out, what they compare with, and runs on data made by a law."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from benchmarks.cost import observations, public
from benchmarks.estimator import __main__ as every
from benchmarks.estimator import (
    architectures,
    command,
    end_to_end,
    held_out,
    measured,
    new_hardware,
    operators,
    siblings,
    speed,
    timm_models,
)
from perfgate.records.estimate import FITTED, STEP_TIME, Estimate, Example, Machine
from perfgate.records.graph import KernelGroup
from tests.estimator import steps

OLD = Machine(name="old", kind="gpu", flop_per_s={"float32": 10e12}, bandwidth_bytes_per_s=500e9)
NEW = Machine(name="new", kind="gpu", flop_per_s={"float32": 20e12}, bandwidth_bytes_per_s=1000e9)


def made(model: str, family: str, seed: int, machine: Machine = OLD, batch: int = 8) -> Example:
    """A step whose time follows from its bytes, FLOP and kernels."""
    rng = random.Random(seed)
    width, layers = 64 * rng.randint(2, 12), rng.randint(4, 30)
    written = batch * 196 * width * 4
    weight = width * width * 4
    product = KernelGroup(
        name="fc",
        kind="matmul",
        dtype="float32",
        flop=2 * batch * 196 * width * width,
        bytes=2 * written + weight,
        calls=layers,
        written_bytes=written,
        weight_bytes=weight,
    )
    add = KernelGroup(
        name="add",
        kind="pointwise",
        dtype="float32",
        flop=0,
        bytes=rng.choice([2, 3]) * written,
        calls=layers,
        written_bytes=written,
    )
    kernels = (product, add)
    pi, beta = machine.flop_per_s["float32"], machine.bandwidth_bytes_per_s
    seconds = sum(one.calls * (one.flop / pi + one.bytes / beta + 5e-6) for one in kernels)
    return steps.step(
        model,
        family,
        kernels,
        machine=machine,
        batch=batch,
        software="torch 2.4",
        weight_bytes=weight * layers,
        hyper_parameters={measured.IMAGE_SIZE: "224"},
        targets={STEP_TIME: seconds * 1e9 * rng.uniform(0.97, 1.03)},
    )


def family_of(n: int, machine: Machine = OLD) -> list[Example]:
    return [made(f"m{number}", f"family{number % 6}", number, machine) for number in range(n)]


def answer(value: float, low: float, high: float) -> Estimate:
    return Estimate(target=STEP_TIME, value=value, low=low, high=high, coverage=0.9, source=FITTED)


def test_folds__keep_families_together_and_use_every_fold():
    groups = [f"g{number % 7}" for number in range(70)]
    fold = held_out.folds(groups, 3)
    assert all(len({own for own, group in zip(fold, groups, strict=True) if group == name}) == 1 for name in groups)
    assert set(fold) == {0, 1, 2}


def test_cross_validated__asks_about_what_was_not_learned_from():
    examples = family_of(12)
    fold = held_out.folds([one.group for one in examples], 3)

    def method(train, asked):
        assert not {one.group for one in train} & {one.group for one in asked}
        return [answer(float(one.model[1:]), 0, 1) for one in asked]

    found = held_out.cross_validated(examples, fold, method)
    assert [one.value for one in found] == [float(number) for number in range(12)]


def test_figures__by_hand():
    examples = [replace(one, targets={STEP_TIME: 100.0}) for one in family_of(4)]
    examples[3] = replace(examples[3], group=examples[0].group)
    estimates = [answer(105, 90, 110), answer(85, 80, 90), answer(130, 65, 130), answer(100, 101, 202)]
    found = held_out.figures(examples, estimates)
    assert [found.median, found.mean] == pytest.approx([0.1, 0.125])
    assert (found.within_10, found.within_20, found.covered) == (0.5, 0.75, 0.5)
    # Groups: {first, fourth} half, second none, third all.
    assert found.covered_by_group == pytest.approx(0.5)
    assert found.width == pytest.approx((110 / 90 + 2) / 2, rel=0.3)


def test_missed__names_only_what_is_above_its_limit():
    figures = held_out.figures([replace(made("m", "f", 1), targets={STEP_TIME: 100.0})], [answer(108, 90, 120)])
    assert held_out.missed({"a": figures}, {"a": (0.09, 0.09), "b": (0, 0)}) == []
    (text,) = held_out.missed({"a": figures}, {"a": (0.05, 0.09)})
    assert text.startswith("a: 8.0% / 8.0% is above")


def test_at_batch__scales_all_but_weights():
    (small,) = measured.at_batch(made("m", "f", 1).kernels[:1], 8, 2)
    whole = made("m", "f", 1).kernels[0]
    assert small.flop == whole.flop // 4
    assert small.bytes - small.weight_bytes == (whole.bytes - whole.weight_bytes) // 4
    assert small.weight_bytes == whole.weight_bytes
    assert measured.at_batch((whole,), 8, 8) == (whole,)
    # What is made of weights alone is written as it is at every batch.
    cast = replace(whole, flop=0, bytes=300, written_bytes=100, weight_bytes=300)
    assert measured.at_batch((cast,), 8, 2) == (cast,)


def test_architectures__nine_groups_and_the_longest_beginning_counts():
    assert len(set(architectures.GROUPS)) == 9
    expected = {
        "vit_base_patch16": architectures.PLAIN,
        "vitamin_large_224": architectures.HYBRID,
        "tiny_vit_5m": architectures.HYBRID,
        "efficientformerv2_s0": architectures.HYBRID,
        "tf_efficientnet_b0": architectures.MOBILE,
        "resnetv2_50": architectures.RESIDUAL,
        "vgg16": architectures.OTHER,
        "convnextv2_nano": architectures.CONVNEXT,
        "convit_base": architectures.PLAIN,
    }
    assert {name: architectures.group(name) for name in expected} == expected


def test_timm_models__learns_a_law_better_than_four_numbers(capsys):
    found = timm_models.rows("made", family_of(60), quick=True)
    ours = found.figures["made, families out"]
    assert ours.n == 60
    assert ours.median < 0.05
    plain = timm_models.four_numbers(family_of(40), family_of(50)[40:])
    assert all(one.low < one.value < one.high for one in plain)


def test_siblings__relatives_are_of_another_name_and_sizes_of_the_same():
    examples = [*family_of(12), replace(made("m0", "family0", 77), hyper_parameters={measured.IMAGE_SIZE: "384"})]
    relatives = siblings.Relatives(examples)
    nearest = relatives.nearest(examples[0])
    assert nearest is not None
    assert nearest.model != "m0"
    assert nearest.group == "family0"
    assert relatives.other_size(examples[0]) is examples[-1]
    assert relatives.other_size(examples[1]) is None
    lone = replace(made("lone", "alone", 5))
    assert siblings.Relatives([lone]).nearest(lone) is None


def test_siblings__by_flop_by_hand():
    asked, anchor = made("a", "f", 1), made("b", "f", 2)
    ratio = sum(k.flop * k.calls for k in asked.kernels) / sum(k.flop * k.calls for k in anchor.kernels)
    assert siblings.by_flop(asked, anchor).value == pytest.approx(anchor.targets[STEP_TIME] * ratio)


def test_new_hardware__chosen_models_differ_and_depend_on_the_start_alone():
    examples = family_of(40)
    assert len(set(new_hardware.chosen(examples, 5, start=1))) == 5
    assert new_hardware.chosen(examples, 5, start=1) == new_hardware.chosen(examples, 5, start=1)


def test_new_hardware__peaks_scale_the_measured_time():
    old, new = made("m", "f", 3), made("m", "f", 3, NEW)
    (found,) = new_hardware.peaks([old], [new])
    # Both rates double, so every kernel takes half as long.
    assert found.value == pytest.approx(old.targets[STEP_TIME] / 2)


def test_operators__reads_the_published_table(tmp_path):
    folder = tmp_path / "neusight"
    folder.mkdir()
    text = ",In,,,,,Out,,,,\n,BMM,FC,EW,Softmax,LN,BMM,FC,EW,Softmax,LN\nX,1,2,3,4,5,6,7,8,9,10,\n"
    (folder / "summary_perop.csv").write_text(text, encoding="utf-8")
    found = operators.published(tmp_path)
    assert found["X", operators.SEEN, "LN"] == 5
    assert found["X", operators.UNSEEN, "BMM"] == 6


def test_operators__errors_are_by_kind_and_by_whether_the_gpu_was_seen():
    seen = replace(made("m", "gelu 3", 1), machine=replace(OLD, name="t4"))
    other = replace(made("m", "linear 1", 2), machine=replace(OLD, name="l4"))
    estimates = [answer(one.targets[STEP_TIME] * 1.1, 0, math.inf) for one in (seen, other)]
    found = operators.mean_errors([seen, other], estimates)
    assert found == {
        (operators.SEEN, "EW"): pytest.approx(10),
        (operators.UNSEEN, "FC"): pytest.approx(10),
    }


def test_operators__names_what_a_published_method_has_less_error_on():
    ours = {(operators.SEEN, "FC"): 17.0, (operators.UNSEEN, "FC"): 17.0}
    theirs = {
        (method, where, "FC"): error
        for where in (operators.SEEN, operators.UNSEEN)
        for method, error in (("Roofline", 20.0), ("Habitat", 17.5), ("Li et al.", 16.0), ("NeuSight", 1.0))
    }
    (line,) = operators.missed(ours, theirs)
    assert line == "FC, GPUs trained on: 17.0 % is not below the 16.0 % of Li et al."


def test_operators__figures_of_a_product_are_those_of_its_shape():
    row = {"OPName": "bmm", "B": "6", "M": "5", "N": "3", "K": "7"}
    kernel = observations._kernel(row)
    assert (kernel.flop, kernel.written_bytes, kernel.weight_bytes) == (2 * 6 * 5 * 3 * 7, 4 * 6 * 5 * 7, 0)
    assert kernel.bytes == 4 * 6 * (5 * 3 + 3 * 7 + 5 * 7)
    one = observations._kernel({**row, "OPName": "linear", "B": "1"})
    assert (one.weight_bytes, one.written_bytes) == (4 * 3 * 7, 4 * 5 * 7)
    norm = observations._kernel({"OPName": "ln", "B": "4", "H": "8"})
    assert (norm.weight_bytes, norm.written_bytes) == (64, 4 * 32 + 32)


def test_end_to_end__compares_on_cells_that_everybody_has():
    asked = [replace(made(name, "f", 1), targets={STEP_TIME: 100.0}) for name in ("a", "b")]
    ours = {"ours": [answer(110, 0, 1), answer(300, 0, 1)]}
    theirs = {("x", "old", "a"): 80.0, ("y", "old", "a"): 100.0, ("x", "old", "b"): 100.0}
    header, device, total = end_to_end.table(asked, ours, theirs)
    assert header == ("device", "cells", "ours", "x", "y")
    assert device == ("old", "1", "10.0", "20.0", "0.0")
    assert total == ("all", *device[1:])


def test_end_to_end__names_methods_that_are_as_good():
    header = ("device", "cells", end_to_end.OPERATORS, end_to_end.MODELS, "habitat", "neusight", "roofline")
    assert end_to_end.missed(header, ("all", "3", "9.0", "5.5", "12.4", "4.0", "28.5")) == []
    (line,) = end_to_end.missed(header, ("all", "3", "9.0", "12.5", "12.4", "4.0", "28.5"))
    assert line == "operators and other models: 12.5 % is not below the 12.4 % of habitat"
    assert end_to_end.missed(header, ("all", "0", "", "", "", "", "")) == []


def test_speed__a_limit_that_was_missed_is_named(monkeypatch, capsys):
    assert speed.OPERATORS == 2000
    monkeypatch.setattr(speed, "OPERATORS", 20)
    monkeypatch.setattr(speed, "ANSWER_S", 60.0)
    assert speed.run([30], repeats=1) == 0
    assert "answer, 20 operators, learned from 30" in capsys.readouterr().out
    monkeypatch.setattr(speed, "FITS", {30: 0.0})
    assert speed.run([30], repeats=1) == 1
    assert "fit on 30 examples: above its limit" in capsys.readouterr().out


def test_command__runs_chosen_tables_and_the_first_one_if_quick(monkeypatch, tmp_path):
    monkeypatch.setattr(public, "folder", lambda chosen="": tmp_path)
    tables = {"a": 1, "b": 2}

    def chosen(*arguments):
        seen = []

        def run(data, *, tables, quick):
            seen.append((data, list(tables), quick))
            return 7

        assert command.on_tables(arguments, run, tables, name="x", text="", quick="less") == 7
        return seen

    assert chosen() == [(tmp_path, ["a", "b"], False)]
    assert chosen("--quick") == [(tmp_path, ["a"], True)]
    assert chosen("--table", "b", "--quick") == [(tmp_path, ["b"], True)]


def test_tables__say_what_is_missing_without_the_data(monkeypatch, capsys):
    monkeypatch.setattr(public, "folder", lambda chosen="": None)
    without_data = [name for name in every.TABLES if name not in {"allocation", "from_nothing", "speed"}]
    for name in without_data:
        assert every.TABLES[name]([]) == 0
        assert capsys.readouterr().out.startswith(f"{name}: no public data; set PERFGATE_PUBLIC_DATA")


def test_all_tables__run_and_the_worst_exit_status_counts(monkeypatch, capsys):
    monkeypatch.setattr(every, "TABLES", {"one": lambda argv: 0, "two": len})
    assert every.main(["--quick"]) == 1
    assert every.main(["--quick", "--skip", "one"]) == 1
    assert every.main([]) == 0
    assert "## two" in capsys.readouterr().out
