#!/usr/bin/env python3
"""Kills or stops processes of a run. The run must end soon, name the lost rank, leave no process
behind, and continue from its last checkpoint.

    faults_test.py PROGRAM MPIRUN [--rounds N] [--seed S] [--only NAME] [--list] [--xml FILE]

Each round chooses a rank, a moment and a signal (SIGKILL or SIGSTOP) at random. Every second round
runs under `tessera launch --restarts 1` and must end with the losses of an undisturbed run. The
others run under `tessera launch` and mpirun alone by turns. mpirun may wait for ever when a process
is killed while it starts, so there the moment is later. One more round stops a rank while the
processes start. MPIRUN is "" when MPI was not found; then everything is skipped.
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from support import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "tests" / "errors" / "inputs" / "text.txt"
RANKS = 4
STEPS = 120
START = 0.1  # of a run
DEADLINE = 5.0  # seconds without a heartbeat, of a rank that is stopped
LIMIT = 120     # seconds until a run has ended, and an undisturbed one
RANK_LOST, KILLED = 69, 128 + signal.SIGKILL
TRAIN = ["train", "configs/gpt.toml", "--plan", "configs/plans/gpt.dp2-tp2.json", "--set", f"data.path={TEXT}",
         "model.width=32", "model.context=16", "model.layers=2", "train.batch=8", f"train.steps={STEPS}", "checkpoint.every=5"]
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def processes_with(mark):
    """Number and rank (None: no rank) of each living process that has the mark in its environment."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if mark.encode() not in variables or state == "Z":
            continue
        ranks = [v.split(b"=")[1] for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
        found[int(folder.name)] = int(ranks[0]) if ranks else None
    return found


def states_of(processes):
    """Name, rank and state of each process, for messages."""
    texts = []
    for number, rank in processes.items():
        stat = (pathlib.Path("/proc") / str(number) / "stat").read_text()
        name, state = stat[stat.index("(") + 1 : stat.rindex(")")], stat.rsplit(")", 1)[1].split()[0]
        texts.append(f"{name} (rank {rank}, {state})")
    return ", ".join(texts)


def lines_of(out):
    return len((out / "metrics.jsonl").read_bytes().splitlines()) if (out / "metrics.jsonl").exists() else 0


def losses_of(out):
    """By step; nothing where there is no run."""
    if not (out / "metrics.jsonl").exists():
        return {}
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


class Round:
    def __init__(self, program, mpirun, number, seed, folder, at_start=False):
        choice = random.Random(f"{seed} {number}")
        self.program, self.mpirun = program, mpirun
        self.victim = choice.randrange(RANKS)
        self.stops = choice.random() < 0.3
        self.way = ["mpirun", "restart", "launch", "restart"][number % 4]
        self.moment = choice.uniform(0.3 if self.way == "mpirun" else 0, 0.9)
        if at_start:
            self.stops, self.way, self.moment = True, "launch", 0
        self.out = pathlib.Path(folder) / f"round-{number}{'-start' if at_start else ''}"
        self.mark = f"TESSERA_FAULTS_ROUND={uuid.uuid4()}"
        self.name = f"round {number} of seed {seed}: {'SIGSTOP' if self.stops else 'SIGKILL'} to rank {self.victim} at {self.moment:.2f} of the run" + \
            f", under {self.way}"

    def command(self):
        # The end of a process is noticed without a deadline, which a rank of a busy machine could miss.
        train = [*TRAIN, "--out", str(self.out), "--rank-deadline", str(DEADLINE if self.stops else LIMIT)]
        if self.way == "mpirun":
            return [self.mpirun, "-n", str(RANKS), self.program, *train]
        return [self.program, "launch", "-n", str(RANKS), "--restarts", "1" if self.way == "restart" else "0", "--", *train]

    def strike(self, child):
        """Waits for the moment, then sends the signal. None: the run was over before."""
        # The first tenth is the start of the processes, a second at most; the rest are steps, however long they take today.
        end = time.time() + min(self.moment, START) / START
        steps = (self.moment - START) / (1 - START) * STEPS
        victims = []
        while time.time() < end or lines_of(self.out) < steps or not victims:
            if child.poll() is not None:
                return None
            time.sleep(0.01)
            victims = [number for number, rank in processes_with(self.mark).items() if rank == self.victim]
        process = victims[0]
        try:
            os.kill(process, signal.SIGSTOP if self.stops else signal.SIGKILL)
        except ProcessLookupError:
            return None
        return process

    def play(self, undisturbed, seconds):
        """Fails with what went wrong."""
        name, value = self.mark.split("=")
        errors = open(self.out.with_suffix(".stderr"), "w+")
        child = subprocess.Popen(self.command(), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                 env={**ENVIRONMENT, name: value})
        process = self.strike(child)
        struck = time.time()
        limit = LIMIT + (4 * seconds + 200 if self.way == "restart" else 0)  # it then runs to its end, however slowly
        wrong = []
        try:
            code = child.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            wrong.append(f"it did not end within {limit:.0f} s; there are still {states_of(processes_with(self.mark))}")
            for left in processes_with(self.mark):
                os.kill(left, signal.SIGKILL)
            code = child.wait()
        took = time.time() - struck
        while (left := processes_with(self.mark)) and time.time() < struck + took + LIMIT:
            time.sleep(0.02)
        if left:
            wrong.append(f"processes are left: {left}")
            for number in left:
                os.kill(number, signal.SIGKILL)
        errors.seek(0)
        said = errors.read()
        if process is not None:
            wrong += self.faults_of(code, said)
        if self.way == "restart" and losses_of(self.out) != undisturbed:
            wrong.append("the losses are not those of the undisturbed run")
        if (self.out / "checkpoints" / "latest").exists():
            loaded = subprocess.run([self.program, "eval", str(self.out), "--json"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
            if loaded.returncode != 0:
                wrong.append(f"the last checkpoint does not load: {loaded.stderr}")
        if wrong:
            wrong.append("it said:\n" + said)
        print(f"{self.name}: {'; '.join(wrong) or ('not struck' if process is None else 'well')}, code {code} after {took:.1f} s", flush=True)
        assert not wrong, "\n".join(wrong)

    def faults_of(self, code, said):
        wrong = []
        # mpirun returns the code of the process that was killed, which is that of its signal.
        wanted = {"restart": {0}, "launch": {RANK_LOST}, "mpirun": {RANK_LOST, KILLED}}[self.way]
        if code not in wanted:
            wrong.append(f"exit code {code}, not one of {sorted(wanted)}")
        names = [f"rank {self.victim} was lost", f"rank {self.victim} was the first of this machine to end", rf"process rank {self.victim} with PID \d+ on node \S+ exited on signal 9"]
        if not any(re.search(name, said) for name in names):
            wrong.append(f"rank {self.victim} is not named")
        return wrong


class Undisturbed:
    """The losses of a run that nothing disturbs, and its seconds; it is made when they are first asked for."""

    def __init__(self, program, mpirun, folder):
        self.command = [mpirun, "-n", str(RANKS), program, *TRAIN, "--out", str(pathlib.Path(folder) / "calm")]
        self.out, self.lock, self.result = pathlib.Path(folder) / "calm", threading.Lock(), None

    def run(self):
        with self.lock:
            if self.result is None:
                start = time.time()
                subprocess.run(self.command, cwd=ROOT, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=2 * LIMIT)
                self.result = losses_of(self.out), time.time() - start
                assert len(self.result[0]) == STEPS
            return self.result


def rounds_of(options, folder):
    calm = Undisturbed(options.program, options.mpirun, folder)
    # MPI itself waits for ever for a process that is stopped before all have found each other.
    for number, at_start in [(0, True), *((number, False) for number in range(options.rounds))]:
        played = Round(options.program, options.mpirun, number, options.seed, folder, at_start)
        yield cases.Named(played.name, lambda played=played: played.play(*calm.run()))


def main():
    parser = cases.parser(__doc__, "program", "mpirun")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    if not options.mpirun:
        print("skipped: MPI was not found when this was configured")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return cases.run(list(rounds_of(options, folder)), options)


if __name__ == "__main__":
    sys.exit(main())
