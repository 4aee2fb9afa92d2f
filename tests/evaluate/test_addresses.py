"""A base alone, a trained model at an address, and what it was trained on, with real models and a real sandbox."""

import json

import pytest

from components.evaluate.evaluation import run
from components.shared.errors import UserError
from components.shared.lineage import UNTRAINED, write_trained_on
from components.shared.problem import HELDOUT, read_problems
from components.shared.store import open_store, upload_folder
from components.shared.trained import pinned
from tests.conftest import DEMO_MODEL
from tests.evaluate.trained import evaluated, with_adapter


@pytest.mark.usefixtures("local_sandbox")
def test_a_base_alone_is_evaluated_without_a_difference(tmp_path, problem_set, given, store_root):
    metrics = run(problem_set, None, tmp_path / "evaluation", tmp_path / "report.html", **given)
    content = json.loads((tmp_path / "evaluation/evaluation.json").read_text())
    assert 0 < metrics["base_pass_at_1"] < 1
    assert "difference" not in metrics
    assert "tuned" not in content
    assert json.loads((store_root / "runs/kfp-id/run.json").read_text())["seeds"].keys() == {"seed", "evaluate_base"}


@pytest.mark.usefixtures("local_sandbox")
def test_the_model_at_an_address_is_evaluated_like_one_that_was_just_trained(tmp_path, problem_set, given, store_root):
    model = with_adapter(tmp_path / "model", scale=0.05)
    _, trained_now = evaluated(tmp_path / "a", problem_set, model, given)
    upload_folder(open_store(), "runs/demo/train", model)
    run(problem_set, None, tmp_path / "b", tmp_path / "b.html", **{**given, "tuned_model": "runs/demo"})
    published = json.loads((tmp_path / "b/evaluation.json").read_text())
    assert published["per_problem"] == trained_now["per_problem"]
    assert published["tuned_model"] == "runs/demo"
    assert published["tuned_run"] == "r", "an address like models/NAME may mean another model by now"
    assert published["training_seeds"] is None, "with which seed it was trained nobody said"


@pytest.mark.usefixtures("local_sandbox")
def test_a_control_stays_one_when_it_is_evaluated_by_its_address(tmp_path, problem_set, given, store_root):
    model = with_adapter(tmp_path / "model", scale=0.0)
    facts = json.loads((model / "model.json").read_text()) | {"reward": "random", "seed": 5}
    (model / "model.json").write_text(json.dumps(facts))
    given |= {"tuned_model": str(model), "max_completion_length": 4}
    run(problem_set, None, tmp_path / "evaluation", tmp_path / "report.html", **given)
    content = json.loads((tmp_path / "evaluation/evaluation.json").read_text())
    assert (content["reward"], content["training_seeds"]) == ("random", [5])
    assert "Control run with random rewards" in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("local_sandbox")
def test_another_base_at_an_own_address_is_a_warning_and_one_that_does_not_fit_is_refused(
    tmp_path, problem_set, given, store_root, untaught_model, capsys
):
    with_adapter(tmp_path / "model", scale=0.0)
    given |= {"tuned_model": str(tmp_path / "model"), "max_completion_length": 4, "model_name": str(untaught_model)}
    with pytest.raises(UserError, match="does not fit this base"):
        run(problem_set, None, tmp_path / "evaluation", tmp_path / "report.html", **given)
    assert f"warning: the model was trained from {DEMO_MODEL}" in capsys.readouterr().out


@pytest.mark.usefixtures("local_sandbox")
def test_what_an_earlier_run_of_the_series_was_trained_on_is_not_held_out(tmp_path, problem_set, given, store_root):
    """The run before had another seed, which gave it three of this run's held-out problems to train on."""
    heldout = read_problems(problem_set / HELDOUT)
    model = with_adapter(tmp_path / "model", scale=0.0)
    write_trained_on(model, UNTRAINED.and_also(heldout[:3]))
    given |= {"num_eval_examples": 16, "eval_k": 1, "max_completion_length": 4}
    _, content = evaluated(tmp_path, problem_set, model, given)
    assert content["problems"] == 13
    left_out = [problem.task_id for problem in heldout[:3]]
    assert content["trained_on"] == {"left_out": left_out, "measured": [], "complete": True}
    assert not {row["task_id"] for row in content["per_problem"]} & set(left_out)
    page = (tmp_path / "report.html").read_text()
    assert "3 held-out problems were left out: a run before this one trained on them." in page
    write_trained_on(model, UNTRAINED.and_also(heldout))
    with pytest.raises(UserError, match="All 16 held-out problems were trained on before"):
        evaluated(tmp_path, problem_set, model, given)


@pytest.mark.usefixtures("local_sandbox")
def test_a_model_is_evaluated_on_what_was_asked_for_and_what_it_was_trained_on_is_said(
    tmp_path, problem_set, given, store_root
):
    heldout = read_problems(problem_set / HELDOUT)
    model = with_adapter(tmp_path / "model", scale=0.0)
    write_trained_on(model, UNTRAINED.and_also(heldout[:2]))
    given |= {"tuned_model": pinned(str(model)), "eval_k": 1, "max_completion_length": 4}
    run(problem_set, None, tmp_path / "evaluation", tmp_path / "report.html", **given)
    content = json.loads((tmp_path / "evaluation/evaluation.json").read_text())
    assert content["problems"] == 12
    assert content["trained_on"]["measured"] == [problem.task_id for problem in heldout[:2]]
    assert content["tuned_model"] == str(model)
    assert "2 of the problems were trained on" in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("local_sandbox")
def test_another_model_at_the_address_than_the_one_that_check_has_pinned_is_refused(
    tmp_path, problem_set, given, store_root
):
    model = with_adapter(tmp_path / "model", scale=0.0)
    given["tuned_model"] = pinned(str(model))
    (model / "model.json").write_text((model / "model.json").read_text() + " ")
    with pytest.raises(UserError, match="is another than when this run began"):
        run(problem_set, None, tmp_path / "evaluation", tmp_path / "report.html", **given)
