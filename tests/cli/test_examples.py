"""Every verb's `--help` ends with an example that the product takes."""

from collections.abc import Iterator

import click
import pytest

from cli.examples import EXAMPLES
from cli.main import VERBS, commands, main
from tests.command_lines import OURS, fault


def verbs() -> Iterator[str]:
    for name in VERBS:
        command = commands.get_command(click.Context(commands), name)
        if isinstance(command, click.Group):
            yield from (f"{name} {inner}" for inner in command.commands)
        else:
            yield name


def test_every_verb_has_one():
    assert sorted(verbs()) == sorted(EXAMPLES)


@pytest.mark.parametrize("verb", EXAMPLES)
def test_the_example_is_taken_and_shown(verb, capsys):
    line = EXAMPLES[verb]
    found = OURS.search(line)
    assert found
    assert fault(line[found.start() :]) == ""
    with pytest.raises(SystemExit) as ended:
        main([*verb.split(), "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.rstrip().endswith(f"Example:\n\n      {line}")
