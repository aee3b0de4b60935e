#!/usr/bin/env python3
"""Signals to runs of several processes: a checkpoint and exit code 75, however long a step takes.

    signals_test.py PROGRAM MPIRUN [--only NAME] [--list] [--xml FILE]

One rank is stopped while the signal is sent and continued three seconds later, which makes a step of three seconds: longer than
mpirun waits before it kills its processes. MPIRUN is "" where MPI was not found: then all is skipped.
"""
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ""
MPIRUN = ""
TEXT = ROOT / "tests" / "errors" / "inputs" / "text.txt"
TRAIN = ["train", "configs/mlp.toml", "--plan", "configs/plans/mlp.dp4.json", "--set", f"data.path={TEXT}", "model.width=16", "model.embedding=4", "train.batch=4",
         "train.steps=1000000", "optimizer.schedule=constant", "optimizer.warmup=0"]
LIMIT = 120  # seconds of what a case waits for
STEP = 3.0  # seconds, of the step in which the signal arrives
BARE = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
# What Open MPI needs for root and for few cores is left to launch.
LAUNCH = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_")}


def wait_for(condition, process):
    end = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, f"the run ended too early: {process.communicate()}"
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def descendants(pid):
    """Of a process, with the rank of each (None: no rank)."""
    found = {}
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            ranks = [int(v.split(b"=")[1]) for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
            found |= {child: ranks[0] if ranks else None, **descendants(child)}
    return found


def runs(pid):
    """Whether a process runs: one that ended and waits for its parent to ask (state Z) does not."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def metrics_of(out):
    """The losses by step; nothing where there is no run yet."""
    file = out / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line)["loss"] for line in lines]


class OfLaunch(unittest.TestCase):
    def setUp(self):
        if not MPIRUN:
            self.skipTest("MPI was not found when this was configured")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name) / "run"

    def start(self, words, environment):
        process = subprocess.Popen([*map(str, words), *TRAIN, "--out", self.out, "--json"], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def launch(self, *options):
        return self.start([PROGRAM, "launch", *options, "--"], LAUNCH)

    def stop_in_a_long_step(self, process, number, targets=lambda process: [process.pid]):
        """Sends a signal to the targets in a step of STEP seconds, and waits for the end of the run."""
        wait_for(lambda: metrics_of(self.out), process)
        [slow] = [pid for pid, rank in descendants(process.pid).items() if rank == 3]
        os.kill(slow, signal.SIGSTOP)
        for target in targets(process):
            os.kill(target, number)
        time.sleep(STEP)
        try:
            os.kill(slow, signal.SIGCONT)
        except ProcessLookupError:
            pass  # it was killed, which check_stopped() shows
        return process.communicate(timeout=LIMIT)

    def check_stopped(self, process, texts):
        output, errors = texts
        self.assertEqual(process.returncode, 75, errors)
        result = json.loads(output)
        self.assertIn(result["stopped_by"], ("SIGTERM", "SIGUSR1"))
        checkpoint = pathlib.Path(result["checkpoint"])
        self.assertEqual(checkpoint.name, f"step-{result['step']:08}")
        listed = json.loads(subprocess.run([PROGRAM, "inspect", self.out, "--json"], cwd=ROOT, capture_output=True, text=True, check=True).stdout)
        self.assertEqual((listed["latest"], listed["checkpoints"][-1]["complete"]), (checkpoint.name, True))
        self.assertEqual(len(metrics_of(self.out)), result["step"])


class Signals(OfLaunch):
    def test_sigterm_to_launch(self):
        self.stop_launch_by(signal.SIGTERM)

    def test_sigint_to_launch(self):
        self.stop_launch_by(signal.SIGINT)

    def test_sighup_to_launch(self):
        self.stop_launch_by(signal.SIGHUP)

    def stop_launch_by(self, number):
        process = self.launch("-n", "4")
        self.check_stopped(process, self.stop_in_a_long_step(process, number))

    def test_the_command_to_continue_starts_the_processes_as_before(self):
        for number, options in enumerate((["-n", "4", "--mpirun-args=--bind-to none"], ["--log-dir=" + self.folder.name + "/my logs"], [])):
            with self.subTest(options=options):
                out = pathlib.Path(self.folder.name) / f"run {number}"
                process = subprocess.Popen([PROGRAM, "launch", *options, "--", *map(str, TRAIN), "--out", out], cwd=ROOT, env=LAUNCH,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(process.kill)
                wait_for(lambda: metrics_of(out), process)
                process.send_signal(signal.SIGTERM)
                output, errors = process.communicate(timeout=LIMIT)
                self.assertEqual(process.returncode, 75, errors)
                line = re.search(r"(?m)^to continue      tessera (.*)$", output).group(1)
                self.assertEqual(shlex.split(line), ["launch", *options, "--", *map(str, TRAIN), "--out", str(out), "--resume"])

    def test_to_launch_and_mpirun_together_as_a_service_manager_sends_it(self):
        def launch_and_mpirun(process):
            return [process.pid, *(pid for pid, rank in descendants(process.pid).items() if rank is None)]
        process = self.launch("-n", "4")
        self.check_stopped(process, self.stop_in_a_long_step(process, signal.SIGTERM, launch_and_mpirun))

    def test_sigusr1_to_mpirun_alone(self):
        process = self.start([MPIRUN, "-n", "4", PROGRAM], BARE)
        texts = self.stop_in_a_long_step(process, signal.SIGUSR1)
        self.check_stopped(process, texts)
        self.assertIn("note: mpirun kills the processes 2 seconds after it receives SIGTERM or SIGINT", texts[1])

    def test_that_comes_while_the_processes_start_waits_until_they_can_save(self):
        process = self.launch("-n", "4")
        wait_for(lambda: len(descendants(process.pid)) > 1, process)
        process.send_signal(signal.SIGTERM)
        self.check_stopped(process, process.communicate(timeout=LIMIT))

    def test_a_second_signal_ends_the_run_at_once(self):
        process = self.launch("-n", "4")
        wait_for(lambda: metrics_of(self.out), process)
        ranks = [pid for pid, rank in descendants(process.pid).items() if rank is not None]
        os.kill(ranks[3], signal.SIGSTOP)
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        os.kill(ranks[3], signal.SIGCONT)
        process.communicate(timeout=LIMIT)
        self.assertIn(process.returncode, (128 + signal.SIGTERM, 75))
        # The ranks are not children of launch: they end after mpirun, and the process that adopts them need not ask for their exit codes.
        end = time.monotonic() + LIMIT
        while (left := [pid for pid in ranks if runs(pid)]) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(left)


class Launch(OfLaunch):
    def test_as_many_processes_as_the_plan_has_ranks_and_a_log_of_each(self):
        logs = pathlib.Path(self.folder.name) / "logs"
        process = self.launch("--log-dir", logs, "--mpirun-args=--mca mpi_show_handle_leaks 0")
        wait_for(lambda: metrics_of(self.out), process)
        process.send_signal(signal.SIGTERM)
        texts = process.communicate(timeout=LIMIT)
        self.check_stopped(process, texts)
        self.assertEqual(sorted(path.name for path in logs.iterdir()), [f"rank-0000{rank}.log" for rank in range(4)])
        for path in logs.iterdir():
            self.assertIn("train configs/mlp.toml: ", path.read_text(), path.name)
        self.assertEqual(texts[1].count("train configs/mlp.toml: "), 1)
        # A run that is resumed has the ranks of the plan of its checkpoint.
        resumed = subprocess.run([PROGRAM, "launch", "--", "train", "configs/mlp.toml", *TRAIN[4:], f"train.steps={json.loads(texts[0])['step'] + 2}", "--out", self.out,
                                  "--resume", "--json"], cwd=ROOT, env=LAUNCH, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(json.loads(resumed.stdout)["ranks"], 4)

    def test_further_words_reach_mpirun(self):
        process = subprocess.run([PROGRAM, "launch", "--mpirun-args=--no-such-option", "--", *TRAIN], cwd=ROOT, env=LAUNCH, capture_output=True, text=True, timeout=LIMIT)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("no-such-option", process.stderr)


if __name__ == "__main__":
    options = cases.parser(__doc__, "program", "mpirun").parse_args()
    PROGRAM, MPIRUN = str(pathlib.Path(options.program).resolve()), options.mpirun
    sys.exit(cases.run(cases.tests_of(sys.modules[__name__]), options))
