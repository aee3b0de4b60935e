#!/usr/bin/env python3
"""Random rounds of kills, stops, signals, contending runs and full disks. Nothing may be lost.

    kill_rounds.py PROGRAM MPIRUN [--rounds N] [--seed S] [--first R] [--xml FILE]

A round trains with checkpoints in the background, on threads, by `tessera launch` (without and with
a restart) or by mpirun, and disturbs the run at a random moment. Then

- the exit code must be one that docs/processes.md has for it, and no process may be left;
- the newest checkpoint must load, and be at most one interval of `checkpoint.every` behind: the
  save of a step begins when that of the interval before is complete. After exit code 75 it is that
  of the last step;
- metrics.jsonl must have the steps 1, 2, 3, ... with the losses of an undisturbed run;
- a resumed run, on threads or processes, must end with all losses of the undisturbed run, bit for
  bit.

Without --seed the seed is another one each time; it is printed. --first R begins with round R of the
seed, to repeat it. MPIRUN is "" where MPI was not found: then
all rounds are on threads. Disks that fill need the right to mount a tmpfs; without it the rounds
that need it are skipped and counted.
"""
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

from faults_test import processes_with, states_of
from signals_test import BARE, LAUNCH, ROOT, TEXT
from support import cases

STEPS = 60
RANK_LOST, PREEMPTED, FAILED, USAGE = 69, 75, 1, 2
STOP_SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1]
PLANS = {1: ["serial"], 2: ["dp=2", "tp=2", "pp=2,micro_batches=2"], 3: ["dp=3"],
         4: ["dp=4", "dp=2,tp=2"]}
TRAIN = ["configs/mlp.toml", "--rank-deadline", "30", "--set", f"data.path={TEXT}",
         "model.width=16", "model.embedding=4", "train.batch=12", f"train.steps={STEPS}",
         "train.evaluate_every=0", "train.evaluate_batches=1", "optimizer.schedule=constant",
         "optimizer.warmup=0"]
WAYS = ["threads", "launch", "restart", "mpirun"]
# A disturbance, and the ways of running for which it is meant.
EVENTS = {
    "a stop signal": WAYS,
    "a stop signal in a slow step": WAYS,
    "SIGKILL of a rank": WAYS,
    "SIGKILL of a rank in a slow step": ["launch", "restart", "mpirun"],
    "SIGKILL of launch": ["launch", "restart"],
    "SIGKILL of all": WAYS,
    "slow steps": WAYS,
    "a second run": WAYS,
    "two resumed runs at once": WAYS,
    "a full disk": WAYS,
    "a limit of the size of files": ["threads"],  # mpirun has larger files of its own
}
LONG = 240  # seconds that nothing takes, however busy the machine is


def steps_of(out):
    """The step lines of metrics.jsonl, and what follows the last whole line."""
    file = out / "metrics.jsonl"
    whole, _, rest = (file.read_text() if file.exists() else "").rpartition("\n")
    lines = [json.loads(line) for line in whole.split("\n") if line]
    return [line for line in lines if line["kind"] == "step"], rest


def step_count(out):
    file = out / "metrics.jsonl"
    return file.read_bytes().count(b'"kind":"step"') if file.exists() else 0


@contextlib.contextmanager
def small_disk(folder, kib):
    """A folder on a disk of its own."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        raise unittest.SkipTest("no tmpfs can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


class Tester:
    """The program, and the losses of undisturbed runs by plan."""

    def __init__(self, program, mpirun, folder):
        self.program, self.mpirun, self.folder = program, mpirun, pathlib.Path(folder)
        self.undisturbed, self.lock = {}, threading.Lock()

    def command(self, way, ranks, *words):
        if way == "threads":
            return [self.program, *words]
        if way == "mpirun":
            return [self.mpirun, "-n", str(ranks), self.program, *words]
        restarts = "1" if way == "restart" else "0"
        return [self.program, "launch", "-n", str(ranks), "--restarts", restarts, "--", *words]

    def losses(self, plan):
        with self.lock:
            return self.losses_of_one(plan)

    def losses_of_one(self, plan):
        if plan not in self.undisturbed:
            out = self.folder / f"undisturbed-{len(self.undisturbed)}"
            subprocess.run([self.program, "train", *TRAIN, "--plan", plan, "--out", out], cwd=ROOT,
                           check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=LONG)
            self.undisturbed[plan] = [line["loss"] for line in steps_of(out)[0]]
            assert len(self.undisturbed[plan]) == STEPS
        return self.undisturbed[plan]


class Round:
    def __init__(self, tester, number, seed, way, event):
        self.tester, self.way, self.event = tester, way, event
        self.choice = random.Random(f"{seed} {number}")
        self.ranks = self.choice.choice([1, 2, 3, 4] if way == "threads" else [2, 3, 4])
        self.plan = self.choice.choice(PLANS[self.ranks])
        self.every = self.choice.randint(2, 5)
        self.moment = self.choice.randint(1, STEPS * 2 // 3)  # steps that are done
        if event == "two resumed runs at once":  # from a checkpoint
            self.moment = max(self.moment, 3 * self.every)
        self.while_saving = self.choice.random() < 0.5
        self.folder = tester.folder / f"round-{number}"
        self.out = self.folder / "run"
        self.mark = f"TESSERA_KILL_ROUND={uuid.uuid4()}"
        self.wrong, self.said, self.codes = [], [], []
        self.name = (f"round {number} of seed {seed}: {event}, {way}, plan {self.plan}, "
                     f"checkpoint.every={self.every}, after step {self.moment}"
                     f"{', while saving' if self.while_saving else ''}")

    # Runs.

    def start(self, way, *options, before=()):
        """`before` are words in front of the command."""
        train = ["train", *TRAIN, f"checkpoint.every={self.every}", "--out", str(self.out)]
        name, value = self.mark.split("=")
        log = open(self.folder / f"said-{len(self.said)}", "w+")
        self.said.append(log)
        return subprocess.Popen([*before, *self.tester.command(way, self.ranks, *train, *options)], cwd=ROOT,
                                env={**(BARE if way == "mpirun" else LAUNCH), name: value},
                                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self, process):
        try:
            code = process.wait(timeout=LONG)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"it does not end; there are {states_of(processes_with(self.mark))}")
            self.kill_all()
            code = process.wait()
        self.codes.append(code)
        return code

    def wait_for_moment(self, process):
        """Whether the run still goes on then."""
        while step_count(self.out) < self.moment:
            if process.poll() is not None:
                return False
            time.sleep(0.002)
        end = time.monotonic() + 1
        checkpoints = self.out / "checkpoints"
        while self.while_saving and time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(FileNotFoundError):
                if any(name.endswith(".tmp") for name in os.listdir(checkpoints)):
                    break
        return process.poll() is None

    def pids_of_ranks(self, process):
        if self.way == "threads":
            return [process.pid]
        return [pid for pid, rank in processes_with(self.mark).items() if rank is not None]

    def send(self, number, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill_all(self):
        while pids := processes_with(self.mark):
            self.send(signal.SIGKILL, pids)
            time.sleep(0.01)

    # Disturbances. Each returns the codes of which one is right.

    def stop(self, process, in_slow_step):
        number = self.choice.choice(STOP_SIGNALS)
        ranks = self.pids_of_ranks(process)
        target = self.choice.choice(["main", "rank", "ranks"])
        pids = {"main": [process.pid], "rank": ranks[:1], "ranks": ranks}[target]
        if in_slow_step:
            slow = self.choice.choice(ranks or [process.pid])
            self.send(signal.SIGSTOP, [slow])
            time.sleep(self.choice.uniform(0, 0.3))
            self.send(number, pids)
            time.sleep(self.choice.uniform(0.1, 3))
            self.send(signal.SIGCONT, [slow])
        else:
            self.send(number, pids)
        self.name += f"; {number.name} to {target}"
        # Open MPI kills its processes after two seconds and returns 1.
        by_mpirun = self.way == "mpirun" and target == "main" and number != signal.SIGUSR1
        return {FAILED} if by_mpirun else {PREEMPTED}

    def kill_rank(self, process, in_slow_step):
        if self.way == "threads":
            self.send(signal.SIGKILL, [process.pid])
            return {-signal.SIGKILL}
        ranks = self.pids_of_ranks(process)
        if in_slow_step and len(ranks) > 1:
            self.send(signal.SIGSTOP, ranks[:1])
            time.sleep(self.choice.uniform(0, 1))
        self.send(signal.SIGKILL, ranks[-1:])
        time.sleep(self.choice.uniform(0, 0.5))
        self.send(signal.SIGCONT, ranks[:1])
        return {"launch": {RANK_LOST}, "restart": {0},
                "mpirun": {RANK_LOST, 128 + signal.SIGKILL}}[self.way]

    def kill_launch(self, process):
        self.send(signal.SIGKILL, [process.pid])
        process.wait()
        # What it started goes on, holds the folder, and ends like any run.
        end = time.monotonic() + self.choice.uniform(0, 3)
        while processes_with(self.mark) and time.monotonic() < end:
            time.sleep(0.01)
        self.kill_all()
        return {-signal.SIGKILL}

    def slow_steps(self, process):
        for _ in range(3):
            slow = self.choice.choice(self.pids_of_ranks(process) or [process.pid])
            self.send(signal.SIGSTOP, [slow])
            time.sleep(self.choice.uniform(0.05, 1))
            self.send(signal.SIGCONT, [slow])
        return {0}

    def second_run(self, process):
        """A run that wants the same folder, while a step of the first is slow."""
        ranks = self.pids_of_ranks(process)
        self.send(signal.SIGSTOP, ranks)
        if step_count(self.out) < STEPS:
            way = self.choice.choice(["threads", self.way])
            second = self.start(way, *self.choice.choice([["--plan", self.plan], ["--resume"]]))
            code = self.wait(second)
            if code != USAGE:
                self.wrong.append(f"exit code {code} of the second run, not {USAGE}")
        self.send(signal.SIGCONT, ranks)
        return {0}

    def two_resumed(self, process):
        self.kill_all()
        process.wait()
        self.check_stored()
        both = [self.start(self.choice.choice(["threads", self.way]), "--resume") for _ in "ab"]
        codes = sorted(self.wait(run) for run in both)
        # The second one waits two seconds for the folder, in which the first one may end.
        if self.stored() is not None and codes not in ([0, 0], [0, USAGE]):
            self.wrong.append(f"exit codes {codes} of two runs, not one 0 and the other 0 or 2")
        return {-signal.SIGKILL}

    def disturb(self, process):
        slow = self.event.endswith("in a slow step")
        if self.event.startswith("a stop signal"):
            return self.stop(process, slow)
        if self.event.startswith("SIGKILL of a rank"):
            return self.kill_rank(process, slow)
        if self.event == "SIGKILL of launch":
            return self.kill_launch(process)
        if self.event == "SIGKILL of all":
            self.kill_all()
            return {-signal.SIGKILL}
        if self.event == "slow steps":
            return self.slow_steps(process)
        if self.event == "a second run":
            return self.second_run(process)
        return self.two_resumed(process)

    # Checks.

    def stored(self):
        """The step of the newest checkpoint, which loads; None without one."""
        if not list((self.out / "checkpoints").glob("step-????????")):
            return None
        loaded = subprocess.run([self.tester.program, "eval", str(self.out), "--json"], cwd=ROOT,
                                capture_output=True, text=True, timeout=LONG)
        if loaded.returncode != 0:
            self.wrong.append(f"the newest checkpoint does not load: {loaded.stderr}")
            return None
        return json.loads(loaded.stdout)["step"]

    def check_metrics(self, is_whole):
        lines, rest = steps_of(self.out)
        numbers, losses = [line["step"] for line in lines], [line["loss"] for line in lines]
        if numbers != list(range(1, len(numbers) + 1)):
            self.wrong.append(f"metrics.jsonl has the steps {numbers}")
        if losses != self.tester.losses(self.plan)[:len(losses)]:
            self.wrong.append("the losses are not those of the undisturbed run")
        if is_whole and (rest or len(lines) != STEPS):
            self.wrong.append(f"metrics.jsonl has {len(lines)} of {STEPS} steps, then '{rest}'")
        return len(lines)

    def check_stored(self, code=None):
        done, stored = self.check_metrics(is_whole=code == 0), self.stored() or 0
        least = done if code in (0, PREEMPTED) else ((done - 1) // self.every - 1) * self.every
        if stored < least:
            self.wrong.append(f"the newest checkpoint is of step {stored} after {done} steps")

    def check_end(self, process, right):
        finished = step_count(self.out) == STEPS and self.stored() == STEPS
        code = self.wait(process)
        if code not in right | ({0} if finished or step_count(self.out) == STEPS else set()):
            self.wrong.append(f"exit code {code}, not one of {sorted(right)}")
        end = time.monotonic() + LONG
        while (left := processes_with(self.mark)) and time.monotonic() < end:
            time.sleep(0.02)
        if left:
            self.wrong.append(f"processes are left: {states_of(left)}")
            self.kill_all()
        if self.event != "two resumed runs at once":
            self.check_stored(code)

    def resume(self):
        """Goes on to the end, on threads or on processes."""
        way = self.choice.choice(["threads", self.way])
        options = ["--resume"]
        if self.stored() is None:  # it was disturbed before the first checkpoint
            shutil.rmtree(self.out, ignore_errors=True)
            options = ["--plan", self.plan]
        code = self.wait(self.start(way, *options))
        if code != 0:
            self.wrong.append(f"exit code {code} of the resumed run")
        self.check_metrics(is_whole=True)
        if self.stored() != STEPS:
            self.wrong.append("the resumed run has no checkpoint of its end")
        names = sorted(path.name for path in (self.out / "checkpoints").iterdir())
        if len(names) > 6 or not all(re.fullmatch(r"latest|latest_good|step-\d{8}", name) for name in names):  # three, and the last proven one
            self.wrong.append(f"the folder of checkpoints has {names}")

    # Rounds.

    def run_without_room(self, before=()):
        process = self.start(self.way, "--plan", self.plan, before=before)
        self.check_end(process, {0, FAILED})
        if self.codes[-1] == FAILED and "\n  fix: " not in self.text():
            self.wrong.append("the message has not three parts")

    def play(self):
        self.folder.mkdir()
        if self.event == "a full disk":
            disk = self.folder / "disk"
            self.out = disk / "run"
            with small_disk(disk, self.choice.randint(100, 500)):
                self.run_without_room()
                subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
                self.resume()
            return True
        if self.event == "a limit of the size of files":
            most = self.choice.randint(2000, 60000)
            self.run_without_room(before=["prlimit", f"--fsize={most}"])
            self.resume()
            return True
        process = self.start(self.way, "--plan", self.plan)
        struck = self.wait_for_moment(process)
        self.check_end(process, self.disturb(process) if struck else {0})
        self.resume()
        return struck

    def text(self):
        texts = []
        for log in self.said:
            log.seek(0)
            texts.append(log.read())
        return "\n--- the next run\n".join(texts)


def play(item, repeat):
    """Fails with what went wrong, what was said, and how to repeat the round."""
    try:
        struck = item.play()
    except unittest.SkipTest:
        raise
    except Exception as error:  # what was said is told with it
        item.wrong.append(f"{type(error).__name__}: {error}")
    finally:
        item.kill_all()
    assert not item.wrong, "\n".join([*item.wrong, item.text(), f"to repeat it: {repeat}"])
    print(f"{item.name}: {'well' if struck else 'not struck'}, codes {item.codes}", flush=True)


def rounds_of(options, folder):
    tester = Tester(options.program, options.mpirun, folder)
    # Every pair comes before any comes again, the ways by turns.
    choice = random.Random(options.seed)
    by_way = [[(way, event) for event in EVENTS if way in EVENTS[event]]
              for way in (WAYS if options.mpirun else ["threads"])]
    for pairs in by_way:
        choice.shuffle(pairs)
    turns = [pair for turn in itertools.zip_longest(*by_way) for pair in turn if pair]
    for number in range(options.first, options.first + options.rounds):
        item = Round(tester, number, options.seed, *turns[number % len(turns)])
        repeat = f"kill_rounds.py PROGRAM MPIRUN --seed {options.seed} --first {number} --rounds 1"
        yield cases.Named(item.name, lambda item=item, repeat=repeat: play(item, repeat))


def main():
    parser = cases.parser(__doc__, "program", "mpirun")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        return cases.run(list(rounds_of(options, folder)), options)


if __name__ == "__main__":
    sys.exit(main())
