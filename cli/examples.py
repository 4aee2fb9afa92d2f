"""One example of each verb, for the end of its `--help`."""

import click

EXAMPLES = {
    "plan": "python pipeline.py plan --gpu A100-80GB --hourly-rate 2.50",
    "local": "python pipeline.py local --params demo/parameters.toml --seed 7",
    "compile": "python pipeline.py compile -o build/pipeline.yaml --timeout train=48",
    "upload": "python pipeline.py upload --endpoint http://localhost:8080",
    "upload-demo": "GRPO_STORE=s3://grpo-code python pipeline.py upload-demo",
    "run": "python pipeline.py run --model-name Qwen/Qwen2.5-Coder-7B --train-memory 64Gi --follow",
    "schedule create": 'python pipeline.py schedule create --name nightly --cron "30 2 * * 1-5"',
    "schedule list": "python pipeline.py schedule list",
    "schedule disable": "python pipeline.py schedule disable 0d3c2b1a-0000-4000-8000-000000000000",
    "schedule delete": "python pipeline.py schedule delete 0d3c2b1a-0000-4000-8000-000000000000",
    "watch": "python pipeline.py watch 0d3c2b1a-0000-4000-8000-000000000000",
    "report": "python pipeline.py report latest --open",
    "compare": "python pipeline.py compare 20261129-101500-3f2a 20261130-101500-9c1d",
    "models list": "python pipeline.py models list",
    "models publish": "python pipeline.py models publish 20261130-101500-9c1d mbpp-coder",
    "models rollback": "python pipeline.py models rollback mbpp-coder",
    "runs list": "python pipeline.py runs list",
    "runs pin": "python pipeline.py runs pin 20261130-101500-9c1d",
    "runs unpin": "python pipeline.py runs unpin 20261130-101500-9c1d",
    "runs prune": "python pipeline.py runs prune --keep 20 --older-than 30",
    "logs": "python pipeline.py logs 0d3c2b1a-0000-4000-8000-000000000000 train",
    "doctor": "python pipeline.py doctor --model-name Qwen/Qwen2.5-Coder-7B --gpus 1",
}


def with_example(command: click.Command, name: str) -> click.Command:
    """The command with its example below its options; a group's own commands likewise."""
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            with_example(inner, f"{name} {part}")
    elif name in EXAMPLES:
        command.epilog = f"Example:\n\n\b\n    {EXAMPLES[name]}"
    return command
