"""The two displays and the closing words, fed with events and results as the steps write them."""

import io

import pytest
from rich.console import Console

from cli import display, summary
from cli.display import Events, LiveDisplay, PlainDisplay, make_console, print_plain, print_table
from components.shared.progress import PROGRESS_FILE, Progress, say
from components.shared.store import open_store


def state(step, name, time, **more):
    return {"step": step, "state": name, "time": time, **more}


def progress(done, time, *, note="", left=None):
    return {
        "step": "train", "task": "training", "done": done, "total": 60, "unit": "steps", "note": note,
        "seconds_left": left, "time": time,
    }  # fmt: skip


def plain(events):
    console = Console(file=io.StringIO(), width=40)
    with PlainDisplay(console) as display:
        for event in events:
            display.show(event)
    return console.file.getvalue().splitlines()


def test_plain_lines_are_few_and_say_how_far_and_how_long_still():
    events = [state("train", "running", 100.0), progress(0, 100.0)]
    events += [progress(step, 100.0 + step, note="reward 0.50", left=60.0 - step) for step in range(1, 61)]
    lines = plain([*events, state("train", "done", 165.0)])
    assert lines[0] == "train: started"
    assert lines[1] == "train: training 10/60 steps, reward 0.50, 50 s left"
    assert [line.split("/")[0].split()[-1] for line in lines[1:-1]] == ["10", "20", "30", "40", "50", "60"]
    assert lines[-2] == "train: training 60/60 steps, reward 0.50"
    assert lines[-1] == "train: done in 1 min 5 s"


def test_a_long_line_is_not_broken_where_there_is_no_terminal():
    message = "x" * 200
    assert plain([{"step": "prepare", "message": message, "time": 0.0}]) == [f"prepare: {message}"]


def test_brackets_in_a_message_are_text():
    assert plain([{"step": "prepare", "message": "row [red] 3", "time": 0.0}]) == ["prepare: row [red] 3"]


@pytest.fixture
def live():
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    return LiveDisplay(console, ("prepare", "train", "evaluate"))


def drawn(display):
    with display.console.capture() as captured:
        display.console.print(display._table())
    return captured.get().splitlines()


def test_the_table_shows_each_step_as_it_stands(live):
    live.show(state("prepare", "reused", 10.0))
    live.show(state("train", "running", 11.0))
    live.show(progress(30, 12.0, note="reward 0.50", left=1e9))
    live.show({"step": "train", "message": "with [brackets]", "time": 12.0})
    rows = drawn(live)
    assert "= prepare" in rows[0]
    assert "reused, nothing it reads has changed" in rows[0]
    assert "train" in rows[1]
    assert "30/60 steps, reward 0.50" in rows[1]
    assert "left" in rows[1]
    assert rows[2].strip() == "evaluate"
    assert "train: with [brackets]" in live.console.file.getvalue()
    live.show(state("train", "failed", 14.0))
    assert "✗ train" in drawn(live)[1]
    assert "3 s" in drawn(live)[1]


def test_events_are_read_whole_as_the_file_grows(tmp_path, monkeypatch):
    file = tmp_path / "events"
    events = Events(file)
    assert events.new() == []
    monkeypatch.setenv(PROGRESS_FILE, str(file))
    say("prepare", "one")
    Progress("prepare", "reading", 2, unit="rows").advance(note="ok")
    assert [event.get("message", event.get("done")) for event in events.new()] == ["one", 0, 1]
    with file.open("a") as stream:
        stream.write('{"step": "train", ')
    assert events.new() == []
    with file.open("a") as stream:
        stream.write('"message": "two"}\n')
    assert events.new() == [{"step": "train", "message": "two"}]


def evaluation(low, high):
    return {
        "base": {"pass_at_1": 0.383, "ci95": [0.3, 0.46]},
        "tuned": {"pass_at_1": 0.71},
        "difference": {"pass_at_1": 0.327, "ci95": [low, high]},
        "minimum_detectable": 0.104,
        "problems": 100,
        "reward": "tests",
        "regression": None,
        "hidden_tests": None,
        "samples_per_problem": 4,
        "buckets": {"improved": ["a", "b"], "both": ["c"], "neither": [], "regressed": ["d"]},
    }


def test_the_result_in_words():
    text = "\n".join(summary.result_lines(evaluation(0.251, 0.402)))
    for words in (
        "100 held-out problems, 4 samples",
        "38.3 %",
        "71.0 %",
        "+32.7 points",
        "+25.1 to +40.2",
        "beyond noise",
    ):
        assert words in text
    assert "2 improved, 1 both, 0 neither, 1 regressed" in text
    assert "can show 10.4 points" in text
    assert "within noise" in "\n".join(summary.result_lines(evaluation(-0.1, 0.4)))


def test_a_control_says_so_in_the_first_line():
    lines = summary.result_lines({**evaluation(-0.1, 0.1), "reward": "random"})
    assert lines[0] == "Control run: a coin decided the rewards, not the tests."
    assert "Control" not in "".join(summary.result_lines(evaluation(-0.1, 0.1)))


def test_what_it_costs_elsewhere_and_hidden_tests_are_said_where_there_are_such():
    sides = {"base": {"pass_at_1": 0.4}, "tuned": {"pass_at_1": 0.3}}
    regression = {**sides, "problems": 20, "difference": {"pass_at_1": -0.1, "ci95": [-0.2, 0.0]}}
    hidden = {which: {"failed_hidden": 3, "passed_visible": 50} for which in sides}
    found = {**evaluation(0.2, 0.4), "regression": regression, "hidden_tests": hidden}
    text = "\n".join(summary.result_lines(found))
    assert "regression  40.0 % to 30.0 % on 20 problems of another kind, difference -20.0 to +0.0 points" in text
    assert "3 of 50 (base) and 3 of 50 (tuned) samples that pass the visible tests fail a hidden one" in text


def test_a_base_alone_has_no_difference():
    told = {key: value for key, value in evaluation(0.2, 0.4).items() if key not in ("tuned", "difference", "buckets")}
    lines = summary.result_lines(told)
    assert lines[1:] == ["  base          38.3 %", "              95 % interval 30.0 to 46.0 %"]
    assert any("--tuned-model" in line for line in summary.next_lines(told, {}, "COMMAND"))


def test_the_advice_fits_the_result_and_the_parameters():
    sure = "\n".join(summary.next_lines(evaluation(0.2, 0.4), {"use_filter": True}, "COMMAND"))
    unsure = "\n".join(summary.next_lines(evaluation(-0.1, 0.4), {"use_filter": False}, "COMMAND"))
    assert "COMMAND" in sure
    assert "--num-eval-examples" not in sure
    assert "--use-filter" not in sure
    assert "--num-eval-examples" in unsure
    assert "--use-filter" in unsure


def test_only_reports_that_exist_are_named(tmp_path):
    store = open_store(str(tmp_path))
    assert summary.report_lines(store, "run") == []
    store.write("runs/run/evaluate/report.html", b"")
    assert summary.report_lines(store, "run") == ["Reports:", f"  {tmp_path}/runs/run/evaluate/report.html"]


@pytest.mark.parametrize(
    ("terminal", "foldable", "lines"), [(True, True, 3), (True, False, 2), (False, True, 2), (False, False, 2)]
)
def test_cells_are_folded_only_on_a_terminal_and_only_where_that_reads_well(monkeypatch, terminal, foldable, lines):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=20, color_system=None)
    monkeypatch.setattr(display, "make_console", lambda: console)
    print_table(["name", "[id]"], [[("a [b]", "0123456789" * 2)]], foldable=foldable)
    assert len(out.getvalue().splitlines()) == lines
    assert "[id]" in out.getvalue(), "what looks like markup is text"
    assert "a [b]" in out.getvalue(), "what looks like markup is text"
    assert ("0123456789" * 2 in out.getvalue()) == (lines == 2)


def test_a_name_between_colons_stays_text(capsys):
    print_plain(make_console(), "registry/sandbox:100: is gone")
    print_table(["model"], [[("sandbox:100:",)]])
    said = capsys.readouterr().out
    assert "registry/sandbox:100: is gone" in said
    assert said.splitlines()[-1].strip() == "sandbox:100:"
