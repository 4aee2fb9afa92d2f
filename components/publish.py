"""KFP face of publish, which follows on evaluate where publish_as is set; the work is components/evaluate's."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("evaluate"), install_kfp_package=False)
def publish(
    problems: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    evaluation: dsl.Input[dsl.Artifact],
    run_id: str,
    settings: str,
    metrics: dsl.Output[dsl.Metrics],
):
    """Publish the trained model under a name if it beats the one that is current there, on the validation problems."""
    import json
    from pathlib import Path

    from components.shared.errors import reported

    with reported("publish"):
        from components.evaluate.publishing import run

        given = {"run_id": run_id, **json.loads(settings)}
        for name, value in run(Path(problems.path), Path(model.path), Path(evaluation.path), **given).items():
            metrics.log_metric(name, value)
