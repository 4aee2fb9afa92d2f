"""The verbs of `python pipeline.py`, and the one place where failures become a sentence and an exit code.

Exit codes: 0 done, 2 a user's mistake, 1 an infrastructure failure or a defect, 130 stopped by Ctrl-C.
"""

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

import click

from cli import parameters
from cli.environment import read_env_file
from cli.examples import with_example
from cli.processes import STOPPED
from components.shared.errors import InfraError, UserError, lacking

SETTINGS = {
    "token_normalize_func": lambda token: token.replace("_", "-"),  # --max_eval_samples is --max-eval-samples
    "help_option_names": ["-h", "--help"],
    "max_content_width": 120,
}


# verb: the module and function that make it, imported only when it is asked for (Kubernetes' client takes a second).
VERBS = {
    "plan": "cli.plan:plan_command",
    "local": "cli.main:local_command",
    "compile": "cli.verbs:compile_command",
    "upload": "cli.verbs:upload_command",
    "upload-demo": "cli.verbs:upload_demo_command",
    "run": "cli.verbs:run_command",
    "schedule": "cli.verbs:schedule_command",
    "watch": "cli.watching:watch_command",
    "report": "cli.watching:report_command",
    "compare": "cli.comparing:compare_command",
    "models": "cli.models:models_command",
    "runs": "cli.runs:runs_command",
    "logs": "cli.verbs:logs_command",
    "doctor": "cli.doctor.command:doctor_command",
}


class Verbs(click.Group):
    """A group whose commands are made when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, function = VERBS[cmd_name].partition(":")
        made = getattr(importlib.import_module(module), function)()
        return with_example(made, cmd_name) if isinstance(made, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each verb with its whole first sentence, where click would cut it off."""
        made = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Verbs"):
            formatter.write_dl([(name, first_sentence(command.help or "")) for name, command in made if command])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the verbs' names for its `Did you mean`."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=VERBS, ctx=ctx) from None


def first_sentence(text: str) -> str:
    """The first sentence of a verb's help, in one line."""
    return " ".join(text.split()).split(". ")[0].removesuffix(".")


commands = Verbs(
    context_settings=SETTINGS,
    no_args_is_help=False,
    help="Teach a code model to write correct Python with GRPO: prepare -> filter -> train -> evaluate.",
    epilog="\b\nThe demo:                python pipeline.py local --params demo/parameters.toml\n"
    "What a verb can be told: python pipeline.py local --help",
)


def _local(params: Path | None, run_id: str | None, reuse: bool, pipeline: str, **options: Any) -> int:
    """Run the pipeline on this machine: no cluster and no GPU needed."""
    from cli.local import command_line, run_local

    parameters.refuse_foreign(options, pipeline)
    repeat = command_line(parameters.asked(None, options), params, pipeline)
    given = parameters.asked(params, options)
    return run_local(given, run_id=run_id, reuse=reuse, command=repeat, pipeline=pipeline)


def local_command() -> click.Command:
    """The verb `local`, whose options are the pipeline's parameters."""
    own = [
        parameters.pipeline_option(),
        parameters.file_option(),
        click.Option(["--run-id"], help="Id of an earlier run to go on with, or a name for a new one."),
        click.Option(["--reuse"], is_flag=True, help="Reuse training and evaluation too where nothing has changed."),
    ]
    return click.Command(
        "local", params=[*own, *parameters.options(parameters.all_parameters())], callback=_local, help=_local.__doc__
    )


def main(arguments: list[str] | None = None) -> None:
    """Run one verb and exit; never a traceback for what the user can mend."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        read_env_file(Path.cwd())
        code = commands.main(_with_help(arguments), prog_name="pipeline.py", standalone_mode=False)
    except click.UsageError as error:
        _fail(_one_sentence(error, arguments), 2)
    except click.exceptions.Abort:
        _fail("Stopped.", STOPPED)
    except (UserError, InfraError) as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:  # who read has seen enough, as `| head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        known = lacking(error)
        if known is None:
            raise
        _fail(str(known), known.exit_code)
    sys.exit(code or 0)


def _with_help(arguments: list[str]) -> list[str]:
    """Nothing at all and `help` ask for the list of verbs, `help VERB` for that verb's help."""
    if not arguments or arguments[0] == "help":
        return [*arguments[1:], "--help"]
    return arguments


def _one_sentence(error: click.UsageError, arguments: list[str]) -> str:
    """click's complaint without the usage dump: the nearest name of an option, the kind or range of a number."""
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error, arguments)
    if isinstance(error, click.BadParameter) and error.param is not None:
        number = parameters.number_wanted(error.param.type)
        if number:
            value = error.message.split(" is not ")[0].strip("'")
            return f"{error.param.opts[0]} {value!r} is not {number}."
    complaint = error.format_message()
    extra = re.search(r"unexpected extra arguments? \((\S+)", complaint)
    if extra:
        before = arguments[: arguments.index(extra[1].rstrip(")"))][-1:]
        return _extra(extra[1].rstrip(")"), before[0] if before else "")
    return complaint if complaint.endswith("?") else complaint.rstrip(".") + ": `--help` lists what there is."


def _no_such_option(error: click.NoSuchOption, arguments: list[str]) -> str:
    """click takes `-params` for `-p -a ...` and names the first letter that it does not know."""
    name = error.option_name
    if len(name) == 2:
        cluster = [word for word in arguments if re.match(r"-[^-].", word) and name[1] in word]
        name = cluster[0].partition("=")[0] if cluster else name
    options = error.ctx.command.params if error.ctx else []
    names = [known.lstrip("-") for option in options for known in (*option.opts, *option.secondary_opts)] + ["help"]
    near = parameters.nearest(name.lstrip("-"), [known.replace("-", "_") for known in names])
    near = near.replace("_", "-").replace("mean ", "mean --")
    return f"There is no option {name}.{near or ' `--help` lists all.'}"


def _extra(word: str, before: str) -> str:
    """What to say of a word that belongs to no option; `before` is the word before it."""
    if word.endswith(".toml"):
        return f"Got unexpected extra argument ({word}). Did you mean --params {word}?"
    if before.startswith("--") and word.lower() in ("true", "false", "yes", "no", "on", "off", "1", "0"):
        name = before.removeprefix("--").removeprefix("no-")
        return f"{before} is a switch and takes no value: write --{name} or --no-{name}."
    return f"Got unexpected extra argument ({word}): `--help` lists what there is."


def _fail(sentence: str, code: int) -> None:
    click.echo(sentence, err=True)
    sys.exit(code)
