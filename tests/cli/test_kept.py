"""What was fixed at compile is read back from the compiled pipeline as it was given."""

import pytest
import yaml

from cli.compiling import compiled, fixed_options, take_fixed
from cli.kept import as_text, options_of

GIVEN = {
    "cache_training": True,
    "retries": 0,
    "timeout": ("fetch_model=0.5", "train=400"),
    "shm_size": "4Gi",
    "scratch_size": "100Gi",
    "model_cache_claim": "models",
    "queue": "gpu",
    "priority_class": "high",
    "pull_secret": ("one", "two"),
    "pod_label": ("team=nlp", "example.com/cost=7"),
}
DEFAULTS = {
    str(option.name): () if option.multiple else option.default
    for option in fixed_options()
    if option.name != "pipeline"  # which is named anew
}


def pipeline_of(options: dict) -> dict:
    """The compiled pipeline in the form in which KFP's API gives it back."""
    with compiled(take_fixed({"pipeline": "grpo-code", **options})) as file:
        spec, platform = yaml.safe_load_all(file.read_text())
    return {"pipeline_spec": spec, "platform_spec": platform}


def in_any_order(options: dict) -> dict:
    return {name: set(value) if isinstance(value, tuple) else value for name, value in options.items()}


@pytest.fixture(autouse=True)
def tag(monkeypatch):
    monkeypatch.setenv("TAG", "1")
    monkeypatch.delenv("REGISTRY", raising=False)


@pytest.mark.parametrize("given", [GIVEN, DEFAULTS], ids=["all given", "none given"])
def test_what_was_given_is_read_back(given):
    assert set(GIVEN) == set(DEFAULTS), "an option more must be kept, too"
    kept = options_of(pipeline_of(given))
    assert in_any_order(kept) == in_any_order(given)


def test_only_evaluating_is_read_back_too():
    given = {**GIVEN, "timeout": ("fetch_model=0.5", "evaluate=400")}
    kept = options_of(pipeline_of({**given, "pipeline": "evaluate-only"}))
    assert in_any_order(kept) == in_any_order({**given, "cache_training": False})  # there is no training to reuse


def test_only_what_differs_from_the_defaults_is_told():
    assert as_text(DEFAULTS) == ""
    assert as_text({**DEFAULTS, "retries": 5, "cache_training": True}) == "--cache-training --retries 5"
    assert as_text({**DEFAULTS, "pull_secret": ("one", "two")}) == "--pull-secret one --pull-secret two"


def test_another_pipeline_says_nothing():
    assert options_of({}) == {}
    assert options_of({"pipeline_spec": {"root": {"dag": {"tasks": {"train": {}}}}}}) == {}
