"""The pipeline's parameters as command-line options and as a TOML file.

Names, types, defaults and help come from the compiled pipeline, so that they stand in pipeline.py alone. Values are
merged as defaults < file < options; whatever does not fit is refused in one sentence.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import click

from components.shared.errors import UserError
from components.shared.model_hub import near_path

# kfp's name of a type: (Python type, what a person calls it, an example); Dict and List are JSON on the command line.
KINDS: dict[str, tuple[type, str, str]] = {
    "String": (str, "text", '"text"'),
    "Integer": (int, "a whole number", "8"),
    "Float": (float, "a number", "0.5"),
    "Boolean": (bool, "true or false", "true"),
    "Dict": (dict, "a JSON object", '{"name": "value"}'),
    "List": (list, "a JSON list", '[{"key": "name", "operator": "Exists"}]'),
}
WHOLE, EVALUATE_ONLY = "grpo-code", "evaluate-only"  # as pipeline.py names them
READ: dict[type, Callable[[str], Any]] = {int: int, float: float, dict: json.loads, list: json.loads}


@dataclass(frozen=True)
class Parameter:
    """One pipeline parameter; kind is a key of KINDS."""

    name: str
    kind: str
    default: Any
    help: str

    @property
    def flag(self) -> str:
        """The option as a person types it, for example `--max-eval-samples`."""
        return "--" + self.name.replace("_", "-")


@lru_cache
def pipeline_parameters(pipeline: str = WHOLE) -> dict[str, Parameter]:
    """All parameters of a pipeline by name, in the order of its signature."""
    from components.pods import Pods
    from pipeline import PIPELINES, grpo_code

    made = grpo_code if pipeline == WHOLE else PIPELINES[pipeline](cache_training=False, pods=Pods())
    inputs = made.component_spec.inputs
    return {name: Parameter(name, spec.type, spec.default, spec.description or "") for name, spec in inputs.items()}


def all_parameters() -> dict[str, Parameter]:
    """The parameters of all pipelines; what several have is the same in each."""
    return {**pipeline_parameters(EVALUATE_ONLY), **pipeline_parameters()}


def pipeline_option() -> click.Option:
    """The option that chooses the pipeline."""
    text = f"{WHOLE}, or {EVALUATE_ONLY}: a base, or tuned_model beside its base, on any problems, nothing trained."
    names = click.Choice([WHOLE, EVALUATE_ONLY])
    return click.Option(["--pipeline"], type=names, default=WHOLE, show_default=True, help=text)


def refuse_foreign(options: Mapping[str, Any], pipeline: str) -> None:
    """UserError for an option that the chosen pipeline has no use for."""
    for name, value in options.items():
        parameter = all_parameters().get(name)
        if value is not None and parameter and name not in pipeline_parameters(pipeline):
            raise UserError(f"{parameter.flag} is no parameter of the pipeline {pipeline}: leave it out.")


def convert(parameter: Parameter, value: Any, *, named: str) -> Any:
    """The value in the parameter's type; `named` is what the user called it. UserError when it does not fit."""
    wanted, words, example = KINDS[parameter.kind]
    if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
        return value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)
    raise UserError(f"{named} {value!r} is not {words}: write it like {example}.")


def refuse_other_pipeline(run_id: str, then: Mapping[str, Any], pipeline: str) -> None:
    """UserError when a run that is to be continued with the parameters `then` was one of another pipeline."""
    own = set(pipeline_parameters(EVALUATE_ONLY)) - set(pipeline_parameters())
    was = EVALUATE_ONLY if own & set(then) else WHOLE
    if was != pipeline:
        raise UserError(f"Run {run_id} is one of the pipeline {was}: give --pipeline {was} to continue it.")


class _Value(click.ParamType[Any]):
    """Text of an option, read as its parameter's type."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter
        self.name = KINDS[parameter.kind][0].__name__

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parsed = value
        wanted = KINDS[self.parameter.kind][0]
        if isinstance(value, str) and wanted in READ:
            try:
                parsed = READ[wanted](value)
            except ValueError:
                parsed = value
        return convert(self.parameter, parsed, named=self.parameter.flag)


def file_option() -> click.Option:
    """The option that names a file of parameters."""
    text = "TOML file of parameters; options win over it."
    return click.Option(["--params"], type=click.Path(path_type=Path), help=text)


def asked(file: Path | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the user gives: the file's parameters, and those of the options over them that were given."""
    from_line = {name: value for name, value in options.items() if value is not None}
    return {**(read_file(file) if file else {}), **from_line}


def options(known: Mapping[str, Parameter] | None = None) -> list[click.Option]:
    """One click option per parameter, of the whole pipeline or of those given; None: the user did not give it."""
    made = []
    for parameter in (pipeline_parameters() if known is None else known).values():
        shown = f"{parameter.help} [default: {show(parameter.default)}]"
        if parameter.kind == "Boolean":
            both = f"{parameter.flag}/--no-{parameter.flag[2:]}"
            made.append(click.Option([both, parameter.name], default=None, help=shown))
        else:
            made.append(click.Option([parameter.flag, parameter.name], type=_Value(parameter), help=shown))
    return made


def show(value: Any) -> str:
    """A default as the README and `--help` print it."""
    return "empty" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)


def nearest(name: str, names: Iterable[str]) -> str:
    """` Did you mean x?` with a leading blank, or nothing when no name is near."""
    near = difflib.get_close_matches(name.replace("-", "_"), list(names), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def number_wanted(kind: click.ParamType[Any]) -> str:
    """What an option of click's own number types takes, in words; empty for other types."""
    if not isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return ""
    whole = isinstance(kind, click.types.IntParamType)
    words = KINDS["Integer" if whole else "Float"][1]
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    bounds = [f"{word} {bound:g}" for word, bound in (("at least", low), ("at most", high)) if bound is not None]
    return f"{words} of {' and '.join(bounds)}" if bounds else f"{words}: write it like {8 if whole else 0.5}"


def read_file(file: Path) -> dict[str, Any]:
    """The overrides in a flat TOML file of parameters; UserError says which file and key are wrong."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        way = "give --params the path of a TOML file"
        raise UserError(f"The parameter file {file} does not exist: {way}.{near_path(str(file))}") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"The parameter file {file} cannot be read ({why}): give a TOML file in UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"The parameter file {file} is not TOML ({error}): write lines like `epochs = 1`.") from None
    known, values = all_parameters(), {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in known:
            raise UserError(f"{file}: there is no parameter {key!r}.{nearest(name, known)}")
        values[name] = convert(known[name], value, named=f"{file}: {key}")
    return values


def merged(given: Mapping[str, Any], pipeline: str = WHOLE) -> dict[str, Any]:
    """Every parameter's value: the given ones over the defaults, in the order of the signature.

    What the pipeline has no parameter for is left out: a file may serve several.
    """
    return {name: given.get(name, parameter.default) for name, parameter in pipeline_parameters(pipeline).items()}
