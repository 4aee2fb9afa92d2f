"""The custom resources of Prometheus' operator that we use, as its API describes them, and PromQL's outer form.

Fields and their forms after https://prometheus-operator.dev/docs/api-reference/api/; a field that is not listed here is
refused, so that a misspelt one is found: the operator itself would drop it without a word.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

UNITS = "".join(f"([0-9]+{unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms"))
Duration = Annotated[str, StringConstraints(pattern=f"^(0|{UNITS})$", min_length=1)]
LabelName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]
Text = Annotated[str, StringConstraints(min_length=1)]
FUNCTIONS = {"absent", "avg", "histogram_quantile", "increase", "max", "min", "rate", "sum"}
WORDS = FUNCTIONS | {"by", "without", "and", "or", "unless", "on", "ignoring", "le", "bool"}


class Strict(BaseModel):
    """Nothing but what is listed, and no value turned into another type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Metadata(Strict):
    name: Text
    namespace: Text
    labels: dict[str, str] = Field(default_factory=dict)


class LabelSelector(Strict):
    matchLabels: dict[str, str] = Field(min_length=1)


class NamespaceSelector(Strict):
    any: bool = False
    matchNames: list[Text] = Field(default_factory=list)


class Endpoint(Strict):
    port: Text
    path: Annotated[str, StringConstraints(pattern="^/")] = "/metrics"
    scheme: Literal["http", "https"] = "http"
    interval: Duration = "30s"
    scrapeTimeout: Duration = "10s"
    honorLabels: bool = False


class ServiceMonitorSpec(Strict):
    selector: LabelSelector
    endpoints: list[Endpoint] = Field(min_length=1)
    namespaceSelector: NamespaceSelector = Field(default_factory=NamespaceSelector)
    jobLabel: str = ""


class ServiceMonitor(Strict):
    apiVersion: Literal["monitoring.coreos.com/v1"]
    kind: Literal["ServiceMonitor"]
    metadata: Metadata
    spec: ServiceMonitorSpec


class Rule(Strict):
    """An alert, or a recorded series; a record has neither `for` nor annotations."""

    expr: Text
    alert: Text | None = None
    record: Text | None = None
    wait: Duration | None = Field(default=None, alias="for")
    labels: dict[LabelName, str] = Field(default_factory=dict)
    annotations: dict[LabelName, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def one_of_both(self) -> "Rule":
        if (self.alert is None) == (self.record is None):
            raise ValueError("a rule is either an alert or a record")
        if self.record and (self.wait or self.annotations):
            raise ValueError("a record has neither for nor annotations")
        faults = faults_of_query(self.expr)
        if faults:
            raise ValueError("; ".join(faults))
        return self


class Group(Strict):
    name: Text
    interval: Duration = "1m"
    rules: list[Rule] = Field(min_length=1)


class PrometheusRuleSpec(Strict):
    groups: list[Group] = Field(min_length=1)


class PrometheusRule(Strict):
    apiVersion: Literal["monitoring.coreos.com/v1"]
    kind: Literal["PrometheusRule"]
    metadata: Metadata
    spec: PrometheusRuleSpec


KINDS: dict[str, type[Strict]] = {"ServiceMonitor": ServiceMonitor, "PrometheusRule": PrometheusRule}


def check(thing: dict[str, Any]) -> list[str]:
    """All that is wrong with an object of these kinds."""
    try:
        KINDS[thing["kind"]].model_validate(thing)
    except ValidationError as error:
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return []


def metrics_in(query: str) -> set[str]:
    """The names of series in a query: identifiers that are no function, no word of the language and no label."""
    bare = re.sub(r"\{[^{}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring)\s*\([^()]*\)", " ", _without_strings(query))
    return set(re.findall(r"\b[a-zA-Z_:][a-zA-Z0-9_:]*", bare)) - WORDS


def faults_of_query(query: str) -> list[str]:
    """What is structurally wrong with a query; not a parser of PromQL, but what a slip of the pen makes."""
    bare, found = _without_strings(query), []
    if bare.count('"'):
        found.append("a string does not end")
    depth: list[str] = []
    for sign in bare:
        if sign in "([{":
            depth.append({"(": ")", "[": "]", "{": "}"}[sign])
        elif sign in ")]}" and (not depth or depth.pop() != sign):
            found.append(f"{sign} closes nothing")
    found += [f"{sign} is missing" for sign in depth]
    for name in re.findall(r"\b([a-z_]+)\s*\(", bare):
        if name not in WORDS:
            found.append(f"there is no function {name}")
    for inner in re.findall(r"\{([^{}]*)\}", bare):
        for matcher in filter(None, (part.strip() for part in inner.split(","))):
            if not re.fullmatch(r"[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*''", matcher):
                found.append(f"{matcher} is no matcher")
    for span in re.findall(r"\[([^\]]*)\]", bare):
        if not re.fullmatch(r"(\d+(ms|[smhdwy]))+(:(\d+(ms|[smhdwy]))*)?", span):
            found.append(f"[{span}] is no range")
    for call in re.findall(r"\b(?:rate|increase)\s*\(([^()]*)\)", bare):
        if not re.search(r"\]\s*$", call):
            found.append(f"rate and increase need a range: {call.strip()}")
    if re.search(r"[-+*/<>=]\s*$|^\s*[*/<>=]|\(\s*\)", bare.strip()):
        found.append("an operand is missing")
    return found


def _without_strings(query: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', "''", query)
