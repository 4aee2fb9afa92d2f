"""The HTTP contract: what a request for verdicts looks like, and what comes back."""

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from sandbox.layers import State

MAX_ITEMS = 256
MAX_TESTS = 1000
MAX_TIMEOUT_SECONDS = 60.0
MAX_SOURCE = 256 * 1024  # characters of setup, and of each test; a program that is longer gets the verdict `rejected`
MAX_NAME = 200
MAX_CLIENT = 100

Outcome = Literal["passed", "failed", "error", "timeout", "memory", "syntax", "rejected", "infra"]


def _any_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


# A model writes anything, halves of surrogate pairs too, which pydantic's own `str` refuses with the whole request.
AnyText = Annotated[str, PlainValidator(_any_text), WithJsonSchema({"type": "string"})]
Source = Annotated[str, Field(max_length=MAX_SOURCE)]


class Program(BaseModel):
    """One program and how it is run."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(max_length=MAX_NAME, description="Names the item in the response; unique in the request.")
    program: AnyText = Field(description="The candidate's whole source.")
    entry_point: str = Field(max_length=MAX_NAME, description="The global name of the program that the tests use.")
    setup: Source = Field(default="", description="Python run by the judge before the tests: the imports they need.")
    timeout_s: float = Field(
        gt=0, le=MAX_TIMEOUT_SECONDS, description="CPU seconds for the whole item, loading included; 3x as wall time."
    )

    @model_validator(mode="after")
    def _entry_point_is_a_name(self) -> "Program":
        if not self.entry_point.isidentifier():
            raise ValueError(f"entry_point {self.entry_point!r} is no Python name")
        return self


class Item(Program):
    """One program and the tests that judge it."""

    tests: list[Source] = Field(
        min_length=1, max_length=MAX_TESTS, description="Python blocks, each judged as one test."
    )


def refuse_repeated(ids: list[str]) -> None:
    """ValueError for an id that occurs twice."""
    counts = Counter(ids)
    repeated = sorted(identifier for identifier, count in counts.items() if count > 1)
    if repeated:
        raise ValueError(f"ids must be unique: {repeated[0]!r} occurs {counts[repeated[0]]} times")


class VerdictsRequest(BaseModel):
    """A batch of items."""

    model_config = ConfigDict(extra="forbid")

    items: list[Item] = Field(min_length=1, max_length=MAX_ITEMS)

    @model_validator(mode="after")
    def _ids_are_unique(self) -> "VerdictsRequest":
        refuse_repeated([item.id for item in self.items])
        return self


class TestOutcome(BaseModel):
    """What became of one test."""

    __test__ = False

    index: int
    outcome: Outcome | Literal["not_run"]
    detail: str


class Verdict(BaseModel):
    """What became of one item: the outcome of the first test that did not pass, else `passed`."""

    id: str
    outcome: Outcome
    passed: bool | None = Field(description="null for infra: nothing is known about the program.")
    tests: list[TestOutcome]
    detail: str
    cpu_ms: float = Field(description="CPU time of the program's process, loading included.")
    wall_ms: float


class VerdictsResponse(BaseModel):
    """One verdict an item, in the request's order."""

    verdicts: list[Verdict]


class Refusal(BaseModel):
    """Why a request was refused."""

    detail: str


class LayerState(BaseModel):
    """What the self-test found of one layer of containment."""

    state: State
    required: bool = Field(description="Whether nothing is judged unless it holds.")
    kept_by: str
    detail: str = Field(description="What leaked, or why it is absent.")


class Readiness(BaseModel):
    """Whether the service judges, and what its self-test found."""

    ready: bool
    reason: str | None = Field(description="Why it is not ready.")
    version: str = Field(
        description="Digest of judging code, interpreter, packages and limits: verdicts may change with it."
    )
    python: str
    landlock_abi: int = Field(description="0: the kernel has none.")
    runtime: str = Field(description="Whose table says which layers are required.")
    layers: dict[str, LayerState]
    workers: int
    live_workers: int
    unfinished: int = Field(description="Items that wait or are being judged.")
    waiting: int = Field(description="Different items that no worker has begun with.")
    capacity: int
