"""How surely the demo learns: the whole local pipeline over ten seeds, and its control with random rewards.

`make bench-demo` runs `python pipeline.py local` for each seed, prints a table, and writes bench/out/demo.json.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench/out"
SURE_GAIN = 0.25  # what the demo promises for at least nine seeds of ten


def run_once(seed: int, reward: str, store: Path) -> dict[str, Any]:
    """One run of the local pipeline in a store of its own; RuntimeError with the run's output when it fails."""
    environment = {**os.environ, "GRPO_STORE": str(store), "HF_HUB_OFFLINE": "1"}
    name = f"{reward}-{seed}"
    command = [sys.executable, "pipeline.py", "local", "--params", "demo/parameters.toml"]
    command += ["--seed", str(seed), "--reward", reward, "--run-id", name]
    start = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    seconds = time.monotonic() - start
    if done.returncode:
        raise RuntimeError(f"seed {seed}, reward {reward}:\n{done.stdout}\n{done.stderr}")
    found = json.loads((store / f"runs/{name}/evaluate/evaluation.json").read_text())
    low, high = found["difference"]["ci95"]
    return {
        "seed": seed,
        "reward": reward,
        "base": found["base"]["pass_at_1"],
        "tuned": found["tuned"]["pass_at_1"],
        "difference": found["difference"]["pass_at_1"],
        "low": low,
        "high": high,
        "seconds": seconds,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The promises, as figures: gains and intervals of the real runs, the mean of the control."""
    real = [row for row in rows if row["reward"] == "tests"]
    control = [row["difference"] for row in rows if row["reward"] == "random"]
    return {
        "seeds": len(real),
        "gains_of_25_points": sum(row["difference"] >= SURE_GAIN for row in real),
        "intervals_above_0": sum(row["low"] > 0 for row in real),
        "mean_gain": statistics.mean(row["difference"] for row in real),
        "mean_control": statistics.mean(control) if control else None,
        "median_seconds": statistics.median(row["seconds"] for row in real),
        "slowest_seconds": max(row["seconds"] for row in real),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table, the control beside the real run of the same seed."""
    lines = [
        "| seed | base | tuned | difference (95 % interval) | control: difference | seconds |",
        "|---|---|---|---|---|---|",
    ]
    control = {row["seed"]: row for row in rows if row["reward"] == "random"}
    for row in (row for row in rows if row["reward"] == "tests"):
        other = control.get(row["seed"])
        beside = f"{100 * other['difference']:+.1f}" if other else "–"
        lines.append(
            f"| {row['seed']} | {100 * row['base']:.1f} % | {100 * row['tuned']:.1f} % | "
            f"{100 * row['difference']:+.1f} ({100 * row['low']:+.1f} to {100 * row['high']:+.1f}) | "
            f"{beside} | {row['seconds']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds, from 1 on (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; seconds mean little above 1 (%(default)s)")
    parser.add_argument("--no-control", action="store_true", help="leave out the runs with random rewards")
    options = parser.parse_args()
    store = OUT / "store"
    shutil.rmtree(store, ignore_errors=True)
    rewards = ["tests"] if options.no_control else ["tests", "random"]
    jobs = [(seed, reward) for seed in range(1, options.seeds + 1) for reward in rewards]
    rows = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda job: run_once(job[0], job[1], store), jobs):
            rows.append(row)
            print(f"seed {row['seed']}, reward {row['reward']}: {100 * row['difference']:+.1f} points", flush=True)
    figures = summary(rows)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "demo.json").write_text(json.dumps({"machine": machine, "ratios": figures, "runs": rows}, indent=1) + "\n")
    shutil.rmtree(store)
    print(f"\n{machine}, {time.strftime('%Y-%m-%d')}\n\n{table(rows)}\n")
    for name, value in figures.items():
        print(f"{name}: {value:.4g}" if value is not None else f"{name}: not measured")


if __name__ == "__main__":
    main()
