#!/usr/bin/env python3
"""The two peaks of the memory of a step of PanGu 200B on 2,048 devices, which passes take away.

    python3 bench/pangu_memory.py PROGRAM [MICRO_BATCHES]

A step has a peak where the backward begins, of activations, and one where the optimizer updates, of
its state and gradients (MindSpore's account of PanGu-alpha, arXiv 2104.12369). Printed are, of the
rank with most memory under plans of 16 stages, the most live bytes of the whole step, what they hold,
and the most from the begin of the optimizer on: without passes, with recomputation, and with the
update divided among the ranks of data parallelism as well. Everything is in f32. A step has 32
micro-batches, unless a number is given: as many are in flight as with more of them, and each has as
many rows as one of 128 micro-batches of a batch of 2,048 rows.
"""
import json
import subprocess
import sys
import tempfile

from gallery import RACKS, gpt
from planner_cases import config_file

DEGREES = "pp=16,dp=16,tp=8"
DOES_NOT_FIT = 3  # an exit code
ROWS = 2048 // 128
PASSES = [("none", ""), ("recompute=full", ",recompute=full"), ("recompute=selective",
          ",recompute=selective"), ("recompute=full, zero=1", ",recompute=full,zero=1"),
          ("recompute=selective, zero=1", ",recompute=selective,zero=1")]


def fullest(program, file, passes, micro_batches):
    result = subprocess.run([program, "simulate", file, "--cluster", RACKS, "--plan",
                             f"{DEGREES},micro_batches={micro_batches}{passes}", "--json"],
                            capture_output=True, text=True)
    if result.returncode not in (0, DOES_NOT_FIT):
        raise RuntimeError(result.stderr.strip())
    return max(json.loads(result.stdout)["memory_over_time"], key=lambda rank: rank["peak_bytes"])


def main():
    program = sys.argv[1]
    micro_batches = int(sys.argv[2]) if len(sys.argv) > 2 else 32
    print("| passes | most live bytes | of these activations | of these variables | most from the "
          "optimizer on |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        file = config_file(folder, gpt(64, 16384, 128, 1024, 40000, micro_batches * ROWS))
        for name, passes in PASSES:
            memory = fullest(program, file, passes, micro_batches)
            held = memory["contents"]
            figures = [memory["peak_bytes"], held["activations kept for the backward"],
                       held["variables"], memory.get("optimizer_peak_bytes", 0)]
            print(f"| {name} | " + " | ".join(f"{each / 2**30:.1f} GiB" for each in figures) + " |",
                  flush=True)


if __name__ == "__main__":
    main()
