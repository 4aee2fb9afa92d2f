"""KFP face of check, the first step: parameters that fit together, services that answer, revisions that are pinned.

Runs started from KFP's own page never passed the submit check; this uncached CPU step makes up for that, and says what
is missing on the cluster before a GPU is asked for.
"""

from typing import NamedTuple

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("prepare"), install_kfp_package=False)
def check(
    model_name: str,
    model_revision: str,
    method: str,
    epochs: int,
    lr: float,
    batch_size: int,
    num_generations: int,
    max_completion_length: int,
    use_chat_template: bool,
    use_filter: bool,
    max_candidate_samples: int,
    max_train_samples: int,
    filter_samples: int,
    filter_all_samples: bool,
    max_eval_samples: int,
    num_eval_examples: int,
    eval_k: int,
    beta: float,
    lora_r: int,
    lora_alpha: int,
    lora_target_modules: str,
    precision: str,
    dataset: str,
    dataset_revision: str,
    candidate_splits: str,
    hidden_tests: int,
    regression_dataset: str,
    regression_revision: str,
    temperature: float,
    top_p: float,
    micro_batch_size: int,
    save_steps: int,
    keep_checkpoints: int,
    dynamic_sampling_tokens: int,
    truncated_reward: str,
    max_stuck_steps: int,
    grpo_overrides: str,
    export_merged: str,
    init_adapter: str,
    trackers: str,
    reward: str,
    seed: int,
    threads: int,
    sandbox_url: str,
    test_timeout_s: float,
    infra_limit: float,
    publish_as: str,
    on_unchanged: str,
    resume_run: str,
    gpu_resource: str,
    gpus: str,
    prepare_cpu: str,
    prepare_memory: str,
    filter_cpu: str,
    filter_memory: str,
    train_cpu: str,
    train_memory: str,
    evaluate_cpu: str,
    evaluate_memory: str,
    node_selector: dict,
    tolerations: list,
    hf_secret: str,
    store_secret: str,
    sandbox_secret: str,
    code_version: str,
    training: bool,
    tuned_model: str,
) -> NamedTuple(  # type: ignore[valid-type]
    "Checked",
    [
        ("model_revision", str),
        ("dataset_revision", str),
        ("regression_revision", str),
        ("unchanged_since", str),
        ("filter_settings", str),
        ("train_settings", str),
        ("evaluate_settings", str),
        ("publish_settings", str),
    ],
):
    """Refuse what cannot work, before a GPU is asked for, pin what the run reads, and say which run it would repeat.

    A step's settings are the parameters that it goes by, as JSON.
    """
    given = dict(locals())
    from components.handed import HANDED, settings_for
    from components.readiness import keep, pinned, verify
    from components.revisions import REVISIONS
    from components.settings import check as check_together
    from components.shared.errors import reported
    from components.shared.progress import say

    with reported("check"):
        for warning in check_together(given):
            say("check", f"warning: {warning}")
        verify(given)
        given |= pinned(given)
        since = keep(given)
        return *(given[name] for name in REVISIONS), since, *(settings_for(step, given) for step in HANDED)
