"""The commands that the pages show: whole blocks of shell, indented blocks, and what stands between backticks."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

PAGES = [
    path
    for place in ("*.md", "docs/*.md", "demo/*.md", "bench/*.md", "images/sandbox/*.md")
    for path in sorted(ROOT.glob(place))
]
FENCE = re.compile(r"(?ms)^(?P<margin> *)```(?P<kind>[^\n`]*)\n(?P<body>.*?)^(?P=margin)```$")
PROGRAMS = ("python", "python3", "make", "kubectl", "docker", "kind", "kfp", "curl", "source", "export", "git", "pip")
COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{'|'.join(PROGRAMS)})(?= \S)")


def commands_of(page: Path) -> list[str]:
    """A page's commands, each in one line where it is one; continued lines are joined, comments left out."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        body = re.sub(f"(?m)^{fence['margin']}", "", fence["body"])
        if fence["kind"].split()[:1] == ["sh"]:
            found += pieces(body)
        else:
            wrong = [line for line in body.splitlines() if COMMAND.match(line)]
            assert not wrong, f"{page.name}: the block of {wrong[0]!r} is not marked sh"
    prose = FENCE.sub("", text)
    for block in re.findall(r"(?m)(?:^ {4}.*\n)+", prose):
        inner = re.sub(r"(?m)^ {4}", "", block)
        if COMMAND.match(inner.lstrip()):
            found += pieces(inner)
    inline = [tidy(code) for code in re.findall(r"`([^`]+)`", prose)]
    return found + [code for code in inline if COMMAND.match(code) and "<" not in code]  # with a <name> it is a pattern


def pieces(block: str) -> Iterator[str]:
    """A block of shell cut where bash takes a line for the end of a command."""
    piece = ""
    for line in block.splitlines():
        piece += f"{line}\n"
        if not line.endswith("\\") and fault(piece) == "":
            if tidy(piece):
                yield tidy(piece)
            piece = ""
    assert not piece, f"no shell takes this: {fault(piece)}"


def fault(command: str) -> str:
    """Why bash cannot read a command, empty when it can; nothing is run."""
    return subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, timeout=20).stderr


def tidy(piece: str) -> str:
    """A command without its comment; blanks count only where it has several lines."""
    joined = re.sub(r"\\\n\s*", "", piece).strip()
    lines = [re.sub(r"(^|\s+)# .*$", "", line) for line in joined.splitlines()]
    lines = [line for line in lines if line]
    return " ".join(lines[0].split()) if len(lines) == 1 else "\n".join(lines)
