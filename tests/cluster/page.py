"""The fenced commands of docs/debugging.md."""

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/debugging.md"
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block: its section's title, what its fence says, its text.

    A fence says `sh`, or what else the block needs: `sh kfp` KFP, `sh pod` a pod that may go, `sh node` such a node.
    """

    title: str
    kind: str
    body: str


def blocks() -> list[Block]:
    """All blocks of the page, in order."""
    text = PAGE.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        title = re.findall(r"^## (.+)$", text[: match.start()], re.MULTILINE)[-1]
        found.append(Block(title, match["kind"].strip(), match["body"]))
    return found
