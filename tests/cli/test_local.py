"""`pipeline.py local` as a person runs it, with the real steps and the real sandbox on the demo's model.

Runs that need no training are stopped as soon as it starts, by the Ctrl-C whose effect is tested as well.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from cli import local
from cli.running import Outcome, RunFiles

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = "--max-candidate-samples 8 --max-eval-samples 4 --num-eval-examples 4 --eval-k 2 --max-completion-length 24"


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    """A data set of the test's own: the first rows of the demo's."""
    folder = tmp_path / "problems"
    folder.mkdir()
    for split, rows in (("train", 12), ("test", 6)):
        lines = (ROOT / f"demo/problems/{split}.jsonl").read_text().splitlines(keepends=True)
        (folder / f"{split}.jsonl").write_text("".join(lines[:rows]))
    return folder


class Runner:
    """A local run in a store of its own."""

    def __init__(self, store: Path, problems: Path) -> None:
        self.store = store
        self.command = [
            sys.executable,
            str(ROOT / "pipeline.py"),
            "local",
            "--params",
            str(ROOT / "demo/parameters.toml"),
        ]
        self.command += ["--model-name", str(ROOT / "demo/model"), "--dataset", str(problems), *SMALL.split()]
        self.environment = {**os.environ, "GRPO_STORE": str(store), "HF_HUB_OFFLINE": "1"}

    def start(self, *options: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self.command, *options],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, *options: str) -> tuple[int, str]:
        with self.start(*options) as process:
            output, _ = process.communicate(timeout=280)
            return process.returncode, output

    def verb(self, *words: str) -> tuple[int, str]:
        """Another verb on the same store."""
        ended = subprocess.run(
            [sys.executable, str(ROOT / "pipeline.py"), *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        return ended.returncode, ended.stdout

    def until_training(self, *options: str) -> tuple[int, str]:
        """Run until train starts, then Ctrl-C."""
        with self.start(*options) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("train: started"):
                    process.send_signal(signal.SIGINT)
            return process.wait(60), "".join(lines)

    def leftovers(self) -> Iterator[int]:
        """Processes that still have this store in their environment."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if f"GRPO_STORE={self.store}".encode() in environment.split(b"\0"):
                yield int(folder.name)


@pytest.fixture
def runner(tmp_path: Path, problems: Path) -> Runner:
    return Runner(tmp_path / "store", problems)


def sandbox_answers(log: Path) -> bool:
    found = re.findall(r"listening on (http://\S+)", log.read_text())
    try:
        return urllib3.PoolManager(retries=False).request("GET", found[-1] + "/healthz", timeout=2.0).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def edit_first_row(file: Path) -> None:
    first, *rest = file.read_text().splitlines(keepends=True)
    row = json.loads(first)
    row["text"] += " Return the result."
    file.write_text(json.dumps(row) + "\n" + "".join(rest))


@pytest.mark.slow
def test_prepare_is_reused_until_a_row_changes_and_ctrl_c_leaves_nothing_running(runner, problems):
    code, first = runner.until_training("--run-id", "first", "--max-train-samples", "9")
    assert code == 130, first
    assert "warning: max_train_samples works only with use_filter; without it max_candidate_samples (8)" in first
    assert "prepare: started" in first
    assert "Stopped. What was finished is kept; go on with:" in first
    assert first.rstrip().endswith("--run-id first")
    assert "Traceback" not in first
    assert list(runner.leftovers()) == []
    assert not sandbox_answers(runner.store / "runs/first/sandbox.txt")
    assert "prepare: reused, nothing it reads has changed" in runner.until_training()[1]
    edit_first_row(problems / "train.jsonl")
    assert "prepare: started" in runner.until_training()[1]


def test_a_malformed_row_ends_in_one_sentence_that_names_the_line(runner, problems):
    with (problems / "train.jsonl").open("a") as file:
        file.write('{"task_id": \n')
    code, output = runner.finish("--run-id", "broken")
    assert code == 2
    assert "prepare failed: " in output
    assert "train.jsonl, line 13: this is no JSON" in output
    assert f"Log: {runner.store}/runs/broken/log.txt" in output
    assert "--run-id broken" in output
    assert "Traceback" not in output
    assert list(runner.leftovers()) == []
    assert not (runner.store / "runs/broken/prepare").exists()


@pytest.mark.slow
def test_a_data_set_without_tests_is_refused(runner, problems):
    for file in problems.iterdir():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps({**row, "test_list": []}) + "\n" for row in rows))
    code, output = runner.finish()
    assert code == 2
    assert "Traceback" not in output
    assert "test_list" in output or "tests" in output


def test_a_sandbox_address_that_is_none_is_refused_by_the_step_and_none_is_started(runner):
    code, output = runner.finish("--sandbox-url", "nonsense")
    assert code == 2
    assert "sandbox_url 'nonsense' is no address" in output
    assert not list(runner.store.glob("runs/*/sandbox.txt"))


@pytest.mark.slow
def test_it_runs_with_no_terminal_and_a_closed_stdin(runner, problems):
    (problems / "train.jsonl").write_text("[]")
    line = " ".join([*runner.command, "--run-id closed"])
    result = subprocess.run(
        ["sh", "-c", f"exec {line} <&-"], env=runner.environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 2, result.stdout + result.stderr
    assert "prepare failed" in result.stdout


def told(tmp_path: Path, failure: dict | None, states: dict) -> tuple[int, str]:
    """What is said of a run that failed with this failure file, and the exit code."""
    files = RunFiles(tmp_path, "run")
    files.prepare()
    if failure:
        files.failure.write_text(json.dumps(failure))
    lines: list[str] = []
    code = local._tell_failure(files, Outcome(1, states), "COMMAND --run-id run", lines.append)
    return code, "\n".join(lines)


def test_a_defect_is_called_ours_and_a_killed_step_has_a_likely_reason(tmp_path):
    defect = {"step": "train", "kind": "defect", "message": "KeyError: 'x'", "exit_code": 1}
    code, text = told(tmp_path / "defect", defect, {})
    assert (code, text.splitlines()[:2]) == (
        1,
        ["train failed: KeyError: 'x'", "This is a defect of grpo-code; the log has the traceback."],
    )
    code, text = told(tmp_path / "killed", None, {"check": {"state": "done"}, "train": {"state": "failed"}})
    assert code == 1
    assert "train failed: it ended without saying why." in text
    assert "lack of memory" in text
    code, text = told(tmp_path / "kfp", None, {})
    assert "the local runner failed" in text
    assert text.endswith("COMMAND --run-id run")


@pytest.mark.slow
def test_a_whole_run_its_reuse_and_its_filter(runner):
    code, output = runner.finish("--run-id", "whole")
    assert code == 0, output
    assert "pass@1 on 4 held-out problems, 2 samples each" in output
    assert re.search(r"difference +[+-]\d+\.\d points, 95 % interval [+-]\d+\.\d to [+-]\d+\.\d", output)
    assert re.search(r"\d+ improved, \d+ both, \d+ neither, \d+ regressed", output)
    assert f"{runner.store}/runs/whole/evaluate/report.html" in output
    evaluation = json.loads((runner.store / "runs/whole/evaluate/evaluation.json").read_text())
    assert f"{100 * evaluation['tuned']['pass_at_1']:.1f} %" in output
    start = time.monotonic()
    code, again = runner.finish("--reuse")
    assert code == 0
    assert again.count("reused, nothing it reads has changed") == 3
    assert "Nothing has changed since run whole: these are its results." in again
    assert f"{100 * evaluation['tuned']['pass_at_1']:.1f} %" in again
    assert time.monotonic() - start < 60
    filtered = runner.until_training("--use-filter")[1]
    assert "filter: started" in filtered
    assert "filter: reused, nothing it reads has changed" in runner.until_training("--use-filter")[1]
    shutil.rmtree(runner.store / "kfp/whole")  # results that are gone are computed again, not pointed at
    assert "train: started" in runner.until_training("--reuse")[1]
