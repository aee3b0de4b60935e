#!/usr/bin/env python3
"""Plans that are found beside the grid of presets, on eight cases that equal stages do not suit.

    python3 bench/stage_cases.py PROGRAM [--grid GRID] [CASE...]

Each case is a model, a cluster and a limit of memory. Printed are the simulated steps of the best
preset, of the fastest pipeline that is found, and of the best plan, and the ratio of the best plan to the
preset: below 1, the best plan is faster. The result of the planner is the fastest of all its candidates.
With --grid, the path of the program uniform_grid_bench, the ratio is to the fastest of the whole
uniform grid (bench/planner_cases.py).
"""
from planner_cases import GPT, TWO_SPEEDS, changed, run_cases

SLOW = "2x4xa100-80g;ib=10Gb"
TWO_TYPES = "1x4xa100-40g+1x4xv100-16g;ib=100Gb"
TOWERS = {"kind": "two_tower", "context": 128, "layers": 2, "width": 256, "heads": 4}

# Name, configuration, cluster, and the share of the memory that the fastest plan needs.
CASES = [
    ("encoder_decoder of uneven depth",
     changed(GPT, model={"kind": "encoder_decoder", "context": 256, "layers": 5}), SLOW, None),
    ("two_tower", changed(GPT, model=TOWERS, data={"vocabulary": 131072}, train={"batch": 64}), SLOW,
     None),
    ("43 layers on 8 devices", changed(GPT, model={"layers": 43}), "8xa100-80g", None),
    ("vocabulary of 128 times the width",
     changed(GPT, model={"width": 256, "layers": 6}, data={"vocabulary": 32768}), SLOW, None),
    ("two device types", changed(GPT, model={"layers": 8}), TWO_TYPES, None),
    ("V100 and P100 together", changed(GPT, model={"layers": 8}), TWO_SPEEDS, None),
    ("memory at 50%", changed(GPT, model={"layers": 12}), "8xa100-80g", 0.5),
    ("slow network", changed(GPT, model={"layers": 12}), SLOW, None),
]

if __name__ == "__main__":
    run_cases(CASES, ["preset", "pipeline"])
