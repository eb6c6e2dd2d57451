"""Floor 3, graph. Names of the inputs of operators that the onnx package does not know: ONNX Runtime's, and new ones.

In: nothing. Out: ``INPUTS`` by full name; a trailing ``*`` marks an input that stands for any number of tensors.
"""

from __future__ import annotations

_CONTRIB = """
        Attention: input weights bias mask_index past attention_bias past_sequence_length
        AttnLSTM: X W R B sequence_lens initial_h initial_c P QW MW V M memory_seq_lens AW
        BeamSearch: input_ids max_length min_length num_beams num_return_sequences length_penalty repetition_penalty
        vocab_mask prefix_vocab_mask attention_mask decoder_input_ids logits_processor
        BiasAdd: X bias skip
        BiasDropout: data bias residual ratio training_mode
        BiasGelu: A B
        BiasSoftmax: data bias
        BiasSplitGelu: X bias
        BifurcationDetector: src_tokens cur_tokens prev_suffix_match_idx pred_tokens
        BitmaskBiasDropout: data bias residual ratio training_mode
        BitmaskDropout: data ratio training_mode
        BranchwiseRMSNorm: X scale
        CDist: A B
        CausalConvWithState: input weight bias past_state
        ComplexMul: A B
        ComplexMulConj: A B
        ConvStateReplay: source_backing capture_backing destination_backing metadata
        ConvTransposeWithDynamicPads: X W Pads B
        CropAndResize: X rois batch_indices crop_size
        DecoderAttention: query key q_weight kv_weight bias key_padding_mask key_cache value_cache static_kv
        use_past has_layer_state has_key_padding_mask
        DecoderMaskedMultiHeadAttention: query key value mask_index attention_bias past_key past_value
        past_sequence_length beam_width cache_indirection bias
        DecoderMaskedSelfAttention: input weights bias mask_index past attention_bias past_sequence_length
        beam_width cache_indirection
        DequantizeBFP: x shape strides
        DequantizeLinear: x x_scale x_zero_point
        DequantizeWithOrder: input scale_input
        DynamicQuantizeLSTM: X W R B sequence_lens initial_h initial_c P W_scale W_zero_point R_scale R_zero_point
        DynamicQuantizeMatMul: A B b_scale b_zero_point bias
        DynamicSparseAttention: query key value past_key past_value auxiliary_key auxiliary_value selected_indices
        selected_counts seqlens_k total_sequence_length cos_cache sin_cache position_ids q_norm_weight k_norm_weight
        head_sink committed_length key_scale value_scale
        DynamicTimeWarping: input
        EPContext: inputs*
        EmbedLayerNormalization: input_ids segment_ids word_embedding position_embedding segment_embedding gamma
        beta mask position_ids
        EngramGate: key query value key_norm_scale query_norm_scale conv_norm_scale
        ExpandDims: X axis
        FastGelu: X bias
        FusedConv: X W B Z
        FusedGemm: A B C
        FusedMatMul: A B
        FusedMatMulActivation: A B
        GatedAdd: X Y gate gate_weight
        GatedDeltaNet: query key value cu_seqlens decay beta initial_state a_log dt_bias capture_count
        state_update_active
        GatedDeltaNetStateReplay: source_backing capsule_backing destination_backing metadata
        GatedRMSNorm: X scale gate
        GatedRelativePositionBias: query_layer query_bias rel_pos weight bias eco_a token_offset
        GatherBlockQuantized: data indices scales zero_points
        GatherND: data indices
        GatherPacked: data indices
        Gelu: X
        GemmFastGelu: X W bias
        GemmFloat8: A B C scaleA scaleB scaleY
        GemmaRotaryEmbedding: emb q q_rot k k_rot
        GreedySearch: input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask attention_mask
        GridSample: X Grid
        GroupNorm: X gamma beta
        GroupQueryAttention: query key value past_key past_value seqlens_k total_sequence_length cos_cache sin_cache
        position_ids attention_bias head_sink k_scale v_scale q_norm_weight k_norm_weight query_seqlens
        HyperConnectionLowRankMix: streams norm_scale down_weight up_weight inject_weight prev_block_output
        prev_post_gate
        HyperConnectionPostMix: streams block_output post_mix stream_mix
        HyperConnectionPreMix: streams pre_mix
        Inverse: X
        Irfft: X
        IsAllFinite: input*
        LinearAttention: query key value past_state decay beta
        LinearAttentionGate: a dt_bias decay_scale b
        LongformerAttention: input weight bias mask global_weight global_bias global
        MRotaryEmbedding: input position_ids cos_cache sin_cache
        Mamba2Verify: projection conv_state ssm_state conv_weight conv_bias dt_bias A_negative D norm_weight
        state_row
        MatMulBlockQuantizedFp4Weight: A B weight_scale weight_scale_2 input_scale bias
        MatMulBlockQuantizedFp8Weight: A B b_scale a_scale bias
        MatMulBnb4: A B absmax
        MatMulFpQ4: A B B_shape
        MatMulInteger16: A B
        MatMulIntegerToFloat: A B a_scale b_scale a_zero_point b_zero_point bias
        MatMulNBits: A B scales zero_points g_idx bias
        MatMulNBitsMlp: A skip norm_scale gate_B gate_scales gate_bias up_B up_scales up_bias
        MatMulNBitsQLoRA: X W scales lora_A lora_A_scales lora_B lora_B_scales
        MatMulNBitsQkv: A skip norm_scale q_B q_scales q_bias k_B k_scales k_bias v_B v_scales v_bias
        MatMulPacked: A B global_scale
        MaxpoolWithMask: X M
        MoE: input router_probs fc1_experts_weights fc1_experts_bias fc2_experts_weights fc2_experts_bias
        fc3_experts_weights fc3_experts_bias
        MoEGroupRouter: logits expert_bias projection_weight
        MoEPacked: input router_probs gate_experts_weights up_experts_weights down_experts_weights router_weights
        MulInteger: A A_zero_point B B_zero_point
        MultiHeadAttention: query key value bias key_padding_mask attention_bias past_key past_value
        past_sequence_length cache_indirection
        MurmurHash3: X
        NGramHashMapping: input_ids multipliers vocab_sizes past_ids head_offsets eos_token_id segment_ids
        NGramRepeatBlock: input_ids scores
        NhwcConv: X W B
        NhwcFusedConv: X W B Z
        NhwcMaxPool: x
        PackedAttention: input weights bias token_offset cumulative_sequence_length attention_bias
        PackedMultiHeadAttention: query key value bias token_offset cumulative_sequence_length attention_bias
        PackedSparseAttentionIndexer: query key query_norm_weight key_norm_weight cos_cache sin_cache
        cumulative_sequence_lengths past_sequence_lengths gate position_bias head_weights position_ids
        past_key_state past_kv_buffer past_gate_buffer past_state_lengths state_update_capture_count
        state_update_active indexshare_mode merged_indices merged_counts merged_status
        PackedSparseAttentionIndexerMerge: base_indices base_counts base_row_indices range_starts range_ends
        additional_indices additional_counts
        Pad: data pads value
        PagedAttention: query key value key_cache value_cache cumulative_sequence_length past_seqlens block_table
        cos_cache sin_cache slot_mapping head_sink q_norm_weight k_norm_weight k_scale v_scale attention_metadata
        QAttention: input weight bias input_scale weight_scale mask_index input_zero_point weight_zero_point past
        QEmbedLayerNormalization: input_ids segment_ids word_embedding_quant position_embedding_quant
        segment_embedding gamma_quant beta_quant mask word_embedding_scale position_embedding_scale
        segment_embedding_scale gamma_scale beta_scale word_embedding_zero_point position_embedding_zero_point
        segment_embedding_zero_point gamma_zero_point beta_zero_point
        QGemm: A a_scale a_zero_point B b_scale b_zero_point C y_scale y_zero_point
        QLinearAdd: A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point
        QLinearAveragePool: X x_scale x_zero_point y_scale y_zero_point
        QLinearConcat: Y_scale Y_zero_point inputs*
        QLinearConv: x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B
        QLinearGlobalAveragePool: X x_scale x_zero_point y_scale y_zero_point
        QLinearLeakyRelu: X X_scale X_zero_point Y_scale Y_zero_point
        QLinearMul: A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point
        QLinearReduceMean: data data_scale data_zero_point reduced_scale reduced_zero_point
        QLinearSigmoid: X X_scale X_zero_point Y_scale Y_zero_point
        QLinearSoftmax: X X_scale x_zero_point y_scale y_zero_point
        QLinearWhere: condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point
        QMoE: input router_probs fc1_experts_weights fc1_scales fc1_experts_bias fc2_experts_weights fc2_scales
        fc2_experts_bias fc3_experts_weights fc3_scales fc3_experts_bias fc1_zero_points fc2_zero_points
        fc3_zero_points router_weights fc1_global_scale fc2_global_scale fc1_act_scale fc2_act_scale
        fc1_act_block_scale fc2_act_block_scale
        QOrderedAttention: input scale_input scale_Q_gemm scale_K_gemm scale_V_gemm Q_weight K_weight V_weight
        scale_Q_weight scale_K_weight scale_V_weight Q_bias K_bias V_bias scale_QKT_gemm scale_QKT_softmax
        scale_values_gemm mask_index past attention_bias
        QOrderedGelu: X scale_X scale_Y
        QOrderedLayerNormalization: X scale_X scale B scale_Y
        QOrderedLongformerAttention: input scale_input weight scale_weight bias scale_bias scale_qkv_gemm mask
        global_weight scale_global_weight global_bias scale_global_gemm global scale_output
        QOrderedMatMul: A scale_A B scale_B scale_Y bias C scale_C
        QuantizeBFP: x
        QuantizeLinear: x y_scale y_zero_point
        QuantizeWithOrder: input scale_input
        QuickGelu: X
        RMSNormRotary: X scale position_ids cosine sine prefill_numerics
        Range: start limit delta
        ReduceSumInteger: data
        RelativePositionBias: bias_table query_length key_length
        RemovePadding: input sequence_token_count
        RestorePadding: input token_offset
        Rfft: X
        RotaryEmbedding: input position_ids cos_cache sin_cache
        RouterGateUpProj: X W
        SampleOp: X
        Sampling: input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask attention_mask
        presence_mask seed
        ScaledSiLU: X scale
        SkipGroupNorm: X gamma beta skip bias
        SkipLayerNormalization: input skip gamma beta bias
        SkipSimplifiedLayerNormalization: input skip gamma bias
        Snpe: inputs*
        SparseAttention: query key value past_key past_value block_row_indices block_col_indices
        total_sequence_length key_total_sequence_lengths cos_cache sin_cache
        SparseAttentionIndexer: query key query_norm_weight key_norm_weight cos_cache sin_cache mask past_key gate
        position_bias head_weights position_ids past_sequence_length past_proj_buffer
        SparsePagedAttention: query key value key_cache value_cache cumulative_sequence_length past_seqlens
        block_table slot_mapping selected_indices selected_counts auxiliary_key auxiliary_value auxiliary_lengths
        cos_cache sin_cache head_sink q_norm_weight k_norm_weight k_scale v_scale attention_metadata
        SparseToDenseMatMul: A B
        SpeculativePrefixCommit: next_tokens input_ids status ctl ctx_commit prefixes ptrs
        SwiGLU: gate up
        Tokenizer: X
        TorchEmbedding: weight indices padding_idx scale_grad_by_freq
        TransposeMatMul: A B
        Trilu: X k
        UnfoldTensor: input
        Unique: x
        VarlenCausalConvWithState: input weight cumulative_sequence_length bias initial_state capture_count
        kernel_delta previous_mask
        VarlenNGramHashMapping: input_ids multipliers vocab_sizes cumulative_sequence_length past_ids head_offsets
        eos_token_id segment_ids past_segment_ids capture_count
        WhisperBeamSearch: input_ids max_length min_length num_beams num_return_sequences length_penalty
        repetition_penalty vocab_mask prefix_vocab_mask attention_mask decoder_input_ids logits_processor
        cross_qk_layer_head extra_decoding_ids temperature
        WordConvEmbedding: Sequence W B C
"""

_BLOCKED = """
    AveragePool: X
    Conv: X W B Sum
    GlobalAveragePool: X
    GlobalMaxPool: X
    MaxPool: X
    ReorderInput: X
    ReorderOutput: X
    Upsample: X
"""


def _read(domain: str, text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    name = ""
    for word in text.split():
        if word.endswith(":"):
            name = f"{domain}::{word[:-1]}"
            found[name] = ()
        else:
            found[name] = (*found[name], word)
    return found


INPUTS: dict[str, tuple[str, ...]] = {
    **_read("com.microsoft", _CONTRIB),
    **_read("com.microsoft.nchwc", _BLOCKED),
    "ai.onnx::SimplifiedLayerNormalization": ("X", "scale"),
    # Younger than the oldest onnx package that perfgate works with.
    "ai.onnx::Attention": ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"),
    "ai.onnx::CausalConvWithState": ("input", "weight", "bias", "past_state"),
    "ai.onnx::LinearAttention": ("query", "key", "value", "past_state", "decay", "beta"),
}
