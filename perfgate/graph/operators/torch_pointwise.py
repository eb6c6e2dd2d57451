"""Floor 3, graph. torch's elementwise operators: one result for each place, nothing summed.

In: nothing. Out: ``DEFINITIONS``; :mod:`table` finds in-place, ``foreach``, ``special`` and backward forms of these.
"""

from __future__ import annotations

from perfgate.graph.operators.definition import POINTWISE, Definition, Operands, words

NAMES = frozenset(
    words("""
    abs absolute acos acosh add addcdiv addcmul addr angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin
    asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
    ceil celu clamp clamp_max clamp_min clip complex conj_physical _conj_physical _conj copysign cos cosh cross
    cumprod_backward deg2rad digamma div divide elu eq erf erfc erfinv exp exp2 expm1 fix float_power floor
    floor_divide fmax fmin fmod frac frexp gcd ge gelu ger glu greater greater_equal gt hardshrink hardsigmoid
    hardswish hardtanh heaviside hypot i0 igamma igammac imag infinitely_differentiable_gelu_backward isclose
    isfinite isinf isnan isneginf isposinf isreal kron lcm ldexp le leaky_relu lerp less less_equal lgamma
    linalg_cross log log10 log1p log2 log_sigmoid log_sigmoid_forward logaddexp logaddexp2 logical_and logical_not
    logical_or logical_xor logit lt masked_fill maximum minimum mish mul multiply mvlgamma nan_to_num ne neg
    negative nextafter not_equal outer polar polygamma positive pow prelu _prelu_kernel rad2deg real reciprocal relu
    relu6 remainder resolve_conj resolve_neg round rrelu rrelu_with_noise rsqrt rsub selu sgn sigmoid sign signbit
    silu sin sinc sinh softplus softshrink sqrt square sub subtract tan tanh threshold tril triu true_divide trunc
    where xlogy xlog1py zeta entr erfcx expit gammainc gammaincc gammaln i0e i1 i1e log_ndtr multigammaln ndtr ndtri
    psi airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
    modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0
    chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h
    hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t
    shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w __and__ __or__
    __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__ _add_relu add_relu mul_relu
    add_scalar mul_scalar _masked_scale threshold_backward native_dropout_backward _grad_sum_to_size
    fake_quantize_per_tensor_affine fake_quantize_per_channel_affine fake_quantize_per_tensor_affine_cachemask
    fake_quantize_per_channel_affine_cachemask _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    _fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine fake_quant_per_channel
    _saturate_weight_to_fp16 glu_jvp glu_backward_jvp isin _transform_bias_rescale_qkv _thnn_fused_lstm_cell
    _thnn_fused_gru_cell _thnn_fused_lstm_cell_backward _thnn_fused_lstm_cell_backward_impl
    _thnn_fused_gru_cell_backward _thnn_differentiable_lstm_cell_backward _thnn_differentiable_gru_cell_backward
    add_scalar_relu mul_scalar_relu _amp_foreach_non_finite_check_and_unscale _amp_update_scale _nested_sum_backward
    diff vander cbrt shift_left shift_right_arithmetic bessel_i0 bessel_i0e bessel_i1 bessel_i1e erf_inv
    _standard_gamma_grad _dirichlet_grad dist_backward _cdist_backward _pdist_backward
    value_selecting_reduction_backward masked_scatter_backward
    """)
)

_PLAIN = Definition(kind=POINTWISE)


def _gradients_untouched(operands: Operands) -> dict[str, int]:
    """Schemas of fused optimizers say that gradients change; they do only where a scale has to be taken out."""
    return {} if operands.value("grad_scale") is not None else {"grads": 0}


_OPTIMIZER = Definition(kind=POINTWISE, writes=_gradients_untouched)

DEFINITIONS: dict[str, Definition] = {
    **{f"aten::{name}": _PLAIN for name in NAMES},
    **{f"aten::_fused_{name}": _OPTIMIZER for name in ("adam", "adamw", "sgd", "adagrad")},
}
