"""KFP face of train."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("train"), install_kfp_package=False)
def train(
    problems: dsl.Input[dsl.Dataset],
    run_id: str,
    model_revision: str,
    settings: str,
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
):
    """Train with GRPO: sample groups of completions, reward those that pass all tests, move toward them."""
    import json
    from pathlib import Path

    from components.shared.errors import reported

    with reported("train"):
        from components.train.training import run

        given = {"run_id": run_id, "model_revision": model_revision, **json.loads(settings)}
        for name, value in run(Path(problems.path), Path(model.path), Path(report.path), **given).items():
            metrics.log_metric(name, value)
