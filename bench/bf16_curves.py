#!/usr/bin/env python3
"""Loss curves in bf16 beside those in f32, and beside those in f32 on two ranks.

    python3 bench/bf16_curves.py PROGRAM [SEEDS]

Printed is, for each configuration and seed, the mean loss of 300 steps and that of the last 50, as
a ratio to the run in f32 on one rank. Two ranks add up in another order, so their ratio says what
rounding alone does to a curve. A ratio of last losses near zero says little.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS, LAST = 300, 50
CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "configs"
# Name, configuration, and further settings.
CASES = [
    ("gpt", "gpt_markov", []),
    ("resnet20", "resnet20", []),
    ("resnet20, noisy digits", "resnet20", ["data.noise=0.6"]),
]
RUNS = [("f32, 2 ranks", ["--plan", "dp=2"], "f32"), ("bf16", ["--plan", "serial"], "bf16")]


def losses(program, config, seed, settings, plan, precision):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "train", CONFIGS / f"{config}.toml", *plan, "--steps", str(STEPS),
                        "--out", folder, "--set", f"train.seed={seed}",
                        f"train.precision={precision}", *settings], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [line["loss"] for line in map(json.loads, lines) if line["kind"] == "step"]


def mean(values):
    return sum(values) / len(values)


def main():
    program, seeds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print(f"{'model':24}{'seed':>5}{'run':>15}{'all steps':>11}{'last 50':>9}  f32")
    for name, config, settings in CASES:
        for seed in range(1, seeds + 1):
            base = losses(program, config, seed, settings, ["--plan", "serial"], "f32")
            for run, plan, precision in RUNS:
                found = losses(program, config, seed, settings, plan, precision)
                print(f"{name:24}{seed:5}{run:>15}{mean(found) / mean(base):11.4f}"
                      f"{mean(found[-LAST:]) / mean(base[-LAST:]):9.4f}  "
                      f"{mean(base):.4f}, {mean(base[-LAST:]):.4f}", flush=True)


if __name__ == "__main__":
    main()
