"""KFP face of evaluate."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("evaluate"), install_kfp_package=False)
def evaluate(
    problems: dsl.Input[dsl.Dataset],
    run_id: str,
    model_revision: str,
    settings: str,
    evaluation: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
    model: dsl.Input[dsl.Model] = None,
):
    """Compare base and tuned model on the same held-out problems; without a model, tuned_model says which."""
    import json
    from pathlib import Path

    from components.shared.errors import reported

    with reported("evaluate"):
        from components.evaluate.evaluation import run

        given = {"run_id": run_id, "model_revision": model_revision, **json.loads(settings)}
        trained = Path(model.path) if model else None
        paths = (Path(problems.path), trained, Path(evaluation.path), Path(report.path))
        for name, value in run(*paths, **given).items():
            metrics.log_metric(name, value)
