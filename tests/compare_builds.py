#!/usr/bin/env python3
"""Trains the first steps of every pair of configs/ and configs/plans with two builds and compares the losses bit for bit.

    compare_builds.py OLD NEW [--steps N] [--only PATTERN] [--mpi MPIRUN] [--new-options OPTIONS]

OLD and NEW are source folders with a build in build/release. Each build reads the configurations and plans of its own
folder, so that keys may be renamed between them. With --mpi the pairs in MPI_PAIRS run once more, one rank a process.
--new-options are for the new build alone, such as "--disable-pass sum-chains --cost costs.toml".
Prints a line for each pair that differs and a summary; the exit code is 1 when any differs.
"""

import argparse
import fnmatch
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

MPI_PAIRS = ["gpt.dp2-tp2", "gpt.pp2", "gpt.pp4-zb-h1", "mlp.dp4", "mlp.tp4", "lstm.dp2-tp2", "resnet20.dp2", "gpt_tied.pp2-dp2"]
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def pairs_of(folder):
    return sorted(path.stem for path in (folder / "configs/plans").glob("*.json"))


def losses_of(folder, pair, steps, launcher=(), options=()):
    config = pair.split(".")[0]
    program = folder / "build/release/src/tools/cli/tessera"
    command = [*launcher, str(program), "train", f"configs/{config}.toml", "--plan", f"configs/plans/{pair}.json", "--steps", str(steps), "--json", *options]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600, env={**os.environ, **MPI_ENVIRONMENT})
    if run.returncode != 0:
        return f"exit code {run.returncode}: {run.stderr.strip()[-300:]}"
    return json.loads(run.stdout)["losses"]


def ranks_of(folder, pair):
    plan = json.loads((folder / "configs/plans" / f"{pair}.json").read_text())
    meshes = plan.get("meshes", [plan] if "mesh" in plan else [])
    ranks = set()
    for mesh in meshes:
        count = 1
        for size in mesh["mesh"].values():
            count *= size
        ranks.update(mesh.get("ranks", mesh.get("processes", range(count))))
    return max(1, len(ranks))


def compare(old, new, pairs, steps, new_options, launcher_of=lambda pair: ()):
    same = 0
    for pair in pairs:
        before = losses_of(old, pair, steps, launcher_of(pair))
        after = losses_of(new, pair, steps, launcher_of(pair), new_options)
        is_same = isinstance(before, list) and before == after and len(before) == steps
        same += is_same
        if not is_same:
            print(f"{pair}: before {before}, after {after}")
        elif sys.stdout.isatty():
            print(f"{pair}: {before}")
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--only", default="*")
    parser.add_argument("--mpi", metavar="MPIRUN")
    parser.add_argument("--new-options", metavar="OPTIONS", default="", type=shlex.split)
    arguments = parser.parse_args()
    old, new = arguments.old.resolve(), arguments.new.resolve()
    both = set(pairs_of(old)) & set(pairs_of(new))
    pairs = [pair for pair in sorted(both) if fnmatch.fnmatch(pair, arguments.only)]
    if added := sorted(set(pairs_of(new)) - both):
        print(f"not in the old build: {' '.join(added)}")
    if missing := sorted(set(pairs_of(old)) - set(pairs_of(new))):
        print(f"not in the new build: {' '.join(missing)}")
    same = compare(old, new, pairs, arguments.steps, arguments.new_options)
    print(f"threads: {same} of {len(pairs)} pairs have the same losses of {arguments.steps} steps, bit for bit")
    failed = same != len(pairs) or bool(missing)
    if arguments.mpi:
        with_mpi = [pair for pair in MPI_PAIRS if pair in pairs]
        same = compare(old, new, with_mpi, arguments.steps, arguments.new_options, lambda pair: (arguments.mpi, "-n", str(ranks_of(new, pair))))
        print(f"MPI: {same} of {len(with_mpi)} pairs have the same losses of {arguments.steps} steps, bit for bit")
        failed |= same != len(with_mpi)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
