"""Command lines as pages and messages show them, and whether the product would take them."""

import re
import shlex
from pathlib import Path

import click

from cli.main import SETTINGS, commands
from components.shared.errors import UserError
from tests.conftest import ROOT

OURS = re.compile(r"(?:python3? pipeline\.py|make)(?=\s|$)")
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1$", re.MULTILINE | re.DOTALL)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"(?m)^([a-z0-9-]+):.*## ", MAKEFILE))
VARIABLES = set(re.findall(r"(?m)^export (.+)$", MAKEFILE)[0].split()) | set(
    re.findall(r"\$\((?:or \$\()?([A-Z]+)\)", MAKEFILE)
)


def lines_of_page(page: Path) -> list[str]:
    """Our command lines in a page of Markdown: in blocks, joined where they go on, and between backticks in text."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for name, words in re.findall(r"(?m)^ *(\w+)=\(([^$()][^()]*)\)$", text):
        text = text.replace(f'"${{{name}[@]}}"', " ".join(words.split()))
    fenced = [match[0] for match in FENCE.finditer(text)]
    prose = FENCE.sub("", text)
    blocks = "\n".join([*fenced, *(line for line in prose.splitlines() if line.startswith("    "))])
    found = [line.strip() for line in blocks.splitlines() if OURS.match(line.strip())]
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    return found + [code for code in inline if OURS.match(code) and "<" not in code]  # with a <name> it is a pattern


def lines_in(text: str) -> list[str]:
    """Our command lines in a message; each ends with the text, a semicolon, a backtick, a comma, a comment or `and`.

    `make` is a command where a message or a backtick begins with it, or after `then: `; elsewhere it is a word.
    """
    found = re.findall(r"python pipeline\.py [^;`\n#]+|(?:(?<=^)|(?<=`)|(?<=then: ))make [^;`\n#,]+", text)
    return [line.split(" and ")[0].strip() for line in found]


def fault(line: str) -> str:
    """Why the product would not take a command line, empty when it would; nothing is run."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        return str(error)
    words = [word for word in words if word != "&"]
    return _make_fault(words[1:]) if words[0] == "make" else _verb_fault(words[2:])


def _make_fault(words: list[str]) -> str:
    for word in words:
        variable, assigned, _ = word.partition("=")
        if assigned and variable not in VARIABLES:
            return f"make has no variable {variable}"
        if not assigned and word not in TARGETS:
            return f"make has no target {word}"
    return ""


def _verb_fault(words: list[str]) -> str:
    command: click.Command | None = commands
    context = click.Context(commands, **SETTINGS)
    words = list(words)
    while isinstance(command, click.Group):
        if not words:
            return ""
        name = words.pop(0)
        command = command.get_command(context, name)
        if command is None:
            return f"there is no verb {name}"
    assert command is not None
    try:
        command.make_context(str(command.name), words, parent=context)
    except click.exceptions.Exit:  # --help
        return ""
    except click.ClickException as error:
        return error.format_message()
    except UserError as error:
        return str(error)
    return ""
