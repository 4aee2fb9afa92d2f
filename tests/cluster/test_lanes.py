"""How the tests on a cluster are laid side by side, tried without one."""

import multiprocessing
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.lanes import LANES, Once

HERE = Path(__file__).resolve().parent


def collected(*expression: str) -> list[str]:
    """The files of which pytest collects tests with these options, in order, each as often as it has some."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--collect-only", "-q", *expression, str(HERE)]
    done = subprocess.run(command, cwd=HERE.parent.parent, capture_output=True, text=True, timeout=120)
    return [line.partition("::")[0].rpartition("/")[2] for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.slow
def test_each_file_of_them_is_in_one_lane() -> None:
    in_lanes = [file for files in LANES.values() for file in files]
    assert sorted(in_lanes) == sorted(set(collected("-m", "cluster and not (kfp or gpu)")))


@pytest.mark.slow
def test_a_lane_is_the_work_of_one_process_and_in_order(tmp_path: Path) -> None:
    for file in ("test_other.py", *(file for files in LANES.values() for file in files)):
        (tmp_path / file).write_text("def test_one(): pass\ndef test_two(): pass\n")
    command = [sys.executable, "-m", "tests.e2e", "cluster", "-m", "", "-v", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=HERE.parent.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = re.findall(r"\[(gw\d+)\].* PASSED .*/(test_\w+\.py)::", done.stdout)
    assert len(ran) == 2 * (sum(map(len, LANES.values())) + 1)
    for files in LANES.values():
        mine = [(worker, file) for worker, file in ran if file in files]
        assert len({worker for worker, _ in mine}) == 1
        assert [file for _, file in mine] == [file for file in files for _ in range(2)]


def made(folder: Path, number: int) -> None:
    with (folder / "made").open("a") as file:
        Once(folder)("thing", lambda: print(number, file=file, flush=True))


def test_what_all_need_is_made_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=made, args=(tmp_path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len((tmp_path / "made").read_text().splitlines()) == 1


def test_what_could_not_be_made_is_tried_again(tmp_path: Path) -> None:
    """So that each process that needs it has the reason."""
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            Once(tmp_path)("thing", lambda: 1 / 0)
