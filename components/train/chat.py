"""Whether chat template and model go together: warnings, for nothing here is certain enough to refuse a run."""

import re
from collections.abc import Sequence
from typing import Any

from components.shared.sampling import model_input

# How instruction-tuned models are named, as words of the last part of the name.
TUNED = re.compile(r"(^|[-_.])(instruct|chat|it|sft|dpo|rlhf|assistant)([-_.]|$)", re.IGNORECASE)
REPLY = "reply"


def chat_warnings(model_name: str, tokenizer: Any, ends: Sequence[int], *, use_chat_template: bool) -> list[str]:
    """What looks wrong about use_chat_template for this model; ends: the token ids that end a completion."""
    name = model_name.rstrip("/").rsplit("/", 1)[-1]
    tuned = bool(TUNED.search(name))
    if not use_chat_template:
        if tuned and tokenizer.chat_template:
            return [f"{name} looks instruction-tuned, and use_chat_template is off: turn it on unless that is meant."]
        return []
    warnings = []
    if not tuned:
        warnings.append(
            f"{name} looks like a base model, and use_chat_template is on: turn it off unless that is meant."
        )
    end = end_of_turn(tokenizer)
    if end is not None and end not in ends:
        warnings.append(
            f"The chat template of {name} ends a turn with {tokenizer.convert_ids_to_tokens(end)}, which does not end "
            f"its completions ({', '.join(tokenizer.convert_ids_to_tokens(list(ends)))} do): all may be truncated."
        )
    return warnings


def end_of_turn(tokenizer: Any) -> int | None:
    """The token that the chat template puts after a reply; None when it puts nothing there."""
    asked = model_input(tokenizer, "question", use_chat_template=True)
    messages = [{"role": "user", "content": "question"}, {"role": "assistant", "content": REPLY}]
    whole: str = tokenizer.apply_chat_template(messages, tokenize=False)
    _, found, rest = whole[len(asked) :].rpartition(REPLY)
    ids = tokenizer(rest.strip(), add_special_tokens=False)["input_ids"] if found and rest.strip() else []
    return int(ids[0]) if ids else None
