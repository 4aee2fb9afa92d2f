"""KFP face of evaluate."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("evaluate"), install_kfp_package=False)
def evaluate(
    problems: dsl.Input[dsl.Dataset],
    run_id: str,
    resume_run: str,
    model_name: str,
    model_revision: str,
    tuned_model: str,
    precision: str,
    use_chat_template: bool,
    temperature: float,
    top_p: float,
    max_completion_length: int,
    num_eval_examples: int,
    eval_k: int,
    reward: str,
    seed: int,
    threads: int,
    sandbox_url: str,
    test_timeout_s: float,
    infra_limit: float,
    code_version: str,
    evaluation: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
    model: dsl.Input[dsl.Model] = None,
):
    """Compare base and tuned model on the same held-out problems; without a model, tuned_model says which."""
    outputs = ("evaluation", "metrics", "report")
    given = {k: v for k, v in locals().items() if k not in (*outputs, "outputs", "problems", "model")}
    from pathlib import Path

    from components.shared.errors import reported

    with reported("evaluate"):
        from components.evaluate.evaluation import run

        trained = Path(model.path) if model else None
        paths = (Path(problems.path), trained, Path(evaluation.path), Path(report.path))
        for name, value in run(*paths, **given).items():
            metrics.log_metric(name, value)
