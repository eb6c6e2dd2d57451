"""Every mistake of a configuration is reported at once, with its key."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.config.load import load
from perfgate.errors import ConfigError
from tests.config.loading import MODEL, SHA, gate, model, problems


def test_load__three_errors_at_once():
    found = problems('version = 1\nseutp = "x"\n[gate]\ntolerance = 3\n[models.net]\nentry = "net"\ninputs = []\n')
    assert found == {
        "gate.tolerance": "3 would be 300 %; write '3%' if percent is meant ()",
        "models.net.entry": "'net' names no callable; write 'package.module:callable' ()",
        "seutp": "unknown key (did you mean 'setup'?)",
    }


def test_load__broken_relations_are_reported_beside_wrong_types():
    found = model('entry = 3\ninputs = ["x"]\nmake_inputs = "a:b"\nbatch = "all"\nloss = "a:b"')
    assert set(found) == {
        "models.net.entry",
        "models.net.inputs[0]",
        "models.net.make_inputs",
        "models.net.batch[0]",
        "models.net.loss",
    }


@pytest.mark.parametrize(
    ("line", "key", "part"),
    [
        ('mode = "enforced"', "mode", "did you mean 'enforce'?"),
        ('tolerance = "three"', "tolerance", "write it as '3%'"),
        ('tolerance = "0%"', "tolerance", "more than 0"),
        ('false_alarm_rate = "100%"', "false_alarm_rate", "less than 100 %"),
        ("budget = 600", "budget", "has no unit; write it as '10min'"),
        ('budget = "0s"', "budget", "more than 0"),
        ('budget = "10 parsec"', "budget", "write a number and one of ns"),
        ('fail_on = ["regresion"]', "fail_on[0]", "is not 'inconclusive'"),
        ("looks = [5, 5]", "looks", "does not increase"),
        ("looks = [1, 5]", "looks", "at least 2"),
        ("looks = []", "looks", "does not increase"),
        ("looks = [5, 2000]", "looks", "at most 1000"),
        ("looks = [5, true]", "looks[1]", "expected a whole number, found True"),
        ("groups = 0", "groups", "greater than or equal to 1"),
        ('pairs_per_round = "4"', "pairs_per_round", "expected a whole number, found '4'"),
        ('harness = ["/etc/**"]', "harness[0]", "leaves the checkout"),
        ('harness = ["../x"]', "harness[0]", "leaves the checkout"),
        ('self_accept = "yes"', "self_accept", "expected true or false"),
        ("max = 20", "max", "has no unit; write it as '10min'"),
        ('max_peak_memory = "22 gigs"', "max_peak_memory", "write a number and one of B"),
        ("max_flop = -1", "max_flop", "at least 0"),
        ("max_flop = nan", "max_flop", "is not a count"),
        ('threads = "2"', "threads", "it belongs in the top of the file"),
        ("limits = {peak_memroy = 0.1}", "limits.peak_memroy", "did you mean 'peak_memory'?"),
        ("limits = {latency_p90 = 0.1}", "limits.latency_p90", "only shown"),
        ("limits = {flop = true}", "limits.flop.limit", "true says no limit"),
        ("limits = {flop = inf}", "limits.flop.limit", "not a share"),
        ('limits = {flop = "-1%"}', "limits.flop.limit", "at least 0"),
        ('limits = {flop = {limt = "1%"}}', "limits.flop.limt", "did you mean 'limit'?"),
    ],
)
def test_load__wrong_gate(line, key, part):
    [(where, text)] = gate(line).items()
    assert where == f"gate.{key}"
    assert part in text


ENTRY = 'entry = "a:b"\ninputs = ["float32[batch]"]\n'
ONNX = 'entry = "models/net.onnx"\n'


@pytest.mark.parametrize(
    ("lines", "key", "part"),
    [
        ("inputs = []", "entry", "write entry = 'package.module:callable'"),
        ('entry = "a:b"', "inputs", "write inputs = "),
        ('step = "a:b"\nmodes = ["infer", "step"]', "entry", "modes infer and train need a model"),
        (ENTRY + 'modes = ["step"]', "step", "mode step needs it"),
        (ENTRY + 'step = "a:b"\nmodes = "infer"', "step", "never used"),
        (ENTRY + 'optimizer = "a:b"', "optimizer", "add 'train' to modes"),
        (ENTRY + "batch = 0", "batch[0]", "at least 1"),
        (ENTRY + "batch = [true]", "batch[0]", "no batch size"),
        (ENTRY + "batch = []", "batch", "the list is empty"),
        (ENTRY + "batch = [2, 2]", "batch", "twice"),
        (ENTRY + 'device = "gpu"', "device[0]", "write 'cpu', 'cuda' or 'cuda:N'"),
        (ENTRY + 'dtype = "fp16"', "dtype[0]", "write one of float16"),
        (ENTRY + 'compile = "fast"', "compile[0]", "write true, false or one of"),
        (ENTRY + "timeout = 3", "timeout", "has no unit"),
        (ENTRY + "paths = ['']", "paths[0]", "is not a path"),
        (ENTRY + 'hardware = ["l4"]', "hardware", "not supported by this version"),
        (ENTRY + 'batchsize = "x"', "batchsize", "did you mean 'batch'?"),
        (ENTRY + "[models.net.on.L4]\nmaxx = 1", "on.L4.maxx", "did you mean 'max'?"),
        ('entry = "../a.onnx"', "entry", "leaves the checkout"),
        (ONNX + 'modes = ["infer", "train"]', "modes", "an ONNX model only infers (remove it)"),
        (ONNX + 'step = "a:b"', "step", "has no meaning for an ONNX model"),
        (ONNX + 'loss = "a:b"', "loss", "has no meaning for an ONNX model"),
        (ONNX + 'optimizer = "a:b"', "optimizer", "has no meaning for an ONNX model"),
        (ONNX + "train_mode = true", "train_mode", "has no modes"),
        (ONNX + 'dtype = ["float32", "bfloat16"]', "dtype", "keeps the dtypes of its file"),
        (ONNX + "compile = true", "compile", "torch.compile does not know ONNX models"),
        (ONNX + 'compile = ["max-autotune"]', "compile", "torch.compile does not know ONNX models"),
        (ONNX + 'inputs = ["bfloat16[2]"]', "inputs[0]", "cannot be fed with bfloat16"),
        (ONNX + 'inputs = {x = ["float32[2]"]}', "inputs.x", "takes tensors"),
        (ONNX + "batch = [1, 8]", "inputs", "a batch size has nothing to act on"),
        (ONNX + 'inputs = ["float32[32,3]"]\nbatch = [1, 2]', "inputs", "no input has a dimension 'batch'"),
        (ONNX + 'inputs = []\nmake_inputs = "a:b"', "make_inputs", "exclude each other"),
        ('entry = "a:b"\ninputs = "float32[1]"', "inputs", "put it in [ ]"),
        ('entry = "a:b"\ninputs = ["float32[32,3]"]\nbatch = [1, 2]', "inputs", "no input has a dimension 'batch'"),
    ],
)
def test_load__wrong_model(lines, key, part):
    [(where, text)] = model(lines).items()
    assert where == f"models.net.{key}"
    assert part in text


@pytest.mark.parametrize(
    ("lines", "inputs"),
    [
        ("", ()),
        ('inputs = ["float32[batch,3]"]\nbatch = [1, 8]', ("float32[batch,3]",)),
        ('inputs = {x = "int64[2] < 9", flag = true}', {"x": "int64[2] < 9", "flag": True}),
        ('make_inputs = "bench:inputs"\nbatch = [1, 8]', ()),
        ('modes = "infer"\ndtype = "float32"\ncompile = false\ntrain_mode = false', ()),
        ('device = ["cpu", "cuda"]', ()),
    ],
)
def test_load__onnx_model(lines, inputs):
    found = load({"perfgate.toml": f"version = 1\n[models.net]\n{ONNX}{lines}\n"}, where="base", sha=SHA)
    assert found is not None
    spec = found.side.models["net"]
    assert spec.is_onnx
    assert spec.entry == "models/net.onnx"
    assert spec.inputs == inputs
    assert {(w.mode, w.dtype, w.compile) for w in spec.workloads} == {("infer", "float32", "eager")}


@pytest.mark.parametrize(
    ("text", "key", "part"),
    [
        ("", "version", "write version = 1"),
        ("version = 2", "version", "not a version that this perfgate reads"),
        ("version = true", "version", "not a version"),
        ("version = 1\nmodels = 3", "models", "expected a table"),
        ("version = 1\npythonpath = ['/abs']", "pythonpath[0]", "leaves the checkout"),
        ("version = 1\nstore = 'mysql://x'", "store", "no store"),
        ("version = 1\nstore = 'postgresql://me:secret@host/db'", "store", "holds a password"),
        ("version = 1\n[placement]\nwhen = 'nightly'", "placement.when", "is not 'never', 'scheduled' or 'always'"),
        ("version = 1\n[placement]\ndevices = ['gpu']", "placement.devices[0]", "is no device"),
        ("version = 1\n[placement]\nlibraries = ['MKL!']", "placement.libraries[0]", "no name of a compute library"),
        ("version = 1\n[placement]\nobjective = 'memory'", "placement.max_step_time", "missing"),
        ("version = 1\n[placement]\nmax_step_time = '1ms'", "placement.max_step_time", "no effect"),
        ("version = 1\n[models.'a/b']\n" + ENTRY, 'models."a/b"', "no name for a model"),
        ("version = 1\nmode = 'report'", "mode", "it belongs in [gate]"),
        ("version = = 1", "TOML", "at line 1"),
        ("version = 1\nx = " + "9" * 5000, "TOML", "correct the syntax"),
        ("x = " + "[" * 5000, "TOML", "correct the syntax"),
    ],
)
def test_load__wrong_file(text, key, part):
    [(where, reason)] = problems(text).items()
    assert where == key
    assert part in reason


def test_load__keys_of_pyproject_are_named_in_full():
    assert list(problems("[tool.perfgate]\nversion = 1\ngat = {}\n", "pyproject.toml")) == ["tool.perfgate.gat"]
    assert list(problems("[tool]\nperfgate = 3\n", "pyproject.toml")) == ["tool.perfgate"]


def test_load__password_is_not_repeated_in_the_message():
    assert "secret" not in str(problems("version = 1\nstore = 'postgresql://me:secret@host/db'"))


_SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.sampled_from(["", "1%", "a:b", "5ms"])
_NAMES = st.sampled_from(
    ["gate", "models", "limits", "on", "batch", "modes", "inputs", "entry", "mode", "looks", "max", "cost", "prices"]
)
_TREES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4), max_leaves=12
)


def _toml(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else "1979-05-27" if value is None else str(value)


@pytest.mark.parametrize("text", ["121h", "1e200h", "1e999h", "0s"])
def test_load__duration_out_of_range(text):
    assert "at most 120h" in model(f'entry = "a:b"\ninputs = []\ntimeout = "{text}"')["models.net.timeout"]


def test_load__nul_is_no_part_of_a_command():
    found = problems(f'version = 1\npython = "a\\u0000b"\nsetup = "echo \\u0000"\nstore = "sqlite:///\\u0000"\n{MODEL}')
    assert found.keys() == {"python", "setup", "store"}
    assert "NUL" in found["python"]


@given(gate_tree=_TREES, models=st.dictionaries(_NAMES, _TREES, max_size=2))
def test_load__any_tree_is_a_config_or_a_config_error(gate_tree, models):
    text = f"version = 1\ngate = {_toml(gate_tree)}\nmodels = {_toml(models)}\n"
    with contextlib.suppress(ConfigError):
        assert load({"perfgate.toml": text}, where="base", sha=SHA) is not None
