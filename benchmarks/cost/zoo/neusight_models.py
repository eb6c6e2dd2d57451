"""The language models of NeuSight's labels with random weights, by name: ``neusight_models:gpt2_large``.

Published sizes; attention is what they were measured with, "eager" in transformers' words. GPT3-XL has the 24 heads of
128 that its paper lists, which makes it 3072 wide: only so do its times fit between the other models'. Only the logits
are returned, as the loss of the measurement took nothing else.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from torch import nn

from benchmarks.counting.zoo.limits import limit_memory

transformers: Any = importlib.import_module("transformers")


class Logits(nn.Module):  # type: ignore[misc]
    """A language model that returns its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any) -> Any:
        return self.model(input_ids=input_ids, use_cache=False).logits


class Bert(nn.Module):  # type: ignore[misc]
    """BERT as it was measured: classified sequences in inference, its language model's head in training."""

    def __init__(self) -> None:
        super().__init__()
        sizes = transformers.BertConfig(
            hidden_size=1024,
            num_hidden_layers=24,
            num_attention_heads=16,
            intermediate_size=4096,
            attn_implementation="eager",
        )
        self.model = transformers.BertForMaskedLM(sizes)

    def forward(self, input_ids: Any) -> Any:
        if self.training:
            return self.model(input_ids=input_ids).logits
        return self.model.bert(input_ids=input_ids).last_hidden_state


def _gpt(layers: int, width: int, heads: int, positions: int) -> nn.Module:
    sizes = transformers.GPT2Config(
        n_layer=layers, n_embd=width, n_head=heads, n_positions=positions, attn_implementation="eager"
    )
    return Logits(transformers.GPT2LMHeadModel(sizes))


def _opt() -> nn.Module:
    sizes = transformers.OPTConfig(
        hidden_size=2048,
        num_hidden_layers=24,
        num_attention_heads=32,
        ffn_dim=8192,
        word_embed_proj_dim=2048,
        attn_implementation="eager",
    )
    return Logits(transformers.OPTForCausalLM(sizes))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "bert_large": Bert,
    "gpt2_large": lambda: _gpt(36, 1280, 20, 1024),
    "gpt3_xl": lambda: _gpt(24, 3072, 24, 2048),
    "gpt3_27": lambda: _gpt(32, 2560, 32, 2048),
    "opt_13": _opt,
}


def __getattr__(name: str) -> Callable[[], Any]:
    if name not in MODELS:
        msg = f"there is no model {name!r}"
        raise AttributeError(msg)

    def build() -> Any:
        limit_memory()
        return MODELS[name]()

    return build
