"""KFP face of filter."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("filter"), install_kfp_package=False)
def filter_learnable(
    prepared: dsl.Input[dsl.Dataset],
    model_name: str,
    model_revision: str,
    init_adapter: str,
    method: str,
    precision: str,
    use_chat_template: bool,
    temperature: float,
    top_p: float,
    max_completion_length: int,
    filter_samples: int,
    filter_all_samples: bool,
    max_train_samples: int,
    num_generations: int,
    batch_size: int,
    seed: int,
    threads: int,
    sandbox_url: str,
    test_timeout_s: float,
    infra_limit: float,
    code_version: str,
    problems: dsl.Output[dsl.Dataset],
):
    """Keep the problems that the policy which training starts from solves sometimes but not always."""
    given = {k: v for k, v in locals().items() if k not in ("prepared", "problems")}
    from pathlib import Path

    from components.shared.errors import reported

    with reported("filter"):
        from components.filter.learnable import run

        run(Path(prepared.path), Path(problems.path), **given)
