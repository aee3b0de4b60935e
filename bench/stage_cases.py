#!/usr/bin/env python3
"""Plans that are found beside the grid of presets, on eight cases that equal stages do not suit.

    python3 bench/stage_cases.py PROGRAM [CASE...]

Each case is a model, a cluster and a limit of memory. Printed are the simulated steps of the best
preset, of the fastest pipeline that is found, and of the answer, and the ratio of the answer to the
preset: below 1, the answer is faster. The answer of the planner is the fastest of all its candidates.
"""
import sys
import tempfile

from planner_cases import GPT, RESERVE, TWO_SPEEDS, changed, config_file, fastest, plan

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


def run(program, folder, case):
    name, config, cluster, share = case
    file = config_file(folder, config)
    answer = plan(program, file, cluster)
    if share:
        needed = answer["peak_bytes"] - RESERVE
        answer = plan(program, file, cluster, int(RESERVE + share * needed))
    preset, pipeline = fastest(answer, "preset"), fastest(answer, "pipeline")
    found = answer["step_seconds"]
    print(f"{name:34} {cluster:35} preset {1e3 * preset:9.3f} ms  pipeline {1e3 * pipeline:9.3f} ms"
          f"  answer {1e3 * found:9.3f} ms  {found / preset:.3f}  {answer['name']}", flush=True)
    return found / preset


def main():
    program, wanted = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        ratios = [run(program, folder, case) for case in CASES
                  if not wanted or any(text in case[0] for text in wanted)]
    print(f"faster than every preset by 5% and more: {sum(ratio <= 0.95 for ratio in ratios)} of "
          f"{len(ratios)}")


if __name__ == "__main__":
    main()
