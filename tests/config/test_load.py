"""From text to records: what is accepted, and that every mistake is reported at once."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.config.load import effective, load, read_tree
from perfgate.errors import ConfigError
from perfgate.records.policy import Limits, Policy
from perfgate.records.workload import ModelSpec, SideConfig

SHA = "a04be77" + "0" * 33
MODEL = '[models.net]\nentry = "pkg.models:net"\ninputs = ["float32[batch,3]"]\n'


def config(text: str, name: str = "perfgate.toml"):
    loaded = load({name: text}, where="base", sha=SHA)
    assert loaded is not None
    return loaded


def problems(text: str, name: str = "perfgate.toml") -> dict[str, str]:
    """Key -> "reason (hint)" of everything wrong with the text."""
    with pytest.raises(ConfigError) as caught:
        load({name: text}, where="base", sha=SHA)
    return {problem.key: f"{problem.reason} ({problem.hint})" for problem in caught.value.problems}


def gate(lines: str) -> dict[str, str]:
    return problems(f"version = 1\n[gate]\n{lines}\n")


def model(lines: str) -> dict[str, str]:
    return problems(f"version = 1\n[models.net]\n{lines}\n")


def test_load__no_configuration_anywhere():
    assert load({}, where="base", sha=SHA) is None
    assert load({"pyproject.toml": "[tool.other]\nx = 1\n"}, where="base", sha=SHA) is None


def test_load__minimal_file_gives_the_defaults_of_the_records():
    loaded = config(f"version = 1\n{MODEL}")
    source = "perfgate.toml at a04be77 (base)"
    spec = ModelSpec(name="net", entry="pkg.models:net", inputs=("float32[batch,3]",))
    assert loaded.side == SideConfig(source=source, models={"net": spec})
    assert loaded.policy == Policy(source=source, sha=SHA, models={"net": Limits()})
    assert loaded.store_url == ""


def test_load__uncommitted_tree_has_no_sha():
    loaded = load({"perfgate.toml": "version = 1"}, where="working tree", sha=None)
    assert loaded is not None
    assert loaded.source == "perfgate.toml (working tree)"
    assert loaded.policy.sha is None


def test_load__pyproject_table_is_equal_to_the_file():
    nested = "[tool.perfgate]\nversion = 1\n" + MODEL.replace("[models", "[tool.perfgate.models")
    from_pyproject = config(nested, "pyproject.toml")
    assert from_pyproject.side.models == config(f"version = 1\n{MODEL}").side.models
    assert from_pyproject.source.startswith("pyproject.toml at")


def test_load__two_configurations_are_an_error():
    with pytest.raises(ConfigError, match=r"pyproject.toml: tool.perfgate: perfgate.toml holds one too"):
        load({"perfgate.toml": "version = 1", "pyproject.toml": "[tool.perfgate]\nversion = 1"}, where="base", sha=SHA)


def test_load__pyproject_of_another_tool_beside_the_file():
    texts = {"perfgate.toml": "version = 1", "pyproject.toml": "[tool.ruff]\nline-length = 9"}
    assert load(texts, where="base", sha=SHA) is not None


def test_load__everything_reaches_the_policy():
    policy = config("""
version = 1
[gate]
mode = "report"
tolerance = 0.05
false_alarm_rate = "2%"
budget = "90s"
fail_on = ["inconclusive", "new"]
on_inconclusive = "block"
harness = ["bench/**", "./conf.py"]
self_accept = true
looks = [2, 4]
pairs_per_round = 4
independent_pairs = true
block = "20ms"
groups = 3
max_flop = 8.2e9
[gate.on.l4]
max_params = 9
[gate.limits]
peak_memory = "2%"
params = 0
energy = false
latency = {mode = "report"}
"span:token" = {limit = "10%", mode = "enforce"}
[models.net]
entry = "pkg:net"
inputs = []
mode = "report"
max = "20ms"
limits = {flop = "0.5%"}
[models.net.on."NVIDIA L4"]
mode = "enforce"
max_peak_memory = "22GiB"
max_energy = "35mJ"
""").policy
    assert policy == Policy(
        source="perfgate.toml at a04be77 (base)",
        sha=SHA,
        mode="report",
        tolerance=0.05,
        false_alarm_rate=0.02,
        budget_s=90.0,
        fail_on=("inconclusive", "new"),
        on_inconclusive="block",
        harness=("bench/**", "conf.py"),
        self_accept=True,
        looks=(2, 4),
        pairs_per_round=4,
        independent_pairs=True,
        block_ns=20_000_000,
        groups=3,
        limits=Limits(
            relative={"peak_memory": 0.02, "params": 0.0, "energy": None, "span:token": 0.1},
            metric_modes={"latency": "report", "span:token": "enforce"},
            ceilings={"flop": 8.2e9},
            hardware={"l4": Limits(ceilings={"params": 9.0})},
        ),
        models={
            "net": Limits(
                mode="report",
                relative={"flop": 0.005},
                ceilings={"latency": 20e6},
                hardware={"NVIDIA L4": Limits(mode="enforce", ceilings={"peak_memory": 22 * 2.0**30, "energy": 0.035})},
            )
        },
    )


def test_load__everything_reaches_the_side():
    side = config("""
version = 1
python = ".venv/bin/python"
pythonpath = ["src", "."]
setup = "make venv"
setup_timeout = "5min"
threads = 2
[models.net]
entry = "pkg:make.net"
make_inputs = "pkg.bench:inputs"
step = "pkg.bench:step"
loss = "pkg.bench:loss"
optimizer = "pkg.bench:optimizer"
train_mode = true
modes = ["infer", "train", "step"]
batch = [1, 32]
dtype = ["float32", "amp-bfloat16"]
device = ["cpu", "cuda", "cuda:1"]
compile = [false, true, "max-autotune"]
paths = ["data/*.json"]
timeout = "30s"
[models.loop]
step = "pkg.bench:generate"
""").side
    assert side == SideConfig(
        source="perfgate.toml at a04be77 (base)",
        python=".venv/bin/python",
        pythonpath=("src", "."),
        setup="make venv",
        setup_timeout_s=300.0,
        threads=2,
        models={
            "net": ModelSpec(
                name="net",
                entry="pkg:make.net",
                make_inputs="pkg.bench:inputs",
                step="pkg.bench:step",
                loss="pkg.bench:loss",
                optimizer="pkg.bench:optimizer",
                train_mode=True,
                modes=("infer", "train", "step"),
                batch=(1, 32),
                dtype=("float32", "amp-bfloat16"),
                device=("cpu", "cuda:0", "cuda:1"),
                compile=("eager", "default", "max-autotune"),
                paths=("data/*.json",),
                timeout_s=30.0,
            ),
            "loop": ModelSpec(name="loop", step="pkg.bench:generate", modes=("step",)),
        },
    )


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


def test_effective__names_the_source_of_each_value():
    text = 'version = 1\n[gate]\ntolerance = "5%"\n[gate.limits]\nflop = "2%"\n' + MODEL + "batch = [1, 8]\n"
    rows = {row.key: (row.value, row.source) for row in effective(config(text))}
    source = "perfgate.toml at a04be77 (base)"
    assert rows["gate.tolerance"] == ('"5%"', source)
    assert rows["gate.budget"] == ('"10min"', "default")
    assert rows["gate.limits.flop"] == ('"2%"', source)
    assert rows["gate.limits.peak_memory"] == ("1 %", "default")
    assert rows["models.net.batch"] == ("[1, 8]", source)
    assert rows["models.net.device"] == ('"cpu"', "default")


def test_effective__tables_inside_of_a_model():
    rows = {row.key for row in effective(config(f'version = 1\n{MODEL}[models.net.on."L 4"]\nmax = "1ms"\n'))}
    assert 'models.net.on."L 4".max' in rows


def test_read_tree__reads_what_is_there():
    content = {"perfgate.toml": b"\xef\xbb\xbfversion = 1"}
    assert read_tree(content.get) == {"perfgate.toml": "version = 1"}


def test_read_tree__not_utf8_names_file_and_line():
    content = {"perfgate.toml": b"version = 1\n# caf\xe9\n", "pyproject.toml": b"\xff"}
    with pytest.raises(ConfigError) as caught:
        read_tree(content.get)
    assert str(caught.value).splitlines() == [
        "perfgate.toml: line 2: byte 0xe9 is not UTF-8 (save the file as UTF-8)",
        "pyproject.toml: line 1: byte 0xff is not UTF-8 (save the file as UTF-8)",
    ]
