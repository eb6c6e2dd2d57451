"""``perfgate cost`` as a user types it, on a scratch folder with a small model."""

import json
import textwrap

import pytest

from perfgate.cli import app
from perfgate.pipeline.working_tree import ESTIMATOR_FILE

NETS = """
    from torch import nn

    def net():
        return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 32 * 32, 10))
"""
INPUTS = ("--inputs", "float32[batch,3,32,32]")


@pytest.fixture
def cost(tmp_path, monkeypatch, capsys):
    (tmp_path / "nets.py").write_text(textwrap.dedent(NETS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("PERFGATE_PRICES", raising=False)

    def run(*arguments):
        code = app.run(["cost", *arguments, "-q"])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_cost__json_has_the_optimum_of_all_ways(cost):
    code, out, err = cost(
        "nets:net", *INPUTS, "--batch", "1,16", "--devices", "l4,t4", "--max-step-time", "20ms", "--json"
    )
    assert code == 0, err
    tree = json.loads(out)
    assert [way["batch"] for way in tree["ways"]] == [1, 16]
    # 2 x 64 x 27 x 32 x 32 and 2 x 65 536 x 10 for each item.
    assert [way["flop"] for way in tree["ways"]] == [4_849_664, 16 * 4_849_664]
    assert tree["requirements"]["max_step_ns"] == 20e6
    assert {point["offer"]["platform"] for point in tree["front"]} <= {"l4", "t4"}
    assert tree["cheapest"]["usd_per_1m_items"] == min(point["usd_per_1m_items"] for point in tree["front"])
    assert tree["cheapest"]["high_ns"] <= 20e6
    assert tree["plan"] is None


def test_cost__an_estimator_that_cannot_be_used_is_said(cost, tmp_path):
    where = tmp_path / ESTIMATOR_FILE
    where.parent.mkdir()
    where.write_text("{}")
    arguments = ("nets:net", *INPUTS, "--devices", "l4", "--max-step-time", "20ms")
    code, out, err = cost(*arguments, "--json")
    assert code == 0, err
    assert any("cannot be used" in one and str(ESTIMATOR_FILE) in one for one in json.loads(out)["warnings"])
    _, out, _ = cost(*arguments)
    assert "Note: times are the roofline's and measured ones, since the estimator cannot be used" in out


def test_cost__table_names_the_cheapest_and_its_limits(cost):
    code, out, _ = cost("nets:net", *INPUTS, "--devices", "l4", "--max-step-time", "20ms")
    assert code == 0
    assert out.startswith("nets:net: cheapest that meets 20 ms: ")
    assert "L4" in out
    assert "Pareto front" in out


# https://github.com/triton-inference-server/perf_analyzer/issues/222: infeasible limits gave a vague warning.
def test_cost__infeasible_ends_with_1_and_the_nearest_miss(cost):
    code, out, _ = cost("nets:net", *INPUTS, "--devices", "l4", "--max-step-time", "1ns")
    assert code == 1
    assert "nothing that meets 1 ns" in out
    assert "Nearest miss: " in out


def test_cost__fleet_for_a_rate(cost):
    code, out, err = cost("nets:net", *INPUTS, "--devices", "l4", "--serve", "1000000", "--json")
    assert code == 0, err
    plan = json.loads(out)["plan"]
    assert plan["optimal"]
    assert plan["items_per_s"] >= 1e6
    assert sum(part["machines"] for part in plan["parts"]) >= 1


def test_cost__fleet_for_a_job_by_its_deadline(cost):
    job = ("--job-items", "1e12", "--deadline", "2h", "--fleet")
    code, out, err = cost("nets:net", *INPUTS, "--devices", "l4", *job)
    # No single machine does it in time, and a fleet does.
    assert code == 1, err
    assert "Fleet" in out
    assert "Whole job: $" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--max-step-time", "20"), "--max-step-time"),
        (("--percentile", "p51"), "--percentile"),
        (("--devices", "l5"), "l4"),
        (("--batch", "0"), "whole numbers from 1 to"),
        (("--counts", "9" * 5000), "--counts 999"),
        (("--devices", "all,l4"), "'all' stands beside other names"),
        (("--providers", "own"), "declare one under [cost.prices]"),
        (("--max-usd-per-hour", "1e300"), "out of range for an amount"),
        (("--max-usd-per-hour", "nan"), "is not an amount"),
        (("--max-step-time", "1e-300ns"), "at least 1 ns"),
        (("--volume", "1e300 steps/month"), "out of range"),
        (("--serve", "1e300"), "--serve 1e+300 is out of range"),
        (("--serve", "5", "--egress", "1e300TB"), "--egress"),
        (("--serve", "5", "--minimum", "own/rack=" + "9" * 5000), "a whole number"),
        (("--dtype", "float31"), "--dtype"),
        (("--egress", "20KiB"), "--serve"),
        (("--fleet",), "--job-items and --deadline"),
        (("--serve", "-1"), "-1"),
        (("--prices", "absent.toml"), "absent.toml"),
    ],
)
def test_cost__wrong_arguments_are_one_sentence_and_2(cost, arguments, words):
    code, _, err = cost("nets:net", *INPUTS, *arguments)
    assert code == 2, err
    assert words in err
    assert "Traceback" not in err


def test_cost__configuration_and_private_prices(cost, tmp_path, monkeypatch):
    (tmp_path / "perfgate.toml").write_text(
        textwrap.dedent("""
        version = 1
        [cost]
        devices = ["l4"]
        providers = ["own"]
        [cost.prices.rack]
        platform = "l4"
        usd_per_hour = 0.5
        [models.net]
        entry = "nets:net"
        inputs = ["float32[batch,3,32,32]"]
        [models.net.cost]
        volume = "40M steps/month"
        """)
    )
    code, out, err = cost("net", "--json")
    assert code == 0, err
    tree = json.loads(out)
    assert (tree["cheapest"]["offer"]["instance"], tree["cheapest"]["offer"]["usd_per_hour"]) == ("rack", 0.5)
    assert tree["volume"] == {"amount": 40e6, "unit": "steps"}

    monkeypatch.setenv("PERFGATE_PRICES", '[prices.rack]\nplatform = "l4"\nusd_per_hour = 0.125\n')
    code, out, _ = cost("net", "--json")
    assert json.loads(out)["cheapest"]["offer"]["usd_per_hour"] == 0.125

    monkeypatch.setenv("PERFGATE_PRICES", '[prices.rack]\nplatform = "l4"\nusd_per_hour = "13.37"\n')
    code, out, err = cost("net", "--json")
    assert code == 2
    assert "prices.rack.usd_per_hour" in err
    assert "13.37" not in out + err


def test_cost__counts_all_goes_before_the_configurations_counts(cost, tmp_path):
    (tmp_path / "perfgate.toml").write_text("version = 1\n[cost]\ncounts = [8]\n")
    given = ("nets:net", *INPUTS, "--devices", "l4", "--json")
    assert {point["offer"]["count"] for point in json.loads(cost(*given)[1])["front"]} == {8}
    assert json.loads(cost(*given, "--counts", "all")[1])["requirements"]["counts"] == []


def test_cost__a_model_without_kernels_has_no_price(cost, tmp_path):
    (tmp_path / "nothing.py").write_text("from torch import nn\n\ndef net():\n    return nn.Identity()\n")
    code, _, err = cost("nothing:net", *INPUTS)
    assert (code, "no operator that takes time" in err) == (3, True), err


def test_cost__names_are_wrong_before_anything_is_counted(cost):
    # The model does not exist, and the name of the platform is what is said.
    code, _, err = cost("no.such:net", *INPUTS, "--devices", "h100")
    assert code == 2
    assert "did you mean h100-" in err


def test_cost__all_terms_are_all_and_spot_is_said(cost):
    given = ("nets:net", *INPUTS, "--devices", "t4")
    tree = json.loads(cost(*given, "--terms", "all", "--json")[1])
    assert tree["cheapest"]["offer"]["terms"] == "spot"
    assert "/h spot" in cost(*given, "--terms", "all")[1]
    assert "spot: not one of the asked terms" in cost(*given)[1]


def test_cost__a_volume_is_dollars_a_month(cost):
    # A month has 730 hours; its steps are those of the first batch size.
    given = ("nets:net", *INPUTS, "--devices", "l4", "--batch", "4,8", "--volume", "1e6 steps/h")
    tree = json.loads(cost(*given, "--json")[1])
    assert tree["usd_per_month"] == pytest.approx(730 * 4 * tree["cheapest"]["usd_per_1m_items"])
    assert " a month for 730 M steps" in cost(*given)[1].replace("\u202f", " ")
    assert json.loads(cost("nets:net", *INPUTS, "--devices", "l4", "--json")[1])["usd_per_month"] is None
