"""A model's shape from its configuration alone: parameters counted exactly, without memory for a single weight."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from components.shared.errors import UserError
from components.shared.sampling import rows_at_once


@dataclass(frozen=True)
class Shape:
    """What memory and time follow from. linears: (inputs, outputs) of each linear layer except the output head.

    A Linear layer is what LoRA's "all-linear" adapts and what bitsandbytes quantises. vocabulary, hidden,
    intermediate, attention (heads * head size) and kv (the same of keys and values) are widths in numbers.
    """

    parameters: int
    linears: tuple[tuple[int, int], ...]
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    attention: int
    kv: int
    rows_at_once: int

    @property
    def linear_parameters(self) -> int:
        """Weights of the linear layers, without their biases."""
        return sum(inputs * outputs for inputs, outputs in self.linears)

    def lora_parameters(self, rank: int) -> int:
        """rank * (inputs + outputs) for each adapted layer (Hu et al. 2021, section 4.1: W + B A)."""
        return sum(rank * (inputs + outputs) for inputs, outputs in self.linears)


def shape_of(config: Mapping[str, Any], model_name: str) -> Shape:
    """The shape of a causal language model, from the contents of its config.json.

    The model is built on torch's meta device, so every architecture that transformers knows is counted as it is, tied
    embeddings once. UserError for one that it does not know.
    """
    try:
        known = CONFIG_MAPPING[config["model_type"]].from_dict(dict(config))
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(known)
    except (KeyError, ValueError) as error:
        raise UserError(
            f"{model_name} cannot be planned: transformers knows no causal language model of type "
            f"{config['model_type']!r} ({str(error).splitlines()[0]})."
        ) from None
    model.tie_weights()
    text, head = known.get_text_config(), model.get_output_embeddings()
    heads = text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // heads
    return Shape(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        linears=tuple(_sizes(module) for module in model.modules() if _is_linear(module) and module is not head),
        vocabulary=text.vocab_size,
        hidden=text.hidden_size,
        intermediate=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        layers=text.num_hidden_layers,
        attention=heads * size,
        kv=(getattr(text, "num_key_value_heads", None) or heads) * size,
        rows_at_once=rows_at_once(model),
    )


def _is_linear(module: Any) -> bool:
    return isinstance(module, torch.nn.Linear | Conv1D)


def _sizes(module: Any) -> tuple[int, int]:
    if isinstance(module, Conv1D):  # GPT-2's, whose weight lies the other way round
        return module.weight.shape[0], module.weight.shape[1]
    return module.in_features, module.out_features
