"""The README's parameter table, written from the pipeline: `python -m cli.readme` refreshes it, a test compares it."""

from pathlib import Path

from cli.parameters import EVALUATE_ONLY, all_parameters, pipeline_parameters, show

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- parameters: written by `python -m cli.readme` -->", "<!-- end of parameters -->"


def table() -> str:
    """One row per parameter: its name, its default, its help; last those of evaluate-only alone."""
    rows = ["| parameter | default | |", "|---|---|---|"]
    whole = pipeline_parameters()
    own = {name: parameter for name, parameter in all_parameters().items() if name not in whole}
    for name, parameter in {**whole, **own}.items():
        default = "" if parameter.default == "" else f"`{show(parameter.default)}`"
        text = f"{EVALUATE_ONLY} alone: {parameter.help}" if name in own else parameter.help
        rows.append(f"| `{name}` | {default} | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def refreshed(text: str) -> str:
    """The README's text with the table between its two marks replaced; ValueError when a mark is missing."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
