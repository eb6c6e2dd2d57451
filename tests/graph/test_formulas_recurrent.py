from __future__ import annotations

import pytest

from tests.graph.book import flop, worked

# Steps, items, features, hidden size.
T, N, X, H = 7, 3, 4, 5


def matrices(gates: int, layers: int = 1, directions: int = 1, projected: int = 0) -> list[tuple[int, ...]]:
    """Shapes of the weights and biases of a layer stack, as torch lists them."""
    shapes: list[tuple[int, ...]] = []
    out = projected or H
    width = X
    for _ in range(layers):
        for _ in range(directions):
            shapes += [(gates * H, width), (gates * H, out), (gates * H,), (gates * H,)]
            if projected:
                shapes.append((projected, H))
        width = out * directions
    return shapes


def elements(shapes: list[tuple[int, ...]]) -> int:
    return sum(shape[0] * shape[1] for shape in shapes if len(shape) == 2)


@pytest.mark.parametrize(("op", "gates"), [("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)])
@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_flop__uses_every_weight_once_a_step_and_item(op, gates, layers, directions):
    params = matrices(gates, layers, directions)
    shapes = {"input": (T, N, X), "hx": [(layers * directions, N, H)], "params": params}
    expected = 2 * T * N * elements(params)
    more = {"num_layers": layers, "bidirectional": directions == 2}
    assert flop(f"aten::{op}", shapes, (T, N, H), **more) == expected
    # The same without the weights, which quantised layers hide.
    if op in {"lstm", "gru"}:
        hidden = {name: shape for name, shape in shapes.items() if name != "params"}
        assert flop(f"aten::quantized_{op}", hidden, (T, N, H), **more) == expected


def test_flop__of_the_figure_in_the_literature():
    # LSTM(12, 128), 250 steps: 17 920 000 MAC; the GRU has three gates for four.
    weights = {"weight0": (512, 12), "weight1": (512, 128), "weight2": (512,), "weight3": (512,)}
    shapes = {"input": (250, 1, 12), **weights}
    assert flop("aten::mkldnn_rnn_layer", shapes, (250, 1, 128), mode=2, hidden_size=128) == 35_840_000
    gru = {"input": (250, 1, 12), "params": [(384, 12), (384, 128), (384,), (384,)]}
    assert flop("aten::gru", gru, (250, 1, 128)) == 26_880_000


def test_flop__packed_sequences_count_real_steps():
    params = matrices(4)
    shapes = {"data": (10, X), "batch_sizes": (5,), "hx": [(1, N, H)], "params": params}
    assert flop("aten::lstm", shapes, (10, H)) == 2 * 10 * elements(params)
    cudnn = {"input": (10, X), "weight": params, "hx": (1, N, H)}
    assert flop("aten::_cudnn_rnn", cudnn, (10, H), mode=2, batch_sizes=(3, 3, 2, 1, 1)) == 2 * 10 * elements(params)


def test_flop__projections_are_matrices_too():
    params = matrices(4, projected=2)
    assert flop("aten::lstm", {"input": (T, N, X), "params": params}, (T, N, 2)) == 2 * T * N * elements(params)
    hidden = {"input": (T, N, X), "hx": (1, N, 2)}
    more = {"mode": 2, "hidden_size": H, "proj_size": 2, "num_layers": 1, "bidirectional": False}
    assert flop("aten::_cudnn_rnn", hidden, (T, N, 2), **more) == 2 * T * N * elements(params)


@pytest.mark.parametrize("op", ["aten::_cudnn_rnn", "aten::miopen_rnn"])
@pytest.mark.parametrize(("mode", "gates"), [(0, 1), (1, 1), (2, 4), (3, 3)])
def test_flop__of_layers_on_gpus(op, mode, gates):
    params = matrices(gates, 2, 2)
    shapes = {"input": (T, N, X), "weight": params, "hx": (4, N, H)}
    assert flop(op, shapes, (T, N, 2 * H), mode=mode) == 2 * T * N * elements(params)


@pytest.mark.parametrize(("mask", "times"), [((True, True, True, True), 2), ((True, False, False, False), 1)])
def test_flop__backward_is_one_pass_through_time_and_one_for_the_weights(mask, times):
    params = matrices(4)
    shapes = {"input": (T, N, X), "weight": params, "hx": (1, N, H)}
    found = flop("aten::_cudnn_rnn_backward", shapes, (T, N, X), mode=2, output_mask=mask)
    assert found == times * 2 * T * N * elements(params)


def test_flop__one_dnn_backward():
    shapes = {
        "input": (T, N, X),
        "weight1": (4 * H, X),
        "weight2": (4 * H, H),
        "weight3": (4 * H,),
        "weight4": (4 * H,),
    }
    assert flop("aten::mkldnn_rnn_layer_backward", shapes, (T, N, X), mode=2) == 4 * T * N * 4 * H * (X + H)


def test_flop__cells():
    shapes = {"input": (N, X), "hx": [(N, H), (N, H)], "w_ih": (4 * H, X), "w_hh": (4 * H, H)}
    assert flop("aten::lstm_cell", shapes, (N, H)) == 2 * N * 4 * H * (X + H)
    dynamic = {"input": (N, X), "hx": (N, H)}
    assert flop("quantized::quantized_gru_cell_dynamic", dynamic, (N, H)) == 2 * N * 3 * H * (X + H)


def test_flop__the_pointwise_part_of_a_cell_is_no_product():
    found = worked("aten::_thnn_fused_lstm_cell", {"input_gates": (N, 4 * H), "hidden_gates": (N, 4 * H)}, (N, H))
    assert (found.kind, found.flop) == ("pointwise", 0)
