"""The walk-throughs of docs/kubernetes.md as scripts that can be run: their blocks, but for what is said."""

import re
from collections.abc import Callable, Mapping

from tests.cluster.cluster import ROOT

PAGE = ROOT / "docs/kubernetes.md"
# RUN is what `run` printed; what waits for Ctrl-C is left after a look; a forwarded port is waited for.
HELPERS = """
set -euo pipefail
open_port() {
  for _ in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null && return; sleep 0.2; done
  return 1
}
shown() {
  local read="import sys, urllib.request as u; print('##', u.urlopen(sys.argv[1]).read().decode())"
  for page in status.html evaluate/evaluation.json; do python -c "$read" http://127.0.0.1:$1/$page; done
}
"""
CLEAN = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"


def steps(way: str) -> dict[int, str]:
    """The text of the block of each numbered step of the section called `way`, without its indentation."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {way}\n")[1].split("\n## ")[0]
    found = {}
    for part in re.split(r"(?m)^(?=\d+\. \*\*)", text)[1:]:
        block = re.search(r"(?ms)^( +)```sh\n(.*?)^\1```$", part)
        if block:
            found[int(part.split(".")[0])] = re.sub(f"(?m)^{block[1]}", "", block[2])
    return found


def script(way: str, first: int, last: int, adapted: Mapping[str, str], amended: Callable[[int, str], str]) -> str:
    """Steps `first` to `last`; each says its number before it begins.

    adapted: of the page's own text, what stands instead. amended(number, block): the step with what the test adds.
    """
    text = CLEAN + HELPERS
    for number, block in steps(way).items():
        if first <= number <= last:
            for old, new in adapted.items():
                block = block.replace(old, new)
            text += f"echo '== {number}'\n{amended(number, block)}"
    return text


def run_followed(block: str) -> str:
    """A step whose first command is `run --follow`, its id kept as RUN."""
    command, newline, rest = block.partition("--follow\n")
    return f'{command}--follow | tee "$SAID"\nRUN=$(sed -n \'s/^Started run //p\' "$SAID")\n{rest if newline else ""}'


def looked_at(block: str, pages: int) -> str:
    """A step that looks at a run: the run's id in place of RUN, its pages served on a port and read."""
    block = re.sub(r"\bRUN\b", "$RUN", block)
    block = re.sub(r"(?m)^(.* report .*)$", rf"\1 --port {pages} &", block)
    return f"{block}open_port {pages}\nshown {pages}\n"


def parts(printed: str) -> dict[int, str]:
    """What each step printed, by its number."""
    return {int(each.split("\n")[0]): each for each in printed.split("== ")[1:]}
