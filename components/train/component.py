"""KFP face of train."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("train"), install_kfp_package=False)
def train(
    problems: dsl.Input[dsl.Dataset],
    run_id: str,
    resume_run: str,
    model_name: str,
    model_revision: str,
    method: str,
    precision: str,
    use_chat_template: bool,
    temperature: float,
    top_p: float,
    epochs: int,
    lr: float,
    batch_size: int,
    micro_batch_size: int,
    num_generations: int,
    max_completion_length: int,
    beta: float,
    lora_r: int,
    lora_alpha: int,
    lora_target_modules: str,
    save_steps: int,
    keep_checkpoints: int,
    dynamic_sampling_tokens: int,
    max_stuck_steps: int,
    grpo_overrides: str,
    export_merged: str,
    init_adapter: str,
    reward: str,
    seed: int,
    threads: int,
    sandbox_url: str,
    test_timeout_s: float,
    infra_limit: float,
    code_version: str,
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
):
    """Train with GRPO: sample groups of completions, reward those that pass all tests, move toward them."""
    outputs = ("model", "metrics", "report")
    given = {k: v for k, v in locals().items() if k not in (*outputs, "outputs", "problems")}
    from pathlib import Path

    from components.shared.errors import reported

    with reported("train"):
        from components.train.training import run

        for name, value in run(Path(problems.path), Path(model.path), Path(report.path), **given).items():
            metrics.log_metric(name, value)
