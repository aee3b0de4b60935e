#!/usr/bin/env python3
"""Plans under limits of memory that shrink in 20 steps, for three models.

    python3 bench/memory_limits.py PROGRAM [CASE...]

The first limit is what the fastest plan needs, the last one the least at which a plan is found; the
steps between them are equal. At each limit the planner is asked anew. All results together are kept,
and the kept step of a limit is the shortest of those that need no more. Printed are

    kept     by how much the result of a limit is longer than the kept step, at worst
    rises    steps of the kept results that fall as memory shrinks: 0
    least    the least limit over the least of the plans that are made by hand: every preset with
             every number of micro-batches and schedule

The program fails when an result needs more than its limit, or where no plan is found but the exit
code is not 3.
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile

from planner_cases import GPT, RESERVE, changed, config_file

STEPS = 20
SMALL = changed(GPT, model={"context": 256, "width": 256, "layers": 4, "heads": 4},
                data={"vocabulary": 4096})
MLP = {
    "model": {"kind": "mlp", "context": 64, "layers": 8, "width": 4096, "embedding": 64,
              "dropout": 0.0},
    "data": {"kind": "jsonl", "vocabulary": 4096},
    "train": {"batch": 2048},
    "optimizer": {"kind": "adamw", "clip_norm": 1.0},
}

# Name, configuration, cluster, and its number of devices.
CASES = [
    ("gpt", SMALL, "4xv100-16g", 4),
    ("mlp", MLP, "4xv100-16g", 4),
    ("encoder_decoder", changed(SMALL, model={"kind": "encoder_decoder", "layers": 2}),
     "2x2xv100-16g;ib=25Gb", 4),
]
SCHEDULES = ("1f1b", "v-half", "v-min")  # those that keep the fewest micro-batches


class Planner:
    """Plans one configuration on one cluster under limits of memory."""

    def __init__(self, program, config, cluster):
        self.command = [program, "plan", config, "--cluster", cluster, "--runtime", "tessera",
                        "--no-cache", "--json"]

    def at(self, limit):
        """The JSON object at a limit in bytes; None: no plan fits."""
        result = subprocess.run([*self.command, "--memory", f"{limit} B"], capture_output=True,
                                text=True)
        if result.returncode == 3:
            return None
        if result.returncode != 0:
            raise RuntimeError(result.stderr.strip())
        result = json.loads(result.stdout)
        if result["peak_bytes"] > limit:
            raise RuntimeError(f"{result['name']} needs more than {limit} B")
        return result

    def least(self, most):
        """The least limit with a plan, up to 1% of what is above the reserve."""
        least, found = RESERVE, most
        while found - least > 0.01 * (found - RESERVE):
            middle = (least + found) // 2
            result = self.at(middle)
            if result:
                found = min(middle, result["peak_bytes"])
            else:
                least = middle
        return found


def presets(devices):
    """All degrees of presets for n devices."""
    divisors = [i for i in range(1, devices + 1) if devices % i == 0]
    for degrees in itertools.product(divisors, repeat=4):
        product = degrees[0] * degrees[1] * degrees[2] * degrees[3]
        if product == devices:
            yield dict(zip(("pp", "dp", "sp", "tp"), degrees))


def plans_by_hand(devices, rows):
    """The texts of all presets with all numbers of micro-batches and schedules."""
    for degrees in presets(devices):
        text = ",".join(f"{key}={size}" for key, size in degrees.items() if size > 1)
        counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if rows % count == 0]
        for count in counts:
            several = degrees["pp"] > 1 and count > 1
            for schedule in SCHEDULES if several else (None,):
                yield text + f",micro_batches={count}" + (f",schedule={schedule}" if schedule else "")


def least_by_hand(program, config, cluster, devices, rows):
    """The least memory of a plan that is made by hand, and its name."""
    least = (float("inf"), "")
    for text in plans_by_hand(devices, rows):
        result = subprocess.run([program, "simulate", config, "--plan", text, "--cluster", cluster, "--runtime", "tessera",
                                 "--json"], capture_output=True, text=True)
        if result.returncode == 0:
            least = min(least, (json.loads(result.stdout)["peak_bytes"] + RESERVE, text))
    return least


def run(program, folder, case):
    name, config, cluster, devices = case
    file = config_file(folder, config)
    planner = Planner(program, file, cluster)
    most = planner.at(1 << 50)["peak_bytes"]
    least = planner.least(most)
    limits = [most - (most - least) * i // (STEPS - 1) for i in range(STEPS)]
    results = [planner.at(limit) for limit in limits]
    if None in results:
        raise RuntimeError(f"no plan at {limits[results.index(None)]} B, but one at {least} B")
    kept = [min(a["step_seconds"] for a in results if a["peak_bytes"] <= limit) for limit in limits]
    for limit, step, result in zip(limits, kept, results):
        own = result["step_seconds"]
        print(f"  {limit / 2**20:9.1f} MiB  {1e3 * own:9.3f} ms  {own / step:.3f}  "
              f"{result['name']}", flush=True)
    worst = max(result["step_seconds"] / step for result, step in zip(results, kept))
    rises = sum(later < earlier for earlier, later in zip(kept, kept[1:]))
    by_hand, text = least_by_hand(program, file, cluster, devices, config["train"]["batch"])
    print(f"{name:16} {cluster:22} kept {worst:.3f}  rises {rises}  least {least / 2**20:.1f} MiB, "
          f"{least / by_hand:.3f} of {text} ({(least - RESERVE) / (by_hand - RESERVE):.3f} without "
          "the reserve)", flush=True)
    return worst <= 1.03 and rises == 0 and least <= 1.05 * by_hand


def main():
    program, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        held = [run(program, folder, case) for case in CASES
                if not wanted or any(text in case[0] for text in wanted)]
    print(f"within 3% of the kept results, least within 5%: {sum(held)} of {len(held)}")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
