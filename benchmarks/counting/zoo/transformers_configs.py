"""Small random configurations of Hugging Face transformers: class names, sizes and inputs; nothing is imported.

In: :data:`ARCHITECTURES`. Text models see 16 tokens of a vocabulary of 100, vision models 64 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_IDS = "int64[1,16] < 100"
_MASK = "int64[1,16]"
_PIXELS = "float32[1,3,64,64]"
TEXT: dict[str, Any] = {"input_ids": _IDS}
PAIR: dict[str, Any] = {"input_ids": _IDS, "decoder_input_ids": _IDS}
IMAGE: dict[str, Any] = {"pixel_values": _PIXELS}
SOUND: dict[str, Any] = {"input_values": "float32[1,1600]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """``Config(**config)`` gives the model ``model`` of class name; nested configurations as ``{"class": ...}``."""

    config_class: str
    model_class: str
    config: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=lambda: TEXT)


def _encoder(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": 100,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        **more,
    }


def _decoder(**more: Any) -> dict[str, Any]:
    return _encoder(pad_token_id=0, bos_token_id=1, eos_token_id=2, **more)


def _grouped(**more: Any) -> dict[str, Any]:
    return _decoder(num_key_value_heads=2, **more)


def _pair(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": 100,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        **more,
    }


def _vision(**more: Any) -> dict[str, Any]:
    return {
        "image_size": 64,
        "patch_size": 16,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "num_labels": 10,
        **more,
    }


def _speech(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": 32,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "conv_dim": (32, 32, 32),
        "conv_kernel": (8, 3, 3),
        "conv_stride": (4, 2, 2),
        "num_feat_extract_layers": 3,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 2,
        **more,
    }


def _of(config: str, model: str, sizes: dict[str, Any], inputs: dict[str, Any] = TEXT) -> Architecture:
    return Architecture(config_class=f"{config}Config", model_class=model, config=sizes, inputs=inputs)


_RESNET = {"class": "ResNetConfig", "embedding_size": 16, "hidden_sizes": [16, 24, 32, 40], "depths": [1, 1, 1, 1],
           "out_features": ["stage4"]}  # fmt: skip
_CLIP_TEXT = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 64, "max_position_embeddings": 64}  # fmt: skip
_DETR = {
    "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": _RESNET,
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 10,
}  # fmt: skip

ENCODERS = {
    "bert": _of("Bert", "BertForMaskedLM", _encoder()),
    "roberta": _of("Roberta", "RobertaForMaskedLM", _encoder(pad_token_id=1)),
    "distilbert": _of("DistilBert", "DistilBertForMaskedLM",
                      {"vocab_size": 100, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    "albert": _of("Albert", "AlbertForMaskedLM", _encoder(embedding_size=16)),
    "electra": _of("Electra", "ElectraForMaskedLM", _encoder(embedding_size=16)),
    "deberta": _of("Deberta", "DebertaForMaskedLM", _encoder(relative_attention=True, pos_att_type="c2p|p2c")),
    "deberta_v2": _of("DebertaV2", "DebertaV2ForMaskedLM",
                      _encoder(relative_attention=True, pos_att_type="c2p|p2c", position_buckets=8)),
    "mpnet": _of("MPNet", "MPNetForMaskedLM", _encoder(pad_token_id=1)),
    "longformer": _of("Longformer", "LongformerForMaskedLM", _encoder(attention_window=[4, 4])),
    "big_bird": _of("BigBird", "BigBirdForMaskedLM",
                    _encoder(max_position_embeddings=256, block_size=8, num_random_blocks=1),
                    {"input_ids": "int64[1,128] < 100", "attention_mask": "int64[1,128]"}),
    "xlnet": _of("XLNet", "XLNetLMHeadModel",
                 {"vocab_size": 100, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "funnel": _of("Funnel", "FunnelForMaskedLM",
                  {"vocab_size": 100, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "block_sizes": [1, 1]}),
    "fnet": _of("FNet", "FNetForMaskedLM",
                {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}),
    "modernbert": _of("ModernBert", "ModernBertForMaskedLM", _encoder(pad_token_id=0, cls_token_id=1, sep_token_id=2)),
    "nystromformer": _of("Nystromformer", "NystromformerForMaskedLM",
                         _encoder(segment_means_seq_len=16, num_landmarks=4)),
    "roformer": _of("RoFormer", "RoFormerForMaskedLM", _encoder(embedding_size=32)),
    "convbert": _of("ConvBert", "ConvBertForMaskedLM", _encoder(embedding_size=32)),
    "mobilebert": _of("MobileBert", "MobileBertForMaskedLM",
                      _encoder(embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32)),
    "squeezebert": _of("SqueezeBert", "SqueezeBertForMaskedLM", _encoder(embedding_size=32)),
}  # fmt: skip

DECODERS = {
    "gpt2": _of("GPT2", "GPT2LMHeadModel",
                {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "gpt_neo": _of("GPTNeo", "GPTNeoForCausalLM",
                   {"vocab_size": 100, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 8,
                    "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64}),
    "gpt_neox": _of("GPTNeoX", "GPTNeoXForCausalLM", _decoder()),
    "gptj": _of("GPTJ", "GPTJForCausalLM",
                {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4}),
    "opt": _of("OPT", "OPTForCausalLM",
               {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
                "max_position_embeddings": 64, "word_embed_proj_dim": 32}),
    "bloom": _of("Bloom", "BloomForCausalLM", {"vocab_size": 100, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "llama": _of("Llama", "LlamaForCausalLM", _grouped()),
    "mistral": _of("Mistral", "MistralForCausalLM", _grouped(sliding_window=8)),
    "qwen2": _of("Qwen2", "Qwen2ForCausalLM", _grouped()),
    "qwen3": _of("Qwen3", "Qwen3ForCausalLM", _grouped(head_dim=8)),
    "gemma": _of("Gemma", "GemmaForCausalLM", _grouped(head_dim=8)),
    "gemma2": _of("Gemma2", "Gemma2ForCausalLM", _grouped(head_dim=8, sliding_window=8)),
    "gemma3": _of("Gemma3Text", "Gemma3ForCausalLM", _grouped(head_dim=8, sliding_window=8)),
    "phi": _of("Phi", "PhiForCausalLM", _decoder()),
    "phi3": _of("Phi3", "Phi3ForCausalLM", _grouped()),
    "falcon": _of("Falcon", "FalconForCausalLM",
                  {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}),
    "mpt": _of("Mpt", "MptForCausalLM",
               {"vocab_size": 100, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64,
                "expansion_ratio": 2}),
    "stablelm": _of("StableLm", "StableLmForCausalLM", _grouped()),
    "olmo2": _of("Olmo2", "Olmo2ForCausalLM", _grouped()),
    "cohere": _of("Cohere", "CohereForCausalLM", _grouped()),
    "starcoder2": _of("Starcoder2", "Starcoder2ForCausalLM", _grouped()),
    "granite": _of("Granite", "GraniteForCausalLM", _grouped()),
    "mixtral": _of("Mixtral", "MixtralForCausalLM", _grouped(num_local_experts=4, num_experts_per_tok=2)),
    "qwen2_moe": _of("Qwen2Moe", "Qwen2MoeForCausalLM",
                     _grouped(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                              shared_expert_intermediate_size=32)),
    "deepseek_v3": _of("DeepseekV3", "DeepseekV3ForCausalLM",
                       _decoder(num_key_value_heads=4, n_routed_experts=8, num_experts_per_tok=2, n_group=2,
                                topk_group=1, first_k_dense_replace=1, moe_intermediate_size=32, kv_lora_rank=16,
                                q_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8)),
    "gpt_oss": _of("GptOss", "GptOssForCausalLM",
                   _grouped(head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8)),
    "mamba": _of("Mamba", "MambaForCausalLM",
                 {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "mamba2": _of("Mamba2", "Mamba2ForCausalLM",
                  {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8,
                   "head_dim": 8, "n_groups": 2, "chunk_size": 8}),
    "recurrent_gemma": _of("RecurrentGemma", "RecurrentGemmaForCausalLM",
                           _grouped(num_hidden_layers=3, lru_width=32, attention_window_size=8, head_dim=8)),
    "rwkv": _of("Rwkv", "RwkvForCausalLM",
                {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32}),
    "jamba": _of("Jamba", "JambaForCausalLM",
                 _grouped(num_experts=4, num_experts_per_tok=2, attn_layer_period=2, attn_layer_offset=1,
                          expert_layer_period=2, expert_layer_offset=1, use_mamba_kernels=False, mamba_d_state=8)),
}  # fmt: skip

PAIRS = {
    "t5": _of("T5", "T5ForConditionalGeneration",
              {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
               "decoder_start_token_id": 0}, PAIR),
    "bart": _of("Bart", "BartForConditionalGeneration", _pair(), PAIR),
    "mbart": _of("MBart", "MBartForConditionalGeneration", _pair(), PAIR),
    "pegasus": _of("Pegasus", "PegasusForConditionalGeneration", _pair(), PAIR),
    "m2m_100": _of("M2M100", "M2M100ForConditionalGeneration", _pair(), PAIR),
    "marian": _of("Marian", "MarianMTModel", _pair(), PAIR),
    "blenderbot": _of("Blenderbot", "BlenderbotForConditionalGeneration", _pair(), PAIR),
    "led": _of("LED", "LEDForConditionalGeneration",
               {**_pair(attention_window=[4, 4], max_encoder_position_embeddings=64,
                        max_decoder_position_embeddings=64)}, PAIR),
    "prophetnet": _of("ProphetNet", "ProphetNetForConditionalGeneration",
                      {"vocab_size": 100, "hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 2,
                       "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "encoder_ffn_dim": 64,
                       "decoder_ffn_dim": 64, "max_position_embeddings": 64}, PAIR),
}  # fmt: skip

VISION = {
    "vit": _of("ViT", "ViTForImageClassification", _vision(), IMAGE),
    "deit": _of("DeiT", "DeiTForImageClassification", _vision(), IMAGE),
    "beit": _of("Beit", "BeitForImageClassification", _vision(), IMAGE),
    "dinov2": _of("Dinov2", "Dinov2ForImageClassification", _vision(mlp_ratio=2), IMAGE),
    "swin": _of("Swin", "SwinForImageClassification",
                {"image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [1, 1, 2], "num_heads": [2, 2, 4],
                 "window_size": 4, "num_labels": 10}, IMAGE),
    "swinv2": _of("Swinv2", "Swinv2ForImageClassification",
                  {"image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [1, 1, 2], "num_heads": [2, 2, 4],
                   "window_size": 4, "num_labels": 10}, IMAGE),
    "convnext": _of("ConvNext", "ConvNextForImageClassification",
                    {"hidden_sizes": [16, 24, 32, 40], "depths": [1, 1, 2, 1], "num_labels": 10}, IMAGE),
    "convnext_v2": _of("ConvNextV2", "ConvNextV2ForImageClassification",
                       {"hidden_sizes": [16, 24, 32, 40], "depths": [1, 1, 2, 1], "num_labels": 10}, IMAGE),
    "segformer": _of("Segformer", "SegformerForSemanticSegmentation",
                     {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2],
                      "decoder_hidden_size": 32, "num_labels": 10}, IMAGE),
    "resnet": _of("ResNet", "ResNetForImageClassification",
                  {key: value for key, value in _RESNET.items() if key not in ("class", "out_features")}, IMAGE),
    "regnet": _of("RegNet", "RegNetForImageClassification",
                  {"embedding_size": 16, "hidden_sizes": [16, 24, 32, 40], "depths": [1, 1, 2, 1], "groups_width": 8},
                  IMAGE),
    "mobilevit": _of("MobileViT", "MobileViTForImageClassification",
                     {"image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 16, 16, 16, 16, 16, 32],
                      "num_attention_heads": 4}, IMAGE),
    "poolformer": _of("PoolFormer", "PoolFormerForImageClassification",
                      {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1]}, IMAGE),
    "levit": _of("Levit", "LevitForImageClassification",
                 {"image_size": 64, "hidden_sizes": [16, 32, 48], "num_attention_heads": [1, 2, 3],
                  "depths": [1, 1, 1], "key_dim": [8, 8, 8]}, IMAGE),
    "pvt": _of("Pvt", "PvtForImageClassification",
               {"image_size": 64, "hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1],
                "num_attention_heads": [1, 1, 2, 2]}, IMAGE),
    "cvt": _of("Cvt", "CvtForImageClassification",
               {"embed_dim": [16, 32, 48], "num_heads": [1, 2, 3], "depth": [1, 2, 3]}, IMAGE),
    "detr": _of("Detr", "DetrForObjectDetection", _DETR, {"pixel_values": "float32[1,3,128,128]"}),
    "conditional_detr": _of("ConditionalDetr", "ConditionalDetrForObjectDetection", _DETR,
                            {"pixel_values": "float32[1,3,128,128]"}),
    "yolos": _of("Yolos", "YolosForObjectDetection",
                 _vision(image_size=[64, 64], num_detection_tokens=10), IMAGE),
    "dpt": _of("DPT", "DPTForDepthEstimation",
               _vision(num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 24, 32],
                       fusion_hidden_size=16), IMAGE),
}  # fmt: skip

OTHERS = {
    "clip": _of("CLIP", "CLIPModel",
                {"text_config": _CLIP_TEXT, "vision_config": _vision(), "projection_dim": 16},
                {"input_ids": _IDS, "pixel_values": _PIXELS}),
    "siglip": _of("Siglip", "SiglipModel", {"text_config": _CLIP_TEXT, "vision_config": _vision()},
                  {"input_ids": _IDS, "pixel_values": _PIXELS}),
    "blip": _of("Blip", "BlipForConditionalGeneration",
                {"text_config": {**_CLIP_TEXT, "encoder_hidden_size": 32}, "vision_config": _vision()},
                {"input_ids": _IDS, "pixel_values": _PIXELS}),
    "vilt": _of("Vilt", "ViltModel", _encoder(image_size=64, patch_size=16),
                {"input_ids": _IDS, "pixel_values": _PIXELS}),
    "whisper": _of("Whisper", "WhisperForConditionalGeneration",
                   _pair(num_mel_bins=16, max_source_positions=32, max_target_positions=32),
                   {"input_features": "float32[1,16,64]", "decoder_input_ids": "int64[1,8] < 100"}),
    "wav2vec2": _of("Wav2Vec2", "Wav2Vec2ForCTC", _speech(), SOUND),
    "hubert": _of("Hubert", "HubertForCTC", _speech(), SOUND),
    "wavlm": _of("WavLM", "WavLMForCTC", _speech(), SOUND),
    "ast": _of("AST", "ASTForAudioClassification",
               {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
                "max_length": 64, "num_mel_bins": 16, "patch_size": 8, "frequency_stride": 8, "time_stride": 8},
               {"input_values": "float32[1,64,16]"}),
    "decision_transformer": _of("DecisionTransformer", "DecisionTransformerModel",
                                {"state_dim": 4, "act_dim": 2, "hidden_size": 32, "n_layer": 2, "n_head": 4,
                                 "max_ep_len": 32},
                                {"states": "float32[1,8,4]", "actions": "float32[1,8,2]", "rewards": "float32[1,8,1]",
                                 "returns_to_go": "float32[1,8,1]", "timesteps": "int64[1,8] < 32",
                                 "attention_mask": "int64[1,8]"}),
}  # fmt: skip

ARCHITECTURES: dict[str, Architecture] = {**ENCODERS, **DECODERS, **PAIRS, **VISION, **OTHERS}

# Llama 3 70B's sizes, 4 096 tokens.
LLAMA_TOKENS = 4096
LLAMA_70B = _of("Llama", "LlamaForCausalLM",
                {"vocab_size": 128_256, "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
                 "num_key_value_heads": 8, "intermediate_size": 28_672, "max_position_embeddings": 8192},
                {"input_ids": f"int64[1,{LLAMA_TOKENS}] < 128256"})  # fmt: skip
EVERYTHING = {**ARCHITECTURES, "llama_70b": LLAMA_70B}
