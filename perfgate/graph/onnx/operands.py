"""Floor 3, graph. Inputs of ONNX operators that are no tensors of the model but say what is done.

In: operator and input name. Out: whether its values belong to the attributes (axes, sizes, limits), whether it scales
quantised values, whether its elements are packed. So an operator looks alike in every version of its schema, and no
bytes are counted for arguments.
"""

from __future__ import annotations

import math

from perfgate.graph.onnx.known import Known
from perfgate.graph.onnx.site import Site

_ARGUMENTS = """
    AffineGrid: size
    BlackmanWindow: size
    CenterCropPad: shape
    Clip: min max
    Col2Im: image_shape block_shape
    ConstantOfShape: input
    CumProd: axis
    CumSum: axis
    DFT: dft_length axis
    Dropout: ratio training_mode
    Expand: shape
    HammingWindow: size
    HannWindow: size
    MaxUnpool: output_shape
    MelWeightMatrix: num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz
    NonMaxSuppression: max_output_boxes_per_class iou_threshold score_threshold
    OneHot: depth
    Pad: pads constant_value axes
    Range: start limit delta
    ReduceL1: axes
    ReduceL2: axes
    ReduceLogSum: axes
    ReduceLogSumExp: axes
    ReduceMax: axes
    ReduceMean: axes
    ReduceMin: axes
    ReduceProd: axes
    ReduceSum: axes
    ReduceSumSquare: axes
    Reshape: shape
    Resize: roi scales sizes
    STFT: frame_step frame_length
    SequenceAt: position
    Slice: starts ends axes steps
    Split: split
    SplitToSequence: split
    Squeeze: axes
    Tile: repeats
    TopK: K k
    Trilu: k
    Unsqueeze: axes
    Upsample: scales
"""

_CONTRIB_ARGUMENTS = """
    CropAndResize: crop_size
    DecoderAttention: static_kv use_past has_layer_state has_key_padding_mask
    DecoderMaskedMultiHeadAttention: past_sequence_length beam_width
    DecoderMaskedSelfAttention: past_sequence_length beam_width
    ExpandDims: axis
    GroupQueryAttention: total_sequence_length
    MatMulFpQ4: B_shape
    MultiHeadAttention: past_sequence_length
    Pad: pads value
    Range: start limit delta
    RelativePositionBias: query_length key_length
    SparseAttention: total_sequence_length
    Trilu: k
"""

# Operator -> (attribute with the bits of one element, its default, inputs whose elements are packed).
_PACKED: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "com.microsoft::GatherBlockQuantized": ("bits", 4, ("data", "zero_points")),
    "com.microsoft::MatMulBnb4": ("", 4, ("B",)),
    "com.microsoft::MatMulNBits": ("bits", 4, ("B", "zero_points")),
    "com.microsoft::MatMulNBitsMlp": ("bits", 4, ("gate_B", "up_B")),
    "com.microsoft::MatMulNBitsQLoRA": ("bits", 4, ("W",)),
    "com.microsoft::MatMulNBitsQkv": ("bits", 4, ("q_B", "k_B", "v_B")),
    "com.microsoft::QMoE": (
        "expert_weight_bits",
        4,
        ("fc1_experts_weights", "fc2_experts_weights", "fc3_experts_weights"),
    ),
}  # fmt: skip
_BYTE = ("uint8", "int8")


def _table(domain: str, text: str) -> dict[str, frozenset[str]]:
    entries = (line.split(":") for line in text.strip().splitlines())
    return {f"{domain}::{op.strip()}": frozenset(names.split()) for op, names in entries}


ARGUMENTS: dict[str, frozenset[str]] = {
    **_table("ai.onnx", _ARGUMENTS),
    **_table("com.microsoft", _CONTRIB_ARGUMENTS),
}


def is_argument(op: str, name: str) -> bool:
    """Whether the input says what is done, as an attribute would."""
    return name in ARGUMENTS.get(op, ())


def is_scale(op: str, name: str) -> bool:
    """Whether the input is a scale or zero point of quantised values: stored with the weights, but none of them."""
    lowered = name.lower()
    scale = lowered == "scales" or lowered.startswith("scale_") or lowered.endswith(("_scale", "_scales"))
    # Gains of normalisations are called so too.
    return op not in ARGUMENTS and ("zero_point" in lowered or (scale and not lowered.endswith("norm_scale")))


def is_quantised_bias(op: str, name: str) -> bool:
    """Whether an input of type int32 is a weight: biases of quantised layers, alone or before they are scaled."""
    kernel = op.rpartition("::")[2]
    return (kernel == "DequantizeLinear" and name == "x") or (kernel.startswith("Q") and name in ("B", "C", "bias"))


def packed_bits(site: Site, name: str, dtype: str) -> int:
    """Bits of one logical element of an input that packs several into a byte; 0 where it does not."""
    attribute, default, names = _PACKED.get(site.op, ("", 0, ()))
    if name not in names or dtype not in _BYTE:
        return 0
    bits = site.integer(attribute, default) if attribute else default
    return bits if 0 < bits < 8 else 0


def logical_elements(site: Site, name: str, known: Known, bits: int) -> int:
    """Elements that a packed input stands for: ``N x K`` where the operator says so, else what fits into its bytes."""
    rows, columns = site.integer("N"), site.integer("K")
    if name == "B" and rows > 0 and columns > 0:
        return rows * columns
    return math.prod(known.shape or ()) * 8 // bits
