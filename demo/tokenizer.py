"""The demo's tokenizer: byte-level BPE over the demo's own corpus, with a ChatML template.

Qwen2's pre-tokenizer is used in training, because `AutoTokenizer` rebuilds it for every Qwen2 tokenizer: merges
learned under another one would load without a warning and split texts differently.
"""

import json
from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer

from demo.corpus import END_OF_TEXT, PADDING, TURN_END, TURN_START

SPECIAL_TOKENS = (END_OF_TEXT, PADDING, TURN_START, TURN_END)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def train_tokenizer(texts: Iterable[str], *, vocabulary_size: int, longest_text: int) -> Qwen2Tokenizer:
    """Learn `vocabulary_size` tokens from `texts`; `longest_text` is the model's context in tokens."""
    qwen2 = Qwen2Tokenizer().backend_tokenizer
    learner = Tokenizer(models.BPE())
    learner.normalizer, learner.pre_tokenizer = qwen2.normalizer, qwen2.pre_tokenizer
    learner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    learned = json.loads(learner.to_str())["model"]
    return Qwen2Tokenizer(
        vocab=learned["vocab"],
        merges=[tuple(pair) for pair in learned["merges"]],  # type: ignore[misc]  # pairs, whatever its annotation says
        eos_token=END_OF_TEXT,
        unk_token=END_OF_TEXT,
        pad_token=PADDING,
        extra_special_tokens=[TURN_START, TURN_END],
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=longest_text,
    )
