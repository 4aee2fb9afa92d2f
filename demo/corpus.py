"""The pretraining corpus: prompts of training exercises, each continued by a body that is right or wrong.

How often a body is right differs between operations, and every family has a usual mistake; so the base knows the
right answer to most problems without preferring it, which is the state that GRPO needs. A small share of the
documents has the form of a ChatML conversation, so that chat mode can be run.
"""

import random
from dataclasses import dataclass

from demo.exercises import Exercise, Family, draw_exercise, indented, stable_fraction
from demo.mistakes import mistakes, normalised, usual_mistake
from demo.problem_set import split_of

END_OF_TEXT, PADDING, TURN_START, TURN_END = "<|endoftext|>", "<|pad|>", "<|im_start|>", "<|im_end|>"

LEAST_RIGHT, MOST_RIGHT = 0.15, 0.6
USUAL_SHARE = 0.75
CHAT_SHARE = 0.12


@dataclass(frozen=True)
class Document:
    """A context that the model is given, a continuation that it should learn, and the special token that ends it.

    The two are tokenised apart, as they are when a model continues a prompt. `ending` is "" where nothing ends it.
    """

    context: str
    continuation: str
    ending: str


def right_share(template: str) -> float:
    """How often the corpus answers this operation rightly, between LEAST_RIGHT and MOST_RIGHT."""
    return LEAST_RIGHT + (MOST_RIGHT - LEAST_RIGHT) * stable_fraction(f"right share of {template}")


def draw_body(rng: random.Random, exercise: Exercise) -> str:
    """A right body with the operation's probability, else the family's usual mistake or any other."""
    right = normalised(rng.choice(exercise.bodies))
    if rng.random() < right_share(exercise.template):
        return right
    found = mistakes(right, exercise.parameters[0])
    if rng.random() < USUAL_SHARE:
        return usual_mistake(exercise, found).body
    kind = rng.choice(sorted({mistake.kind for mistake in found}))
    return rng.choice([mistake.body for mistake in found if mistake.kind == kind])


def completion_document(exercise: Exercise, body: str) -> Document:
    """The prompt as it stands, continued by the body and the end of the text."""
    return Document(exercise.prompt, indented(body), END_OF_TEXT)


def chat_document(exercise: Exercise, body: str) -> Document:
    """A user's turn with the prompt and an assistant's turn with the whole function in a fenced block."""
    context = f"{TURN_START}user\n{exercise.prompt}{TURN_END}\n{TURN_START}assistant\n"
    reply = f"```python\n{exercise.signature}{indented(body)}\n```"
    return Document(context, reply, TURN_END)


def make_corpus(families: tuple[Family, ...], *, size: int, seed: int, chat_share: float) -> list[Document]:
    """`size` documents about exercises of the training split, `chat_share` of them as conversations."""
    rng = random.Random(seed)
    documents: list[Document] = []
    while len(documents) < size:
        exercise = draw_exercise(rng, families)
        if split_of(exercise) != "train":
            continue
        body = draw_body(rng, exercise)
        form = chat_document if rng.random() < chat_share else completion_document
        documents.append(form(exercise, body))
    return documents
