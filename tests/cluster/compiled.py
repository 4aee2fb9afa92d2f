"""A compiled pipeline as Kubeflow Pipelines' drivers read it: which steps run, in what order, and with what inputs.

It knows what our pipeline is made of and no more: anything else in the file is an error, never passed over.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
INPUT = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
RUN_ID = "{{$.pipeline_job_uuid}}"
OUTPUT_FILE = "/tmp/kfp_outputs/output_metadata.json"
WHATEVER_HAPPENED = "ALL_UPSTREAM_TASKS_COMPLETED"


class StepFailed(AssertionError):
    """A step's pod did not succeed; the text is what is known of it."""


@dataclass(frozen=True)
class Results:
    """What a step hands on: output parameters, and artifacts as KFP records them (name, type, uri, metadata)."""

    parameters: Object = field(default_factory=dict)
    artifacts: dict[str, Object] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A task that runs a container. container and kubernetes are the file's own.

    parameters and artifacts: its inputs by now; scope: the parameters of the (nested) pipeline that it stands in, to
    which the Kubernetes settings refer.
    """

    name: str
    component: Mapping[str, Any]
    container: Mapping[str, Any]
    kubernetes: Mapping[str, Any]
    parameters: Object
    artifacts: dict[str, Object]
    scope: Object

    def text(self, template: str) -> str:
        """A setting of the container with the step's parameters in it."""
        return INPUT.sub(lambda match: str(self.parameters[match[1]]), template)

    def setting(self, given: Mapping[str, Any]) -> Any:
        """The value that a Kubernetes setting takes from a parameter."""
        (name,) = given.values()
        assert set(given) == {"componentInputParameter"}, given
        return self.scope[name]

    def executor_input(self, folder: str) -> Object:
        """What the step's own program reads: its inputs, and where its outputs are to go, below an s3:// folder."""
        outputs = self.component.get("outputDefinitions", {})
        made = {
            name: {"name": name, "type": one["artifactType"], "uri": f"{folder}/{name}", "metadata": {}}
            for name, one in outputs.get("artifacts", {}).items()
        }
        return {
            "inputs": {
                "parameterValues": self.parameters,
                "artifacts": {name: {"artifacts": [one]} for name, one in self.artifacts.items()},
            },
            "outputs": {
                "parameters": {
                    name: {"outputFile": f"/tmp/kfp/outputs/{name}"} for name in outputs.get("parameters", ())
                },
                "artifacts": {name: {"artifacts": [one]} for name, one in made.items()},
                "outputFile": OUTPUT_FILE,
            },
        }


Run = Callable[[Step], Results]


class Compiled:
    """The two documents of a compiled file."""

    def __init__(self, file: Path) -> None:
        self.specification, platform = yaml.safe_load_all(file.read_text())
        self.components = self.specification["components"]
        self.executors = self.specification["deploymentSpec"]["executors"]
        self.kubernetes = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]

    def walk(self, arguments: Mapping[str, Any], run_id: str, run: Run) -> None:
        """Run every step that these arguments lead to, in order; StepFailed, after the last step, when one failed."""
        declared = self.specification["root"]["inputDefinitions"]["parameters"]
        assert set(arguments) <= set(declared), set(arguments) - set(declared)
        given = {name: whole(arguments.get(name, one.get("defaultValue"))) for name, one in declared.items()}
        _Walk(self, run_id, run).pipeline(self.specification["root"]["dag"], given, {})


@dataclass
class _Walk:
    """One run on its way through the file."""

    file: Compiled
    run_id: str
    run: Run

    def pipeline(self, dag: Mapping[str, Any], given: Object, artifacts: dict[str, Object]) -> None:
        """Run the tasks of one (nested) pipeline, which have its inputs and each other's outputs at hand."""
        done: dict[str, Results] = {}
        failure: StepFailed | None = None
        for name, task in in_order(dag["tasks"]):
            trigger = task.get("triggerPolicy", {})
            assert set(trigger) <= {"condition", "strategy"}, trigger
            if failure and trigger.get("strategy") != WHATEVER_HAPPENED:
                continue
            taken = task.get("inputs", {}).get("parameters", {})
            parameters = {key: self.value(how, given, done, failure) for key, how in taken.items()}
            if not holds(trigger.get("condition", ""), parameters):
                continue
            handed = task.get("inputs", {}).get("artifacts", {})
            found = {key: artifact(how, artifacts, done) for key, how in handed.items()}
            try:
                done[name] = self.task(name, task, parameters, found, given)
            except StepFailed as error:
                failure = failure or error
        if failure:
            raise failure

    def task(self, name: str, task: Mapping[str, Any], parameters: Object, artifacts: Object, scope: Object) -> Results:
        component = self.file.components[task["componentRef"]["name"]]
        if "dag" in component:
            self.pipeline(component["dag"], parameters, artifacts)
            return Results()
        label = component["executorLabel"]
        executor, kubernetes = self.file.executors[label], self.file.kubernetes[label]
        assert set(executor) == {"container"}, set(executor)
        return self.run(Step(name, component, executor["container"], kubernetes, parameters, artifacts, scope))

    def value(
        self, how: Mapping[str, Any], given: Object, done: Mapping[str, Results], failure: StepFailed | None
    ) -> Any:
        ((kind, where),) = how.items()
        if kind == "componentInputParameter":
            return given[where]
        if kind == "taskOutputParameter":
            return done[where["producerTask"]].parameters[where["outputParameterKey"]]
        if kind == "runtimeValue":
            return self.run_id if where["constant"] == RUN_ID else where["constant"]
        assert kind == "taskFinalStatus", how
        state = (
            {"state": "FAILED", "error": {"code": 9, "message": str(failure)}} if failure else {"state": "SUCCEEDED"}
        )
        job = {"pipelineJobResourceName": self.run_id, "pipelineTaskName": where["producerTask"]}
        return {"error": {}, **state, **job}


def whole(value: Any) -> Any:
    """A number as the JSON of protocol buffers has it, whose whole numbers have no fraction: 4.0 of the file is 4."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def in_order(tasks: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The tasks, each after those that it depends on, otherwise by name."""
    left = dict(sorted(tasks.items()))
    while left:
        ready = [name for name, task in left.items() if not set(task.get("dependentTasks", ())) & set(left)]
        for name in ready:
            yield name, left.pop(name)


def holds(condition: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a task's condition, in the few words of CEL that our pipeline uses, is true; an empty one always is."""
    if not condition:
        return True
    words = condition.replace("&&", " and ").replace("!(", " not (")
    words = re.sub(r"inputs\.parameter_values\['([^']+)'\]", lambda match: repr(parameters[match[1]]), words)
    return bool(eval(words, {"__builtins__": {}}, {"true": True, "false": False}))


def artifact(how: Mapping[str, Any], artifacts: Mapping[str, Object], done: Mapping[str, Results]) -> Object:
    """The artifact that an input is wired to."""
    ((kind, where),) = how.items()
    if kind == "componentInputArtifact":
        return artifacts[where]
    assert kind == "taskOutputArtifact", how
    return done[where["producerTask"]].artifacts[where["outputArtifactKey"]]


def read_results(text: str) -> Results:
    """What the stand-in of the launcher has left for the steps after it."""
    told = json.loads(text)
    return Results(told["parameterValues"], {name: one["artifacts"][0] for name, one in told["artifacts"].items()})
