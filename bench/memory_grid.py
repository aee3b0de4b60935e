#!/usr/bin/env python3
"""Plans under limits of memory beside the exhaustive grid of uniform combinations on 8 ranks.

    python3 bench/memory_grid.py PROGRAM [MODEL...]

The grid has all degrees of dp, tp, pp and sp with a product of 8, all levels of zero, recompute none,
selective and full, and accumulation of 1 and 4; pipelines have as many micro-batches as stages. The
limits are a half and a quarter of the memory that dp=8 needs, and 1.05 times the least of the grid.
Printed are, of each limit,

    ratio      the simulated step of the plan that is found over the best of the grid that fits: at
               most 1.02
    measured   the memory of a run of the plan of two steps with its ranks as threads, as a share of
               the limit: at most 1. It is printed without the program that evaluates the held-out
               loss, and with it

and the exit code of a plan search at 0.9 times the least of the grid, which is 3 unless the plan that is
found needs less, and at a hundredth of it, which is 3.
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from memory_limits import presets
from planner_cases import GPT, changed, config_file

RANKS = 8
CLUSTER = f"cpu:{RANKS}"
SMALL = changed(GPT, model={"context": 64, "width": 64, "layers": 2, "heads": 4},
                data={"vocabulary": 512}, train={"batch": 32})
MODELS = [
    ("gpt", SMALL),
    ("llama", changed(SMALL, model={"kind": "llama"})),
]


def grid():
    """The texts of all uniform combinations."""
    for degrees, recompute, accumulate, zero in itertools.product(
            presets(RANKS), ("none", "selective", "full"), (1, 4), range(4)):
        if zero > 0 and degrees["dp"] == 1:
            continue
        parts = [f"{key}={size}" for key, size in degrees.items() if size > 1]
        parts.append(f"recompute={recompute}")
        if degrees["pp"] > 1:
            parts.append(f"micro_batches={degrees['pp']}")
        if accumulate > 1:
            parts.append(f"accumulate={accumulate}")
        if zero:
            parts.append(f"zero={zero}")
        yield ",".join(parts)


class Model:
    """A configuration, as the program sees it."""

    def __init__(self, program, folder, config):
        self.program, self.folder = program, folder
        self.config = config_file(folder, config)

    def run(self, *words):
        result = subprocess.run([self.program, *words, "--json"], capture_output=True, text=True)
        return result.returncode, result

    def simulated(self, text):
        """The bytes of a step and its seconds; None: the plan is refused."""
        code, result = self.run("simulate", self.config, "--plan", text, "--cluster", CLUSTER)
        if code == 78:
            return None
        if code != 0:
            raise RuntimeError(f"{text}: {result.stderr.strip()}")
        result = json.loads(result.stdout)
        needed = max(rank["variable_bytes"] + rank["arena_bytes"] + rank["reserve_bytes"]
                     for rank in result["ranks"])
        return needed, result["step_seconds"], text

    def planned(self, limit):
        """The exit code and the best plan at a limit in bytes; the plan is the file plan.json."""
        code, result = self.run("plan", self.config, "--cluster", CLUSTER, "--no-cache", "--memory",
                                f"{limit} B", "-o", self.plan_file())
        if code not in (0, 3):
            raise RuntimeError(result.stderr.strip())
        return code, json.loads(result.stdout)

    def measured(self):
        """The bytes of a run of the plan that was found last, without its evaluation and with it."""
        ranks = json.loads(self.done("simulate", self.config, "--plan", self.plan_file(),
                                     "--cluster", CLUSTER))["ranks"]
        peak = json.loads(self.done("train", self.config, "--plan", self.plan_file(), "--ranks",
                                    str(len(ranks)), "--steps", "2"))["peak_bytes"]
        return peak - max(rank["other_programs_bytes"] for rank in ranks), peak

    def done(self, *words):
        code, result = self.run(*words)
        if code != 0:
            raise RuntimeError(result.stderr.strip())
        return result.stdout

    def plan_file(self):
        return os.path.join(self.folder, "plan.json")


def at_limit(model, name, limit, cells):
    """Prints the row of one limit; returns whether it holds."""
    fitting = [cell for cell in cells if cell[0] <= limit]
    code, result = model.planned(limit)
    if code == 3:
        print(f"  {name:14} {limit / 2**20:8.2f} MiB  no plan; {len(fitting)} of the grid fit",
              flush=True)
        return not fitting
    step, whole = model.measured()
    share = step / limit
    found = result["step_seconds"]
    row = (f"  {name:14} {limit / 2**20:8.2f} MiB  {1e3 * found:9.3f} ms  measured {share:.3f}, "
           f"with evaluation {whole / limit:.3f}  ")
    if not fitting:
        print(f"{row}{result['name']}; none of the grid fits", flush=True)
        return share <= 1
    best = min(fitting, key=lambda cell: cell[1])
    ratio = found / best[1]
    print(f"{row}ratio {ratio:.3f}  {result['name']}; grid {1e3 * best[1]:.3f} ms {best[2]}", flush=True)
    return share <= 1 and ratio <= 1.02


def below_least(model, least):
    """Prints what is found below the least of the grid; returns whether it holds."""
    code, result = model.planned(int(0.9 * least))
    found = f"{result['name']}, {result['peak_bytes'] / least:.3f} of it" if code == 0 else "none"
    impossible, _ = model.planned(int(0.01 * least))
    print(f"  at 0.9 times the least exit code {code} ({found}); at 0.01 times exit code {impossible}",
          flush=True)
    return impossible == 3 and (code == 3 or result["peak_bytes"] <= 0.9 * least)


def run(program, folder, name, config):
    model = Model(program, folder, config)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(model.simulated, grid()))
    cells = [cell for cell in results if cell]
    least = min(cells)
    plain = next(cell[0] for cell in cells if cell[2] == f"dp={RANKS},recompute=none")
    print(f"{name}: {len(cells)} of {len(results)} combinations; dp={RANKS} needs {plain / 2**20:.2f} MiB, "
          f"least {least[0] / 2**20:.2f} MiB of {least[2]}", flush=True)
    limits = [("a half", plain // 2), ("a quarter", plain // 4),
              ("1.05 of least", int(1.05 * least[0]))]
    held = [at_limit(model, text, limit, cells) for text, limit in limits]
    return all([*held, below_least(model, least[0])])


def main():
    program, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        held = [run(program, folder, *model) for model in MODELS if not wanted or model[0] in wanted]
    print(f"within the limits, within 2% of the grid: {sum(held)} of {len(held)}")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
