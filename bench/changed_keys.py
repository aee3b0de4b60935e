#!/usr/bin/env python3
"""Is a plan that is found beaten by a plan with one or two other keys?

    python3 bench/changed_keys.py PROGRAM [--seed N] [--one N] [--two N] [CASE...]

Plans each case, samples changes of one key (--one, by default 60) and of two (--two, 20), simulates
them, and prints the largest gain of one that fits. Values are sampled, not taken from the lists of the
search. Cases of ../shared/data/planner_cases/make.py are there where that folder is. With --grid N the
N sampled plans of the grid of all degrees, schedules, levels of zero, recompute and micro-batches, too.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from planner_cases import GPT, RESNET, UNET, changed, config_file

SHARED = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data" / "planner_cases"

# Name, file of SHARED/make.py, cluster.
REVIEWED = [
    ("gpt43", "gpt43", "8xa100-80g"),
    ("llama8b", "llama8b_b16", "8xh100-sxm"),
    ("hugevocab", "hugevocab", "4x1xv100-16g;ib=10Gb"),
    ("mlp", "mlp", "3xrtx3090"),
    ("tower_ab", "tower", "ab.toml"),
    ("tower_ba", "tower", "ba.toml"),
    ("encdec", "encdec", "5xa100-40g"),
    ("cliff72", "cliff", "9x8xa100-80g;ib=100Gb"),
    ("cliffr72", "cliffr", "9x8xa100-80g;ib=100Gb"),
    ("robust", "robust", "2x3xa100-40g;ib=25Gb"),
    ("small", "small", "5xrtx3090"),
    ("unets", "unets", "8xrtx3090"),
    ("kv2", "llama26kv2", "8xh100-sxm"),
    ("slow1", "small", "slow1.toml"),
    ("tiny128", "tiny", "16x8xh100-sxm;ib=400Gb"),
    ("sc7_5b", "sc7_5b", "16x8xa100-80g;ib=200Gb"),
]


def gpt(layers, width, batch, **data):
    return changed(GPT, model={"layers": layers, "width": width}, train={"batch": batch}, data=data)


def llama(layers, width, batch):
    return changed(gpt(layers, width, batch), model={"kind": "llama", "kv_heads": 4})


# Name, configuration, cluster.
OWN = [
    ("gpt2x4", gpt(4, 256, 16), "4xa100-40g"),
    ("gpt6x8", gpt(6, 512, 32), "8xv100-32g"),
    ("gpt12", gpt(12, 768, 32, vocabulary=50304), "8xa100-80g"),
    ("gpt8slow", gpt(8, 512, 24), "2x4xa100-40g;ib=10Gb"),
    ("gpt12ib", gpt(12, 768, 64), "2x8xh100-sxm;ib=100Gb"),
    ("gpt7odd", gpt(7, 384, 30), "3xa100-40g"),
    ("gpt10five", gpt(10, 640, 20), "5xrtx3090"),
    ("gpt5wide", gpt(5, 1024, 12, vocabulary=100003), "6xa100-40g"),
    ("llama4", llama(4, 512, 16), "4xh100-sxm"),
    ("llama9", llama(9, 512, 18), "2x3xa100-40g;ib=25Gb"),
    ("llama16", llama(16, 1024, 32), "8xh100-sxm"),
    ("unet", UNET, "4xa100-80g"),
    ("unet_ib", UNET, "2x4xrtx3090;ib=100Gb"),
    ("resnet", RESNET, "8xv100-16g"),
    ("towers", changed(GPT, model={"kind": "two_tower", "layers": 3, "width": 256}), "4xrtx3090"),
    ("encdec3", changed(GPT, model={"kind": "encoder_decoder", "layers": 3}), "4xv100-32g"),
    ("lstm", changed(GPT, model={"kind": "lstm", "context": 16, "layers": 2}), "4xa100-40g"),
    ("unlike", gpt(6, 512, 24), "1x4xv100-16g+1x4xp100;ib=100Gb"),
]

SCHEDULES = ["1f1b", "eager-1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "interleaved"]


def divisors(number):
    return [i for i in range(1, number + 1) if number % i == 0]


class Changes:
    """Changes of the answer, a preset or a plan of a file."""

    def __init__(self, answer, rows, generator):
        self.preset = answer["name"] if answer["source"] == "preset" else None
        self.plan = answer["plan"]
        self.rows = rows
        self.generator = generator

    def value(self, key):
        generator = self.generator
        return {
            "micro_batches": lambda: generator.choice(divisors(self.rows)),
            "schedule": lambda: generator.choice(SCHEDULES),
            "recompute": lambda: generator.choice(["none", "selective", "full"]),
            "bucket_mib": lambda: generator.choice([0, 1, 2, 4, 8, 16, 40, 64, 200]),
            "prefetch_mib": lambda: generator.choice([0, 4, 16, 48, 64, 100, 200, 300, 700, 1500]),
            "all_reduce": lambda: generator.choice(["auto", "one-shot", "hierarchical", "reduce-scatter-all-gather"]),
            "collective_matmul": lambda: generator.choice(["off", "auto", 2, 3, 4, 8]),
            "tasks": lambda: generator.choice(["role", "layer", "op"]),
            "disabled_passes": lambda: generator.choice(["combine", "buckets", "prefetch", "sum-chains", "cse"]),
            "halos": lambda: generator.choice(["auto", "exchange", "recompute"]),
            "zero": lambda: generator.choice([0, 1, 2, 3]),
            "sequence_parallel": lambda: generator.choice(["true", "false"]),
            "master_weights": lambda: generator.choice(["whole", "divided"]),
            "chunks": lambda: generator.choice([1, 2, 3, 4]),
        }[key]()

    def keys(self):
        keys = ["micro_batches", "schedule", "recompute", "bucket_mib", "prefetch_mib", "all_reduce",
                "collective_matmul", "tasks", "disabled_passes", "halos"]
        return keys + ["zero", "sequence_parallel", "master_weights", "chunks"] if self.preset else keys

    def sampled(self, count, folder, number):
        """A preset, or the file of a plan."""
        changes = {key: self.value(key) for key in self.generator.sample(self.keys(), count)}
        if self.preset:
            items = dict(item.split("=") for item in self.preset.split(","))
            items.update({key: str(value) for key, value in changes.items()})
            return ",".join(f"{key}={value}" for key, value in items.items()), changes
        plan = dict(self.plan)
        for key, value in changes.items():
            plan[key] = [value] if key == "disabled_passes" else value
        if plan.get("micro_batches", 1) == 1:
            plan.pop("schedule", None)
        plan.pop("fingerprint", None)
        file = pathlib.Path(folder) / f"changed{number}.json"
        file.write_text(json.dumps(plan))
        return str(file), changes


def grid_plan(generator, ranks, rows):
    stages = generator.choice(divisors(ranks))
    tensor = generator.choice(divisors(ranks // stages))
    space = generator.choice(divisors(ranks // stages // tensor))
    degrees = {"pp": stages, "dp": ranks // stages // tensor // space, "sp": space, "tp": tensor}
    items = [f"{key}={size}" for key, size in degrees.items() if size > 1]
    counts = [2 ** i for i in range(8) if rows % 2 ** i == 0]
    count = generator.choice(counts)
    items.append(f"micro_batches={count}")
    if stages > 1 and count > 1:
        items.append("schedule=" + generator.choice(["1f1b", "interleaved", "zb-h2", "zb-v"]))
    if degrees["dp"] > 1:
        items.append(f"zero={generator.choice([0, 1, 3])}")
    items.append("recompute=" + generator.choice(["none", "selective", "full"]))
    return ",".join(items)


def simulated(program, config, cluster, plan):
    """The step, or nothing where the plan is impossible or does not fit."""
    done = subprocess.run([program, "simulate", config, "--cluster", cluster, "--plan", plan, "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    return json.loads(done.stdout)["step_seconds"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", type=int, default=60)
    parser.add_argument("--two", type=int, default=20)
    parser.add_argument("--grid", type=int, default=0)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = []
        for name, config, cluster in OWN:
            file = pathlib.Path(folder) / f"{name}.toml"
            pathlib.Path(config_file(folder, config)).rename(file)
            cases.append((name, str(file), cluster))
        if SHARED.exists():
            subprocess.run([sys.executable, SHARED / "make.py", folder], check=True)
            for name, file, cluster in REVIEWED:
                path = SHARED / cluster
                cases.append((name, f"{folder}/{file}.toml", str(path) if path.exists() else cluster))
        print("| case | answer | step | plan | one key | two keys | grid |\n|---|---|---|---|---|---|---|")
        for name, config, cluster in cases:
            if not wanted.cases or name in wanted.cases:
                report(wanted, folder, name, config, cluster)


def report(wanted, folder, name, config, cluster):
    generator = random.Random(f"{wanted.seed} {name}")
    times = os.times()
    done = subprocess.run([wanted.program, "plan", config, "--cluster", cluster, "--no-cache", "--json"],
                          capture_output=True, text=True, check=False)
    spent = os.times()
    if done.returncode != 0:
        print(f"| {name} | exit {done.returncode} | | | | | |", flush=True)
        return
    answer = json.loads(done.stdout)
    for line in pathlib.Path(config).read_text().splitlines():
        if line.startswith("batch ="):
            rows = int(line.split("=")[1])
    changes = Changes(answer, rows, generator)
    tasks = [("one", *changes.sampled(1, folder, f"{name}1_{i}")) for i in range(wanted.one)]
    tasks += [("two", *changes.sampled(2, folder, f"{name}2_{i}")) for i in range(wanted.two)]
    for _ in range(wanted.grid):
        plan = grid_plan(generator, answer["ranks"], rows)
        tasks.append(("grid", plan, plan))
    step = answer["step_seconds"]
    best = {"one": (0, "", 0), "two": (0, "", 0), "grid": (0, "", 0)}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        steps = pool.map(lambda task: simulated(wanted.program, config, cluster, task[1]), tasks)
        for (kind, _, changes), found in zip(tasks, steps):
            if found is None:
                continue
            gain, what, count = best[kind]
            mine = 1 - found / step
            best[kind] = (max(gain, mine), str(changes) if mine > gain else what, count + 1)
    cells = [f"{100 * gain:.2f}% of {count} {what}" for gain, what, count in best.values()]
    cpu = spent.children_user + spent.children_system - times.children_user - times.children_system
    print(f"| {name} | {answer['name']} | {1e3 * step:.4g} ms | {spent.elapsed - times.elapsed:.1f} s, CPU {cpu:.1f} s | "
          + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
