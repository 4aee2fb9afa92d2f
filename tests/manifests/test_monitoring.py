"""What Prometheus' operator is given: objects of the form that it knows, about series that the sandbox exports."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.manifests.monitoring import KINDS, check, faults_of_query, metrics_in
from tests.manifests.rendering import MANIFESTS, base, one
from tests.manifests.schema import OTHERS

FOLDER = MANIFESTS / "components/monitoring"
OBJECTS = list(yaml.safe_load_all((FOLDER / "prometheus.yaml").read_text()))
MONITOR, RULES = one(OBJECTS, "ServiceMonitor", "sandbox"), one(OBJECTS, "PrometheusRule", "sandbox")
ALERTS = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
PANELS = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
QUERIES = [rule["expr"] for rule in ALERTS] + [each["expr"] for panel in PANELS for each in panel.get("targets", [])]
PROMETHEUS_OWN = {"up"}


def exported() -> set[str]:
    """The names of all series that a scrape of the sandbox brings, with every suffix; gauges of the pool included."""
    from sandbox.metrics import Metrics

    names = {"sandbox_items_unfinished", "sandbox_queue_depth", "sandbox_workers_live", "sandbox_zombies"}
    for family in Metrics().registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {family.name + suffix for suffix in suffixes}
    return names


def test_the_kinds_without_a_schema_of_kubernetes_have_one_here() -> None:
    assert set(OTHERS) == set(KINDS) == {thing["kind"] for thing in OBJECTS}


@pytest.mark.parametrize("thing", OBJECTS, ids=lambda thing: thing["kind"])
def test_an_object_is_what_the_operator_knows(thing: dict[str, Any]) -> None:
    assert check(thing) == []


BROKEN: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]] = {
    "spec.endpoints.0.intervall": (MONITOR, lambda spec: spec["endpoints"][0].update(intervall="15s")),
    "spec.endpoints.0.interval": (MONITOR, lambda spec: spec["endpoints"][0].update(interval="15")),
    "spec.endpoints.0.port": (MONITOR, lambda spec: spec["endpoints"][0].update(port=9090)),
    "spec.selector": (MONITOR, lambda spec: spec.pop("selector")),
    "spec.endpoints": (MONITOR, lambda spec: spec.update(endpoints=[])),
    "spec.groups.0.rules.0.for": (RULES, lambda spec: spec["groups"][0]["rules"][0].update({"for": 120})),
    "spec.groups.0.rules.0.label": (RULES, lambda spec: spec["groups"][0]["rules"][0].update(label={})),
    "spec.groups.0.rules.0": (RULES, lambda spec: spec["groups"][0]["rules"][0].pop("alert")),
    "spec.groups.0.rules.1": (RULES, lambda spec: spec["groups"][0]["rules"][1].update(expr="sum(rate(x[10m])")),
}


@pytest.mark.parametrize("place", BROKEN)
def test_what_the_operator_would_drop_or_refuse_is_found(place: str) -> None:
    thing, breaks = copy.deepcopy(BROKEN[place][0]), BROKEN[place][1]
    breaks(thing["spec"])
    (fault,) = check(thing)
    assert fault.startswith(f"{place}:")


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_has_a_form_and_asks_for_series_that_exist(query: str) -> None:
    assert faults_of_query(query) == []
    asked = metrics_in(query)
    assert asked
    assert asked <= exported() | PROMETHEUS_OWN


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("sum(rate(a_total[5m])", ") is missing"),
        ("sum(rate(a_total[5x]))", "[5x] is no range"),
        ("sum(rate(a_total))", "need a range"),
        ("summ(a)", "there is no function summ"),
        ('a{outcome="x', "a string does not end"),
        ("a{outcome=x}", "outcome=x is no matcher"),
        ("a / ", "an operand is missing"),
        ("a)", ") closes nothing"),
    ],
)
def test_a_slip_in_a_query_is_found(query: str, fault: str) -> None:
    assert fault in " ".join(faults_of_query(query))


def test_labels_in_queries_are_those_of_the_series() -> None:
    text = (MANIFESTS.parent / "images/sandbox/sandbox/metrics.py").read_text()
    for query in QUERIES:
        for name, matchers in re.findall(r"\b(sandbox_\w+)\{([^{}]*)\}", query):
            for label in re.findall(r"(\w+)\s*[=!]", matchers):
                assert f'"{label}"' in text or label in ("namespace", "job", "pod"), f"{name} has no label {label}"


def test_alerts_say_how_bad_it_is_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS) > 3
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "action"}
        assert rule["annotations"]["action"].startswith("kubectl -n grpo-code-sandbox ")


def test_the_monitor_finds_the_service() -> None:
    service = one(base(), "Service", "sandbox")
    assert MONITOR["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert MONITOR["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert MONITOR["spec"]["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
