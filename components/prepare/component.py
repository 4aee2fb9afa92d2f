"""KFP face of prepare."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("prepare"), install_kfp_package=False)
def prepare(
    dataset: str,
    dataset_revision: str,
    candidate_splits: str,
    max_candidate_samples: int,
    max_eval_samples: int,
    hidden_tests: int,
    regression_dataset: str,
    regression_revision: str,
    seed: int,
    sandbox_url: str,
    test_timeout_s: float,
    infra_limit: float,
    code_version: str,
    prepared: dsl.Output[dsl.Dataset],
    card: dsl.Output[dsl.HTML],
):
    """Turn a data set into training and held-out problems whose references pass in the sandbox."""
    given = {k: v for k, v in locals().items() if k not in ("prepared", "card", "code_version")}
    from pathlib import Path

    from components.shared.errors import reported

    with reported("prepare"):
        from components.prepare.prepare import run

        run(Path(prepared.path), Path(card.path), **given)
