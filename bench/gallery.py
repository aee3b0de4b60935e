#!/usr/bin/env python3
"""Plans that are found for published models, as the table of docs/planner.md.

    python3 bench/gallery.py PROGRAM [CASE...]

Each row has the plan, its predicted step and memory, the CPU time and the memory that planning
took. Everything is in f32; recomputation and divided states are the planner's choice.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

from planner_cases import GPT, changed, config_file

RACKS = os.path.join(os.path.dirname(__file__), "..", "configs", "clusters", "racks_of_ascend.toml")


def gpt(layers, width, heads, context, vocabulary, batch):
    return changed(GPT, model={"layers": layers, "width": width, "heads": heads, "context": context},
                   data={"vocabulary": vocabulary}, train={"batch": batch})


# Name, configuration, cluster.
CASES = [
    ("GPT-3 175B", gpt(96, 12288, 96, 2048, 51200, 1536), "128x8xa100-80g"),
    ("PanGu 200B", gpt(64, 16384, 128, 1024, 40000, 2048), RACKS),
]


def row(program, folder, name, config, cluster):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([program, "plan", config_file(folder, config), "--cluster", cluster,
                             "--no-cache", "--json"], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    answer = json.loads(result.stdout)
    if not answer.get("name"):
        return f"| {name} | none: {answer.get('nearest') or answer.get('error')} | | | | |"
    axes = "; ".join(f"{axis} on {', '.join(levels)}" for axis, levels in answer["axes"].items())
    return (f"| {name} | {answer['name']} | {axes} | {answer['step_seconds']:.0f} s, MFU "
            f"{100 * answer['mfu']:.0f}% | {answer['peak_bytes'] / 2**30:.0f} GiB | {cpu:.0f} s, "
            f"{after.ru_maxrss / 2**20:.1f} GiB |")


def main():
    program, wanted = sys.argv[1], sys.argv[2:]
    print("| model | plan | axes on the cluster | step | memory of a device | planning |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, config, cluster in CASES:
            if not wanted or any(text in name for text in wanted):
                print(row(program, folder, name, config, cluster), flush=True)


if __name__ == "__main__":
    main()
