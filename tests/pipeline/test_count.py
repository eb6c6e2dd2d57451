"""``perfgate count`` as a user types it, on a scratch folder with small models."""

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfgate.cli import app

KEYS = {
    "flop", "mac", "params", "weight_bytes", "traffic_bytes", "intensity", "peak_activation_bytes", "operators",
    "not_counted", "fingerprint",
}  # fmt: skip

NETS = """
    import torch
    from torch import nn

    def net():
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10))

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 4)

        def forward(self, x, *, scale=1.0, mask=None):
            return self.head(x if mask is None else x * mask) * scale

    class Peeks(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            return self.head(x) if float(x.sum()) < 1e9 else x

    @torch.library.custom_op("mylib::fused", mutates_args=())
    def fused(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    @fused.register_fake
    def _(x, w):
        return x.new_empty(x.shape[0], w.shape[1])

    class Custom(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(16, 4))

        def forward(self, x):
            return fused(x, self.w)

    def breaks():
        raise RuntimeError("no weights today")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(textwrap.dedent(NETS))
    return tmp_path


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def count(folder, monkeypatch, capsys):
    """The command, run in ``folder``; its workers are processes of their own all the same."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)

    def run(*arguments: str) -> Done:
        code = app.run(["count", *arguments])
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run


@pytest.fixture
def tree(count):
    def run(*arguments: str) -> dict[str, Any]:
        done = count(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


CONV, HEAD = 2 * 3 * 9 * 8 * 64, 2 * 512 * 10


def test_count__callable_has_the_fixed_keys(folder, count, tree):
    found = tree("nets:net", "--inputs", "float32[1,3,8,8]")
    assert found.keys() >= KEYS
    assert found["flop"] == CONV + HEAD == 2 * found["mac"]
    assert found["params"] == 3 * 9 * 8 + 8 + 512 * 10 + 10
    assert found["weight_bytes"] == 4 * found["params"]
    assert found["traffic_bytes"].keys() == {"eager", "fused", "min"}
    assert found["intensity"]["max"] == pytest.approx(found["flop"] / found["traffic_bytes"]["min"])
    assert [item["name"] for item in found["operators"]] == ["0", "1", "3"]
    assert found["not_counted"] == []


def test_count__batch_mode_and_dtype(folder, count, tree):
    one = tree("nets:net", "--inputs", "float32[batch,3,8,8]")
    eight = tree("nets:net", "--inputs", "float32[1,3,8,8]", "--batch", "8")
    assert eight["flop"] == 8 * one["flop"]
    half = tree("nets:net", "--inputs", "float32[1,3,8,8]", "--dtype", "bfloat16")
    assert half["flop"] == one["flop"]
    assert half["weight_bytes"] == one["weight_bytes"] // 2
    # The image needs no gradient, so the first convolution has only that of its weight.
    train = tree("nets:net", "--inputs", "float32[1,3,8,8]", "--mode", "train")
    assert train["flop"] == 2 * CONV + 3 * HEAD


def test_count__keyword_inputs(folder, count, tree):
    found = tree("nets:Scaled", "--inputs", "x=float32[2,16]", "--inputs", "mask=float32[2,16]")
    assert found["flop"] == 2 * 2 * 16 * 4


def test_count__model_of_the_configuration(folder, count, tree):
    (folder / "perfgate.toml").write_text(
        textwrap.dedent("""
        version = 1
        [operators]
        "mylib::fused" = "2 * numel(x) * w[1]"
        [models.plain]
        entry = "nets:net"
        inputs = ["float32[batch,3,8,8]"]
        batch = [4, 1]
        [models.own]
        entry = "nets:Custom"
        inputs = ["float32[batch,16]"]
        """)
    )
    assert tree("plain")["flop"] == 4 * (CONV + HEAD)
    own = tree("own", "--batch", "3")
    assert own["flop"] == 2 * 3 * 16 * 4
    assert own["not_counted"] == []


def test_count__custom_operator_without_formula_is_named(folder, count, tree):
    found = tree("nets:Custom", "--inputs", "float32[2,16]")
    assert found["flop"] == 0
    assert [item["op"] for item in found["not_counted"]] == ["mylib::fused"]
    shown = count("nets:Custom", "--inputs", "float32[2,16]")
    assert "Not counted: mylib::fused (1 call" in shown.stdout


def test_count__model_that_looks_at_values_runs_for_real_and_says_so(folder, count, tree):
    found = tree("nets:Peeks", "--inputs", "float32[1000,16]")
    assert found["flop"] == 2 * 1000 * 16 * 4
    assert found["source"] == "real"
    assert any("real tensors" in note for note in found["notes"])


def test_count__onnx_file(folder, count, tree):
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    weight = helper.make_tensor("w", kinds.FLOAT, [16, 4], [0.5] * 64)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="/head/MatMul")], "g",
        [helper.make_tensor_value_info("x", kinds.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("y", kinds.FLOAT, ["N", 4])], [weight],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "net.onnx")
    found = tree("net.onnx", "--inputs", "float32[batch,16]", "--batch", "5")
    assert found["flop"] == 2 * 5 * 16 * 4
    assert found["params"] == 64
    refused = count("net.onnx")
    assert refused.returncode == 2
    assert "'N'" in refused.stderr or "N" in refused.stderr.split()
    trained = count("net.onnx", "--mode", "train")
    assert trained.returncode == 2
    assert "--mode" in trained.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nets:net",), 2, "--inputs is missing"),
        (("nets.net",), 2, "neither 'module:callable'"),
        (("nets:missing", "--inputs", "float32[1]"), 3, "has no 'missing'"),
        (("nothing:net", "--inputs", "float32[1]"), 3, "no module named 'nothing'"),
        (("nets:breaks", "--inputs", "float32[1]"), 3, "no weights today"),
        (("nets:net", "--inputs", "float32[1,4,8,8]"), 3, "could not be counted"),
        (("nets:net", "--inputs", "float33[1,3,8,8]"), 2, "float33"),
        (("nets:net", "--inputs", "float32[2,3,8,8]", "--batch", "4"), 2, "leading 1"),
        (("nets:net", "--inputs", "float32[1,3,8,8]", "--dtype", "float31"), 2, "--dtype"),
        (("nets:Scaled", "--inputs", "x=float32[2,16]", "--inputs", "float32[2,16]"), 2, "either all inputs"),
        (("gone.onnx",), 2, "gone.onnx"),
    ],
)
def test_count__bad_input_is_one_clear_sentence(count, arguments, code, said):
    done = count(*arguments)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_count__names_with_brackets_are_no_markup(folder, count):
    (folder / "odd.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.d = nn.ModuleDict({'[/red]': nn.Linear(8, 8), '[head]': nn.Linear(8, 8)})\n"
        "    def forward(self, x):\n"
        "        return self.d['[head]'](self.d['[/red]'](x))\n"
    )
    shown = count("odd:Net", "--inputs", "float32[1,8]")
    assert shown.returncode == 0, shown.stderr
    assert "d.[/red]" in shown.stdout
    assert "d.[head]" in shown.stdout


def test_count__numbers_and_booleans_are_inputs_too(count, tree):
    assert tree("nets:Scaled", "--inputs", "x=float32[2,16]", "--inputs", "scale=0.5")["flop"] == 2 * 2 * 16 * 4


def test_count__configuration_that_is_named_has_to_be_there(count):
    done = count("nets:net", "--inputs", "float32[1,3,8,8]", "--config", "nope.toml")
    assert done.returncode == 2
    assert "nope.toml" in done.stderr
