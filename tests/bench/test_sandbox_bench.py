"""The sandbox's benchmark: its parts measure what they say, and the whole of it runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import contestants, measuring, processes, programs, sandbox_tables
from bench.contestants import FORK_SERVER, INTERPRETER, OURS
from bench.measuring import Turn
from tests.builders import make_problem
from tests.conftest import demo_problems

BURN = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(20_000_000))']); "
    "print(flush=True); input()"
)


def test_cpu_time_and_memory_are_of_the_whole_family() -> None:
    command = [sys.executable, "-c", BURN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used, memory = processes.cpu_seconds(process.pid), processes.memory_bytes(process.pid)
        process.communicate("\n")
    assert 0.1 < used < 30, "the child that has ended is not counted"
    assert memory is None or 1 << 20 < memory < 1 << 30


def test_a_test_is_a_call_for_evalplus_or_is_none() -> None:
    assert programs.calls_of(["assert f(1, [2]) == {'a': 3}"], "f") == [("(1, [2])", "{'a': 3}")]
    for test in ("assert f(1)", "assert g(1) == 2", "assert f(Node(1)) == 2", "assert not f(1) == 2", "f(1)"):
        assert programs.calls_of([test], "f") is None, test


def test_the_mix_fails_and_loops_as_often_as_it_says() -> None:
    problems = [make_problem(str(number), reference_cpu_ms=1.0) for number in range(100)]
    mixed = programs.mix(problems, scaled=True)
    looping = [sample for sample in mixed if "while True" in sample.item["program"]]
    changed = [sample for sample in mixed if sample.item["program"] != problems[0].reference]
    assert (len(looping), len(changed)) == (3, 33)
    assert {sample.item["timeout_s"] for sample in mixed} == {0.5}
    assert {sample.item["timeout_s"] for sample in programs.mix(problems, scaled=False)} == {5.0}
    assert mixed == programs.mix(problems, scaled=True), "not the same mix every time"


@pytest.mark.parametrize("name", [OURS, FORK_SERVER, INTERPRETER])
@pytest.mark.slow
def test_a_contestant_judges_the_mix_as_it_should(name: str, tmp_path: Path) -> None:
    problems = [one.model_copy(update={"reference_cpu_ms": 1.0}) for one in demo_problems(34)]
    samples = programs.mix(problems, scaled=True)
    right = [sample.item["program"] == problem.reference for sample, problem in zip(samples, problems, strict=True)]
    with contestants.running(name, 1, tmp_path / "log.txt") as contestant:
        turn, answers = measuring.take_turn(contestant, samples)
    assert answers == right
    assert 0 < turn.cpu_ms < 1000
    assert sum(right) == 34 - 10 - 1


@pytest.mark.slow
def test_the_fork_server_can_be_fooled_and_the_sandbox_cannot(tmp_path: Path) -> None:
    attacks = dict(programs.forgeries())
    forgery, no_text = attacks["os._exit(0) in the call"], attacks["half a surrogate pair"]
    for name, passes in ((FORK_SERVER, True), (OURS, False)):
        with contestants.running(name, 1, tmp_path / "log.txt") as contestant:
            assert contestant.judge([[forgery], [no_text]]) == [[passes], [False]], name


def test_ratios_are_taken_within_a_round() -> None:
    def turn(name: str, cpu_ms: float) -> Turn:
        return Turn(name, 1, 10, 1.0, cpu_ms, None, 0.0)

    turns = [turn("a", 1.0), turn("b", 2.0), turn("a", 10.0), turn("b", 40.0), turn("a", 2.0), turn("b", 6.0)]
    assert measuring.ratio(turns, "cpu_ms", ("b", 1), ("a", 1)) == 3.0
    assert measuring.ratio(turns, "cpu_ms", ("c", 1), ("a", 1)) is None
    assert measuring.medians(turns)[0]["cpu_ms"] == 2.0


def test_a_missed_target_is_said_to_be_missed() -> None:
    found = {"ratios": {"fast": 1.9, "sure": 3.0, "other": None}, "targets": {"fast": 2.0, "sure": 3.0}}
    assert [row[-1] for row in sandbox_tables.ratio_rows(found)] == ["missed", "reached", ""]
