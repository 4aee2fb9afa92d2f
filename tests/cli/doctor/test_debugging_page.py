"""What docs/debugging.md names must exist; tests/cluster/test_debugging_page.py runs its commands."""

import re

from cli.main import VERBS, commands
from tests.cluster.page import PAGE, blocks

TEXT = PAGE.read_text(encoding="utf-8")


def options_of(verb: str) -> set[str]:
    command = commands.get_command(None, verb)
    return {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}


def test_every_block_is_run_by_a_test():
    assert len(blocks()) > 12
    assert {block.kind for block in blocks()} == {"sh", "sh kfp", "sh pod", "sh node"}
    for block in blocks():
        for line in block.body.splitlines():
            assert re.match(r"((POD|IMAGE)=\$\()?kubectl ", line), f"{block.title}: {line}"


def test_a_command_that_no_test_runs_says_so():
    """Commands of kubectl outside of blocks, other than mere names of them such as `kubectl describe quota`."""
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"(?m)^ {4}kubectl ", prose), "an indented command is in no block"
    assert "are run by tests" in prose
    for paragraph in prose.split("\n\n"):
        inline = re.findall(r"`(kubectl [^`]*)`", paragraph)
        if any("$" in command or " -" in command for command in inline):
            assert "was not tried" in paragraph, inline


def test_every_verb_of_the_page_exists():
    named = set(re.findall(r"python pipeline\.py ([a-z-]+)", TEXT))
    assert named
    assert named <= set(VERBS)


def test_every_option_of_the_page_exists():
    """Those in running text are the product's; those within fences and after kubectl are kubectl's."""
    text = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.strip().startswith("kubectl"))
    named = set(re.findall(r"--[a-z][a-z-]+", re.sub(r"`kubectl [^`]*`", "", text)))
    known = options_of("run") | options_of("doctor")
    assert named - known == set()
