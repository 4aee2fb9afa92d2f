"""The README's parameter table, written from the pipeline: `python -m cli.readme` refreshes it, a test compares it."""

from pathlib import Path

from cli.parameters import pipeline_parameters, show

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- parameters: written by `python -m cli.readme` -->", "<!-- end of parameters -->"


def table() -> str:
    """One row per parameter: its name, its default, its help."""
    rows = ["| parameter | default | |", "|---|---|---|"]
    for parameter in pipeline_parameters().values():
        default = "" if parameter.default == "" else f"`{show(parameter.default)}`"
        rows.append(f"| `{parameter.name}` | {default} | {parameter.help.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def refreshed(text: str) -> str:
    """The README's text with the table between its two marks replaced; ValueError when a mark is missing."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
