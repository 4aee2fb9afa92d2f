"""KFP face of publish, which follows on evaluate where publish_as is set; the work is components/evaluate's."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("evaluate"), install_kfp_package=False)
def publish(
    problems: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    evaluation: dsl.Input[dsl.Artifact],
    run_id: str,
    resume_run: str,
    publish_as: str,
    precision: str,
    use_chat_template: bool,
    temperature: float,
    top_p: float,
    max_completion_length: int,
    eval_k: int,
    seed: int,
    threads: int,
    sandbox_url: str,
    test_timeout_s: float,
    infra_limit: float,
    metrics: dsl.Output[dsl.Metrics],
):
    """Publish the trained model under a name if it beats the one that is current there, on the validation problems."""
    given = {k: v for k, v in locals().items() if k not in ("metrics", "problems", "model", "evaluation")}
    from pathlib import Path

    from components.shared.errors import reported

    with reported("publish"):
        from components.evaluate.publishing import run

        for name, value in run(Path(problems.path), Path(model.path), Path(evaluation.path), **given).items():
            metrics.log_metric(name, value)
