#!/usr/bin/env python3
"""Runs in several processes: the same losses, files and messages as with ranks as threads of one.

    mpi_test.py PROGRAM MPIRUN [--only NAME] [--list] [--xml FILE]

MPIRUN is "" where MPI was not found: then all is skipped.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from signals_test import descendants, wait_for
from support import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ""
MPIRUN = ""
LIMIT = 120  # seconds of what a case waits for
TEXT = ROOT / "tests" / "errors" / "inputs" / "text.txt"
SMALL = {
    "gpt": ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.context=8", "model.layers=2", "train.batch=4", "train.steps=4"],
    "mlp": ["configs/mlp.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.embedding=4", "train.batch=4", "train.steps=4"],
    "lstm": ["configs/lstm.toml", "--set", "train.steps=2", "train.evaluate_batches=1"],
}
# Open MPI starts no more processes than there are cores, and none for root, unless its environment allows it.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def run(command, code=0, environment=None):
    result = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL,
                            env=environment or ENVIRONMENT)
    assert result.returncode == code, f"{command}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def over_mpi(processes, *arguments, code=0):
    return run(["timeout", "-k", "5", "120", MPIRUN, "-n", processes, PROGRAM, *arguments], code)


def result_of(finished):
    return json.loads(finished.stdout)


def has_open(pid, path):
    """Whether a process has the file open."""
    with contextlib.suppress(OSError):
        return any(os.readlink(file) == str(path) for file in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    return False


def threads_json(*arguments):
    return result_of(run([PROGRAM, *arguments, "--json"]))


def mpi_json(processes, *arguments):
    return result_of(over_mpi(processes, *arguments, "--json"))


def plan(name):
    return ["--plan", f"configs/plans/{name}.json"]


class OverMpi(unittest.TestCase):
    def setUp(self):
        if not MPIRUN:
            self.skipTest("MPI was not found when this was configured")

    def test_losses_are_those_of_threads_bit_for_bit(self):
        # Tensor parallelism, pipelines, one that ends on another kind of device, a model with loops, decomposed collective matmuls, and rows by weight.
        for model, name, processes in [("gpt", "gpt.dp2-tp2", 4), ("gpt", "gpt.pp2", 2), ("gpt", "gpt.pp2.fake-last", 2), ("mlp", "mlp.dp4", 4),
                                       ("mlp", "mlp.tp4", 4), ("lstm", "lstm.dp2-tp2", 4), ("gpt", "gpt.dp2-tp2-sp", 4), ("gpt", "gpt.dp2w", 2)]:
            threads = threads_json("train", *SMALL[model], *plan(name))
            processes_of_mpi = mpi_json(processes, "train", *SMALL[model], *plan(name))
            self.assertEqual(processes_of_mpi["losses"], threads["losses"], name)
            self.assertEqual(processes_of_mpi["val_loss"], threads["val_loss"], name)
            self.assertEqual(processes_of_mpi["ranks"], processes)

    def test_rows_of_a_process_have_the_bits_of_threads_for_every_kind_of_data(self):
        # A process makes only its rows: lines of tokens, masks and images by the number of the sample, micro-batches, and a last batch with padding.
        with tempfile.TemporaryDirectory() as folder:
            lines = pathlib.Path(folder) / "rows.jsonl"
            lines.write_text("".join(f"[{', '.join(str((7 * line + i * i) % 23) for i in range(30))}]\n" for line in range(60)))
            config = pathlib.Path(folder) / "rows.toml"
            config.write_text(f'[model]\nkind = "gpt"\nwidth = 16\ncontext = 8\nlayers = 1\n[data]\nkind = "jsonl"\npath = "{lines}"\n')
            tokens = [config, "--set", "train.batch=6"]
            masks = ["configs/bert.toml", "--set", "model.width=16", "model.layers=1", "train.batch=6"]
            images = ["configs/image_mlp.toml", "--set", "data.samples=101", "model.width=16", "train.batch=7"]
            text = [*SMALL["gpt"], "train.batch=6"]
            for arguments, preset in [(tokens, "dp=2"), (masks, "dp=2,micro_batches=3"), (images, "dp=2"), (text, "dp=2,tp=2"), (text, "pp=2,micro_batches=3")]:
                command = ["train", *arguments, "train.steps=3", "train.evaluate_batches=0", "--plan", preset]
                threads, processes = threads_json(*command), mpi_json(4 if "tp" in preset else 2, *command)
                for key in ["losses", *(key for key in threads if key.startswith("val_"))]:
                    self.assertEqual(processes[key], threads[key], (preset, arguments[0], key))

    def test_measure_writes_a_cluster_of_the_processes(self):
        for processes, pairs in [(2, 1), (4, 6)]:
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "job.toml"
                result = mpi_json(processes, "measure", "-o", file)
                self.assertEqual(result["devices"], processes)
                sizes = {each["bytes"] for each in result["pairs"]}
                self.assertEqual(len(result["pairs"]), pairs * len(sizes))
                self.assertGreaterEqual(len(sizes), 3)
                self.assertEqual(bool(result["gathers"]), processes > 2)
                for each in result["pairs"]:
                    self.assertGreater(each["us"], 0)
                self.assertIn("pair", result["description"]["sources"]["machine[0].links[0].bandwidth"])
                # The file is that of the leader, and predicts plans of as many ranks.
                self.assertEqual(json.loads(run([PROGRAM, "inspect", file, "--json"]).stdout)["fingerprint"], result["fingerprint"])
                predicted = threads_json("simulate", *SMALL["gpt"], "--plan", f"dp={processes}", "--cluster", file)
                self.assertGreater(predicted["step_ms"], 0)
        refused = over_mpi(2, "measure", "--detect", code=2)
        self.assertIn("says nothing of links between processes", refused.stderr)

    def test_plans_are_not_measured_by_several_processes(self):
        refused = over_mpi(2, "train", *SMALL["mlp"], "--no-cache", "--measure-top", 2, code=2)
        self.assertIn("--measure-top is given in a run of several processes", refused.stderr)

    def test_exchanges_that_are_combined_have_the_bits_of_those_that_are_not(self):
        for model, name, processes in [("gpt", "gpt.dp2-tp2", 4), ("gpt", "gpt.pp2", 2), ("gpt", "gpt.pp2-dp2", 4), ("mlp", "mlp.dp4", 4)]:
            combined, apart = (mpi_json(processes, "train", *SMALL[model], *plan(name), *options)["losses"]
                               for options in ([], ["--disable-pass", "combine"]))
            self.assertEqual(combined, apart, name)

    def test_losses_of_fast_reductions_are_those_of_threads_up_to_rounding(self):
        # A rounding more or less of 2^-24 in each sum of a gradient: after four steps far below the fourth digit of a loss.
        with tempfile.TemporaryDirectory() as folder:
            of_two = pathlib.Path(folder) / "mlp.dp2.json"
            of_two.write_text((ROOT / "configs/plans/mlp.dp4.json").read_text().replace('"dp": 4', '"dp": 2'))
            for model, plan_of, processes in [("mlp", plan("mlp.dp4"), 4), ("mlp", plan("mlp.dp2w"), 2), ("gpt", plan("gpt.dp2-tp2"), 4), ("mlp", ["--plan", of_two], 2)]:
                threads = threads_json("train", *SMALL[model], *plan_of)
                fast = mpi_json(processes, "train", *SMALL[model], "train.reduction=fast", *plan_of)
                for mine, theirs in zip([*fast["losses"], fast["val_loss"]], [*threads["losses"], threads["val_loss"]], strict=True):
                    self.assertAlmostEqual(mine, theirs, delta=1e-4, msg=f"{model}, {processes} processes")

    def test_a_run_folder_is_that_of_threads_with_a_log_a_process(self):
        with tempfile.TemporaryDirectory() as folder:
            mine, theirs = pathlib.Path(folder) / "mpi", pathlib.Path(folder) / "threads"
            arguments = ["train", *SMALL["gpt"], *plan("gpt.dp2-tp2"), "--out"]
            over_mpi(4, *arguments, mine)
            run([PROGRAM, *arguments, theirs])
            losses = [[json.loads(line)["loss"] for line in (path / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]
                      for path in (mine, theirs)]
            self.assertEqual(*losses)
            step = "checkpoints/step-00000004"
            files = sorted(path.name for path in (theirs / step).iterdir())
            self.assertEqual(sorted(path.name for path in (mine / step).iterdir()), files)
            for name in files:
                self.assertEqual((mine / step / name).read_bytes(), (theirs / step / name).read_bytes(), name)
            logs = [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted((mine / "logs").iterdir())]
            self.assertEqual([lines[0]["rank"] for lines in logs], [0, 1, 2, 3])
            self.assertEqual(len({lines[0]["pid"] for lines in logs}), 4)

    def test_saves_in_the_background_store_the_files_of_threads_at_each_step(self):
        with tempfile.TemporaryDirectory() as folder:
            mine, theirs = pathlib.Path(folder) / "mpi", pathlib.Path(folder) / "threads"
            arguments = ["train", *SMALL["gpt"], "train.steps=6", "checkpoint.every=2", "checkpoint.keep_last=0"]
            plain = threads_json(*arguments[:-2], *plan("gpt.dp2-tp2"))
            losses = mpi_json(4, *arguments, *plan("gpt.dp2-tp2"), "--out", mine)["losses"]
            self.assertEqual(losses, plain["losses"])
            run([PROGRAM, *arguments, *plan("gpt.dp2-tp2"), "--out", theirs])
            steps = sorted(path.name for path in (theirs / "checkpoints").glob("step-*"))
            self.assertEqual(steps, ["step-00000002", "step-00000004", "step-00000006"])
            self.assertEqual(sorted(path.name for path in (mine / "checkpoints").glob("step-*")), steps)
            for step in steps:
                for path in (theirs / "checkpoints" / step).iterdir():
                    self.assertEqual((mine / "checkpoints" / step / path.name).read_bytes(), path.read_bytes(), f"{step}/{path.name}")

    def test_processes_that_are_killed_while_a_save_is_pending_leave_the_earlier_checkpoint(self):
        arguments = [*SMALL["gpt"], "train.steps=24", "checkpoint.every=2", *plan("gpt.dp2-tp2")]
        whole = threads_json("train", *arguments)["losses"]
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            process = subprocess.Popen([MPIRUN, "-n", "4", PROGRAM, "train", *map(str, arguments), "--out", out], cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(process.kill)
            wait_for((out / "checkpoints" / "step-00000004").exists, process)
            wait_for(lambda: any((out / "checkpoints").glob("step-*.tmp")), process)
            for rank in [pid for pid, rank in descendants(process.pid).items() if rank is not None]:
                os.kill(rank, signal.SIGKILL)
            process.wait(timeout=LIMIT)
            resumed = mpi_json(4, "train", *arguments, "--out", out, "--resume")
            self.assertGreaterEqual(resumed["resumed_from"], 4)
            self.assertLess(resumed["resumed_from"], 24)
            self.assertEqual(resumed["losses"], whole[resumed["resumed_from"]:])

    def test_threads_go_on_with_the_checkpoint_of_processes_and_the_other_way(self):
        whole = threads_json("train", *SMALL["gpt"], *plan("gpt.dp2-tp2"))["losses"]
        for first, second in [(threads_json, lambda *a: mpi_json(4, *a)), (lambda *a: mpi_json(4, *a), threads_json)]:
            with tempfile.TemporaryDirectory() as folder:
                arguments = ["train", *SMALL["gpt"], *plan("gpt.dp2-tp2"), "--out", folder]
                begun = first(*arguments, "--steps", "2")["losses"]
                self.assertEqual(begun + second(*arguments, "--resume")["losses"], whole)

    def test_eval_and_generate_of_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            threads_json("train", *SMALL["gpt"], *plan("gpt.dp2-tp2"), "--out", folder)
            self.assertEqual(mpi_json(4, "eval", folder)["val_loss"], threads_json("eval", folder)["val_loss"])
            words = ["generate", folder, "--prompt", "the", "--tokens", "12"]
            self.assertEqual(mpi_json(4, *words)["tokens"], threads_json(*words)["tokens"])

    def resume_while_a_run_ends(self, folder):
        """The first run has checkpoints that it removes again. Returns the exit code of two processes that wait for its end, and the text.

        The process that asks for the lock of the folder is stopped until the first run has ended: it would wait for two seconds only. One
        that did not wait would look for the latest checkpoint meanwhile."""
        lock = pathlib.Path(folder).resolve() / "lock"
        train = ["train", *SMALL["mlp"], "checkpoint.every=1", "checkpoint.keep_last=1", "train.steps=15"]
        first = subprocess.Popen([PROGRAM, *train, "--plan", "tp=2", "--out", folder], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        wait_for(lambda: (pathlib.Path(folder) / "checkpoints" / "latest").exists(), first)
        first.send_signal(signal.SIGSTOP)
        second = subprocess.Popen([MPIRUN, "-n", "2", PROGRAM, *train, "--out", folder, "--resume"], cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        waiting = lambda: [pid for pid in descendants(second.pid) if has_open(pid, lock)]
        wait_for(waiting, second)
        stopped = waiting()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(timeout=LIMIT), 0)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        errors = second.communicate(timeout=LIMIT)[1]
        return second.returncode, errors

    def test_processes_that_resume_while_a_run_ends_all_take_its_last_checkpoint(self):
        for _ in range(5):
            with tempfile.TemporaryDirectory() as folder:
                code, errors = self.resume_while_a_run_ends(folder)
            if code != 2:  # else this process did not run for the two seconds in which the second one asked for the lock
                break
        self.assertEqual(code, 0, errors)
        self.assertIn("step-00000015: step 15", errors)

    def test_the_first_process_writes_the_trace_of_all(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "trace.json"
            over_mpi(2, "train", *SMALL["gpt"], *plan("gpt.pp2"), "--trace", file, "--trace-steps", "1")
            self.assertEqual([path.name for path in file.parent.iterdir()], ["trace.json"])
            events = json.loads(file.read_text())["traceEvents"]
            passes = [{event["args"]["pass"] for event in events if event["ph"] == "X" and event["pid"] == rank and "pass" in event["args"]}
                      for rank in (0, 1)]
            for rank in (0, 1):
                self.assertLessEqual({"F0", "B0", "O"}, passes[rank])
            # Activations go to the second stage and gradients come back: each flow begins before it ends, on one clock.
            begins, ends = ({event["id"]: event for event in events if event["ph"] == phase} for phase in "sf")
            self.assertEqual(begins.keys(), ends.keys())
            self.assertEqual({(begins[flow]["pid"], ends[flow]["pid"]) for flow in begins}, {(0, 1), (1, 0)})
            for flow, begin in begins.items():
                self.assertLess(begin["ts"], ends[flow]["ts"], begin["name"])

    def refusal(self, finished):
        """The one message, from its first line to its fix."""
        [message] = re.findall(r"(?m)^(\S.*\n  why: .*\n  fix: .*)$", finished.stderr)
        return message

    def test_a_plan_of_other_ranks_is_refused_once(self):
        message = self.refusal(over_mpi(2, "train", *SMALL["gpt"], *plan("gpt.dp2-tp2"), code=78))
        self.assertEqual(message, "plan 'gpt.dp2-tp2' has 4 ranks, but Open MPI started 2 processes\n"
                         "  why: each process runs one rank, and the mesh of the plan is dp=2 tp=2\n"
                         "  fix: start 4 processes, use a plan of 2 ranks, or start one process, in which the ranks are threads")

    def test_what_works_in_one_process_is_refused_in_several(self):
        message = self.refusal(over_mpi(2, "explain", *SMALL["gpt"], code=2))
        self.assertIn("tessera explain was started as 2 processes by Open MPI", message)

    def test_verify_compares_the_tensors_of_all_processes(self):
        # Replicas, pipelines with partial values of micro-batches, and rows by weight.
        for model, name, processes in [("gpt", "gpt.dp2-tp2", 4), ("gpt", "gpt.pp2", 2), ("mlp", "mlp.dp2w", 2)]:
            arguments = ["verify", *SMALL[model], *plan(name), "--steps", "2"]
            self.assertEqual(mpi_json(processes, *arguments), threads_json(*arguments), name)

    def test_verify_of_launch_starts_a_process_for_each_rank(self):
        arguments = ["verify", *SMALL["mlp"], *plan("mlp.dp4"), "--steps", "1", "--json"]
        launched = [result_of(run([PROGRAM, "launch", *count, "--", *arguments])) for count in (["-n", "4"], [])]
        self.assertEqual(launched, [threads_json(*arguments[:-1])] * 2)

    def test_verify_of_a_plan_of_other_ranks_is_refused_once(self):
        message = self.refusal(over_mpi(2, "verify", *SMALL["gpt"], *plan("gpt.dp2-tp2"), code=78))
        self.assertIn("plan 'gpt.dp2-tp2' has 4 ranks, but Open MPI started 2 processes", message)

    def test_verify_of_a_serial_program_that_diverges_ends_with_its_own_code(self):
        explode = ["optimizer.kind=sgd", "optimizer.clip_norm=0", "optimizer.warmup=0", "optimizer.learning_rate=1e3", "optimizer.weight_decay=10"]
        message = self.refusal(over_mpi(4, "verify", *SMALL["mlp"], *plan("mlp.dp4"), "--set", *explode, "--steps", "50", code=5))
        self.assertIn("the serial program diverged", message)

    def test_an_error_of_one_process_ends_all_and_is_reported_once(self):
        with tempfile.TemporaryDirectory() as folder:
            run([PROGRAM, "train", *SMALL["mlp"], "--steps", "1", "--out", folder])
            message = self.refusal(over_mpi(4, "train", *SMALL["mlp"], *plan("mlp.dp4"), "--out", folder, code=2))
            self.assertIn("holds a run already", message)

    def test_a_run_that_diverges_ends_with_its_own_code_in_every_process(self):
        # Each step multiplies the weights by 1 - 1e3 * 10: f32 ends after some ten of them.
        weights_explode = ["optimizer.kind=sgd", "optimizer.weight_decay=10", "optimizer.warmup=0", "optimizer.learning_rate=1e3", "train.steps=50"]
        message = self.refusal(over_mpi(4, "train", *SMALL["mlp"], *plan("mlp.dp4"), "--set", *weights_explode, code=5))
        self.assertIn("is not a number", message)

    def test_replicas_are_compared_after_each_step(self):
        arguments = ["train", *SMALL["mlp"], *plan("mlp.dp2-tp2")]
        self.assertEqual(mpi_json(4, *arguments, "--check-replicas")["losses"], threads_json(*arguments, "--check-replicas")["losses"])

    def test_processes_that_mpi_does_not_know_are_refused(self):
        result = run([PROGRAM, "train", *SMALL["mlp"], *plan("mlp.dp4")], 2, {**ENVIRONMENT, "RANK": "0", "WORLD_SIZE": "4"})
        self.assertIn("torchrun started 4 processes, but MPI sees 1", result.stderr)


class WithoutMpi(unittest.TestCase):
    NO_MPI = ("this tessera was built without MPI\n"
              "  why: MPI was not found when it was configured\n"
              "  fix: install libopenmpi-dev and configure anew, or run the ranks as threads of one process: without mpirun or launch\n")

    def setUp(self):
        if MPIRUN:
            self.skipTest("MPI was found when this was configured")

    def test_launch_says_what_is_missing(self):
        self.assertEqual(run([PROGRAM, "launch", "-n", "2", "--", "train", *SMALL["mlp"]], 2).stderr, self.NO_MPI)

    def test_a_process_of_mpirun_says_what_is_missing(self):
        result = run([PROGRAM, "train", *SMALL["mlp"], *plan("mlp.dp4")], 2, {**ENVIRONMENT, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"})
        self.assertEqual(result.stderr, self.NO_MPI)

    def test_ranks_are_threads(self):
        self.assertEqual(threads_json("train", *SMALL["mlp"], *plan("mlp.dp4"))["ranks"], 4)


if __name__ == "__main__":
    options = cases.parser(__doc__, "program", "mpirun").parse_args()
    PROGRAM, MPIRUN = str(pathlib.Path(options.program).resolve()), options.mpirun
    sys.exit(cases.run(cases.tests_of(sys.modules[__name__]), options))
