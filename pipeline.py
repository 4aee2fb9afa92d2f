"""The map: every parameter with its default and help, and the order of the steps.

    check -> prepare -> filter (only with use_filter) -> train -> evaluate -> publish (only with publish_as)
          -> fetch_model (on a cluster)                                    -> finish (whatever happened)
          -> reused (without publish_as, where KFP may reuse train and evaluate)
          -> unchanged (in place of all after prepare, where on_unchanged skip finds nothing to do)

`evaluate-only` is a second pipeline, of the same steps and parameters, for a model that there is already:

    check -> prepare -> evaluate -> finish

The same definition is compiled for Kubeflow Pipelines and run on one machine by kfp's local runner. Steps are wired by
name: a step gets what its face in components/<step>/component.py asks for; what those with a model go by stands in
components/handed.py, and what a step's pod gets on a cluster in components/pods.py.
`python pipeline.py <verb>` hands over to cli/.
"""

import inspect
from typing import Any

if __name__ == "__main__":
    from cli.processes import end_quietly

    end_quietly()  # the imports below take seconds
try:
    from kfp import dsl
except ModuleNotFoundError:
    from cli.bootstrap import refuse_other_python

    refuse_other_python()
    raise

from components.check import check
from components.evaluate.component import evaluate
from components.fetch_model import fetch_model
from components.filter.component import filter_learnable
from components.finish import finish
from components.handed import HANDED
from components.pods import PLACEMENT, Pods, place
from components.prepare.component import prepare
from components.publish import publish
from components.reused import reused
from components.skip import unchanged
from components.train.component import train


def asked_for(face: Any, given: dict[str, Any], step: str = "") -> dict[str, Any]:
    """Those of the given values that a step has inputs for, by name; its `settings` are those made for it."""
    given = {**given, "settings": given[f"{step}_settings"]} if step else given
    return {name: given[name] for name in face.component_spec.inputs or {} if name in given}


def pinned_by(checked: Any) -> dict[str, Any]:
    """What check hands to the steps after it, by name."""
    return {name: checked.outputs[name] for name in check.component_spec.outputs}


def make_train_and_evaluate(*, cache_training: bool, pods: Pods | None) -> Any:
    """The part that follows on problems, with or without filter, as a pipeline of its own with its steps' inputs."""
    steps = {"train": train, "evaluate": evaluate, "publish": publish}
    kinds: dict[str, Any] = {"problems": dsl.Input[dsl.Dataset], "model_revision": str, "publish_as": str}
    kinds |= {f"{step}_settings": str for step in steps} | (PLACEMENT if pods is not None else {})
    may_be_reused = cache_training and pods is not None
    kinds |= {"resume_run": str} if may_be_reused else {}

    def train_and_evaluate(*values: Any) -> None:
        """Train on the problems, compare base and tuned model on the held-out ones, publish if asked and better."""
        given = dict(zip(kinds, values, strict=True))
        # with the run's id among its inputs a step is never found in KFP's cache; its pod knows the run it belongs to
        given["run_id"] = "" if may_be_reused else dsl.PIPELINE_JOB_ID_PLACEHOLDER

        def placed(step: str) -> Any:
            return place(steps[step](**asked_for(steps[step], given, step)), step, given, pods)

        given["model"] = placed("train").set_caching_options(cache_training).outputs["model"]
        given["evaluation"] = placed("evaluate").set_caching_options(cache_training).outputs["evaluation"]
        given["run_id"] = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        with dsl.If(given["publish_as"] != "", name="with-publishing"):
            placed("publish").set_caching_options(False)
        if may_be_reused:
            with dsl.If(given["publish_as"] == "", name="without-publishing"):
                place(reused(**asked_for(reused, given)), "reused", given, pods).set_caching_options(False)

    only = inspect.Parameter.KEYWORD_ONLY
    inputs = [inspect.Parameter(name, only, annotation=kind) for name, kind in kinds.items()]
    train_and_evaluate.__signature__ = inspect.Signature(inputs)  # type: ignore[attr-defined]
    return dsl.pipeline(name="train-and-evaluate")(train_and_evaluate)


def make_pipeline(*, cache_training: bool, pods: Pods | None) -> Any:
    """The whole pipeline; cache_training lets an unchanged train and evaluate be reused, as `--reuse` asks.

    pods: what the steps' pods are like on a cluster; None for one machine, where the hub's own cache serves the model.
    """
    train_and_evaluate = make_train_and_evaluate(cache_training=cache_training, pods=pods)

    @dsl.pipeline(name="grpo-code", description="Teach a code model to write correct Python with GRPO")
    def grpo_code(
        model_name: str = "Qwen/Qwen2.5-Coder-7B",
        method: str = "lora",
        epochs: int = 2,
        lr: float = 5e-5,
        batch_size: int = 8,
        num_generations: int = 8,
        max_completion_length: int = 192,
        use_chat_template: bool = False,
        use_filter: bool = False,
        max_candidate_samples: int = 300,
        max_train_samples: int = 100,
        filter_samples: int = 4,
        filter_all_samples: bool = False,
        max_eval_samples: int = 50,
        num_eval_examples: int = 50,
        eval_k: int = 4,
        beta: float = 0.04,
        lora_r: int = 16,
        lora_alpha: int = 32,
        lora_target_modules: str = "all-linear",
        precision: str = "auto",
        dataset: str = "mbpp",
        dataset_revision: str = "",
        candidate_splits: str = "train,validation,prompt",
        hidden_tests: int = 24,
        regression_dataset: str = "",
        regression_revision: str = "",
        model_revision: str = "",
        init_adapter: str = "",
        temperature: float = 1.0,
        top_p: float = 1.0,
        micro_batch_size: int = 0,
        save_steps: int = 0,
        keep_checkpoints: int = 2,
        dynamic_sampling_tokens: int = 0,
        truncated_reward: str = "zero",
        max_stuck_steps: int = 0,
        grpo_overrides: str = "{}",
        export_merged: str = "no",
        trackers: str = "",
        reward: str = "tests",
        seed: int = 42,
        threads: int = 0,
        sandbox_url: str = "http://sandbox.grpo-code-sandbox:8080",
        test_timeout_s: float = 5.0,
        infra_limit: float = 0.02,
        publish_as: str = "",
        on_unchanged: str = "retrain",
        resume_run: str = "",
        gpu_resource: str = "nvidia.com/gpu",
        gpus: str = "1",
        prepare_cpu: str = "1",
        prepare_memory: str = "4Gi",
        filter_cpu: str = "4",
        filter_memory: str = "32Gi",
        train_cpu: str = "4",
        train_memory: str = "32Gi",
        evaluate_cpu: str = "4",
        evaluate_memory: str = "32Gi",
        node_selector: dict = {},  # noqa: B006 - kfp takes the default from here and changes nothing
        tolerations: list = [],  # noqa: B006
        hf_secret: str = "hf-token",
        store_secret: str = "grpo-code-store",
        sandbox_secret: str = "grpo-code-sandbox",
        code_version: str = "",
    ) -> None:
        """Prepare problems, filter them if asked, train with GRPO, compare base and tuned model, publish if asked.

        Args:
            model_name: Base model: a hub id, s3://bucket/folder, or a directory (not on a cluster).
            method: lora trains an adapter, full all weights, qlora an adapter on a 4-bit base (needs CUDA).
            epochs: Passes over the training problems; more than 2 invites memorising.
            lr: Learning rate of the optimiser (AdamW), falling linearly to 0.
            batch_size: Completions per optimiser step; must be divisible by num_generations.
            num_generations: Completions per prompt: the group within which advantages are computed.
            max_completion_length: Most tokens of a completion; truncated ones earn 0 or none and stay out of the loss.
            use_chat_template: Wrap prompts in the tokenizer's chat template; on for -Instruct models, off for bases.
            use_filter: Train only on what the policy that training starts from solves sometimes but not always.
            max_candidate_samples: Size of the candidate pool: what is trained on, or what the filter draws from.
            max_train_samples: Most problems that the filter keeps; only with use_filter.
            filter_samples: Most samples per candidate; kept if one passes and one fails.
            filter_all_samples: Draw all of filter_samples, even once a problem has both passed and failed.
            max_eval_samples: Size of the held-out pool.
            num_eval_examples: Held-out problems used in the comparison of base and tuned model.
            eval_k: Samples per held-out problem and model; the score is mean pass@1 over them.
            beta: Weight of the KL penalty that holds the policy near the base; 0 switches it off.
            lora_r: Rank of the adapter.
            lora_alpha: Scale of the adapter; its effective scale is lora_alpha / lora_r.
            lora_target_modules: Layers that get an adapter, as a comma list (q_proj,v_proj); all-linear takes all.
            precision: auto, bf16, fp16 or fp32; auto is bf16 where CUDA has it, fp16 on other CUDA, fp32 on a CPU.
            dataset: mbpp, mbpp-sanitized, a hub id, a .jsonl or .json file, a directory, or s3://bucket/key.
            dataset_revision: Revision of the data set; resolved to a commit or digest at submit.
            candidate_splits: Splits that training problems come from, as a comma list, or all.
            hidden_tests: Hidden tests made for each problem, never a reward; 0 makes none.
            regression_dataset: Problems scored before and after as well, in HumanEval's or any known format.
            regression_revision: Revision of the regression set; resolved to a commit or digest at submit.
            model_revision: Revision of the model; resolved to a commit or digest at submit.
            init_adapter: Adapter to start from: models/<name>[/<version>], runs/<run>, s3://bucket/folder, a directory.
            temperature: Sampling temperature in filter, training and evaluation alike.
            top_p: Nucleus sampling in filter, training and evaluation alike; 1 switches it off.
            micro_batch_size: Completions per forward and backward pass; 0 chooses.
            save_steps: Optimiser steps between checkpoints; 0 chooses.
            keep_checkpoints: Newest checkpoints that are kept in the store.
            dynamic_sampling_tokens: Most tokens a step may draw to replace groups without variance; 0 keeps them.
            truncated_reward: What a truncated completion counts in its group: zero, or none.
            max_stuck_steps: Stop after so many steps in a row without a mixed group; 0 never stops for that.
            grpo_overrides: More settings of TRL's GRPOConfig, as a JSON object.
            export_merged: no, or bf16, fp16, fp32: hand on base and adapter merged in that precision as well.
            trackers: Where training's metrics go besides: tensorboard, mlflow, wandb, as a comma list; empty for none.
            reward: tests, or random as a control that must not learn.
            seed: Seed of the data shuffle, the training order and all sampling.
            threads: CPU threads of torch; 0 leaves it to torch, 1 makes CPU results repeat.
            sandbox_url: Where programs are judged; a comma list for several replicas.
            test_timeout_s: Most CPU seconds that one program may use on its tests; a reference may use half.
            infra_limit: Share of programs that the sandbox may fail to judge before the run stops.
            publish_as: Name under which the model is published if it beats the one that is current there; empty: never.
            on_unchanged: retrain, or skip: end early if data, model, code and parameters are those of the last success.
            resume_run: Id of a failed run to continue; empty for a new one.
            gpu_resource: Resource that filter, train, evaluate and publish ask the cluster for.
            gpus: How many of it each of them gets; 0 runs on a CPU.
            prepare_cpu: CPUs requested for each step without a GPU (prepare and those around it).
            prepare_memory: Memory of each step without a GPU.
            filter_cpu: CPUs requested for filter.
            filter_memory: Memory of filter.
            train_cpu: CPUs requested for train.
            train_memory: Memory of train; weights pass through it on their way to the GPU.
            evaluate_cpu: CPUs requested for evaluate and publish.
            evaluate_memory: Memory of evaluate and publish.
            node_selector: Labels of the nodes that the steps with a GPU may run on, as a JSON object.
            tolerations: Taints that they tolerate, as a JSON list of Kubernetes tolerations.
            hf_secret: Secret whose key HF_TOKEN opens gated models and data sets; it may be missing.
            store_secret: Secret with S3_ENDPOINT, S3_ACCESS_KEY, S3_SECRET_KEY, S3_SECURE, and GRPO_STORE if needed.
            sandbox_secret: Secret whose key TOKEN the sandbox asks for.
            code_version: Version of the code, part of every cache key; set at submit.
        """
        given = dict(locals())
        run_id = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        finished = place(finish(run_id=run_id, resume_run=resume_run), "finish", given, pods)
        with dsl.ExitHandler(finished.set_caching_options(False), name="run"):
            given |= {"training": True, "tuned_model": ""}
            checked = place(check(**asked_for(check, given)), "check", given, pods).set_caching_options(False)
            given |= pinned_by(checked)
            prepared = place(prepare(**asked_for(prepare, given)), "prepare", given, pods)
            if pods is not None:
                fetched = place(fetch_model(**asked_for(fetch_model, given)), "fetch_model", given, pods)
                given["model_revision"] = fetched.set_caching_options(False).output
            since = checked.outputs["unchanged_since"]
            with dsl.If(since != "", name="without-training"):
                skipped = unchanged(run_id=run_id, resume_run=resume_run, since=since)
                place(skipped, "unchanged", given, pods).set_caching_options(False)
            with dsl.Elif(use_filter == True, name="with-filter"):  # noqa: E712 - kfp builds the condition from ==
                given["prepared"] = prepared.outputs["prepared"]
                kept = filter_learnable(**asked_for(filter_learnable, given, "filter"))
                place(kept, "filter", given, pods)
                train_and_evaluate(problems=kept.outputs["problems"], **asked_for(train_and_evaluate, given))
            with dsl.Else(name="without-filter"):
                train_and_evaluate(problems=prepared.outputs["prepared"], **asked_for(train_and_evaluate, given))

    return grpo_code


grpo_code = make_pipeline(cache_training=False, pods=Pods())
# What evaluate-only leaves to the whole pipeline's defaults: nothing is trained in it.
ONLY_FOR_TRAINING = ("candidate_splits", "max_candidate_samples", "reward")
TUNED_MODEL = "Trained model to compare with its base, model_name: models/<name>, runs/<run>, s3:// or a directory."


def evaluation_inputs(pods: Pods | None) -> tuple[list[inspect.Parameter], str]:
    """The parameters of evaluate-only, defaults and help those of the whole pipeline's, and the docstring with them."""
    whole = inspect.signature(grpo_code.pipeline_func).parameters
    wanted = {name for step in (prepare, fetch_model, finish) for name in step.component_spec.inputs}
    wanted |= {*HANDED["evaluate"]} | {name for name in PLACEMENT if not name.startswith(("train_", "filter_"))}
    names = [name for name in whole if name in wanted and name not in ONLY_FOR_TRAINING]
    text = {name: grpo_code.component_spec.inputs[name].description for name in names} | {"tuned_model": TUNED_MODEL}
    tuned = inspect.Parameter("tuned_model", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="", annotation=str)
    lines = "\n".join(f"    {name}: {help_}" for name, help_ in text.items())
    doc = f"Evaluate a base, or a trained model beside its base, on the problems of a data set.\n\nArgs:\n{lines}\n"
    return [tuned, *(whole[name] for name in names)], doc


def make_evaluate_only(*, cache_training: bool, pods: Pods | None) -> Any:
    """The pipeline for a model that there is already.

    Whatever cache_training says, an evaluation is not reused: only a published version is sure to be what it was.
    """
    inputs, doc = evaluation_inputs(pods)
    rest = {name: spec.default for name, spec in grpo_code.component_spec.inputs.items()}

    def evaluate_only(*values: Any) -> None:
        run_id = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        given = {**rest, **dict(zip([one.name for one in inputs], values, strict=True)), "run_id": run_id}
        finished = place(finish(**asked_for(finish, given)), "finish", given, pods)
        with dsl.ExitHandler(finished.set_caching_options(False), name="run"):
            checked = place(check(training=False, **asked_for(check, given)), "check", given, pods)
            given |= pinned_by(checked.set_caching_options(False)) | {"max_candidate_samples": 0}
            prepared = place(prepare(**asked_for(prepare, given)), "prepare", given, pods)
            if pods is not None:
                fetched = place(fetch_model(**asked_for(fetch_model, given)), "fetch_model", given, pods)
                given["model_revision"] = fetched.set_caching_options(False).output
            given["problems"] = prepared.outputs["prepared"]
            evaluated = evaluate(**asked_for(evaluate, given, "evaluate"))
            place(evaluated, "evaluate", given, pods).set_caching_options(False)

    evaluate_only.__signature__ = inspect.Signature(inputs)  # type: ignore[attr-defined]
    evaluate_only.__doc__ = doc
    return dsl.pipeline(name="evaluate-only", description=doc.split("\n", 1)[0])(evaluate_only)


PIPELINES = {"grpo-code": make_pipeline, "evaluate-only": make_evaluate_only}

if __name__ == "__main__":
    from cli.main import main

    main()
