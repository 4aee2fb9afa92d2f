"""The verbs of `python pipeline.py`, and the one place where failures become a sentence and an exit code.

Exit codes: 0 done, 2 a user's mistake, 1 an infrastructure failure or a defect, 130 stopped by Ctrl-C.
"""

import sys
from pathlib import Path
from typing import Any

import click

from cli import parameters
from components.shared.errors import InfraError, UserError

SETTINGS = {
    "token_normalize_func": lambda token: token.replace("_", "-"),  # --max_eval_samples is --max-eval-samples
    "help_option_names": ["-h", "--help"],
    "max_content_width": 120,
}


@click.group(context_settings=SETTINGS, no_args_is_help=False)
def commands() -> None:
    """Teach a code model to write correct Python with GRPO: prepare -> filter -> train -> evaluate."""


def _local(params: Path | None, run_id: str | None, reuse: bool, **options: Any) -> int:
    """Run the whole pipeline on this machine: no cluster and no GPU needed."""
    from cli.local import command_line, run_local

    from_file = parameters.read_file(params) if params else {}
    from_line = {name: value for name, value in options.items() if value is not None}
    repeat = command_line(from_line, params)
    return run_local({**from_file, **from_line}, run_id=run_id, reuse=reuse, command=repeat)


def _local_command() -> click.Command:
    """The verb `local`, whose options are the pipeline's parameters."""
    own = [
        click.Option(
            ["--params"], type=click.Path(path_type=Path), help="TOML file of parameters; options win over it."
        ),
        click.Option(["--run-id"], help="Id of an earlier run to go on with, or a name for a new one."),
        click.Option(["--reuse"], is_flag=True, help="Reuse training and evaluation too where nothing has changed."),
    ]
    return click.Command("local", params=[*own, *parameters.options()], callback=_local, help=_local.__doc__)


@commands.command("compile")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="File to write (.yaml).")
def compile_command(output: Path) -> None:
    """Write the pipeline as a file that Kubeflow Pipelines accepts."""
    from kfp.compiler import Compiler

    from cli.revisions import code_version
    from pipeline import grpo_code

    if output.suffix not in (".yaml", ".yml", ".json"):
        raise UserError(f"-o {output} is no name for a pipeline: it must end in .yaml, .yml or .json.")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        # kfp.Compiler writes in place; the version is what makes KFP's cache notice changed code
        Compiler().compile(grpo_code, str(output), pipeline_parameters={"code_version": code_version()})
    except OSError as error:
        raise UserError(
            f"-o {output} cannot be written ({error.strerror}): name a file in a writable folder."
        ) from None
    click.echo(f"Wrote {output}.")


def main(arguments: list[str] | None = None) -> None:
    """Run one verb and exit; never a traceback for what the user can mend."""
    arguments = sys.argv[1:] if arguments is None else arguments
    from cli.doctor.command import doctor_command

    commands.add_command(_local_command())
    commands.add_command(doctor_command())
    try:
        code = commands.main(arguments or ["--help"], prog_name="pipeline.py", standalone_mode=False)
    except click.UsageError as error:
        _fail(_one_sentence(error), 2)
    except click.exceptions.Abort:
        _fail("Stopped.", 130)
    except (UserError, InfraError) as error:
        _fail(str(error), error.exit_code)
    sys.exit(code or 0)


def _one_sentence(error: click.UsageError) -> str:
    """click's complaint without the usage dump; for an unknown option with the nearest name."""
    if isinstance(error, click.NoSuchOption):
        names = parameters.pipeline_parameters()
        near = parameters.nearest(error.option_name.lstrip("-"), [*names, "params", "run_id", "reuse"])
        near = near.replace("_", "-").replace("mean ", "mean --")
        return f"There is no option {error.option_name}.{near or ' `--help` lists all.'}"
    complaint = error.format_message()
    return complaint if complaint.endswith("?") else complaint.rstrip(".") + ": `--help` lists what there is."


def _fail(sentence: str, code: int) -> None:
    click.echo(sentence, err=True)
    sys.exit(code)
