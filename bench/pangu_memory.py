#!/usr/bin/env python3
"""The two peaks of the memory of a step of PanGu 200B on 2,048 devices, which passes take away.

    python3 bench/pangu_memory.py PROGRAM [MICRO_BATCHES]

A step has a peak where the backward begins, of activations, and one where the optimizer updates, of
its state and gradients (MindSpore's account of PanGu-alpha, arXiv 2104.12369). Printed are, of the
rank with most memory under plans of 16 stages, the most live bytes of the whole step, what they hold,
and the most from the begin of the optimizer on: without passes, with recomputation, and with the
update divided among the ranks of data parallelism as well. These are 4 where the update is divided,
since ranks that divide it behave alike in smaller groups: 2,048 ranks take more than 20 GiB to
simulate. Everything is in f32. A step has 16 micro-batches, unless a number is given: with more of them
no further ones are in flight. A rank has one row of each, as with 128 of a batch of 2,048 rows.
"""
import json
import subprocess
import sys
import tempfile

from gallery import RACKS, gpt
from planner_cases import config_file

DOES_NOT_FIT = 3  # an exit code
# Passes, ranks of data parallelism.
CASES = [("", 16), (",recompute=selective", 16), (",recompute=full", 16),
         (",recompute=selective,zero=1", 4), (",recompute=full,zero=1", 4)]


def fullest(program, file, passes, data, micro_batches):
    result = subprocess.run([program, "simulate", file, "--cluster", RACKS, "--runtime", "tessera", "--plan",
                             f"pp=16,dp={data},tp=8,micro_batches={micro_batches}{passes}", "--json"],
                            capture_output=True, text=True)
    if result.returncode not in (0, DOES_NOT_FIT):
        raise RuntimeError(result.stderr.strip())
    return max(json.loads(result.stdout)["memory_over_time"], key=lambda rank: rank["peak_bytes"])


def main():
    program = sys.argv[1]
    micro_batches = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    print("| passes | ranks | most live bytes | of these activations | of these variables | most from "
          "the optimizer on |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for passes, data in CASES:
            file = config_file(folder, gpt(64, 16384, 128, 1024, 40000, micro_batches * data))
            memory = fullest(program, file, passes, data, micro_batches)
            held = memory["contents"]
            figures = [memory["peak_bytes"], held["activations kept for the backward"],
                       held["variables"], memory.get("optimizer_peak_bytes", 0)]
            cells = [passes[1:] or "none", str(128 * data)] + [f"{each / 2**30:.1f} GiB" for each in figures]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
