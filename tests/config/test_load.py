"""From text to records: what is accepted, and where each value comes from."""

from __future__ import annotations

import pytest

from perfgate.config.load import effective, load, read_tree
from perfgate.errors import ConfigError
from perfgate.records.policy import Limits, Policy
from perfgate.records.workload import ModelSpec, SideConfig
from tests.config.loading import MODEL, SHA, config


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
