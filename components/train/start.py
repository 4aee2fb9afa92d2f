"""Where training starts from an adapter (init_adapter): its weights take the place of the fresh adapter's.

The trainer makes its own adapter first, so that the base without it stays what KL is taken to, and checkpoints and
exports are those of any other run.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peft import load_peft_weights, set_peft_model_state_dict

from components.shared.errors import UserError
from components.shared.initial import refuse_other_shape, starting_adapter
from components.shared.progress import say


def start_from_adapter(policy: Any, given: Mapping[str, Any]) -> None:
    """Give the policy's adapter the weights of init_adapter; UserError when the layers are not the same."""
    address = given["init_adapter"]
    with tempfile.TemporaryDirectory(prefix="grpo-adapter-") as scratch:
        folder = starting_adapter(address, Path(scratch), given)
        refuse_other_shape(folder, given)
        weights = load_peft_weights(str(folder), device="cpu")
        loaded: Any = set_peft_model_state_dict(policy, weights)
    lacking = [name for name in loaded.missing_keys if "lora_" in name]
    if loaded.unexpected_keys or lacking:
        raise UserError(
            f"init_adapter {address} has other layers than lora_target_modules {given['lora_target_modules']!r} asks "
            "for: use those that it was trained with."
        )
    say("train", f"starts from the adapter {address}")
