"""KFP face of filter."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("filter"), install_kfp_package=False)
def filter_learnable(
    prepared: dsl.Input[dsl.Dataset],
    model_revision: str,
    settings: str,
    problems: dsl.Output[dsl.Dataset],
):
    """Keep the problems that the policy which training starts from solves sometimes but not always."""
    import json
    from pathlib import Path

    from components.shared.errors import reported

    with reported("filter"):
        from components.filter.learnable import run

        run(Path(prepared.path), Path(problems.path), model_revision=model_revision, **json.loads(settings))
