"""``perfgate allocate`` as a user types it, on a scratch folder with a small model and two machines of one's own."""

import json
import textwrap

import pytest

from perfgate.cli import app
from perfgate.pipeline import cost_search
from perfgate.pipeline.count import count_grid

NETS = """
    from torch import nn

    def net():
        return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 32 * 32, 10))
"""
PRICES = """
    [prices.small]
    platform = "t4"
    usd_per_hour = 0.2
    [prices.large]
    platform = "h100-sxm"
    usd_per_hour = 8.0
"""
INPUTS = ("--inputs", "float32[batch,3,32,32]", "--batch", "64")
OWN = ("--providers", "own")


COUNTED: dict[tuple, tuple] = {}


def count_once(request, ports, **asked):
    """Counts as a user's call does; what was counted once is the same in every scratch folder."""
    key = (request.entry, request.inputs, request.mode, *asked.values())
    if key not in COUNTED:
        COUNTED[key] = count_grid(request, ports, **asked)
    return COUNTED[key]


@pytest.fixture
def allocate(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cost_search, "count_grid", count_once)
    (tmp_path / "nets.py").write_text(textwrap.dedent(NETS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PERFGATE_PRICES", textwrap.dedent(PRICES))

    def run(*arguments):
        code = app.run(["allocate", *arguments, "-q"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_allocate__json_says_what_the_job_takes_and_costs(allocate):
    job = ("--dataset-items", "50000", "--epochs", "200", "--deadline", "12h", "--budget", "50", "--confidence", "80%")
    code, out, err = allocate("nets:net", *INPUTS, *OWN, *job, "--mode", "train", "--start-up", "2min", "--json")
    assert code == 0, err
    tree = json.loads(out)
    assert tree["job"] == {
        "items": None, "dataset_items": 50000.0, "epochs": 200.0, "items_per_s": None, "deadline_s": 43200.0,
        "budget_usd": 50.0, "confidence": 0.8, "start_up_s": 120.0,
    }  # fmt: skip
    assert tree["choice"] == "cheapest"
    chosen = tree["chosen"]
    # 782 steps an epoch, the last of 16 items.
    assert chosen["job_s"] == pytest.approx(120 + 200 * 782 * chosen["point"]["step_ns"] / 1e9)
    assert chosen["usd"] == pytest.approx(chosen["point"]["offer"]["usd_per_hour"] * chosen["job_s"] / 3600)
    assert chosen["job_s"] < chosen["slow_job_s"] <= 43200
    assert chosen["slow_usd"] <= 50
    assert tree["requirements"]["deadline_s"] is None


def test_allocate__table_names_machine_job_and_other_machines(allocate):
    code, out, err = allocate("nets:net", *INPUTS, *OWN, "--items", "1e8", "--deadline", "12h")
    assert code == 0, err
    out = " ".join(out.split())
    assert out.startswith(
        "nets:net: cheapest machine for 100 M items within 12 h 0 min at 90 % confidence: T4 (own/small"
    )
    assert "Whole job: $" in out
    assert "with 5 min 0 s of start-up" in out
    assert "Other machines that do it" in out
    assert "own/large" in out


def test_allocate__smallest_and_cheapest_differ_where_the_small_machine_is_dear(allocate, monkeypatch):
    monkeypatch.setenv("PERFGATE_PRICES", PRICES.replace("0.2", "9.0"))
    found = [
        json.loads(allocate("nets:net", *INPUTS, *OWN, "--serve", "10", flag, "--json")[1])
        for flag in ("--cheapest", "--smallest")
    ]
    assert [tree["chosen"]["point"]["offer"]["instance"] for tree in found] == ["large", "small"]
    assert found[0]["chosen"]["job_s"] is None


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("runs-on", '["self-hosted", "linux", "x64", "small"]\n'),
        ("kubernetes", "nvidia.com/gpu.product: Tesla-T4"),
        ("slurm", "--gres=gpu:t4:1 --time=0-12:00:00\n"),
        ("skypilot", '  accelerators: "T4:1"'),
    ],
)
def test_allocate__prints_nothing_but_the_form(allocate, form, wanted):
    job = ("--items", "1e8", "--deadline", "12h")
    code, out, err = allocate("nets:net", *INPUTS, *OWN, *job, "--format", form)
    assert code == 0, err
    assert wanted in out
    assert "Note" not in out


def test_allocate__infeasible_ends_with_1_the_nearest_miss_and_a_fleet(allocate):
    code, out, _ = allocate("nets:net", *INPUTS, *OWN, "--serve", "1e14")
    assert code == 1
    assert "no machine for 100 000 G items/s" in out.replace("\u202f", " ")
    assert "Nearest miss: throughput down to" in out
    assert "perfgate cost nets:net --serve 1e+14" in out
    # What is read by a scheduler must not get a sentence in place of a machine.
    code, out, err = allocate("nets:net", *INPUTS, *OWN, "--serve", "1e14", "--format", "slurm")
    assert (code, out) == (1, "")
    assert "Nearest miss" in err


def test_allocate__a_job_no_machine_can_do_in_time_points_at_the_fleet_that_can(allocate):
    code, out, _ = allocate("nets:net", *INPUTS, *OWN, "--items", "1e13", "--deadline", "2h")
    assert code == 1
    assert "--fleet --job-items 1e+13 --deadline 6900s" in " ".join(out.split())


def test_allocate__measured_memory_takes_the_place_of_the_model(allocate):
    job = ("--serve", "10", "--json")
    assert json.loads(allocate("nets:net", *INPUTS, *OWN, *job)[1])["chosen"]["point"]["offer"]["instance"] == "small"
    tree = json.loads(allocate("nets:net", *INPUTS, *OWN, *job, "--memory", "20GiB")[1])
    assert tree["chosen"]["point"]["offer"]["instance"] == "large"
    assert tree["chosen"]["point"]["memory_bytes"] > 20 * 2**30


def test_allocate__job_of_the_configuration(allocate, tmp_path):
    (tmp_path / "perfgate.toml").write_text(
        textwrap.dedent("""
        version = 1
        [models.net]
        entry = "nets:net"
        inputs = ["float32[batch,3,32,32]"]
        [models.net.cost]
        providers = ["own"]
        job_items = 1e7
        deadline = "2 days"
        """)
    )
    tree = json.loads(allocate("net", "--json")[1])
    assert (tree["job"]["items"], tree["job"]["deadline_s"]) == (1e7, 172800.0)
    # One from the command line replaces it, deadline and all.
    tree = json.loads(allocate("net", "--serve", "10", "--json")[1])
    assert (tree["job"]["items"], tree["job"]["deadline_s"], tree["job"]["items_per_s"]) == (None, None, 10.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--items", "0"), "--items"),
        (("--items", "1e30"), "out of range"),
        (("--serve", "-1"), "--serve"),
        (("--budget", "nan"), "--budget"),
        (("--items", "10", "--serve", "1"), "leave one of them out"),
        (("--epochs", "3"), "dataset_items"),
        (("--items", "10", "--deadline", "12"), "--deadline"),
        (("--items", "10", "--deadline", "1min"), "start-up of 300 s"),
        (("--confidence", "90"), "--confidence"),
        (("--confidence", "0"), "as in 90%"),
        (("--memory", "14"), "--memory"),
        (("--start-up", "soon"), "--start-up"),
        (("--devices", "l5"), "l4"),
        (("--counts", "0"), "--counts"),
        (("--format", "nomad"), "--format"),
    ],
)
def test_allocate__wrong_arguments_are_one_sentence_and_2(allocate, arguments, words):
    code, _, err = allocate("nets:net", *INPUTS, *arguments)
    assert code == 2, err
    assert words in err
    assert "Traceback" not in err
