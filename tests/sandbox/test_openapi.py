"""The service against requests made up from its own OpenAPI schema: right ones, wrong ones, and their answers.

Not by schemathesis's pytest plug-in, which does not know this pytest.
"""

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode

OPERATIONS = [("POST", "/v1/verdicts"), ("GET", "/readyz"), ("GET", "/healthz")]
FEW = hypothesis.settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)


@pytest.fixture(scope="module")
def described(sandbox_url: str) -> schemathesis.BaseSchema:
    """The service's own description of itself."""
    return schemathesis.openapi.from_url(sandbox_url + "/openapi.json")


def test_every_operation_is_tried(described: schemathesis.BaseSchema) -> None:
    found = [result.ok() for result in described.get_all_operations()]
    assert {(operation.method.upper(), operation.path) for operation in found} == set(OPERATIONS)


def statuses_of(described: schemathesis.BaseSchema, mode: GenerationMode) -> list[int]:
    statuses: list[int] = []

    @FEW
    @hypothesis.given(described["/v1/verdicts"]["POST"].as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        if mode is GenerationMode.POSITIVE:  # the two rules that a schema cannot express
            for index, item in enumerate(case.body["items"]):
                item |= {"id": str(index), "entry_point": "f"}
        statuses.append(case.call_and_validate(timeout=120).status_code)

    ask()
    return statuses


def test_what_the_schema_allows_is_judged(described: schemathesis.BaseSchema) -> None:
    assert set(statuses_of(described, GenerationMode.POSITIVE)) == {200}


def test_what_the_schema_forbids_is_refused_as_it_says(described: schemathesis.BaseSchema) -> None:
    assert set(statuses_of(described, GenerationMode.NEGATIVE)) <= {400, 401, 405, 411, 415, 422}


@pytest.mark.parametrize("path", ["/readyz", "/healthz"])
def test_state_is_what_the_schema_says(described: schemathesis.BaseSchema, path: str) -> None:
    @FEW
    @hypothesis.given(described[path]["GET"].as_strategy())
    def ask(case: schemathesis.Case) -> None:
        assert case.call_and_validate(timeout=30).status_code == 200

    ask()
