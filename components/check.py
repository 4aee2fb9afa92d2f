"""Step 0: all parameters are checked together before anything else runs.

Runs started from KFP's own page never passed the submit check; this uncached CPU step makes up for that.
"""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("prepare"), install_kfp_package=False)
def check(
    model_name: str,
    method: str,
    epochs: int,
    lr: float,
    batch_size: int,
    num_generations: int,
    max_completion_length: int,
    use_filter: bool,
    max_candidate_samples: int,
    max_train_samples: int,
    filter_samples: int,
    max_eval_samples: int,
    num_eval_examples: int,
    eval_k: int,
    beta: float,
    lora_r: int,
    lora_alpha: int,
    precision: str,
    dataset: str,
    candidate_splits: str,
    temperature: float,
    top_p: float,
    micro_batch_size: int,
    save_steps: int,
    keep_checkpoints: int,
    grpo_overrides: str,
    reward: str,
    seed: int,
    threads: int,
    sandbox_url: str,
    test_timeout_s: float,
    infra_limit: float,
):
    """Refuse parameters that contradict each other, before a GPU is asked for."""
    given = dict(locals())
    from components.settings import check as check_together
    from components.shared.errors import reported
    from components.shared.progress import say

    with reported("check"):
        for warning in check_together(given):
            say("check", f"warning: {warning}")
