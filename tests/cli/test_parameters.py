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
