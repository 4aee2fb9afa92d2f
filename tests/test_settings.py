"""The rules that tie parameters together: what is refused, and in which words; what is only warned about."""

import pytest

from cli.parameters import merged, pipeline_parameters
from components.settings import CHOICES, OPEN_BELOW, RANGES, check
from components.shared.errors import UserError


def refusal(**values):
    """The sentence with which the rules refuse these values over the defaults."""
    with pytest.raises(UserError) as refused:
        check(merged(values))
    return str(refused.value)


@pytest.mark.parametrize("name", RANGES)
def test_a_value_below_its_range_is_refused(name):
    low, _ = RANGES[name]
    value = low if name in OPEN_BELOW else low - 1
    sentence = refusal(**{name: value})
    assert (
        f"{name} {value:g} is out of range: it must be {'greater than' if name in OPEN_BELOW else 'at least'} {low:g}"
        in sentence
    )


@pytest.mark.parametrize("name", [name for name, (_, high) in RANGES.items() if high != float("inf")])
def test_a_value_above_its_range_is_refused(name):
    high = RANGES[name][1]
    assert f"{name} {high + 1:.10g} is out of range" in refusal(**{name: high + 1})
    assert f"at most {high:.10g}." in refusal(**{name: high + 1})


@pytest.mark.parametrize("name", ["lr", "beta", "temperature", "top_p", "infra_limit", "test_timeout_s"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_finite_number_is_refused(name, value):
    assert f"{name} {value:g} is out of range" in refusal(**{name: value})


@pytest.mark.parametrize("name", RANGES)
def test_every_range_is_of_a_parameter_and_holds_its_default(name):
    default = pipeline_parameters()[name].default
    low, high = RANGES[name]
    assert low <= default <= high


def test_every_number_has_a_range():
    numbers = {name for name, parameter in pipeline_parameters().items() if parameter.kind in ("Integer", "Float")}
    assert numbers == set(RANGES)


@pytest.mark.parametrize("name", CHOICES)
def test_an_unknown_choice_names_the_known_ones(name):
    assert f"{name} 'x' is unknown: use one of {', '.join(CHOICES[name])}." in refusal(**{name: "x"})
    for choice in CHOICES[name]:
        check(merged({name: choice}))


@pytest.mark.parametrize("name", ["model_name", "dataset", "sandbox_url"])
def test_an_empty_name_is_refused(name):
    assert f"{name} is empty" in refusal(**{name: " "})


@pytest.mark.parametrize(
    ("values", "sentences"),
    [
        ({"batch_size": 12}, ["batch_size 12 is not divisible by num_generations 8", "batch_size 8 or 16"]),
        ({"batch_size": 4}, ["use batch_size 8, or num_generations 2 or 4."]),
        ({"micro_batch_size": 3}, ["micro_batch_size 3 does not divide batch_size 8: use one of 1, 2, 4, 8"]),
        ({"micro_batch_size": 8, "gpus": "2"}, ["does not divide the 4 completions that each of 2 GPUs gets"]),
        (
            {"dynamic_sampling_tokens": 10_000, "gpus": "2"},
            ["dynamic_sampling_tokens needs a single process"],
        ),
        ({"num_eval_examples": 60}, ["num_eval_examples 60 is larger", "max_eval_samples 50"]),
        ({"candidate_splits": "train,dev"}, ["names 'dev'", "train, validation, prompt, or all"]),
        ({"candidate_splits": ","}, ["candidate_splits is empty"]),
        ({"candidate_splits": "train,test"}, ["names test", "use all"]),
        ({"grpo_overrides": "{"}, ["grpo_overrides is no JSON", "epsilon_high"]),
        ({"grpo_overrides": "[1]"}, ["must be a JSON object"]),
        ({"grpo_overrides": '{"epsilon_hi": 0.3}'}, ["GRPOConfig has no epsilon_hi: did you mean epsilon_high?"]),
        ({"grpo_overrides": '{"warmup_steps": "x"}'}, ['warmup_steps is "x": use a number.']),
        ({"publish_as": "a/b"}, ["publish_as 'a/b' is no name for a model: use letters, digits"]),
        ({"publish_as": "m", "reward": "random"}, ["publish_as needs reward tests"]),
        ({"init_adapter": "models/m", "method": "full"}, ["init_adapter needs method lora or qlora"]),
        ({"epochs": 0, "method": "x"}, ["epochs 0 is out of range", "method 'x' is unknown"]),
    ],
)
def test_parameters_that_contradict_each_other(values, sentences):
    said = refusal(**values)
    assert all(sentence in said for sentence in sentences), said


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"use_filter": True, "filter_samples": 2}, "filter_samples below 3"),
        ({"candidate_splits": "all"}, "not comparable with published MBPP figures"),
        ({"reward": "random"}, "no learning is expected"),
        ({"publish_as": "m"}, "candidate_splits train,prompt leaves all of them"),
    ],
)
def test_what_is_allowed_but_doubtful_is_warned_about(values, words):
    assert any(words in warning for warning in check(merged(values)))


def test_a_data_set_that_is_trained_on_without_its_validation_problems_can_be_published_without_a_warning():
    assert check(merged({"publish_as": "m", "candidate_splits": "train,prompt"})) == []
