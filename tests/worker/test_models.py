"""What is measured of a model: modes, inputs, dtypes, probes. One factory serves all tests here."""

from __future__ import annotations

import math

import pytest

from perfgate.records.protocol import Failed, Opened, Time, Timed
from tests.worker.helpers import make_open, must_open, must_prepare, opened, prepare, started, write_files
from tests.worker.zoo import FILES

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("zoo") / "co", FILES)


@pytest.fixture(scope="module")
def factory(shim, checkout, tmp_path_factory):
    with started(shim, tmp_path_factory.mktemp("logs") / "log") as worker:
        must_prepare(worker, prepare(checkout, "zoo", "torch._dynamo"))
        yield worker


def probed(factory, entry, *args, **kwargs):
    probe = must_open(factory, make_open(entry, *args, probe=True, **kwargs)).probe
    assert probe is not None
    return probe


def products(trace):
    """FLOP of the plain matrix products in a trace."""
    total = 0
    for call in trace.calls:
        left = call.operands.get("mat1") or (call.operands["self"] if call.op == "aten::mm" else None)
        if left is not None:
            rows, inner = trace.values[left[0]].shape
            total += 2 * rows * inner * trace.values[call.operands["mat2"][0]].shape[1]
    return total


def test_probe__exact_metrics_of_a_small_net(factory):
    probe = probed(factory, "zoo:Net")

    # Linear 4x8 and 8x3 with biases, norm 2x8; its running statistics and counter are buffers.
    assert probe.exact["params"] == 4 * 8 + 8 + 16 + 8 * 3 + 3
    assert probe.exact["weight_bytes"] == 4 * (4 * 8 + 8 + 16 + 8 * 3 + 3 + 16) + 8
    assert products(probe.trace) == 2 * 2 * (4 * 8 + 8 * 3)
    assert len(probe.trace.calls) == 3
    assert probe.not_counted == ()
    assert probe.structure["modules"]["Linear"] == 2
    assert "graph_breaks" not in probe.exact


def test_probe__two_processes_agree_in_everything_exact(factory):
    one, two = probed(factory, "zoo:Net"), probed(factory, "zoo:Net")

    assert one.exact == two.exact
    assert one.inputs == two.inputs
    assert one.outputs == two.outputs
    assert one.files == two.files
    assert one.outputs.layout == ("['logits'] float32[2,3]",)


def test_probe__an_added_layer_does_not_change_the_other_weights(factory):
    # Longer has a further layer before the others, which its forward pass does not use.
    assert probed(factory, "zoo:Net").outputs == probed(factory, "zoo:Longer").outputs


def test_probe__another_seed_is_another_input_and_output(factory):
    one, two = probed(factory, "zoo:Net"), probed(factory, "zoo:Net", seed=99)

    assert one.inputs.checksum != two.inputs.checksum
    assert one.outputs.checksum != two.outputs.checksum


def test_infer__evaluates_under_inference_mode_by_default(factory):
    # M54: dropout and batch normalisation of a model that was built in training mode.
    assert probed(factory, "zoo:Tells").outputs.values[:4] == (0, 0, 1, 0)


def test_infer__train_mode_keeps_the_models_own_flags(factory):
    assert probed(factory, "zoo:Tells", train_mode=True).outputs.values[:4] == (1, 1, 1, 0)


def test_infer__falls_back_to_no_grad(factory):
    reply = must_open(factory, make_open("zoo:NoInference"))
    assert "the model refuses inference mode and was measured under no_grad" in reply.notes


@pytest.mark.parametrize(
    ("dtype", "output", "given", "weight"),
    [
        ("float32", "float32", "float32", "float32"),
        ("bfloat16", "bfloat16", "bfloat16", "bfloat16"),
        ("amp-bfloat16", "bfloat16", "float32", "float32"),
    ],
)
def test_infer__dtypes(factory, dtype, output, given, weight):
    # Checksums cover the texts, so the three cases are compared with a model that says the same.
    probe = probed(factory, "zoo:Tells", dtype=dtype)
    from perfgate.worker.digest import digest

    torch = pytest.importorskip("torch")
    expected = digest((torch.tensor([0.0, 0.0, 1.0, 0.0]), f"torch.{output}", f"torch.{given}", f"torch.{weight}"))
    assert probe.outputs.checksum == expected.checksum


def test_infer__unknown_dtype_is_refused(factory):
    _, reply = opened(factory, make_open("zoo:Net", dtype="float31"))
    assert isinstance(reply, Failed)
    assert "no dtype 'float31'" in reply.message


def test_infer__nested_inputs_and_outputs(factory):
    # M57
    probe = probed(factory, "zoo:Nested", (), make_inputs="zoo:nested_inputs")
    assert probe.inputs.layout[0] == "[1]['x'] float32[2,2]"
    assert probe.outputs.layout == (
        "['out'][0].mask float32[2,2]",
        "['out'][0].name str",
        "['out'][1][0] float32[]",
    )


def test_infer__keyword_inputs(factory):
    given = {"tokens": "int64[batch] < 5", "extra": {"bias": "float32[batch]", "scale": 2.5}, "flag": True}
    assert probed(factory, "zoo:Keywords", given, batch=6).outputs.layout == (". float32[6]",)


def test_infer__any_callable_will_do(factory):
    probe = probed(factory, "zoo:lambda_model")
    assert probe.outputs.layout == (". float32[2,4]",)
    assert {"params", "weight_bytes"} <= set(probe.not_counted)
    assert probe.structure is None


def test_infer__module_built_at_import_is_used_with_a_note(factory):
    reply = must_open(factory, make_open("zoo:instance"))
    assert any("built at import" in note for note in reply.notes)


def test_infer__wrong_input_specification_is_named(factory):
    _, reply = opened(factory, make_open("zoo:Net", ("float32[bacth,4]",)))
    assert (reply.kind, reply.phase) == ("inputs", "inputs")
    assert "inputs[0]" in reply.message


def test_infer__missing_gpu_is_refused(factory):
    _, reply = opened(factory, make_open("zoo:Net", device="cuda:63"))
    assert (reply.kind, reply.phase) == ("unsupported", "build")
    assert "cuda:63" in reply.message


def test_infer__missing_kernel_is_explained(factory):
    # M56
    _, reply = opened(factory, make_open("zoo:Half"))
    assert (reply.kind, reply.phase) == ("raised", "first-step")
    assert "use float32 or an amp- dtype" in reply.message


def test_infer__first_step_is_apart(factory):
    # M03: only the first call takes long.
    child, reply = opened(factory, make_open("zoo:SlowStart"))
    assert isinstance(reply, Opened)
    assert reply.first_step_ns > 400_000_000
    assert reply.step_ns < 100_000_000
    assert max(child.ask(Time(samples=3)).samples_ns) < 100_000_000


def test_infer__tiny_model_is_grouped(factory):
    # M11
    child, reply = opened(factory, make_open("torch.nn:Identity"))
    assert isinstance(reply, Opened)
    assert 0 < reply.step_ns < 200_000
    timed = child.ask(Time(samples=3, inner=500))
    assert isinstance(timed, Timed)
    assert all(0 < sample < 200_000 for sample in timed.samples_ns)


def test_infer__lazy_parameters_are_seeded_by_name_too(factory):
    one, two = probed(factory, "zoo:Lazy"), probed(factory, "zoo:Lazy")
    assert one.exact["params"] == 4 * 3 + 3
    assert one.outputs == two.outputs


def test_notes__not_a_number_in_outputs(factory):
    probe = probed(factory, "zoo:Not")
    assert probe.outputs.nonfinite == 2
    assert probe.outputs.values[:2] == (None, None)
    assert "the outputs hold 2 NaN or infinite values" in probe.notes


def test_notes__denormal_weights(factory):
    # M61
    assert any("denormals in weights: 16 " in note for note in probed(factory, "zoo:Small").notes)
    assert not any("denormals" in note for note in probed(factory, "zoo:Net").notes)


def test_notes__changed_global_state(factory):
    notes = " ".join(must_open(factory, make_open("zoo:Changes")).notes)
    for name in ("default dtype from torch.float32 to torch.float64", "cudnn benchmark", "deterministic algorithms"):
        assert name in notes
    # The next child starts from the factory's untouched state.
    assert must_open(factory, make_open("zoo:Net")).notes == ()


def test_files__imported_and_opened_ones_are_named_and_no_others(factory):
    files = set(probed(factory, "zoo:Reads").files)
    assert {"zoo.py", "late.py", "data/config.json", "data/table.txt"} <= files
    assert not {"unused.py", "data/unused.txt", "written.txt"} & files
    assert not any("__pycache__" in name for name in files)


def test_train__default_loss_and_optimizer(factory):
    probe = probed(factory, "zoo:Net", mode="train", batch=4)

    assert probe.outputs.layout == (". float32[]",)
    assert math.isfinite(probe.outputs.values[0])
    forward = 2 * 4 * (4 * 8 + 8 * 3)
    assert products(probe.trace) == forward + forward + 2 * 4 * 8 * 3
    assert {call.phase for call in probe.trace.calls} == {"forward", "backward", "optimizer"}


def test_train__default_loss_is_the_mean_square_of_the_outputs():
    from perfgate.worker.stepping import default_loss

    torch = pytest.importorskip("torch")
    output = {"a": torch.tensor([1.0, 3.0]), "b": [torch.tensor(2.0), torch.tensor([7])]}
    assert default_loss(output).item() == 5.0 + 4.0


def test_train__steps_change_the_loss(factory):
    # With a large step the same data gives another loss after warm-up than before: parameters did move.
    first = probed(factory, "zoo:Net", mode="train", batch=4, loss="zoo:my_loss", optimizer="zoo:my_optimizer")
    plain = probed(factory, "zoo:Net", mode="train", batch=4)
    assert first.outputs.checksum != plain.outputs.checksum


@pytest.mark.parametrize(
    ("entry", "options", "part"),
    [
        ("zoo:NoGrad", {}, "no gradient"),
        ("zoo:Nested", {"inputs": (), "make_inputs": "zoo:nested_inputs"}, "trainable parameters"),
        ("zoo:Net", {"loss": "zoo:vector_loss"}, "shape [3]"),
        ("zoo:Net", {"loss": "zoo:absent"}, "models.net.loss"),
        ("zoo:Net", {"optimizer": "zoo:absent"}, "models.net.optimizer"),
        ("zoo:Net", {"batch": 1}, "use a larger batch"),
    ],
)
def test_train__what_cannot_be_trained_is_explained(factory, entry, options, part):
    _, reply = opened(factory, make_open(entry, mode="train", **options))
    assert isinstance(reply, Failed)
    assert part in reply.message


def test_step__generator_gives_spans_and_items(factory):
    child, reply = opened(factory, make_open("zoo:Net", mode="step", step="zoo:step"))
    assert isinstance(reply, Opened), reply
    assert reply.spans == ("first", "token")
    assert reply.items == 4

    timed = child.ask(Time(samples=3, inner=2))
    assert set(timed.spans_ns) == {"first", "token"}
    assert all(len(spans) == 3 and min(spans) > 0 for spans in timed.spans_ns.values())
    assert timed.items == 4


@pytest.mark.parametrize("entry", ["zoo:lazily", "zoo:later"])
def test_infer__a_call_that_runs_nothing_is_refused(factory, entry):
    _, reply = opened(factory, make_open(entry))
    assert isinstance(reply, Failed)
    assert (reply.kind, reply.phase) == ("unsupported", "first-step")
    assert "of which nothing has run; set step" in reply.message


def test_step__plain_callable_with_and_without_a_model(factory):
    assert products(probed(factory, "zoo:Net", mode="step", step="zoo:plain_step").trace) > 0
    probe = probed(factory, "", mode="step", step="zoo:no_model")
    assert probe.outputs.layout == (". float32[]",)
    assert products(probe.trace) == 0
    assert "params" not in probe.exact


def test_step__unequal_work_is_refused(factory):
    _, reply = opened(factory, make_open("zoo:Net", mode="step", step="zoo:unequal"))
    assert isinstance(reply, Failed)
    assert "2 items after 1 before" in reply.message


def test_step__has_to_be_named(factory):
    _, reply = opened(factory, make_open("zoo:Net", mode="step"))
    assert "mode step needs step" in reply.message


def test_entry__has_to_be_named_outside_of_steps(factory):
    _, reply = opened(factory, make_open(""))
    assert "needs entry" in reply.message


def test_compile__counts_breaks_and_compiles_in_the_first_step(factory):
    # Matrix products only, so that no C++ has to be compiled.
    probe = probed(factory, "zoo:Broken", compile_="default")
    assert probe.exact["graph_breaks"] == 1
    # Counted as written, not as compiled.
    assert len(probe.trace.calls) == 2
    assert products(probe.trace) == 2 * 2 * (4 * 4 + 4 * 4)
    assert probe.first_step_ns > 10 * probe.step_ns


def test_compile__unknown_mode_is_a_failure_of_building(factory):
    _, reply = opened(factory, make_open("zoo:Net", compile_="fastest"))
    assert isinstance(reply, Failed)
    assert reply.phase == "build"
