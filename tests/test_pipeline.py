"""The map: its parameters, their defaults and help, and how the steps are wired."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict

from cli import readme
from cli.parameters import merged, pipeline_parameters
from components.check import check as check_step
from components.handed import HANDED, settings_for
from components.pods import PLACEMENT, Pods
from components.revisions import REVISIONS
from components.settings import FIXED, check
from pipeline import grpo_code, make_evaluate_only, make_pipeline

ROOT = Path(__file__).resolve().parent.parent
# The contract: names and defaults that users rely on.
DEFAULTS = {
    "model_name": "Qwen/Qwen2.5-Coder-7B",
    "method": "lora",
    "epochs": 2,
    "lr": 5e-5,
    "batch_size": 8,
    "num_generations": 8,
    "max_completion_length": 192,
    "use_chat_template": False,
    "use_filter": False,
    "max_candidate_samples": 300,
    "max_train_samples": 100,
    "filter_samples": 4,
    "max_eval_samples": 50,
    "num_eval_examples": 50,
    "eval_k": 4,
    "beta": 0.04,
    "lora_r": 16,
    "lora_alpha": 32,
    "precision": "auto",
    "dataset": "mbpp",
    "candidate_splits": "train,validation,prompt",
    "hidden_tests": 24,
    "regression_dataset": "",
    "temperature": 1.0,
    "top_p": 1.0,
    "keep_checkpoints": 2,
    "grpo_overrides": "{}",
    "reward": "tests",
    "seed": 42,
    "test_timeout_s": 5.0,
    "infra_limit": 0.02,
    "init_adapter": "",
    "publish_as": "",
    "on_unchanged": "retrain",
    "resume_run": "",
    "gpu_resource": "nvidia.com/gpu",
    "gpus": "1",
    "node_selector": {},
    "tolerations": [],
    "hf_secret": "hf-token",
    "store_secret": "grpo-code-store",
}


def test_the_defaults_are_the_contracts():
    parameters = pipeline_parameters()
    assert {name: parameters[name].default for name in DEFAULTS} == DEFAULTS


def test_every_parameter_has_help():
    for parameter in pipeline_parameters().values():
        assert parameter.help.endswith("."), f"{parameter.name} has no help"


def test_the_defaults_pass_the_rules_without_a_warning():
    assert check(merged({})) == []


def test_the_readme_shows_the_parameters_as_they_are():
    text = readme.README.read_text(encoding="utf-8")
    assert readme.refreshed(text) == text, "run `python -m cli.readme`"
    for parameter in pipeline_parameters().values():
        assert f"| `{parameter.name}` |" in text


def test_a_stale_table_is_replaced():
    text = f"a\n{readme.BEGIN}\nstale\n{readme.END}\nb\n"
    assert readme.refreshed(text) == f"a\n{readme.BEGIN}\n{readme.table()}\n{readme.END}\nb\n"


def test_it_compiles_where_no_model_library_is_installed(tmp_path):
    target = tmp_path / "pipeline.yaml"
    program = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'trl', 'peft', 'datasets', 'bitsandbytes'):\n"
        "    sys.modules[name] = None\n"  # makes its import fail
        "from cli.main import main\n"
        f"main(['compile', '-o', {str(target)!r}])\n"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "grpo-code-train" in target.read_text()


NESTED = ("train", "evaluate", "publish", "reused")


def component(pipeline, name):
    return pipeline.pipeline_spec.components[f"comp-{name}"]


def steps_of(pipeline):
    """The tasks within the exit handler: everything but the last step."""
    return component(pipeline, "exit-handler-1").dag.tasks


def branches(pipeline):
    """The conditional parts of the pipeline that train: their condition and their tasks."""
    group = next(task for name, task in steps_of(pipeline).items() if name.startswith("condition-branches"))
    tasks = pipeline.pipeline_spec.components[group.component_ref.name].dag.tasks
    parts = [pipeline.pipeline_spec.components[task.component_ref.name].dag.tasks for task in tasks.values()]
    found = [(task.trigger_policy.condition, part) for task, part in zip(tasks.values(), parts, strict=True)]
    found = [branch for branch in found if "unchanged" not in branch[1]]
    return sorted(found, key=lambda branch: branch[0].count("!"))  # a protobuf map has no order


def nested(pipeline, name):
    """The tasks of train-and-evaluate, those of its conditional part among them."""
    tasks = component(pipeline, name).dag.tasks
    inner = [pipeline.pipeline_spec.components[one.component_ref.name].dag.tasks for one in tasks.values()]
    return {name: task for group in (tasks, *inner) for name, task in group.items() if name in NESTED}


def test_both_branches_train_and_only_one_filters():
    with_filter, without = branches(grpo_code)
    assert "use_filter'] == true" in with_filter[0]
    assert "!(inputs.parameter_values['pipelinechannel--use_filter'] == true)" in without[0]
    for condition in (with_filter[0], without[0]):
        assert "!(inputs.parameter_values['pipelinechannel--check-unchanged_since'] != '')" in condition
    assert sorted(with_filter[1]) == ["filter-learnable", "train-and-evaluate"]
    assert [name.removesuffix("-2") for name in without[1]] == ["train-and-evaluate"]
    filtered = with_filter[1]["train-and-evaluate"].inputs.artifacts["problems"].task_output_artifact
    assert (filtered.producer_task, filtered.output_artifact_key) == ("filter-learnable", "problems")
    plain = next(iter(without[1].values())).inputs.artifacts["problems"]
    assert plain.component_input_artifact.endswith("prepare-prepared")


def test_nothing_runs_before_the_check_and_the_check_is_never_reused():
    tasks = steps_of(grpo_code)
    assert list(tasks["prepare"].dependent_tasks) == ["check"]
    assert list(tasks["fetch-model"].dependent_tasks) == ["check"]
    assert not tasks["check"].caching_options.enable_cache
    assert not tasks["fetch-model"].caching_options.enable_cache
    assert tasks["prepare"].caching_options.enable_cache


def test_the_last_step_runs_whatever_happened():
    last = grpo_code.pipeline_spec.root.dag.tasks["finish"]
    assert list(last.dependent_tasks) == ["exit-handler-1"]
    assert last.trigger_policy.strategy == last.trigger_policy.ALL_UPSTREAM_TASKS_COMPLETED
    assert not last.caching_options.enable_cache


@pytest.mark.parametrize("where", ["cluster", "one machine"])
def test_the_steps_read_the_revisions_that_check_has_pinned(where):
    """And those that load a model wait, on a cluster, until it is in the store."""
    pods = Pods() if where == "cluster" else None
    pipeline = make_pipeline(cache_training=False, pods=pods)
    prepared = steps_of(pipeline)["prepare"].inputs.parameters["dataset_revision"].task_output_parameter
    assert (prepared.producer_task, prepared.output_parameter_key) == ("check", "dataset_revision")
    group = next(task for name, task in steps_of(pipeline).items() if name.startswith("condition-branches"))
    sources = [source.task_output_parameter for source in group.inputs.parameters.values()]
    produced = {(source.producer_task, source.output_parameter_key) for source in sources if source.producer_task}
    model = ("fetch-model", "Output") if pods else ("check", "model_revision")
    settings = {("check", f"{step}_settings") for step in HANDED}
    assert produced == {model, ("check", "unchanged_since"), *settings}
    assert ("fetch-model" in steps_of(pipeline)) == bool(pods)


@pytest.mark.parametrize("name", ["train-and-evaluate", "train-and-evaluate-2"])
def test_training_is_reused_only_where_that_is_asked_for(name):
    for cache_training in (False, True):
        pipeline = make_pipeline(cache_training=cache_training, pods=Pods())
        tasks = nested(pipeline, name)
        cached = {step: task.caching_options.enable_cache for step, task in tasks.items()}
        ids = {step: task.inputs.parameters["run_id"].runtime_value.constant for step, task in tasks.items()}
        assert all(bool(ids[step].string_value) != cached[step] for step in tasks), (
            "a run's id would make each key another"
        )
        last = {"publish": False} | ({"reused": False} if cache_training else {})
        assert cached == {"train": cache_training, "evaluate": cache_training, **last}


def test_where_evaluate_may_be_reused_a_step_that_is_not_comes_last_whether_or_not_there_is_a_name_to_publish_as():
    pipeline = make_pipeline(cache_training=True, pods=Pods())
    tasks = component(pipeline, "train-and-evaluate").dag.tasks
    groups = {
        task.trigger_policy.condition: list(pipeline.pipeline_spec.components[task.component_ref.name].dag.tasks)
        for name, task in tasks.items()
        if name.startswith("condition") and "evaluate" in task.dependent_tasks
    }
    name = "inputs.parameter_values['pipelinechannel--publish_as']"
    assert groups == {f"{name} != ''": ["publish"], f"{name} == ''": ["reused"]}


@pytest.mark.parametrize("name", ["train-and-evaluate", "train-and-evaluate-2"])
def test_publishing_follows_on_evaluate_and_only_where_a_name_is_given(name):
    group = next(task for step, task in component(grpo_code, name).dag.tasks.items() if step.startswith("condition"))
    assert group.trigger_policy.condition == "inputs.parameter_values['pipelinechannel--publish_as'] != ''"
    assert sorted(group.dependent_tasks) == ["evaluate", "train"]


def test_a_run_that_would_repeat_another_ends_after_the_check():
    group = next(task for name, task in steps_of(grpo_code).items() if name.startswith("condition-branches"))
    parts = grpo_code.pipeline_spec.components[group.component_ref.name].dag.tasks
    conditions = {
        task.trigger_policy.condition: list(grpo_code.pipeline_spec.components[task.component_ref.name].dag.tasks)
        for task in parts.values()
    }
    assert conditions["inputs.parameter_values['pipelinechannel--check-unchanged_since'] != ''"] == ["unchanged"]


def plain(name):
    """A parameter's name, which KFP writes longer where it passes through a group."""
    return name.removeprefix("pipelinechannel--")


def test_every_parameter_reaches_a_step_by_its_own_name():
    """A parameter that no step receives, or receives under another name, would do nothing without a word."""
    used = {name for names in HANDED.values() for name in names}
    for step in ("prepare", "fetch-model", "finish"):
        used |= set(component(grpo_code, step).input_definitions.parameters)
    conditions = {"use_filter", "publish_as", "on_unchanged"}
    assert set(pipeline_parameters()) == (used - {"run_id", "status", "tuned_model"}) | conditions | set(PLACEMENT)
    for part in ("train-and-evaluate", "train-and-evaluate-2"):
        for step, task in nested(grpo_code, part).items():
            given = {name: source.component_input_parameter for name, source in task.inputs.parameters.items()}
            assert given.pop("run_id") == ""  # KFP's id of the run, a constant placeholder
            assert plain(given.pop("settings")) == f"{step}_settings"
            # what begins so is read by the pod's settings, from the parameter of that name
            given = {plain(name): plain(source) for name, source in given.items() if source}
            assert given == {name: name for name in given}


def test_each_step_is_handed_the_settings_made_for_it_with_what_check_has_pinned():
    filtered = branches(grpo_code)[0][1]
    tasks = {"filter": filtered["filter-learnable"], **nested(grpo_code, "train-and-evaluate")}
    for step, task in tasks.items():
        source = task.inputs.parameters["settings"].component_input_parameter
        assert plain(source).removeprefix("check-") == f"{step}_settings"
    given = {
        **merged({}),
        "tuned_model": "",
        "init_adapter": "pinned",
        "lr": 1e-5,
        "infra_limit": 0.0,
        "seed": 2**32 - 1,
    }
    for step, names in HANDED.items():
        read = json.loads(settings_for(step, given))
        assert read == {name: given[name] for name in names}
        assert all(type(read[name]) is type(given[name]) for name in names), "a float stays one"
    assert settings_for("train", given) == settings_for("train", dict(reversed(given.items())))


def test_the_step_that_checks_gets_every_parameter_that_has_a_rule():
    asked = set(component(grpo_code, "check").input_definitions.parameters)
    untouched = set(pipeline_parameters()) - asked
    assert untouched == set()


def test_what_may_not_change_when_a_run_is_continued_are_parameters_of_train():
    assert set(FIXED) <= {"model_revision", *HANDED["train"]}
    assert {"temperature", "top_p", "max_completion_length", "use_chat_template"} <= set(FIXED)


def test_steps_that_compute_have_the_versions_in_their_cache_key():
    assert all("code_version" in HANDED[step] for step in ("filter", "train", "evaluate"))
    assert "code_version" in component(grpo_code, "prepare").input_definitions.parameters
    assert "dataset_revision" in component(grpo_code, "prepare").input_definitions.parameters
    for name in ("filter-learnable", "train", "evaluate"):
        assert "model_revision" in component(grpo_code, name).input_definitions.parameters


def test_prepare_and_filter_know_no_run():
    for name in ("prepare", "filter-learnable"):
        assert not {"run_id", "resume_run"} & set(component(grpo_code, name).input_definitions.parameters)
    assert "resume_run" not in HANDED["filter"]


def test_on_one_machine_nothing_is_said_of_pods():
    """kfp's local runner warns of every setting that it cannot follow."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline = make_pipeline(cache_training=True, pods=None)
    assert not pipeline.platform_spec.platforms


def test_evaluate_only_has_the_same_steps_pods_and_exit_handler():
    alone = make_evaluate_only(cache_training=False, pods=Pods())
    assert sorted(steps_of(alone)) == ["check", "evaluate", "fetch-model", "prepare"]
    last = alone.pipeline_spec.root.dag.tasks["finish"]
    assert list(last.dependent_tasks) == ["exit-handler-1"]
    for step in ("check", "prepare", "evaluate", "finish"):
        mine, whole = component(alone, step), component(grpo_code, step)
        assert mine.input_definitions == whole.input_definitions
    settings, places = settings_of(alone), settings_of(grpo_code)
    assert settings["exec-evaluate"] == places["exec-evaluate"]


def settings_of(pipeline):
    """What each step's pod is like on a cluster, the parameters that it reads aside, which each pipeline numbers."""
    executors = pipeline.platform_spec.platforms["kubernetes"].deployment_spec.executors
    return {name: sorted(MessageToDict(struct)) for name, struct in executors.items()}


def test_check_hands_on_the_revisions_that_are_pinned_and_what_each_step_goes_by():
    """Its face must write the names out: KFP ships the function's text alone."""
    handed = [*REVISIONS, "unchanged_since", *(f"{step}_settings" for step in HANDED)]
    assert list(check_step.python_func.__annotations__["return"]._fields) == handed
    assert {"init_adapter", "method"} <= set(HANDED["filter"]), "it draws from what training starts from"


def test_evaluate_only_trains_nothing_and_takes_its_model_from_an_address():
    tasks = steps_of(make_evaluate_only(cache_training=False, pods=Pods()))
    assert tasks["prepare"].inputs.parameters["max_candidate_samples"].runtime_value.constant.number_value == 0
    assert not tasks["check"].inputs.parameters["training"].runtime_value.constant.bool_value
    assert "model" not in tasks["evaluate"].inputs.artifacts
    source = tasks["evaluate"].inputs.parameters["settings"].task_output_parameter
    assert (source.producer_task, source.output_parameter_key) == ("check", "evaluate_settings")
    assert "tuned_model" in HANDED["evaluate"], "pinned, not as asked"
    assert not tasks["evaluate"].caching_options.enable_cache


def test_the_help_of_evaluate_only_is_the_whole_pipelines():
    alone = pipeline_parameters("evaluate-only")
    assert all(parameter.help.endswith(".") for parameter in alone.values())
    assert alone["eval_k"] == pipeline_parameters()["eval_k"]
