"""Every command line of ours that a page, a message or the doctor shows is one that the product takes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.uploading import DEMO_PODS
from tests.command_lines import fault, lines_in, lines_of_page
from tests.conftest import ROOT
from tests.docs.commands import PAGES

SOURCES = [path for folder in ("cli", "components") for path in sorted((ROOT / folder).rglob("*.py"))]


def texts_in(source: Path) -> Iterator[str]:
    """The texts that a module may print; what is filled in stands as X. Docstrings are none."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
    docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and id(node) not in inner and node.value not in docstrings:
            yield str(node.value)


SHOWN = sorted({(str(path.relative_to(ROOT)), line) for path in PAGES for line in lines_of_page(path)})
SAID = sorted(
    {(str(path.relative_to(ROOT)), line) for path in SOURCES for text in texts_in(path) for line in lines_in(text)}
)


def test_command_lines_are_found() -> None:
    assert len(SHOWN) > 30
    without = {f"docs/{name}.md" for name in ("background", "security", "tuning")} | {"CONTRIBUTING.md"}
    without |= {"images/sandbox/README.md"}
    assert {page for page, _ in SHOWN} >= {str(path.relative_to(ROOT)) for path in PAGES} - without
    assert ("components/shared/run.py", "python pipeline.py run --resume X") in SAID
    assert ("cli/doctor/installation.py", "make deploy") in SAID


def test_the_walk_throughs_join() -> None:
    """Each way names one namespace from its first step to its last, and the demo asks for what `upload-demo` says."""
    text = (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8")
    ways = {
        title: text.split(f"## From nothing to a run: {title}\n")[1].split("\n## ")[0]
        for title in ("on kind", "on Kubeflow")
    }
    for way, runs in (("on kind", "kubeflow"), ("on Kubeflow", "team-a")):
        named = re.findall(r"grpo-code-store -n ([a-z-]+)|\bNAMESPACE=([a-z-]+)", ways[way])
        assert {namespace for pair in named for namespace in pair if namespace} == {runs}
        numbers = [int(number) for number in re.findall(r"(?m)^(\d+)\. \*\*", ways[way])]
        assert numbers == list(range(1, len(numbers) + 1))
        for verb in (
            "make deploy",
            "upload-demo",
            "doctor",
            "run",
            "watch",
            "logs",
            "report",
            "upload",
            "schedule create",
        ):
            assert re.search(rf"(pipeline\.py {verb}|^ +{verb})\b", ways[way], re.MULTILINE), f"{way}: {verb}"
    (run,) = [
        line
        for page, line in SHOWN
        if page == "docs/kubernetes.md" and "pipeline.py run" in line and "demo/par" in line
    ]
    for name, value in DEMO_PODS.items():
        assert f"--{name.replace('_', '-')} {value}" in run or name.startswith("filter_")


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_a_line_of_a_page(page: str, line: str) -> None:
    assert fault(line) == ""


@pytest.mark.parametrize(("source", "line"), SAID)
def test_a_line_of_a_message(source: str, line: str) -> None:
    assert fault(line) == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("python pipeline.py watch", "Missing argument 'RUN'"),
        ("python pipeline.py wacth RUN", "there is no verb wacth"),
        ("python pipeline.py run --folow", "No such option"),
        ("python pipeline.py run --epochs many", "is not a whole number"),
        ("python pipeline.py schedule remove ID", "there is no verb remove"),
        ("make depoly", "make has no target depoly"),
        ("make deploy OVERLY=local", "make has no variable OVERLY"),
        ("python pipeline.py run --params 'x", "No closing quotation"),
    ],
)
def test_a_line_that_is_wrong_is_told(line: str, words: str) -> None:
    assert words in fault(line)
