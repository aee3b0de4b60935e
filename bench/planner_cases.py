#!/usr/bin/env python3
"""Plans that are found beside the grid of presets, on eight cases that divide unevenly.

    python3 bench/planner_cases.py PROGRAM [--grid GRID] [CASE...]

Each case is a model, a cluster and a limit of memory. Printed are the simulated step of the best
preset and of the plan that is found, and their ratio: below 1, the plan is faster. Of a preset that
the planner excludes its bound counts, which is at most its step; one that does not fit does not
count.

With --grid, the path of the program uniform_grid_bench, the ratio is to the fastest of the whole
uniform grid: every preset with every number of micro-batches and every schedule. It is printed, too.
"""
import json
import os
import subprocess
import sys
import tempfile

GPT = {
    "model": {"kind": "gpt", "context": 512, "layers": 4, "width": 512, "heads": 8, "dropout": 0.0},
    "data": {"kind": "jsonl", "vocabulary": 16384},
    "train": {"batch": 16},
    "optimizer": {"kind": "adamw", "clip_norm": 1.0},
}
UNET = {
    "model": {"kind": "unet", "layers": 3, "width": 24},
    "data": {"kind": "shapes", "samples": 64, "size": 192, "held_out": 0.5},
    "train": {"batch": 8},
    "optimizer": {"kind": "adamw"},
}
RESNET = {
    "model": {"kind": "resnet", "depth": 50},
    "data": {"kind": "digits", "samples": 64, "size": 128, "held_out": 0.5},
    "train": {"batch": 16},
    "optimizer": {"kind": "momentum", "learning_rate": 0.1},
}
RESERVE = 1_000_000_000  # bytes that libraries take of a known device (docs/cluster.md)
TWO_SPEEDS = "1x4xv100-16g+1x4xp100;ib=100Gb"


def changed(config, **tables):
    """The configuration with other values of some keys."""
    return {name: {**table, **tables.get(name, {})} for name, table in config.items()}


# Name, configuration, cluster, and the share of the memory that the fastest plan needs.
CASES = [
    ("two towers, wide tables",
     changed(GPT, model={"kind": "two_tower", "context": 128, "layers": 2, "width": 256, "heads": 4},
             data={"vocabulary": 131072}, train={"batch": 64}), "8xa100-80g", None),
    ("unet", UNET, "8xa100-80g", None),
    ("vocabulary of 32 widths",
     changed(GPT, model={"width": 1024, "layers": 2}, data={"vocabulary": 32768}), "8xa100-80g", None),
    ("resnet", RESNET, "8xa100-80g", None),
    ("two device speeds", GPT, TWO_SPEEDS, None),
    ("slow link", GPT, "2x4xa100-80g;ib=10Gb", None),
    ("memory at 60%", GPT, "8xa100-80g", 0.6),
    ("uneven heads", changed(GPT, model={"width": 480, "heads": 6}), "8xa100-80g", None),
]


def as_toml(config):
    lines = []
    for table, values in config.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def plan(program, config, cluster, memory=None):
    """The JSON object of `tessera plan`."""
    command = [program, "plan", config, "--cluster", cluster, "--runtime", "tessera",
               "--no-cache", "--json"]
    if memory:
        command += ["--memory", f"{memory} B"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip())
    return json.loads(result.stdout)


def fastest(result, source):
    """The step of the fastest candidate of this source that fits, or a bound of it; none: infinity."""
    steps = [row["step_seconds"] for row in result["alternatives"]
             if row["source"] == source and row["fits"]]
    bounds = [row["bound_seconds"] for row in result["excluded"] if row["source"] == source]
    return min(steps + bounds, default=float("inf"))


def fastest_of_grid(program, config, cluster, memory):
    """The step and the name of the fastest of the whole uniform grid that fits; none: infinity."""
    command = [program, config, cluster] + ([str(memory)] if memory else [])
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found.get("step_seconds", float("inf")), found["name"]


def config_file(folder, config):
    """The configuration as a file, with tokens for those that read a file of them."""
    if config["data"]["kind"] == "jsonl":
        tokens = os.path.join(folder, "tokens.jsonl")
        with open(tokens, "w") as file:
            for i in range(200):
                file.write(json.dumps({"tokens": [(i + k) % 97 for k in range(600)]}) + "\n")
        config = changed(config, data={"path": [tokens]})
    file = os.path.join(folder, "case.toml")
    with open(file, "w") as out:
        out.write(as_toml(config))
    return file


def result_of(program, folder, config, cluster):
    """The JSON object of `tessera plan` for a configuration."""
    return plan(program, config_file(folder, config), cluster)


def run(program, grid, folder, case, sources):
    """Prints the fastest step of each source and that of the best plan; returns the ratio of the best plan to
    the fastest preset, or to the fastest of the grid."""
    name, config, cluster, share = case
    file = config_file(folder, config)
    result, memory = plan(program, file, cluster), None
    if share:
        memory = int(RESERVE + share * (result["peak_bytes"] - RESERVE))
        result = plan(program, file, cluster, memory)
    found = result["step_seconds"]
    steps = {source: fastest(result, source) for source in sources}
    other, text = steps["preset"], ""
    if grid:
        other, text = fastest_of_grid(grid, file, cluster, memory)
        steps["grid"] = other
    times = "  ".join(f"{source} {1e3 * step:9.3f} ms" for source, step in steps.items())
    print(f"{name:32} {cluster:35} {times}  result {1e3 * found:9.3f} ms  {found / other:.3f}  "
          f"{result['name']}" + (f"  (grid: {text})" if text else ""), flush=True)
    return found / other


def run_cases(cases, sources):
    """Runs those of the cases that the command line names, with the program that it names."""
    program, wanted, grid = sys.argv[1], sys.argv[2:], None
    if wanted[:1] == ["--grid"]:
        grid, wanted = wanted[1], wanted[2:]
    with tempfile.TemporaryDirectory() as folder:
        ratios = [run(program, grid, folder, case, sources) for case in cases
                  if not wanted or any(text in case[0] for text in wanted)]
    print(f"faster than every preset by 5% and more: {sum(ratio <= 0.95 for ratio in ratios)} of "
          f"{len(ratios)}; slower than one: {sum(ratio > 1 for ratio in ratios)}")


if __name__ == "__main__":
    run_cases(CASES, ["preset"])
