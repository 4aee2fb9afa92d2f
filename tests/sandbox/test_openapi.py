"""The service against requests made up from its own OpenAPI schema: right ones, wrong ones, and their answers.

Not by schemathesis's pytest plug-in, which does not know this pytest.
"""

import json

import hypothesis
import jsonschema_rs
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

OPERATIONS = [("POST", "/v1/verdicts"), ("POST", "/v1/outputs"), ("GET", "/readyz"), ("GET", "/healthz")]
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


@pytest.mark.parametrize("path", ["/v1/verdicts", "/v1/outputs"])
def test_what_the_schema_allows_is_judged(described: schemathesis.BaseSchema, path: str) -> None:
    @FEW
    @hypothesis.given(described[path]["POST"].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: schemathesis.Case) -> None:
        for index, item in enumerate(case.body["items"]):  # the two rules that a schema cannot express
            item |= {"id": str(index), "entry_point": "f"}
        assert case.call_and_validate(timeout=120).status_code == 200

    ask()


@pytest.mark.parametrize(
    ("path", "request_name"), [("/v1/verdicts", "VerdictsRequest"), ("/v1/outputs", "OutputsRequest")]
)
def test_what_the_schema_forbids_is_refused_as_it_says(
    described: schemathesis.BaseSchema, path: str, request_name: str
) -> None:
    schema = {**described.raw_schema, "$ref": f"#/components/schemas/{request_name}"}
    body = jsonschema_rs.Draft202012Validator(schema)
    refused = 0

    @FEW
    @hypothesis.given(described[path]["POST"].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def ask(case: schemathesis.Case) -> None:
        nonlocal refused
        # Whether it is forbidden, the schema says: what a mutation was meant to break, it does not always break.
        answer = case.call_and_validate(timeout=120, excluded_checks=[negative_data_rejection])
        if answer.status_code == 200:
            sent = json.loads(answer.request.body)
            assert body.is_valid(sent), [str(error)[:300] for error in body.iter_errors(sent)]
        else:
            assert answer.status_code in {400, 401, 405, 411, 413, 415, 422}
            refused += 1

    ask()
    assert refused > 20


@pytest.mark.parametrize("path", ["/readyz", "/healthz"])
def test_state_is_what_the_schema_says(described: schemathesis.BaseSchema, path: str) -> None:
    @FEW
    @hypothesis.given(described[path]["GET"].as_strategy())
    def ask(case: schemathesis.Case) -> None:
        assert case.call_and_validate(timeout=30).status_code == 200

    ask()
