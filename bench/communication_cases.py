#!/usr/bin/env python3
"""Bytes and exchanges of plans that are found with fixed degrees, beside those of other systems.

    python3 bench/communication_cases.py PROGRAM

The others are XLA (Shardy), its CPU and its TPU pipeline, and DTensor of PyTorch, measured on the
same models in November 2026: the least bytes that a device receives in a step, and the exchanges of
that program. Bytes are compared on links without latency, exchanges on links with the usual one.
"""
import json
import os
import subprocess
import sys
import tempfile

# Configuration, fixed degrees, overrides, and of the best other system: MB and exchanges.
CASES = [
    ("gpt", "dp=4", [], 2.823, 2),
    ("gpt", "tp=4", [], 7.883, 13),
    ("gpt", "dp=2,tp=2", [], 3.589, 15),
    ("gpt", "dp=2,sp=2", [], 3.69, 28),
    ("llama", "tp=4", [], 10.635, 21),
    ("llama", "dp=2,tp=2", [], 4.458, 23),
    ("resnet20", "sp=2", [], 4.51, 173),
    ("resnet20", "dp=2", [], 1.101, 81),
    ("mlp", "tp=4", ["model.width=256"], 0.3944, 6),
    ("mlp", "tp=4", ["model.width=10"], 0.2143, 9),
]


def cluster(latency):
    return f"""
name = "four devices"
[device.a]
preset = "a100-80g"
[[machine]]
names = "n0"
device = "a"
devices = 4
links = [{{name = "links", bandwidth = "10 GB/s", latency = "{latency}"}}]
"""


def result(program, config, fixed, overrides, machines):
    ranks = 1
    for degree in fixed.split(","):
        ranks *= int(degree.split("=")[1])
    command = [program, "plan", f"configs/{config}.toml", "--fix", fixed, "--ranks", str(ranks),
               "--cluster", machines, "--no-cache", "--json", "--set", *overrides]
    if config not in ("resnet20", "mlp"):
        command.append("model.dropout=0")
    result = subprocess.run(command if command[-1] != "--set" else command[:-1],
                            capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip())
    found = json.loads(result.stdout)
    return next(row for row in found["alternatives"] if row["name"] == found["name"])


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        machines = {}
        for latency in ("0 us", "5 us"):
            machines[latency] = os.path.join(folder, latency.replace(" ", "") + ".toml")
            with open(machines[latency], "w") as file:
                file.write(cluster(latency))
        for config, fixed, overrides, megabytes, exchanges in CASES:
            least = result(program, config, fixed, overrides, machines["0 us"])
            usual = result(program, config, fixed, overrides, machines["5 us"])
            sent = least["max_sent_bytes"] / 1e6
            print(f"{config:9} {fixed:10} {' '.join(overrides):16} MB {sent:7.4f} of {megabytes:7.4f}: "
                  f"{sent / megabytes:.3f}   exchanges {usual['exchanges']:4} of {exchanges:4}   "
                  f"{least['name']}; {usual['name']}", flush=True)


if __name__ == "__main__":
    main()
