"""How defaults, file and options become the pipeline's arguments, and what a local run says about them."""

import shlex

import click
import pytest

from cli import local, parameters
from components.shared.errors import UserError


def parse(line: str) -> dict:
    """The options given on a command line, by parameter name."""
    given = {}
    settings = {"token_normalize_func": lambda token: token.replace("_", "-")}
    command = click.Command("x", params=parameters.options(), callback=given.update, context_settings=settings)
    command.main(shlex.split(line), standalone_mode=False)
    return {name: value for name, value in given.items() if value is not None}


def test_dashes_and_underscores_are_alike_and_types_hold():
    line = "--max_eval_samples 7 --lr 2e-3 --use-filter --no-use_chat_template --dataset 5 --test-timeout-s 2"
    given = parse(line)
    assert given == {
        "max_eval_samples": 7,
        "lr": 2e-3,
        "use_filter": True,
        "use_chat_template": False,
        "dataset": "5",
        "test_timeout_s": 2.0,
    }
    assert type(given["test_timeout_s"]) is float


def test_what_is_not_given_stays_out():
    assert parse("") == {}


def test_options_win_over_the_file_and_the_file_over_defaults(tmp_path):
    file = tmp_path / "parameters.toml"
    file.write_text("epochs = 3\nlr = 1\nmax-eval-samples = 9.0\n")
    values = parameters.merged({**parameters.read_file(file), **parse("--epochs 4")})
    assert (values["epochs"], values["lr"], values["max_eval_samples"]) == (4, 1.0, 9)
    assert values["batch_size"] == parameters.pipeline_parameters()["batch_size"].default
    assert list(values) == list(parameters.pipeline_parameters())


def test_evaluate_only_shares_the_definition_of_its_parameters():
    whole, alone = parameters.pipeline_parameters(), parameters.pipeline_parameters(parameters.EVALUATE_ONLY)
    assert set(alone) - set(whole) == {"tuned_model"}
    assert {name: alone[name] for name in alone if name in whole} == {
        name: whole[name] for name in alone if name in whole
    }
    assert not {"lr", "epochs", "train_memory", "max_candidate_samples", "reward"} & set(alone)


def test_a_file_may_serve_both_pipelines_and_an_option_only_its_own(tmp_path):
    file = tmp_path / "parameters.toml"
    file.write_text('epochs = 3\neval_k = 2\ntuned_model = "runs/a"\n')
    given = parameters.read_file(file)
    assert "tuned_model" not in parameters.merged(given)
    alone = parameters.merged(given, parameters.EVALUATE_ONLY)
    assert (alone["eval_k"], alone["tuned_model"], "epochs" in alone) == (2, "runs/a", False)
    parameters.refuse_foreign({"epochs": None, "eval_k": 2}, parameters.EVALUATE_ONLY)
    with pytest.raises(UserError, match="--epochs is no parameter of the pipeline evaluate-only"):
        parameters.refuse_foreign({"epochs": 3}, parameters.EVALUATE_ONLY)
    with pytest.raises(UserError, match="--tuned-model is no parameter of the pipeline grpo-code"):
        parameters.refuse_foreign({"tuned_model": "runs/a"}, parameters.WHOLE)


def test_a_run_is_continued_by_its_own_pipeline():
    alone = parameters.merged({}, parameters.EVALUATE_ONLY)
    parameters.refuse_other_pipeline("r", alone, parameters.EVALUATE_ONLY)
    parameters.refuse_other_pipeline("r", parameters.merged({}), parameters.WHOLE)
    with pytest.raises(UserError, match="Run r is one of the pipeline evaluate-only: give --pipeline evaluate-only"):
        parameters.refuse_other_pipeline("r", alone, parameters.WHOLE)


def test_a_fraction_is_no_whole_number():
    epochs = parameters.pipeline_parameters()["epochs"]
    with pytest.raises(UserError, match="not a whole number"):
        parameters.convert(epochs, 1.5, named="epochs")


def test_the_command_that_repeats_a_run_can_be_pasted():
    given = parse("--use-filter --no-use-chat-template --model-name 'a b' --epochs 3")
    words = shlex.split(local.command_line(given, None))
    assert words[1:3] == ["pipeline.py", "local"]
    assert parse(shlex.join(words[3:])) == given


def test_max_train_samples_without_the_filter_names_the_parameter_to_use():
    for given, warned in [
        ({"max_train_samples": 9}, True),
        ({"max_train_samples": 9, "use_filter": True}, False),
        ({}, False),
    ]:
        warnings = local._unused(given, parameters.merged(given))
        assert bool(warnings) is warned
        assert all("max_candidate_samples" in warning for warning in warnings)
