#!/usr/bin/env python3
"""Pipelines that are found beside the grid of presets, on cases that equal stages do not suit.

    python3 bench/stage_cases.py PROGRAM [CASE...]

Each case is a model and a cluster. Printed are the simulated step of the best preset and of the
fastest pipeline that is found, and their ratio: below 1, the pipeline is faster. The answer of the
planner is the fastest of all its candidates, and is printed behind them.
"""
import sys
import tempfile

from planner_cases import GPT, TWO_SPEEDS, answer_of, changed, fastest

SLOW = "2x4xa100-80g;ib=10Gb"
ENCODER_DECODER = changed(GPT, model={"kind": "encoder_decoder", "context": 256, "layers": 5})

# Name, configuration and cluster.
CASES = [
    ("43 layers", changed(GPT, model={"layers": 43}), "8xa100-80g"),
    ("43 layers, slow network", changed(GPT, model={"layers": 43}), SLOW),
    ("encoder and decoder", ENCODER_DECODER, SLOW),
    ("vocabulary of 128 widths",
     changed(GPT, model={"width": 256, "layers": 6}, data={"vocabulary": 32768}), SLOW),
    ("two device types", changed(GPT, model={"layers": 8}), TWO_SPEEDS),
    ("slow network", changed(GPT, model={"layers": 12}), SLOW),
]


def run(program, folder, case):
    name, config, cluster = case
    answer = answer_of(program, folder, config, cluster)
    preset, pipeline = fastest(answer, "preset"), fastest(answer, "pipeline")
    print(f"{name:26} {cluster:31} preset {1e3 * preset:9.3f} ms  pipeline {1e3 * pipeline:9.3f} ms"
          f"  {pipeline / preset:.3f}  answer {1e3 * answer['step_seconds']:.3f} ms  {answer['name']}",
          flush=True)
    return pipeline / preset


def main():
    program, wanted = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        ratios = [run(program, folder, case) for case in CASES
                  if not wanted or any(text in case[0] for text in wanted)]
    print(f"faster than every preset by 5% and more: {sum(ratio <= 0.95 for ratio in ratios)} of "
          f"{len(ratios)}")


if __name__ == "__main__":
    main()
