"""The HTTP contract of outputs: programs and calls in, what each call returned out.

For making tests from a program that is known to be right. It goes the way of a verdict in everything, queue, jail and
limits included, so that a program which is not right after all can do no more than one that is judged.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sandbox import models
from sandbox.calls import MAX_LITERAL, MAX_LITERALS, OPAQUE
from sandbox.verdict import OUTPUT

Call = Annotated[str, Field(min_length=1, max_length=models.MAX_SOURCE)]


class _JudgedItem(models.Item):
    """The item as workers know it: calls stand where tests do, and the mark says so."""

    outputs: Literal[True] = True


class OutputsItem(models.Program):
    """One program and the calls whose values are wanted."""

    calls: list[Call] = Field(
        min_length=1,
        max_length=models.MAX_TESTS,
        description="Python expressions, such as `f([1, 2], 'a')`, evaluated in order in one process.",
    )


class OutputsRequest(BaseModel):
    """A batch of items."""

    model_config = ConfigDict(extra="forbid")

    items: list[OutputsItem] = Field(min_length=1, max_length=models.MAX_ITEMS)

    @model_validator(mode="after")
    def _ids_are_unique(self) -> "OutputsRequest":
        models.refuse_repeated([item.id for item in self.items])
        return self

    def as_verdicts(self) -> models.VerdictsRequest:
        """The request as the pool takes it."""
        items: list[models.Item] = [
            _JudgedItem(**item.model_dump(exclude={"calls"}), tests=item.calls) for item in self.items
        ]
        return models.VerdictsRequest.model_construct(items=items)


class CallOutput(BaseModel):
    """What came of one call: a value, or why there is none."""

    index: int
    outcome: Literal["returned", "raised", "opaque", "not_run"] | models.Outcome = Field(
        description="raised: an exception; opaque: no plain data, or not equal to itself, or too large. Anything else "
        "ended the item, and calls after it are not_run."
    )
    value: str | None = Field(
        description=f"A Python literal of at most {MAX_LITERAL} characters, {MAX_LITERALS} in all of an item's; "
        "null without one."
    )
    detail: str


class Outputs(BaseModel):
    """What came of one item: `passed` when every call came to an end by itself, else what ended the item."""

    id: str
    outcome: models.Outcome
    calls: list[CallOutput]
    detail: str
    cpu_ms: float = Field(description="CPU time of the program's process, loading included.")
    wall_ms: float


class OutputsResponse(BaseModel):
    """One entry an item, in the request's order."""

    outputs: list[Outputs]


def response(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The response made of the pool's answers."""
    return {"outputs": [{**verdict, "calls": [_call(test) for test in verdict["tests"]]} for verdict in verdicts]}


def _call(test: Mapping[str, Any]) -> dict[str, Any]:
    if test["outcome"] != "passed":
        return {"index": test["index"], "outcome": test["outcome"], "value": None, "detail": test["detail"]}
    # Only a hostile call writes a record without an output.
    outcome, value, detail = test.get(OUTPUT, (OPAQUE, "", "the call wrote its own record"))
    return {"index": test["index"], "outcome": outcome, "value": value or None, "detail": detail}
