#!/usr/bin/env python3
"""CPU time, wall time and memory of `tessera plan` on models of 12, 24 and 96 layers.

    python3 bench/planning_time.py PROGRAM [--one-mesh] [CASE...]

With --one-mesh plans have no pipelines.

The figures of a run are those of the whole process. The wall time is the smallest one of RUNS
runs, which count only where nothing else runs; the CPU time, user and system, is that of the run
with the least of it; the memory is the largest resident set of all runs. RUNS is the environment
variable of that name, by default 3.
"""
import os
import subprocess
import sys
import tempfile
import time

from planner_cases import GPT, changed, config_file


NO_PLAN = 3  # the exit code where no plan fits


def gpt(layers, width, heads, context, vocabulary, batch):
    return changed(GPT, model={"layers": layers, "width": width, "heads": heads, "context": context},
                   data={"vocabulary": vocabulary}, train={"batch": batch})


# Name, configuration, cluster.
CASES = [
    ("gpt12", gpt(12, 768, 12, 1024, 50304, 32), "8xa100-80g"),
    ("gpt24", gpt(24, 1024, 16, 1024, 50304, 64), "4x8xa100-80g"),
    ("gpt96", gpt(96, 12288, 96, 2048, 51200, 64), "8x8xa100-80g"),
]


def measured(command):
    """Wall seconds, CPU seconds and the bytes of the largest resident set of one run."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, NO_PLAN):
        raise RuntimeError(f"{' '.join(command)} ends with {process.returncode}")
    return wall, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss


def main():
    program, wanted = sys.argv[1], sys.argv[2:]
    options = ["--no-cache", "--json"]
    if "--one-mesh" in wanted:
        wanted.remove("--one-mesh")
        options += ["--fix", "pp=1"]
    runs = int(os.environ.get("RUNS", "3"))
    print("| case | cluster | wall | CPU | largest resident set |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, config, cluster in CASES:
            if wanted and name not in wanted:
                continue
            file = config_file(folder, config)
            walls, cpus, peaks = zip(*(measured([program, "plan", file, "--cluster", cluster,
                                                 *options]) for _ in range(runs)))
            print(f"| {name} | {cluster} | {min(walls):.2f} s | {min(cpus):.2f} s | "
                  f"{max(peaks) / 2**30:.2f} GiB |", flush=True)


if __name__ == "__main__":
    main()
