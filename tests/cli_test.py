#!/usr/bin/env python3
"""The program as scripts use it: its JSON objects, its files and its exit codes.

    cli_test.py PROGRAM [--only NAME] [--list] [--xml FILE]

Runs small models on a text of the repository. Cases may run at once.
"""
import ast
import contextlib
import gzip
import json
import math
import os
import pathlib
import random
import re
import runpy
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree
import zipfile

from support import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ""
TEXT = ROOT / "tests" / "errors" / "inputs" / "text.txt"
SMALL_GPT = ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.context=8", "model.layers=1", "train.batch=4", "train.steps=6"]
SMALL_MLP = ["configs/mlp.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.embedding=4", "train.batch=4", "train.steps=6"]


METRICS = {"kind", "step", "loss", "learning_rate", "grad_norm", "skipped", "step_time_ms", "tokens", "tokens_per_s", "tokens_per_s_per_device", "tflops_per_device", "mfu", "hfu",
           "peak_bytes", "data_wait_ms", "comm_exposed_ms", "bubble_ms"}


LIMIT = 240  # seconds of a command, or of what a case waits for
CACHE = threading.local()


@contextlib.contextmanager
def own_cache():
    """A folder in which the programs that this thread starts keep their cache."""
    with tempfile.TemporaryDirectory() as folder:
        CACHE.folder = folder
        try:
            yield pathlib.Path(folder)
        finally:
            del CACHE.folder


def environment():
    folder = getattr(CACHE, "folder", None)
    return {**os.environ, "XDG_CACHE_HOME": folder} if folder else None


def run(*arguments, code=0):
    result = subprocess.run([PROGRAM, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL,
                            env=environment())
    assert result.returncode == code, f"{arguments}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def run_json(*arguments, code=0):
    return json.loads(run(*arguments, "--json", code=code).stdout)


class Plan(unittest.TestCase):
    CLUSTER = ["--cluster", "cpu:4"]

    def test_json_has_the_keys_of_the_contract_and_the_plan_runs_as_simulated(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "plan.json"
            result = run_json("plan", *SMALL_GPT, *self.CLUSTER, "--no-cache", "-o", plan)
            self.assertLessEqual({"plan", "step_seconds", "tokens_per_s", "peak_bytes", "lower_bound_seconds", "gap", "alternatives"}, result.keys())
            self.assertLessEqual(result["lower_bound_seconds"], result["step_seconds"])
            self.assertEqual(json.loads(plan.read_text()), result["plan"])
            simulated = run_json("simulate", *SMALL_GPT, *self.CLUSTER, "--plan", plan)
            self.assertAlmostEqual(simulated["step_ms"], 1e3 * result["step_seconds"], places=6)
            self.assertTrue(run_json("verify", *SMALL_GPT, "--plan", plan, "--steps", 1)["ok"])
            # It is said where the plan is used on another cluster.
            other = "note: the plan was made for another cluster than "
            self.assertNotIn(other, run("simulate", *SMALL_GPT, *self.CLUSTER, "--plan", plan).stderr)
            self.assertIn(other + "4xv100", run("simulate", *SMALL_GPT, "--cluster", "4xv100", "--plan", plan).stderr)
            said = run("train", *SMALL_GPT, "--plan", plan, "--steps", 0).stderr
            self.assertIn(other + "this machine: ", said)
            self.assertIn("note: estimated for this machine, a step takes ", said)

    def test_no_data_is_read_when_the_vocabulary_is_given(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "c.toml"
            model = 'kind = "gpt"\ncontext = 64\nwidth = 16\nheads = 2\nlayers = 1\n'
            for vocabulary, data in (("vocabulary = 1000\n", ""), ("", 'kind = "npy"\nvocabulary = 1000\npath = "no_such.npy"\n')):
                config.write_text(f"[model]\n{model}{vocabulary}[data]\n{data}[train]\nbatch = 4\n")
                result = run_json("plan", config, "--cluster", "2xa100", "--no-cache", "--fix", "dp=2")
                self.assertIn("f32[1000,16]", json.dumps(result["plan"]["fingerprint"]["parameters"]))
                run("simulate", config, "--plan", "dp=2", "--cluster", "2xa100")
                run("explain", config, "--plan", "dp=2")
            run("train", config, code=66)

    def test_peak_memory_is_that_of_the_simulation_and_what_libraries_take(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "plan.json"
            result = run_json("plan", *SMALL_MLP, "--cluster", "4xv100", "--no-cache", "-o", plan)
            simulated = run_json("simulate", *SMALL_MLP, "--cluster", "4xv100", "--plan", plan)
            self.assertGreater(result["reserve_bytes"], 0)
            self.assertEqual(result["peak_bytes"], simulated["peak_bytes"] + result["reserve_bytes"])
            answer = next(each for each in result["alternatives"] if each["name"] == result["name"])
            self.assertEqual(answer["reserve_bytes"], result["reserve_bytes"])

    def test_the_answer_is_the_fastest_that_fits_on_all_devices(self):
        result = run_json("plan", *SMALL_MLP, *self.CLUSTER, "--no-cache")
        legal = [each for each in result["alternatives"] if each["fits"] and each["ranks"] == 4]
        self.assertEqual(result["step_seconds"], min(each["step_seconds"] for each in legal))
        tried = result["alternatives"] + result["excluded"]
        self.assertLessEqual({"one device", "dp=4", "tp=4"}, {each["name"] for each in tried})

    def test_a_written_plan_says_whose_prices_it_has(self):
        """The fingerprint is that of simulate -o, also where --memory leaves a part of the devices."""
        with tempfile.TemporaryDirectory() as folder:
            file, again = pathlib.Path(folder) / "plan.json", pathlib.Path(folder) / "again.json"
            stamps = []
            for words in ([], ["--memory", "1 GiB"], ["--set", "parallel.tp=4"]):
                run("plan", *SMALL_MLP, *self.CLUSTER, "--no-cache", "-o", file, *words)
                stamps.append(json.loads(file.read_text())["cost"]["cluster"])
            run("simulate", *SMALL_MLP, *self.CLUSTER, "--plan", file, "-o", again)
            self.assertEqual(stamps, 3 * [json.loads(again.read_text())["cost"]["cluster"]])
            run("plan", *SMALL_MLP, "--cluster", "cpu:8", "--no-cache", "-o", file)
            self.assertNotIn(json.loads(file.read_text())["cost"]["cluster"], stamps)

    def test_no_plan_of_the_pareto_front_is_beaten_and_all_others_are(self):
        result = run_json("plan", *SMALL_GPT, *self.CLUSTER, "--no-cache")
        legal = [each for each in result["alternatives"] if each["fits"] and each["obeys"]]
        self.assertEqual(result["pareto_front"][0], result["name"])
        for each in legal:
            beats = lambda other: (other["step_seconds"], other["peak_bytes"]) != (each["step_seconds"], each["peak_bytes"]) and \
                other["step_seconds"] <= each["step_seconds"] and other["peak_bytes"] <= each["peak_bytes"]
            if each["name"] in result["pareto_front"]:
                self.assertFalse(any(map(beats, legal)), each["name"])
            else:
                self.assertTrue(any(other["step_seconds"] <= each["step_seconds"] and other["peak_bytes"] <= each["peak_bytes"] and other is not each
                                    for other in legal), each["name"])

    def test_the_stages_of_a_plan_are_described(self):
        words = ["plan", *SMALL_GPT, "--set", "model.layers=3", "--cluster", "2x2xv100-16g;ib=100Gb", "--fix", "pp=2,micro_batches=4,boundaries=blocks.0"]
        result = run_json(*words, "--no-cache")
        stages = result["stages"]
        self.assertEqual([row["modules"][0]["last"] for row in stages["table"]][0], "blocks.0")
        self.assertEqual(stages["table"][1]["modules"][0]["first"], "blocks.1")
        self.assertEqual(sorted(rank for row in stages["table"] for rank in row["ranks"]), list(range(4)))
        for row in stages["table"]:
            self.assertAlmostEqual(row["compute"] + row["exposed"] + row["idle"], 1, places=4)
            self.assertLessEqual(4 * (row["forward_seconds"] + row["backward_seconds"]), result["step_seconds"])
        self.assertEqual(stages["binding"], max(stages["table"], key=lambda row: row["compute"])["name"])
        self.assertEqual(stages["moved"], [])
        text = run(*words, "--no-cache").stdout
        self.assertIn(f"{stages['binding']} binds: ", text)
        # The boundary that is moved is one that may be fixed.
        for move in run_json(*words, "--no-cache", "--sensitivity")["stages"]["moved"]:
            self.assertEqual(move["behind"].rsplit(".", 1)[0], "blocks.0")
            fixed = [*words[:-1], f"pp=2,micro_batches=4,boundaries={move['moved']}"]
            other = run_json(*fixed, "--no-cache", "--compare", "pp=2,dp=2,micro_batches=4")
            self.assertGreater(move["step_seconds"], 0)
            self.assertTrue(other["stages"])
        self.assertIsNone(run_json("plan", *SMALL_GPT, *self.CLUSTER, "--no-cache", "--fix", "dp=4")["stages"])

    def test_changes_of_the_devices_are_planned_again(self):
        result = run_json("plan", *SMALL_GPT, "--cluster", "3xv100-16g", "--no-cache", "--ranks", 2, "--sensitivity")
        changes = {each["change"]: each for each in result["changes"]}
        self.assertEqual(list(changes), ["one device less", "one device more", "half the bandwidth", "twice the bandwidth", "train.precision = bf16"])
        for less in ("one device less", "one device more"):
            self.assertIsNone(changes[less]["kept_seconds"])  # the plan is for two
            self.assertGreater(changes[less]["best_seconds"], 0)
        self.assertLessEqual(changes["twice the bandwidth"]["kept_seconds"], result["step_seconds"])
        self.assertGreaterEqual(changes["half the bandwidth"]["kept_seconds"], result["step_seconds"])
        # A machine gets a device where the cluster has no other.
        whole = run_json("plan", *SMALL_GPT, "--cluster", "2xv100-16g", "--no-cache", "--sensitivity")
        self.assertIn("one device more", [each["change"] for each in whole["changes"]])

    def test_state_rests_in_a_file_where_nothing_else_fits(self):
        model = ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.width=32", "model.context=16", "train.batch=16", "train.steps=2"]
        words = [*model, "--cluster", "cpu:2", "--no-cache", "--memory", "0.3MiB"]
        with tempfile.TemporaryDirectory() as folder:
            plan = f"{folder}/plan.json"
            result = run_json("plan", *words, "-o", plan)
            self.assertIn("offload=state,offload_mib=", result["name"])
            self.assertTrue(run("plan", *words).stdout.startswith(result["name"]))
            self.assertTrue(run_json("verify", *model, "--plan", plan, "--steps", 1)["ok"])
            run("train", *model, "--plan", plan)
        # More memory: no plan is offloaded.
        fits = run_json("plan", *words[:-1], "0.5MiB")
        self.assertFalse(any("offload" in each["name"] for each in fits["alternatives"]))

    def test_stages_of_the_search_are_told_with_what_each_added(self):
        words = ["plan", *SMALL_GPT, "--cluster", "2xv100-16g", "--no-cache", "--stages"]
        result = run_json(*words)
        stages = {stage["name"]: stage for stage in result["search_stages"]}
        self.assertEqual(result["search_stages"][0]["name"], "given")
        self.assertTrue(stages["placements"]["has_run"])
        self.assertFalse(stages["first presets"]["has_run"])
        self.assertGreater(stages["presets"]["candidates"], 0)
        self.assertAlmostEqual(result["search_stages"][-1]["best_seconds"], result["step_seconds"])
        self.assertRegex(run(*words).stdout, r"(?m)^  placements, 4 rounds +\d")

    def test_what_a_precision_is_worth_is_planned(self):
        words = ["plan", *SMALL_GPT, "--cluster", "2xa100-80g", "--no-cache"]
        result = run_json(*words, "--sensitivity")
        change = result["changes"][-1]
        self.assertEqual(change["change"], "train.precision = bf16")
        # It is what a plan search with it gives, and not the best plan.
        chosen = run_json(*words, "--set", "train.precision=bf16", "--sensitivity")
        self.assertEqual((change["best_seconds"], change["best_peak_bytes"]), (chosen["step_seconds"], chosen["peak_bytes"]))
        self.assertEqual(result["step_seconds"], run_json(*words)["step_seconds"])
        self.assertNotIn("train.precision = bf16", [each["change"] for each in chosen["changes"]])
        self.assertRegex(run(*words, "--sensitivity").stdout, r"(?m)^  train\.precision = bf16 .* MiB")

    def test_a_layer_on_wanted_devices(self):
        words = ["plan", *SMALL_GPT, "--cluster", "1x2xv100-16g+1x2xp100;ib=100Gb", "--no-cache"]
        for kind, machine in (("p100", "n1"), ("v100-16g", "n0")):
            result = run_json(*words, "--fix", f"stage_hardware=blocks.0:{kind}")
            self.assertTrue(all(each["obeys"] for each in result["alternatives"] if each["name"] == result["name"]))
            rows = [row for row in result["stages"]["table"] if any(name.startswith("blocks") for run in row["modules"] for name in run.values())]
            self.assertTrue(rows)
            with tempfile.TemporaryDirectory() as folder:
                plan = pathlib.Path(folder) / "plan.json"
                plan.write_text(json.dumps(result["plan"]))
                simulated = run_json("simulate", *SMALL_GPT, "--cluster", words[-2], "--plan", plan)
                self.assertAlmostEqual(simulated["step_ms"], 1e3 * result["step_seconds"], places=6)
            for row in rows:
                self.assertTrue(all(device.startswith(machine + "/") for device in row["devices"]), row)

    def test_a_report_has_the_ranking_and_the_answer_beside_alternatives(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.html"
            result = run_json("plan", *SMALL_GPT, *self.CLUSTER, "--no-cache", "--report", page, "--compare", "configs/plans/gpt.dp2-tp2.json")
            text = page.read_text()
            xml.etree.ElementTree.fromstring(text.replace("<!DOCTYPE html>", ""))
            for each in result["alternatives"]:
                self.assertIn(f"<td>{each['name']}</td>", text)
            columns = re.findall(r"<article>\n<h2>(.*?)</h2>", text)
            self.assertEqual(columns[:2], [result["name"], "configs/plans/gpt.dp2-tp2.json"])
            self.assertEqual(len(columns), 3)
            self.assertIn(f"{1e3 * result['step_seconds']:.4g} ms a step", text)
            self.assertIn(f"<td>step</td><td class=\"number\">{1e3 * result['step_seconds']:.4g} ms</td>", text)

    def test_a_report_of_what_does_not_fit_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.html"
            run("plan", *SMALL_GPT, *self.CLUSTER, "--no-cache", "--memory", "40 KiB", "--report", page, code=3)
            self.assertIn('<p class="bad">no plan fits: ', page.read_text())
            run("plan", *SMALL_GPT, *self.CLUSTER, "--no-cache", "--report", pathlib.Path(folder) / "no" / "page.html", code=1)

    def test_a_placement_is_explained_with_its_price_and_what_changes_do(self):
        gpt = [*SMALL_GPT, "model.width=64", "train.batch=8"]  # the best plan has placements that were searched
        explained = run_json("explain", *gpt, "--plan", "auto", "--ranks", 2, "--cluster", "cpu:2", "--no-cache", "blocks.0.ffn.up.dot")
        planned = run_json("plan", *gpt, "--cluster", "cpu:2", "--no-cache", "--explain", "blocks.0.ffn.up.dot")
        choice = explained["choice"]
        self.assertEqual(choice, planned["choice"])
        times = [each["problem_seconds"] for each in choice["others"]]
        self.assertEqual(times, sorted(times))
        # A min-marginal: the best of all placements is the best of the problem.
        self.assertAlmostEqual(min([choice["chosen"]["problem_seconds"], *times]), choice["best_seconds"], places=9)
        self.assertEqual([each["change"] for each in choice["changes"]],
                         ["half the bandwidth", "twice the bandwidth", "half the memory", "twice the memory", "half the batch", "twice the batch"])
        for each in choice["changes"]:
            self.assertLessEqual(each["best_seconds"], each["kept_seconds"])
            self.assertEqual(each["plan"] == "", each["best_seconds"] == each["kept_seconds"])
        slow, fast = choice["changes"][:2]
        self.assertGreaterEqual(slow["kept_seconds"], fast["kept_seconds"])
        self.assertNotIn("choice", run_json("explain", *SMALL_GPT, "--plan", "dp=2", "blocks.0.ffn.up.dot"))

    def test_half_of_the_memory_may_leave_none_for_a_plan(self):
        """The libraries take 954 MiB of an a100."""
        result = run_json("plan", *SMALL_GPT, "--cluster", "2xa100-80g", "--memory", "1000 MiB", "--no-cache", "--explain", "blocks.0.ffn.up.weight")
        changes = {each["change"]: each for each in result["choice"]["changes"]}
        self.assertIsNone(changes["half the memory"]["kept_seconds"])
        self.assertIsNone(changes["half the memory"]["best_seconds"])
        self.assertEqual(changes["twice the memory"]["kept_seconds"], result["step_seconds"])

    def test_a_plan_of_an_earlier_plan_search_is_a_candidate(self):
        with own_cache() as folder:
            run("plan", *SMALL_GPT, "--cluster", "4xa100-80g")
            self.assertEqual(len(list(folder.glob("tessera/graph-*.json"))), 1)
            alone = run_json("plan", *SMALL_GPT, *self.CLUSTER, "--no-cache")
            result = run_json("plan", *SMALL_GPT, *self.CLUSTER)
            self.assertLessEqual(result["step_seconds"], alone["step_seconds"])
            self.assertEqual(result["reproducible"], result["source"] != "cached")
            self.assertEqual(any("--no-cache" in note for note in result["notes"]), result["source"] == "cached")

    def test_fewer_ranks_that_are_faster_are_noted(self):
        """Links of 1 ms and a batch of four rows: each rank more costs time."""
        with tempfile.TemporaryDirectory() as folder:
            cluster = pathlib.Path(folder) / "slow.toml"
            cluster.write_text('[device.core]\npreset = "cpu"\n\n[[machine]]\nnames = "n0"\ndevice = "core"\ndevices = 4\n'
                               'links = [{name = "slow", bandwidth = "1 GB/s", latency = "1 ms"}]\n')
            result = run_json("plan", *SMALL_GPT, "--cluster", cluster, "--no-cache")
            self.assertEqual(result["ranks"], 4)
            self.assertTrue(any("faster" in note and "--max-ranks" in note for note in result["notes"]))
            fewer = [each for each in result["alternatives"] if each["ranks"] == 2]
            self.assertTrue(fewer)
            free = run_json("plan", *SMALL_GPT, "--cluster", cluster, "--no-cache", "--max-ranks", 4)
            self.assertLess(free["ranks"], 4)
            self.assertLessEqual(free["step_seconds"], min(each["step_seconds"] for each in fewer))

    def test_degrees_of_the_configuration_bind(self):
        for degrees, name in ((["parallel.tp=4"], "tp=4"), (["parallel.dp=2", "parallel.tp=2"], "dp=2,tp=2")):
            result = run_json("plan", *SMALL_GPT, "--set", *degrees, *self.CLUSTER, "--no-cache")
            self.assertTrue(all(each["obeys"] == (each["name"] != "one device") for each in result["alternatives"]))
            sizes = dict(item.split("=") for item in name.split(","))
            self.assertEqual({axis: str(size) for axis, size in result["plan"]["mesh"].items()}, sizes)
            found = run_json("explain", *SMALL_GPT, "--set", *degrees, *self.CLUSTER, "--no-cache", "--plan", "auto", "--ranks", 4)
            self.assertEqual(found["mesh"], name.replace(",", " "))

    def test_the_same_inputs_give_the_same_bytes(self):
        texts = {run("plan", *SMALL_MLP, *self.CLUSTER, "--no-cache", "--json").stdout for _ in range(2)}
        self.assertEqual(len(texts), 1)

    def test_what_does_not_fit_is_an_answer_with_the_change_that_would(self):
        fixed = ["plan", *SMALL_MLP, *self.CLUSTER, "--no-cache", "--fix", "dp=4,micro_batches=1"]
        limit = run_json(*fixed)["peak_bytes"] // 2
        result = run_json(*fixed, "--memory", f"{limit} B", code=3)
        self.assertIsNone(result["plan"])
        obeying = [each for each in result["alternatives"] if each["obeys"]]
        self.assertTrue(all(each["missing_bytes"] > 0 for each in obeying))
        needed = result["nearest"]["memory_bytes"]
        self.assertEqual(limit + obeying[0]["missing_bytes"], needed)
        run(*fixed, "--memory", f"{needed} B")

    def test_a_compared_preset_is_in_the_table_and_not_taken_for_one_of_the_grid(self):
        preset = "pp=2,dp=2,micro_batches=4,schedule=zb-h1"
        result = run_json("plan", *SMALL_GPT, *self.CLUSTER, "--no-cache", "--compare", preset, "--set", "model.layers=2")
        compared = [each for each in result["alternatives"] if each["source"] == "compared"]
        self.assertEqual([each["name"] for each in compared], [preset])
        self.assertLessEqual(result["step_seconds"], compared[0]["step_seconds"])

    def test_a_compared_plan_is_in_the_table(self):
        result = run_json("plan", *SMALL_GPT, *self.CLUSTER, "--no-cache", "--compare", "configs/plans/gpt.dp2-tp2.json")
        compared = [each for each in result["alternatives"] if each["source"] == "compared"]
        self.assertEqual([each["name"] for each in compared], ["configs/plans/gpt.dp2-tp2.json"])
        self.assertLessEqual(result["step_seconds"], compared[0]["step_seconds"])

    def test_the_plan_of_a_local_search_is_not_slower_and_has_a_place_of_its_own_in_the_cache(self):
        with own_cache() as folder:
            plain, improved = (run_json("plan", *SMALL_GPT, *self.CLUSTER, *options) for options in ([], ["--local-search", 6]))
            # Two results, as plans and as they are printed, and the last plan of the graph.
            self.assertEqual(len(list(folder.glob("tessera/*.json"))), 5)
        self.assertLessEqual(improved["step_seconds"], plain["step_seconds"])
        self.assertGreater(plain["local_search_trials"], 0)  # of keys
        self.assertGreaterEqual(improved["local_search_trials"], plain["local_search_trials"])
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "plan.json"
            plan.write_text(json.dumps(improved["plan"]))
            self.assertTrue(run_json("verify", *SMALL_GPT, "--plan", plan, "--steps", 1)["ok"])

    def test_of_the_best_plans_the_one_with_the_shortest_measured_step_is_taken(self):
        with own_cache() as folder:
            result = run_json("plan", *SMALL_MLP, "--cluster", "cpu:2", "--measure-top", 3)
            self.assertEqual(list(folder.glob("tessera/*.json")), [])  # another moment may measure otherwise
        self.assertFalse(result["reproducible"])
        candidates = result["measured"]["candidates"]
        legal = [each["name"] for each in result["alternatives"] if each["fits"] and each["ranks"] == 2]
        self.assertEqual([each["name"] for each in candidates], legal[:3])
        times = [each["measured_seconds"] for each in candidates]
        self.assertEqual(result["name"], candidates[times.index(min(times))]["name"])
        self.assertAlmostEqual(result["measured"]["regret"], times[0] / min(times) - 1)
        self.assertIsNone(run_json("plan", *SMALL_MLP, "--cluster", "cpu:2", "--no-cache")["measured"])

    def test_train_runs_the_plan_that_was_measured(self):
        found = run("train", *SMALL_MLP, "--cluster", "cpu:1", "--ranks", 2, "--measure-top", 2, "--json")
        times = {name: float(time) for name, time in re.findall(r"(?m)^measure: (.*) takes (.*) ms$", found.stderr)}
        self.assertEqual(len(times), 2)
        fastest, = re.findall(r"(?m)^ +measured +(.*) is the fastest of 2 plans", found.stderr)
        self.assertEqual(times[fastest], min(times.values()))
        self.assertIn(f"plan '{fastest}'", found.stderr)

    def test_train_plans_by_itself_and_has_the_losses_of_the_serial_run(self):
        quiet = [*SMALL_GPT, "model.dropout=0"]
        serial = run_json("train", *quiet)["losses"]
        found = run("train", *quiet, "--no-cache", *self.CLUSTER, "--ranks", 4, "--json")
        result = json.loads(found.stdout)
        self.assertEqual(result["ranks"], 4)
        for ours, theirs in zip(result["losses"], serial, strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-4)
        self.assertEqual(len(re.findall(r"(?m)^(?:plan auto:|           )\S? ?\S", found.stderr)), 5)

    def test_a_plan_that_is_named_is_taken_and_one_rank_needs_none(self):
        for named in (["--plan", "dp=4", "--ranks", 4], ["parallel.dp=4", "--ranks", 4], ["--ranks", 1], []):
            result = run("train", *SMALL_GPT, *named, "--steps", 1)
            self.assertNotIn("plan auto:", result.stderr)

    def test_a_machine_that_was_measured_and_kept_is_the_one_of_plans(self):
        with own_cache() as folder:
            words = ["explain", *SMALL_MLP, "--ranks", 2, "--no-cache"]
            detected = run(*words).stderr
            self.assertIn("written to", run("measure", "--detect", "--keep").stdout)
            kept, = folder.glob("tessera/machine-*.toml")
            self.assertEqual(run(*words).stderr, detected)
            kept.write_text(re.sub(r'(?m)^name = ".*"', 'name = "a machine of another name"', kept.read_text(), count=1))
            self.assertIn("a machine of another name", run(*words).stderr)
            self.assertNotIn("a machine of another name", run(*words, *self.CLUSTER).stderr)
            kept.write_text("nothing")
            self.assertIn(str(kept), run(*words, code=78).stderr)

    def test_an_equal_request_has_the_answer_that_was_kept(self):
        with own_cache() as folder, tempfile.TemporaryDirectory() as outputs:
            words = ["plan", *SMALL_GPT, *self.CLUSTER]
            files = [pathlib.Path(outputs) / name for name in ("first.json", "second.json", "third.json")]
            first, second = (run(*words, "-o", file) for file in files[:2])
            self.assertNotIn("earlier equal request", first.stderr)
            self.assertIn("earlier equal request", second.stderr)
            self.assertEqual(first.stdout.replace("first.json", "second.json"), second.stdout)
            self.assertEqual(files[0].read_text(), files[1].read_text())
            self.assertEqual(run_json(*words), run_json(*words, "--no-cache"))
            # Another memory, other options and a damaged file are planned.
            for options in (["--memory", "1GiB"], ["--fix", "dp=4"], ["--stages"]):
                self.assertNotIn("earlier equal request", run(*words, *options).stderr)
            for entry in folder.glob("tessera/answer-*.json"):
                entry.write_text(entry.read_text()[:100])
            self.assertNotIn("earlier equal request", run(*words, "-o", files[2]).stderr)
            self.assertEqual(files[0].read_text(), files[2].read_text())

    def test_a_signal_ends_the_search_with_the_best_plan_so_far(self):
        """Whenever it comes: the search may be complete before."""
        words = ["plan", *SMALL_GPT, "--set", "model.layers=12", "--set", "train.batch=32", "--cluster", "8xa100-80g", "--no-cache", "--json"]
        search = start(*words)
        told = ""
        while "the best so far is" not in told:
            line = search.stderr.readline()
            self.assertTrue(line, told)
            told += line
        search.send_signal(signal.SIGINT)
        out, rest = search.communicate()
        self.assertEqual(search.returncode, 0, rest)
        result = json.loads(out)
        self.assertTrue(result["plan"]["meshes"] if "meshes" in result["plan"] else result["plan"])
        if "a signal ends the search" in told + rest:
            self.assertGreater(result["not_tried"], 0)
            self.assertFalse(result["reproducible"])

    def test_a_plan_is_found_once_and_a_damaged_cache_is_replaced(self):
        with own_cache() as folder:
            words = ["explain", *SMALL_MLP, "--plan", "auto", *self.CLUSTER]
            first = run(*words)
            entry, = folder.glob("tessera/plan-*.json")
            kept = entry.read_text()
            entry.write_text(kept.replace("plan auto", "").replace("a step", "kept"))
            self.assertIn(" kept", run(*words).stderr)
            entry.write_text(kept[: len(kept) // 2])
            self.assertEqual(run(*words).stderr, first.stderr)
            self.assertEqual(entry.read_text(), kept)
            entry.write_text(kept.replace('"format": 1', '"format": 99'))
            self.assertEqual(run(*words).stdout, first.stdout)


class Train(unittest.TestCase):
    def test_json_has_the_keys_of_the_contract(self):
        result = run_json("train", *SMALL_GPT)
        self.assertLessEqual({"steps", "loss", "losses", "val_loss", "tokens_per_s", "peak_bytes", "plan"}, result.keys())
        self.assertEqual(result["steps"], 6)
        self.assertEqual(len(result["losses"]), 6)
        self.assertEqual(result["losses"][-1], result["loss"])
        self.assertTrue(math.isfinite(result["val_loss"]))
        self.assertGreater(result["peak_bytes"], 0)
        self.assertEqual(result["plan"]["mesh"], {})

    def test_a_dry_run_prepares_everything_and_trains_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            result = run_json("train", *SMALL_GPT, "--out", out, "--dry-run")
            self.assertFalse(out.exists())
        self.assertEqual((result["dry_run"], result["steps"], result["batch"], result["ranks"]), (True, 6, 4, 1))
        # The evaluation is compiled at once, not after the last step.
        trained = run_json("train", *SMALL_GPT)["peak_bytes"]
        self.assertLessEqual(trained, result["peak_bytes"])
        self.assertLess(result["peak_bytes"], 1.1 * trained)
        run("train", *SMALL_GPT, "model.kind=gpd", "--dry-run", code=78)

    def test_a_run_that_no_longer_learns_ends_early_and_keeps_its_best_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            config = [*SMALL_GPT, "train.steps=300", "train.evaluate_every=5", "train.patience=2", "checkpoint.keep_best=true",
                      "optimizer.learning_rate=0.05"]
            result = run_json("train", *config, "--out", out)
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            losses = {line["step"]: line["val_loss"] for line in lines if "val_loss" in line}
            best = min(losses, key=losses.get)
            self.assertLess(result["step"], 300)
            self.assertEqual(result["step"], best + 10, "two evaluations after the best one")
            self.assertIn(f"since step {best}", result["stop_reason"])
            self.assertEqual([path.name for path in (out / "best").glob("step-*")], [f"step-{best:08}"])
            self.assertAlmostEqual(run_json("eval", out / "best")["val_loss"], losses[best], places=6)
            listed = run_json("inspect", out)["run"]["best"]
            self.assertEqual((listed["step"], listed["val_loss"]), (best, losses[best]))
            self.assertRegex(run("inspect", out).stdout, rf"(?m)^best     .*step-{best:08}: step {best}, validation loss ")
            again = run_json("train", *config, "--out", out, "--resume")
            self.assertEqual(again["steps"], 0, "the evaluations before are remembered")

    def test_patience_needs_evaluations(self):
        for key in ("train.patience=2", "checkpoint.keep_best=true"):
            self.assertIn("train.evaluate_every", run("train", *SMALL_GPT, "train.evaluate_every=0", key, code=78).stderr)

    def test_without_held_out_data_nothing_is_evaluated(self):
        for keys in (["train.evaluate_every=2"], ["train.evaluate_every=2", "train.patience=2"], ["train.evaluate_every=2", "checkpoint.keep_best=true"]):
            error = run("train", *SMALL_MLP, "data.held_out=0", *keys, code=78).stderr
            self.assertIn(f"{keys[-1].split('=')[0]} is set and data.held_out is 0", error)
        result = run("train", *SMALL_MLP, "data.held_out=0")
        self.assertIn("validation loss  none: data.held_out is 0\n", result.stdout)
        self.assertIsNone(run_json("train", *SMALL_MLP, "data.held_out=0")["val_loss"])

    def test_a_plan_that_the_evaluation_refuses_is_refused_before_the_run(self):
        # Without dropout the block does not read the number of the step.
        marks = [{"tensor": "{tokens,labels}", "placement": "P(\"dp\")"}, {"module": "blocks.0", "placement": "[P(\"dp\"), P()] -> [P(\"dp\")]"}]
        with tempfile.TemporaryDirectory() as folder:
            plan, out = pathlib.Path(folder) / "plan.json", pathlib.Path(folder) / "run"
            plan.write_text(json.dumps({"format": 1, "mesh": {"dp": 2}, "marks": marks}))
            for more in (["--out", out], ["--dry-run"]):
                error = run("train", *SMALL_GPT, "model.dropout=0.1", "--plan", plan, *more, code=78).stderr
                self.assertIn("mark 'blocks.0'", error)
                self.assertNotIn("step: 1", error)
            self.assertFalse(out.exists())

    def test_checkpoints_without_a_folder_are_noted(self):
        for keys, named in ((["checkpoint.every=2"], "checkpoint.every"), (["checkpoint.keep_best=true", "train.evaluate_every=2"], "checkpoint.keep_best")):
            note = f"note: {named} is set, but without --out nothing is stored"
            self.assertIn(note, run("train", *SMALL_MLP, *keys).stderr)
            with tempfile.TemporaryDirectory() as folder:
                self.assertNotIn(note, run("train", *SMALL_MLP, *keys, "--out", folder).stderr)
        self.assertNotIn("nothing is stored", run("train", *SMALL_MLP).stderr)

    def test_a_trace_has_the_acts_of_every_rank_and_flows_between_them(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            config = ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.context=8", "train.batch=4", "--plan", "configs/plans/gpt.pp2.json"]
            result = run_json("train", *config, "--steps", 6, "--trace", path, "--trace-steps", 2)
            self.assertEqual(result["trace"], str(path))
            trace = json.loads(path.read_text())
        self.assertEqual(trace["otherData"]["lost_events"], 0)
        events = trace["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        for rank in (0, 1):
            feeds = [event for event in slices if event["pid"] == rank and event["cat"] == "copy" and event["name"] == "feed"]
            self.assertEqual([event["args"]["iteration"] for event in feeds], [2, 3], "two steps, after two that warm up")
            self.assertTrue(any(event["pid"] == rank and event["cat"] == "kernel" for event in slices))
        starts = {event["id"]: event for event in events if event["ph"] == "s"}
        ends = {event["id"]: event for event in events if event["ph"] == "f"}
        self.assertEqual(starts.keys(), ends.keys())
        self.assertTrue(starts)
        for number, start in starts.items():
            end = ends[number]
            self.assertNotEqual(start["pid"], end["pid"])
            self.assertLessEqual(start["ts"], end["ts"])
            for flow in (start, end):
                self.assertTrue(any(s["pid"] == flow["pid"] and s["ts"] <= flow["ts"] <= s["ts"] + s["dur"] for s in slices), "a flow binds to a slice")

    def test_a_trace_that_cannot_be_written_is_refused_before_the_first_step(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "file"
            file.write_text("")
            for path in (pathlib.Path(folder) / "none" / "t.json", folder, file / "t.json"):
                result = run("train", *SMALL_MLP, "--trace", path, code=1)
                self.assertIn(f"cannot write '{path}'", result.stderr)
                self.assertNotIn("step: ", result.stderr)
            # A folder that --out makes is there in time.
            out = pathlib.Path(folder) / "run"
            run("train", *SMALL_MLP, "--out", out, "--trace", out / "t.json")
            self.assertTrue((out / "t.json").exists())

    def test_a_folder_that_cannot_hold_the_run_is_refused_before_the_first_step(self):
        with tempfile.TemporaryDirectory() as folder:
            run_folder = pathlib.Path(folder) / "run"
            run_folder.mkdir()
            for path in (run_folder / "checkpoints", run_folder / "logs", pathlib.Path(folder) / "file"):
                path.write_text("")
                out = path if path.name == "file" else run_folder
                result = run("train", *SMALL_MLP, "--out", out, code=1)
                self.assertIn(f"cannot write '{path}'", result.stderr)
                self.assertNotIn("step: ", result.stderr)
                path.unlink()

    def test_every_plan_starts_at_the_serial_loss(self):
        for model, config in (("gpt", SMALL_GPT), ("mlp", SMALL_MLP)):
            serial = run_json("train", *config, "--plan", f"configs/plans/{model}.serial.json")["losses"]
            # A mean of sums of at most `terms` terms each: sqrt(terms) roundings of 2^-24, four times for signs that fall worse. Later steps
            # carry what the steps before left in the weights.
            terms = 256
            for plan in ("dp4", "tp4", "dp2-tp2"):
                divided = run_json("train", *config, "--plan", f"configs/plans/{model}.{plan}.json")
                self.assertEqual(divided["ranks"], 4)
                for step, (a, b) in enumerate(zip(serial, divided["losses"], strict=True)):
                    self.assertLessEqual(abs(a - b), 4 * (step + 1) * math.sqrt(terms) * 2**-24 * abs(a), f"{model} {plan} step {step + 1}")

    def test_text_that_max_bytes_leaves_out_is_told(self):
        size = TEXT.stat().st_size
        said = f"note: data.max_bytes = 2,000 leaves out "
        for command in (["train", *SMALL_MLP], ["verify", *SMALL_MLP], ["inspect", *SMALL_MLP]):
            steps = [] if command[0] == "inspect" else ["--steps", 1]
            result = run(*command, *steps)
            self.assertNotIn("leaves out", result.stdout + result.stderr)
            result = run(*command, "data.max_bytes=2000", *steps)
            self.assertIn(said, result.stdout + result.stderr)
        limited = run_json("inspect", *SMALL_MLP, "data.max_bytes=2000")
        self.assertEqual(limited["left_out_bytes"], size - 2000)
        self.assertEqual(limited["train_tokens"] + limited["held_out_tokens"], 2000)
        self.assertEqual(run_json("train", *SMALL_MLP, "data.max_bytes=2000", "--steps", 1)["left_out_bytes"], size - 2000)
        # No limit is the default: 5 MiB of text are all used.
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.txt", "b.txt"):
                (pathlib.Path(folder) / name).write_text("some text\n" * 270000)
            config = pathlib.Path(folder) / "own.toml"
            config.write_text(f'[model]\nkind = "mlp"\ncontext = 8\nwidth = 16\nembedding = 4\n\n[data]\npath = ["{folder}/a.txt", "{folder}/b.txt"]\n')
            whole = run_json("inspect", config)
            self.assertEqual((whole["train_tokens"] + whole["held_out_tokens"], whole["left_out_bytes"]), (2 * 2700000, 0))
            self.assertEqual(run_json("inspect", folder)["size"], 2 * 2700000 + config.stat().st_size)

    def test_steps_sets_the_length_and_set_overrides_keys(self):
        result = run_json("train", *SMALL_MLP, "--steps", 2)
        self.assertEqual(result["steps"], 2)

    def test_progress_goes_to_standard_error_and_the_result_to_standard_output(self):
        result = run("train", *SMALL_GPT)
        self.assertRegex(result.stderr, r"(?m)^step: 6  loss: \d+\.\d{4}  grad_norm: \d+\.\d{4}  tokens/s: [\d,]+$")
        self.assertNotIn("step: 6", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^trained          6 steps under plan 'serial', 1 rank$")
        self.assertRegex(result.stdout, r"(?m)^validation loss  \d\.\d{4} on \d+ of \d+ tokens \([\d,]+ batches\); ")
        self.assertRegex(result.stdout, r"(?m)^                 accuracy \d+\.\d%, perplexity \d+\.\d\d, \d\.\d{3} bits per byte$")
        self.assertRegex(result.stdout, r"(?m)^speed            ([\d,]+) tokens/s, \1 tokens/s per rank$")
        self.assertRegex(result.stdout, r"(?m)^peak memory      [\d.]+ [KM]iB per rank$")

    def test_out_holds_what_was_run_and_how_it_went(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "runs" / "1"
            result = run_json("train", *SMALL_GPT, "--plan", "configs/plans/gpt.dp2-tp2.json", "--out", out)
            self.assertEqual(json.loads((out / "plan.json").read_text()), result["plan"])
            self.assertEqual(json.loads((out / "config.json").read_text())["model"]["width"], 16)
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            steps = [line for line in lines if "loss" in line]
            self.assertEqual([line["step"] for line in steps], [1, 2, 3, 4, 5, 6])
            self.assertEqual([line["loss"] for line in steps], result["losses"])
            self.assertEqual(steps[0].keys(), METRICS)
            self.assertIsNone(steps[0]["mfu"])
            self.assertEqual(lines[-1], {"kind": "evaluation", "step": 6, **{key: result[key] for key in ("val_tokens", "val_loss", "val_perplexity", "val_accuracy", "val_bits_per_byte")}})
            self.assertAlmostEqual(result["val_perplexity"], math.exp(result["val_loss"]), delta=1e-9 * result["val_perplexity"])
            self.assertTrue(0 <= result["val_accuracy"] <= 1)
            # What it wrote can be run again, and only on that model.
            again = run_json("train", *SMALL_GPT, "--plan", out / "plan.json")
            self.assertEqual(again["losses"], result["losses"])
            self.assertIn("made for another model", run("train", *SMALL_MLP, "--plan", out / "plan.json", code=78).stderr)

    def test_out_has_a_log_a_rank_and_a_file_for_tensorboard(self):
        with tempfile.TemporaryDirectory() as folder:
            run("train", *SMALL_MLP, "--plan", "configs/plans/mlp.dp4.json", "--out", folder)
            logs = sorted((pathlib.Path(folder) / "logs").iterdir())
            self.assertEqual([log.name for log in logs], [f"rank-{rank:05}.jsonl" for rank in range(4)])
            lines = [json.loads(line) for line in logs[3].read_text().splitlines()]
            self.assertEqual([line["log_type_name"] for line in lines], ["start", "program_loaded", "step_end", "step_end", "evaluate", "save", "end"])
            self.assertEqual({line["rank"] for line in lines}, {3})
            [events] = pathlib.Path(folder).glob("events.out.tfevents.*")
            data = events.read_bytes()
            self.assertEqual(data[:12], bytes.fromhex("1800000000000000a37f4b22"))
            self.assertEqual((data.count(b"train/loss"), data.count(b"val/accuracy")), (6, 1))

    def test_a_cost_file_replaces_the_cost_of_the_plan_and_is_stored_with_it(self):
        plan = [*SMALL_GPT, "--plan", "configs/plans/gpt.tp4.json"]
        with tempfile.TemporaryDirectory() as folder:
            cost = pathlib.Path(folder) / "cost.toml"
            cost.write_text('links = {latency = "0 s", bandwidth = "1 B/s"}\n')
            out = pathlib.Path(folder) / "run"
            # By bytes alone every sum is a reduce-scatter and an all-gather.
            exchanges = [run_json("explain", *plan, *option)["totals"]["forward"]["exchanges"] for option in ([], ["--cost", cost])]
            self.assertGreater(exchanges[1], exchanges[0])
            stored = run_json("train", *plan, "--cost", cost, "--out", out)["plan"]
            self.assertEqual(stored["cost"]["links"], {"latency": "0 s", "bandwidth": "1 B/s"})
            again = run_json("explain", *SMALL_GPT, "--plan", out / "plan.json")
            self.assertEqual(again["totals"]["forward"]["exchanges"], exchanges[1])

    def test_a_run_is_not_written_over_another(self):
        with tempfile.TemporaryDirectory() as folder:
            run("train", *SMALL_MLP, "--steps", 1, "--out", folder)
            before = (pathlib.Path(folder) / "metrics.jsonl").read_text()
            error = run_json("train", *SMALL_MLP, "--steps", 2, "--out", folder, code=2)["error"]
            self.assertEqual(error["what"], f"'{folder}' holds a run already")
            self.assertEqual((pathlib.Path(folder) / "metrics.jsonl").read_text(), before)

    def test_a_run_that_ended_before_its_first_checkpoint_begins_again_with_and_without_resume(self):
        for line in ([], ["--resume"]):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                left = '{"kind":"step","step":1,"loss":4.5}\n'
                (folder / "metrics.jsonl").write_text(left)
                (folder / "checkpoints" / "step-00000002.tmp").mkdir(parents=True)
                message = run("train", *SMALL_MLP, "--steps", 2, "--out", folder, *line).stderr
                self.assertIn("ended before its first checkpoint: it begins again at step 1", message)
                self.assertEqual("has no checkpoint to resume from: the run begins at step 1" in message, bool(line))
                self.assertEqual((folder / "metrics.1.jsonl").read_text(), left)
                self.assertEqual(len(metric_losses(folder)), 2)
                self.assertTrue((folder / "checkpoints" / "step-00000002" / "index.json").exists())

    def test_resume_in_a_folder_without_a_run_begins_one(self):
        with tempfile.TemporaryDirectory() as name:
            out = pathlib.Path(name) / "run"
            self.assertIn("begins at step 1", run("train", *SMALL_MLP, "--steps", 1, "--out", out, "--resume").stderr)
            self.assertIn("step: 2", run("train", *SMALL_MLP, "--steps", 2, "--out", out, "--resume").stderr)

    def test_a_batch_for_each_rank_grows_with_the_ranks_and_so_does_the_rate(self):
        plan = ["--plan", "configs/plans/mlp.dp4.json"]
        per_rank = [word for word in SMALL_MLP if not word.startswith("train.batch=")]
        config = (ROOT / "configs" / "mlp.toml").read_text()
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "per_rank.toml"
            file.write_text("\n".join(line for line in config.splitlines() if not line.startswith("batch =")))
            per_rank[0] = file
            run("train", *per_rank, "train.batch_per_rank=2", "train.scale_learning_rate=linear", "optimizer.learning_rate=0.001", "optimizer.warmup=0",
                "optimizer.schedule=constant", *plan, "--out", pathlib.Path(folder) / "out")
            settings = json.loads((pathlib.Path(folder) / "out" / "config.json").read_text())
            self.assertEqual((settings["train"]["batch"], settings["optimizer"]["learning_rate"]), (8, 0.004))
        error = run_json("train", *SMALL_MLP, "train.batch_per_rank=2", code=78)["error"]
        self.assertIn("train.batch and train.batch_per_rank are both set", error["what"])

    def test_evaluations_within_the_run_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            run("train", *SMALL_MLP, "train.evaluate_every=2", "--out", folder)
            lines = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
            self.assertEqual([line["step"] for line in lines if "val_loss" in line], [2, 4, 6])

    def test_a_run_that_diverges_ends_with_its_own_code(self):
        # Each step multiplies the weights by 1 - 1e3 * 10: f32 ends after some ten of them.
        error = run_json("train", *SMALL_MLP, "optimizer.kind=sgd", "optimizer.weight_decay=10", "optimizer.warmup=0", "optimizer.learning_rate=1e3", "train.steps=50", code=5)
        self.assertEqual(error["exit_code"], 5)
        self.assertEqual(error["error"].keys(), {"what", "why", "fix"})


# Runs until it is stopped; however many steps it should have, the losses are the same.
ENDLESS_MLP = [*SMALL_MLP[:-1], "optimizer.schedule=constant", "optimizer.warmup=0", "train.steps=1000000"]


def start(*arguments):
    return subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, process):
    end = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, f"the run ended too early: {process.communicate()}"
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.001)


def has_steps(out):
    return (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").stat().st_size > 0


def metric_losses(out):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def damage(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def read_safetensors(path):
    """name -> (dtype, shape, bytes), and the metadata."""
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = data[8 + length:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])]) for name, entry in header.items()}, metadata


def transposed(data, rows, columns, size=4):
    return b"".join(data[(r * columns + c) * size:(r * columns + c + 1) * size] for c in range(columns) for r in range(rows))


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.run_folder = pathlib.Path(cls.folder.name) / "run"
        run("train", *SMALL_GPT, "--out", cls.run_folder)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def export(self, *arguments):
        file = pathlib.Path(self.folder.name) / "model.safetensors"
        result = run_json("export", self.run_folder, "--to", file, *arguments)
        tensors, metadata = read_safetensors(file)
        self.assertEqual(result["file"], str(file))
        self.assertEqual(result["tensors"].keys(), tensors.keys())
        self.assertEqual(metadata["step"], "6")
        return tensors

    def test_it_writes_the_parameters_of_the_checkpoint_and_no_state_of_the_optimizer(self):
        (stored,) = (self.run_folder / "checkpoints").glob("step-*/shard-*.safetensors")
        in_checkpoint, _ = read_safetensors(stored)
        tensors = self.export()
        self.assertIn("blocks.0.ffn.up.weight", tensors)
        for name, (dtype, shape, data) in tensors.items():
            self.assertEqual(dtype, "F32")
            self.assertTrue(any(each[2] == data for key, each in in_checkpoint.items() if key.startswith(name)), name)
        self.assertFalse([name for name in tensors if "exp_avg" in name])

    def test_the_layout_of_torch_transposes_linear_weights_and_nothing_else(self):
        native, torch = self.export(), self.export("--layout", "torch")
        self.assertEqual(native.keys(), torch.keys())
        changed = {name: (native[name][1], torch[name][1]) for name in native if native[name][1] != torch[name][1]}
        self.assertEqual(changed, {
            "blocks.0.attn.q.weight": ([16, 4, 4], [16, 16]), "blocks.0.attn.q.bias": ([4, 4], [16]),
            "blocks.0.attn.k.weight": ([16, 4, 4], [16, 16]), "blocks.0.attn.k.bias": ([4, 4], [16]),
            "blocks.0.attn.v.weight": ([16, 4, 4], [16, 16]), "blocks.0.attn.v.bias": ([4, 4], [16]),
            "blocks.0.attn.out.weight": ([4, 4, 16], [16, 16]),
            "blocks.0.ffn.up.weight": ([16, 64], [64, 16]), "blocks.0.ffn.down.weight": ([64, 16], [16, 64]),
            "head.weight": ([16, 256], [256, 16])})
        for name, (_, shape, data) in native.items():
            is_weight = name in changed and name.endswith(".weight")
            columns, rows = torch[name][1] if is_weight else (1, 1)
            self.assertEqual(torch[name][2], transposed(data, rows, columns) if is_weight else data, name)

    def test_the_script_of_the_pages_reads_the_parameters_that_export_writes(self):
        folder = pathlib.Path(self.folder.name) / "two ranks"
        file = pathlib.Path(self.folder.name) / "two.safetensors"
        run("train", *SMALL_GPT, "--plan", "tp=2", "--out", folder)
        run("export", folder, "--to", file)
        (checkpoint,) = (folder / "checkpoints").glob("step-*")
        script = runpy.run_path(str(ROOT / "docs" / "examples" / "read_checkpoint.py"))
        read = {name: (list(shape), numbers.tobytes()) for name, shape, numbers in script["read_tensors"](checkpoint)}
        for name, (_, shape, data) in read_safetensors(file)[0].items():
            self.assertEqual(read[name], (shape, data), name)

    def test_a_matrix_that_is_also_looked_up_stays_as_it_is(self):
        folder = pathlib.Path(self.folder.name) / "tied"
        file = pathlib.Path(self.folder.name) / "tied.safetensors"
        run("train", *SMALL_GPT, "model.tied=true", "--steps", 1, "--out", folder)
        run("export", folder, "--to", file, "--layout", "torch")
        self.assertEqual(read_safetensors(file)[0]["tokens.weight"][1], [256, 16])

    def test_what_is_not_there_and_other_layouts_are_refused(self):
        self.assertIn("no layout", run("export", self.run_folder, "--to", "/dev/null", "--layout", "jax", code=2).stderr)
        run("export", self.run_folder / "nothing", "--to", "x.safetensors", code=66)
        self.assertIn("device", run("export", self.run_folder, "--to", "/dev/null", code=1).stderr)
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        link = pathlib.Path(self.folder.name) / "link.safetensors"
        target = pathlib.Path(self.folder.name) / "target.safetensors"
        target.write_text("old")
        link.symlink_to(target)
        run("export", self.run_folder, "--to", link)
        self.assertTrue(link.is_symlink())
        self.assertGreater(target.stat().st_size, 1000)
        run("export", self.run_folder, "--to", self.run_folder / "no folder" / "x.safetensors", code=1)
        self.assertFalse((self.run_folder / "no folder").exists())


IMAGE_ROWS, IMAGE_SIZE = 120, 8


def npy_bytes(descr, shape, data):
    """What numpy.save writes of an array in C order."""
    extents = "".join(f"{extent}, " for extent in shape)
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def read_npy(path):
    """The shape and the numbers of a file of '<f4' in C order."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10:10 + length].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    values = [value for (value,) in struct.iter_unpack("<f", data[10 + length:])]
    assert len(values) == math.prod(header["shape"]), header
    return header["shape"], values


def own_images():
    """Images whose brighter half is their class, and their classes."""
    numbers = random.Random(7)
    images, labels = bytearray(), bytearray()
    for _ in range(IMAGE_ROWS):
        label = numbers.randrange(2)
        labels.append(label)
        for row in range(IMAGE_SIZE):
            is_bright = (row < IMAGE_SIZE // 2) == (label == 0)
            images += bytes(numbers.randrange(60, 200) + (55 if is_bright else -55) for _ in range(IMAGE_SIZE))
    return bytes(images), bytes(labels)


class Predict(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.at = pathlib.Path(cls.folder.name)
        cls.images, cls.labels = own_images()
        shape = (IMAGE_ROWS, IMAGE_SIZE, IMAGE_SIZE)
        (cls.at / "images.npy").write_bytes(npy_bytes("|u1", shape, cls.images))
        (cls.at / "labels.npy").write_bytes(npy_bytes("|u1", (IMAGE_ROWS,), cls.labels))
        (cls.at / "images.toml").write_text(f"""
[model]
kind = "image_mlp"
width = 8
layers = 1
[data]
kind = "npy"
images = "{cls.at}/images.npy"
labels = "{cls.at}/labels.npy"
held_out = 0.25
[train]
batch = 8
steps = 6
evaluate_batches = 0
""")
        cls.run_folder, cls.text_folder = cls.at / "run", cls.at / "text"
        run("train", cls.at / "images.toml", "--out", cls.run_folder)
        run("train", *SMALL_GPT, "--out", cls.text_folder)
        held_out = IMAGE_ROWS // 4
        cls.held_labels = cls.labels[-held_out:]
        cls.held = cls.at / "held.npy"
        cls.held.write_bytes(npy_bytes("|u1", (held_out, *shape[1:]), cls.images[-held_out * IMAGE_SIZE**2:]))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def predict(self, data, *more, out="out.npy", folder=None):
        path = self.at / out
        result = run_json("predict", folder or self.run_folder, "--data", data, "-o", path, *more)
        if path.suffix == ".jsonl":
            return result, [json.loads(line) for line in path.read_text().splitlines()]
        return result, read_npy(path)

    def test_of_the_held_out_images_they_have_the_accuracy_that_eval_reports(self):
        # 30 rows in batches of 8: the last batch has 6.
        result, (shape, values) = self.predict(self.held, "--classes")
        self.assertEqual((result["rows"], result["shape"], shape), (30, [30, 2], (30, 2)))
        right = sum(found == label for found, label in zip(values[0::2], self.held_labels))
        self.assertAlmostEqual(run_json("eval", self.run_folder)["val_accuracy"], right / 30, places=6)
        self.assertTrue(all(0.5 <= probability <= 1 for probability in values[1::2]))

    def test_arrays_and_lines_of_json_agree(self):
        _, (shape, values) = self.predict(self.held)
        _, lines = self.predict(self.held, out="out.jsonl")
        self.assertEqual(shape, (30, 2))
        in_lines = [struct.unpack("<f", struct.pack("<f", value))[0] for line in lines for value in line["logits"]]
        self.assertEqual(in_lines, values)
        _, (_, classes) = self.predict(self.held, "--classes")
        _, lines = self.predict(self.held, "--classes", out="out.jsonl")
        self.assertEqual([line["class"] for line in lines], classes[0::2])
        for row, line in enumerate(lines):
            a, b = values[2 * row:2 * row + 2]
            self.assertEqual(line["class"], int(b > a))
            # The softmax of two logits; f32 has 2^-24, twice for the two roundings.
            self.assertAlmostEqual(line["probability"], 1 / (1 + math.exp(-abs(a - b))), delta=2**-22)

    def test_the_number_of_rows_and_the_plan_do_not_change_them(self):
        _, (_, all_rows) = self.predict(self.held)
        one = self.at / "one.npy"
        one.write_bytes(npy_bytes("|u1", (1, 1, IMAGE_SIZE, IMAGE_SIZE), self.images[-IMAGE_SIZE**2:]))
        _, (shape, values) = self.predict(one)
        self.assertEqual((shape, values), ((1, 2), all_rows[-2:]))
        idx = self.at / "held.idx"
        idx.write_bytes(struct.pack(">BBBBIII", 0, 0, 8, 3, 30, IMAGE_SIZE, IMAGE_SIZE) + self.images[-30 * IMAGE_SIZE**2:])
        self.assertEqual(self.predict(idx)[1][1], all_rows)
        # Each of the two ranks has half of a batch. A library may sum the products of 4 rows in another order than those of
        # 8, so the batch of the serial run has 4.
        _, (_, halves) = self.predict(idx, "--set", "train.batch=4")
        self.assertEqual(self.predict(idx, "--plan", "dp=2")[1][1], halves)

    def test_of_tokens_and_of_text_there_are_logits_of_every_position(self):
        text = self.at / "own.txt"
        text.write_text("the first of all words")  # 22 bytes: two rows of 8, and 6 that are left out
        result, (shape, values) = self.predict(text, folder=self.text_folder)
        self.assertEqual((shape, result["left_out_tokens"]), ((2, 8, 256), 6))
        tokens = list(text.read_bytes()[:16])
        lines = self.at / "own.jsonl"
        lines.write_text(f"{tokens[:8]}\n\n{json.dumps({'tokens': tokens[8:]})}\n")
        array = self.at / "own.npy"
        array.write_bytes(npy_bytes("<i4", (2, 8), struct.pack("<16i", *tokens)))
        for file in (lines, array):
            self.assertEqual(self.predict(file, folder=self.text_folder)[1], (shape, values), file)
        _, classes = self.predict(text, "--classes", folder=self.text_folder, out="out.jsonl")
        self.assertEqual([len(row["class"]) for row in classes], [8, 8])

    def refusal(self, data, *more, code=65, folder=None, out="out.npy"):
        message = run("predict", folder or self.run_folder, "--data", data, "-o", self.at / out, *more, code=code).stderr
        self.assertIn("\n  why: ", message)
        self.assertIn("\n  fix: ", message)
        return message

    def test_other_shapes_tokens_and_names_are_refused(self):
        wide = self.at / "wide.npy"
        wide.write_bytes(npy_bytes("|u1", (2, 3, 8, 8), bytes(384)))
        self.assertIn("f32[3,8,8]", self.refusal(wide))
        flat = self.at / "flat.npy"
        flat.write_bytes(npy_bytes("|u1", (2, 64), bytes(128)))
        self.assertIn("no images", self.refusal(flat))
        empty = self.at / "empty.npy"
        empty.write_bytes(npy_bytes("|u1", (0, 8, 8), b""))
        self.refusal(empty)
        nan = self.at / "nan.npy"
        nan.write_bytes(npy_bytes("<f4", (1, 8, 8), struct.pack("<64f", *[math.nan] * 64)))
        self.assertIn("the number nan at index [0,0,0]", self.refusal(nan))
        rows = self.at / "rows.npy"
        rows.write_bytes(npy_bytes("<i4", (2, 7), bytes(56)))
        self.assertIn("rows of 7 tokens", self.refusal(rows, folder=self.text_folder))
        rows.write_bytes(npy_bytes("<i4", (1, 8), struct.pack("<8i", *[1] * 7, 256)))
        self.assertIn("token 256", self.refusal(rows, folder=self.text_folder))
        short = self.at / "short.jsonl"
        short.write_text("[1, 2, 3, 4, 5, 6, 7, 8]\n[1]\n")
        self.assertIn("1 tokens in row 2", self.refusal(short, folder=self.text_folder))
        self.refusal(self.at / "nothing.npy", code=66)

    def test_arrays_in_archives_and_compressed_files_are_those_of_plain_files(self):
        _, (_, expected) = self.predict(self.held)
        plain = self.held.read_bytes()
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            archive = self.at / f"own{method}.npz"
            with zipfile.ZipFile(archive, "w", method) as out:
                out.writestr("labels.npy", npy_bytes("|u1", (30,), self.held_labels))
                with out.open("images.npy", "w", force_zip64=True) as member:  # as numpy.savez does
                    member.write(plain)
            self.assertEqual(self.predict(f"{archive}:images")[1][1], expected)
            self.assertEqual(self.predict(f"{archive}:images.npy")[1][1], expected)
            self.assertIn("did you mean 'images'?", self.refusal(f"{archive}:image"))
            self.assertIn("labels, images", self.refusal(archive))
            damaged = bytearray(archive.read_bytes())
            damaged[len(damaged) // 2] ^= 1
            (self.at / "damaged.npz").write_bytes(damaged)
            self.refusal(self.at / "damaged.npz:images")
        with zipfile.ZipFile(self.at / "single.npz", "w") as out:
            out.writestr("any.npy", plain)
        self.assertEqual(self.predict(self.at / "single.npz")[1][1], expected)
        compressed = self.at / "held.npy.gz"
        compressed.write_bytes(gzip.compress(plain))
        self.assertEqual(self.predict(compressed)[1][1], expected)
        compressed.write_bytes(gzip.compress(plain) + b"x")
        self.assertIn("1 bytes follow", self.refusal(compressed))

    def test_a_model_learns_the_same_from_compressed_files(self):
        for name in ("images", "labels"):
            (self.at / f"{name}.npy.gz").write_bytes(gzip.compress((self.at / f"{name}.npy").read_bytes()))
        with zipfile.ZipFile(self.at / "both.npz", "w", zipfile.ZIP_DEFLATED) as out:
            for name in ("images", "labels"):
                out.write(self.at / f"{name}.npy", f"{name}.npy")
        expected = run_json("train", self.at / "images.toml")["losses"]
        for images, labels in (("images.npy.gz", "labels.npy.gz"), ("both.npz:images", "both.npz:labels")):
            found = run_json("train", self.at / "images.toml", "--set", f"data.images={self.at}/{images}", f"data.labels={self.at}/{labels}")
            self.assertEqual(found["losses"], expected, images)

    def test_outputs_are_checked_before_the_work(self):
        self.assertIn(".npy or .jsonl", self.refusal(self.held, out="out.csv", code=2))
        self.refusal(self.held, out="no folder/out.npy", code=1)
        link = self.at / "link.npy"
        link.symlink_to(self.at / "target.npy")
        self.predict(self.held, out="link.npy")
        self.assertTrue(link.is_symlink())
        device = self.at / "device.npy"
        device.symlink_to("/dev/null")
        run("predict", self.run_folder, "--data", self.held, "-o", device)
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())


class Checkpoints(unittest.TestCase):
    """A run of some steps in a folder of its own, shared by the tests that only read it."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.folder.name) / "run"
        cls.trained = run_json("train", *SMALL_GPT, "checkpoint.every=2", "data.tokens=characters", "--plan", "configs/plans/gpt.tp4.json", "--out", cls.out)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_last_ones_are_kept_and_listed(self):
        listed = run_json("inspect", self.out)
        self.assertEqual([(c["step"], c["complete"]) for c in listed["checkpoints"]], [(2, True), (4, True), (6, True)])
        self.assertEqual(listed["latest"], "step-00000006")
        self.assertEqual(self.trained["checkpoint"], str(self.out / "checkpoints" / "step-00000006"))
        one = run_json("inspect", self.trained["checkpoint"])
        self.assertEqual((one["step"], one["ranks"], one["state"]["settings"]["model"]["width"]), (6, 4, 16))
        head = next(tensor for tensor in one["tensors"] if tensor["name"] == "head.weight")
        self.assertEqual(head["shape"], [16, one["state"]["settings"]["model"]["vocabulary"]])
        self.assertEqual(head["parts"], 4)
        shard = run_json("inspect", next((self.out / "checkpoints" / "step-00000006").glob("*.safetensors")))
        self.assertEqual(shard["kind"], "safetensors")
        for path in (self.out, self.trained["checkpoint"]):
            self.assertRegex(run("inspect", path).stdout, r"(?m)^  (checkpoint|tensor) ")

    def test_eval_needs_only_the_checkpoint(self):
        result = run_json("eval", self.out)
        self.assertEqual((result["step"], result["ranks"]), (6, 4))
        self.assertAlmostEqual(result["val_perplexity"], math.exp(result["val_loss"]))
        # The loss is a mean of logs of sums of as many exponentials as there are characters, each of a sum of `width` products.
        rounding = self.trained["val_loss"] * 2**-24 * (256 + 4 * 16)
        self.assertAlmostEqual(result["val_loss"], self.trained["val_loss"], delta=rounding)
        self.assertAlmostEqual(run_json("eval", self.out, "--plan", "serial")["val_loss"], self.trained["val_loss"], delta=rounding)
        earlier = run_json("eval", self.out / "checkpoints" / "step-00000002")
        self.assertEqual(earlier["step"], 2)
        self.assertGreater(earlier["val_loss"], result["val_loss"])
        self.assertRegex(run("eval", self.out).stdout, r"^validation loss  \d\.\d{4} on .*\n +accuracy \d+\.\d%, perplexity ")

    def test_one_quantity_has_one_name_in_train_eval_and_metrics(self):
        trained, evaluated = self.trained, run_json("eval", self.out)
        lines = [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]
        values = {key for key in trained if key.startswith("val_")}
        self.assertEqual(values, {"val_loss", "val_perplexity", "val_accuracy", "val_bits_per_byte", "val_tokens"})
        self.assertEqual(values, {key for key in evaluated if key.startswith("val_")})
        self.assertEqual(values, {key for key in lines[-1] if key.startswith("val_")})
        self.assertEqual(evaluated["held_out_tokens"], trained["held_out_tokens"])
        # 0 batches are all of the held-out text: rows of 8 tokens, in batches of 4.
        whole = run_json("eval", self.out, "--set", "train.evaluate_batches=0")
        self.assertEqual(whole["val_tokens"], whole["held_out_tokens"] // 8 * 8)
        self.assertEqual(run_json("eval", self.out, "--set", "train.evaluate_batches=1")["val_tokens"], 4 * 8)

    def test_images_are_counted_as_images(self):
        config = ["configs/image_mlp.toml", "--set", "data.samples=200", "train.batch=16", "train.steps=2"]
        with tempfile.TemporaryDirectory() as folder:
            trained = run_json("train", *config, "--out", folder)
            evaluated = run_json("eval", folder)
            lines = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
            for keys in (trained.keys(), evaluated.keys(), lines[0].keys(), lines[-1].keys()):
                self.assertFalse([key for key in keys if "token" in key or "perplexity" in key or "bits" in key], keys)
            self.assertLessEqual({"images", "images_per_s", "images_per_s_per_device"}, lines[0].keys())
            self.assertLessEqual({"val_loss", "val_accuracy", "val_images"}, evaluated.keys())
            self.assertIn("images_per_s", trained)
            [events] = pathlib.Path(folder).glob("events.out.tfevents.*")
            self.assertIn(b"perf/images_per_s", events.read_bytes())
            self.assertNotIn(b"perplexity", events.read_bytes())
            out = run("eval", folder).stdout
            self.assertRegex(out, r"^validation loss  \d\.\d{4} on \d+ images\n +accuracy \d+\.\d%\n$")

    def test_eval_takes_another_batch_under_the_stored_plan(self):
        batches = [run_json("eval", self.out, "--set", f"train.batch={batch}") for batch in (4, 8)]
        self.assertEqual([result["ranks"] for result in batches], [4, 4])
        with tempfile.TemporaryDirectory() as folder:
            for plan in ("serial", "configs/plans/gpt.dp2-tp2.json"):
                out = pathlib.Path(folder) / pathlib.Path(plan).stem
                run("train", *SMALL_GPT, "--plan", plan, "--out", out)
                self.assertNotEqual(run_json("eval", out, "--set", "train.batch=6")["val_loss"], None)
                # A plan of the batch of 4 that is given for another one.
                error = run("eval", out, "--set", "train.batch=6", "--plan", out / "plan.json", code=0 if plan == "serial" else 78).stderr
                self.assertEqual("was made for another batch, seed or version of this model" in error, plan != "serial")

    def test_resuming_with_another_batch_names_the_batch(self):
        with tempfile.TemporaryDirectory() as folder:
            run("train", *SMALL_GPT, "--plan", "configs/plans/gpt.tp4.json", "--out", folder)
            error = run_json("train", *SMALL_GPT[:-1], "train.batch=6", "--out", folder, "--resume", code=65)["error"]
            self.assertIn("batch was 4 and is 6", error["why"])
            self.assertIn("the batch is not that of the checkpoint", error["what"])

    def test_resuming_with_another_model_or_optimizer_names_the_setting(self):
        with tempfile.TemporaryDirectory() as folder:
            run("train", *SMALL_GPT, "--out", folder)
            for changed, said in (("model.width=32", "model.width was 16 and is 32"), ("model.layers=2", "model.layers was 1 and is 2"),
                                  ("optimizer.kind=sgd", 'optimizer.kind was "adamw" and is "sgd"')):
                error = run_json("train", *SMALL_GPT, changed, "--out", folder, "--resume", code=65)["error"]
                self.assertIn(said, error["what"])
                self.assertRegex(error["why"], r"; and \d+ more$")
                self.assertEqual(error["why"].count(";"), 5)

    def test_a_checkpoint_that_was_removed_is_refused_with_those_that_are_left(self):
        left = "has step-00000002, step-00000004, step-00000006; a run removes older ones than the newest checkpoint.keep_last"
        for missing in (self.out / "checkpoints" / "step-00000001", self.out / "step-00000001"):
            for command in (["train", *SMALL_GPT, f"--resume={missing}"], ["eval", missing], ["eval", f"{missing}/"]):
                error = run_json(*command, code=66)["error"]
                self.assertIn("there is no checkpoint '", error["what"])
                self.assertIn(left, error["why"])
        self.assertIn("no such folder", run_json("eval", self.out / "none", code=66)["error"]["why"])

    def test_eval_reads_other_text_with_the_vocabulary_of_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "other.txt"
            other.write_text("".join(sorted(TEXT.read_text())))
            self.assertNotEqual(run_json("eval", self.out, "--set", f"data.path={other}")["val_loss"], run_json("eval", self.out)["val_loss"])
            other.write_text("\u2603" * 1000)
            self.assertIn("U+2603", run("eval", self.out, "--set", f"data.path={other}", code=65).stderr)

    def test_generate_writes_the_same_under_every_plan(self):
        for way in (["--temperature", 0], ["--top-k", 5, "--seed", 2], ["--top-p", 0.8, "--temperature", 1.2]):
            texts = [run_json("generate", self.out, "--prompt", "the ", "--tokens", 12, *way, "--plan", plan) for plan in ("serial", "configs/plans/gpt.dp2-tp2.json", "configs/plans/gpt.tp4.json")]
            self.assertEqual(len(texts[0]["tokens"]), 12)
            self.assertEqual(texts[0]["tokens"], texts[1]["tokens"])
            self.assertEqual(texts[0]["tokens"], texts[2]["tokens"])
            self.assertTrue(run("generate", self.out, "--prompt", "the ", "--tokens", 12, *way).stdout.startswith("the " + texts[0]["text"]))

    def test_a_plan_of_another_model_is_refused(self):
        self.assertIn("made for another model", run("eval", self.out, "--plan", "tests/errors/inputs/other_model.json", code=78).stderr)

    def test_damage_is_named_with_the_earlier_checkpoint_that_is_good(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            whole = run_json("train", *SMALL_GPT, "checkpoint.every=2", "--out", out)
            shard = next((out / "checkpoints" / "step-00000006").glob("*.safetensors"))
            damage(shard)
            # The last byte is of an optimizer's variable or of a parameter, so it is training that finds it.
            error = run_json("train", *SMALL_GPT, "--out", out, f"--resume={shard.parent}", code=65)["error"]
            self.assertIn(f"'{shard}' is damaged", error["what"])
            self.assertIn("resume from step-00000004", error["fix"])
            # A run that asks for its last one goes on from the last good one.
            finished = run("train", *SMALL_GPT, "--out", out, "--resume", "--json")
            self.assertIn("the run goes on from step-00000004", finished.stderr)
            resumed = json.loads(finished.stdout)
            self.assertEqual((resumed["resumed_from"], resumed["losses"]), (4, whole["losses"][4:]))
            # A checkpoint without its index is no longer complete: the one before is taken, with a warning.
            (out / "checkpoints" / "step-00000006" / "index.json").unlink()
            again = run("train", *SMALL_GPT, "--out", out, "--resume")
            self.assertIn("step-00000006 is damaged and step-00000004 is used", again.stderr)
            self.assertEqual(metric_losses(out), whole["losses"])

    def test_a_run_that_is_killed_goes_on_bit_for_bit(self):
        config = [*SMALL_GPT[:-1], "train.steps=80", "model.dropout=0.1", "--plan", "configs/plans/gpt.dp2-tp2.json"]
        whole = run_json("train", *config)
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            process = start("train", *config, "--set", "checkpoint.every=1", "--out", out)
            wait_for((out / "checkpoints" / "step-00000005").exists, process)
            # A checkpoint is being written when its folder aside is there; one is not seen where this process seldom runs.
            wait_for(lambda: any((out / "checkpoints").glob("step-*.tmp")) or (out / "checkpoints" / "step-00000020").exists(), process)
            process.kill()
            process.communicate()
            resumed = run_json("train", *config, "--out", out, "--resume")
            self.assertGreaterEqual(resumed["resumed_from"], 5)
            self.assertLess(resumed["resumed_from"], 80)
            self.assertEqual(resumed["losses"], whole["losses"][resumed["resumed_from"]:])
            self.assertEqual(resumed["val_loss"], whole["val_loss"])
            self.assertEqual(metric_losses(out), whole["losses"])
            self.assertEqual(resumed["plan"], whole["plan"])

    def test_a_run_that_is_preempted_writes_a_checkpoint_and_says_so(self):
        for number, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT")):
            with tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "run"
                process = start("train", *ENDLESS_MLP, "--out", out, "--json")
                wait_for(lambda: has_steps(out), process)
                process.send_signal(number)
                stopped = json.loads(process.communicate(timeout=LIMIT)[0])
                self.assertEqual((process.returncode, stopped["stopped_by"], stopped["val_loss"]), (75, name, None))
                whole = [*ENDLESS_MLP[:-1], f"train.steps={stopped['step'] + 20}"]
                resumed = run_json("train", *whole, "--out", out, "--resume")
                self.assertEqual(resumed["resumed_from"], stopped["step"])
                self.assertEqual(stopped["losses"] + resumed["losses"], run_json("train", *whole)["losses"])

    def test_the_command_to_continue_has_every_argument_of_the_run(self):
        config = [*ENDLESS_MLP[:-1], "--plan", "dp=2", "--steps", 1000000]
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "my run"
            process = start("train", *config, "--out", out)
            wait_for(lambda: has_steps(out), process)
            process.send_signal(signal.SIGTERM)
            text = process.communicate(timeout=LIMIT)[0]
            words = shlex.split(re.search(r"(?m)^to continue      tessera (.*)$", text).group(1))
            self.assertIn("1000000", words)
            steps = len(metric_losses(out)) + 10
            resumed = run_json(*(steps if word == "1000000" else word for word in words))
            self.assertEqual((resumed["step"], resumed["ranks"], resumed["resumed_from"]), (steps, 2, steps - 10))

    def test_resuming_a_run_that_has_all_its_steps_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            run("train", *SMALL_MLP, "--out", folder)
            for steps in (2, 6):
                result = run("train", *SMALL_MLP, "--steps", steps, "--out", folder, "--resume")
                self.assertIn(f"note: the run has 6 steps already, and train.steps is {steps}: no step is left. --steps is the whole length of the run", result.stderr)
                self.assertNotIn("speed", result.stdout)
            self.assertIsNone(run_json("train", *SMALL_MLP, "--out", folder, "--resume")["tokens_per_s"])
            result = run("train", *SMALL_MLP, "--steps", 7, "--out", folder, "--resume")
            self.assertNotIn("no step is left", result.stderr)
            self.assertIn("speed", result.stdout)

    def test_a_run_goes_on_under_another_plan_and_says_what_else_changed(self):
        with tempfile.TemporaryDirectory() as folder:
            run("train", *SMALL_GPT, "--out", folder)
            config = [*SMALL_GPT[:-1], "train.steps=9"]
            result = run("train", *config, "optimizer.clip_norm=2", "--out", folder, "--resume", "--plan", "configs/plans/gpt.tp4.json", "--json")
            self.assertIn("optimizer.clip_norm was 1.0 and is 2.0", result.stderr)
            self.assertIn("train.steps was 6 and is 9", result.stderr)
            document = json.loads(result.stdout)
            self.assertEqual((document["resumed_from"], document["step"], document["ranks"]), (6, 9, 4))
            error = run_json("train", *config, "train.seed=5", "--out", folder, "--resume", "--plan", "serial", code=65)["error"]
            self.assertIn("seed was 1 and is 5", error["why"])


class Devices(unittest.TestCase):
    """Fake accelerators: the host faults when it touches their memory, and their streams refuse that of the host."""

    PLANS = (("gpt.dp2-tp2", "gpt.dp2-tp2.fake"), ("gpt.pp2", "gpt.pp2.fake-last"))
    CONFIG = ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.context=8", "train.batch=4"]

    def test_a_plan_on_devices_trains_as_the_same_plan_on_hosts_bit_for_bit(self):
        for host, device in self.PLANS:
            runs = [run_json("train", *self.CONFIG, "--plan", f"configs/plans/{plan}.json", "--steps", 6) for plan in (host, device)]
            self.assertEqual(runs[0]["losses"], runs[1]["losses"])
            self.assertEqual(runs[0]["val_loss"], runs[1]["val_loss"])

    def test_every_tensor_of_a_plan_on_devices_is_that_of_the_serial_program(self):
        for _, device in self.PLANS:
            self.assertTrue(run_json("verify", *self.CONFIG, "--plan", f"configs/plans/{device}.json", "--steps", 2)["ok"])

    def test_a_run_on_devices_is_stored_and_goes_on_on_hosts(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = run_json("train", *self.CONFIG, "--plan", "configs/plans/gpt.pp2.json", "--steps", 6)
            run_json("train", *self.CONFIG, "--plan", "configs/plans/gpt.pp2.fake-last.json", "--steps", 4, "--out", folder)
            resumed = run_json("train", *self.CONFIG, "--plan", "configs/plans/gpt.pp2.json", "--steps", 6, "--out", folder, "--resume")
            self.assertEqual(resumed["losses"], whole["losses"][4:])

    def test_a_trace_has_a_thread_for_each_stream_of_a_device(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            run_json("train", *self.CONFIG, "--plan", "configs/plans/gpt.pp2.fake-last.json", "--steps", 5, "--trace", path)
            events = json.loads(path.read_text())["traceEvents"]
        threads = [(e["pid"], e["args"]["name"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"]
        self.assertEqual(threads, [(0, "acts"), (1, "acts"), (1, "kernels"), (1, "copies in"), (1, "copies out")])

    def test_a_kind_of_device_that_is_not_known_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plan.json"
            path.write_text('{"format": 1, "mesh": {"dp": 2}, "device": "gpu", "marks": []}')
            error = run_json("train", *self.CONFIG, "--plan", path, code=78)["error"]
            self.assertIn("host", error["why"] + error["fix"])


class Verify(unittest.TestCase):
    def test_a_plan_computes_what_the_serial_program_computes(self):
        result = run_json("verify", *SMALL_GPT, "--plan", "configs/plans/gpt.dp2-tp2.json", "--steps", 2)
        self.assertLessEqual({"ok", "max_error", "first_difference", "losses", "serial_losses"}, result.keys())
        self.assertIs(result["ok"], True)
        self.assertIsNone(result["first_difference"])
        self.assertLessEqual(result["max_error"], 1)
        self.assertEqual(len(result["losses"]), 2)
        self.assertEqual(len(result["serial_losses"]), 2)

    def test_notes_on_placements_are_told_by_train_and_verify_in_short_and_explained_in_full(self):
        plan = {"format": 1, "mesh": {"dp": 2}, "marks": [{"tensor": "{tokens,labels}", "placement": 'P("dp")'},
                                                         {"tensor": "hidden.*.weight", "placement": 'P("dp")'}]}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "conflict.json"
            file.write_text(json.dumps(plan))
            said = "note: reshard: dot_general 'hidden.0.dot' cannot follow both: "
            for command in ("train", "verify"):
                result = run(command, *SMALL_MLP, "--plan", file, "--steps", 1, "--json")
                self.assertIn(said, result.stderr)
                self.assertIn("`tessera explain --full` prints all", result.stderr)
                notes = json.loads(result.stdout)["notes"]
                self.assertEqual((notes[0]["kind"], notes[0]["op"]), ("reshard", "hidden.0.dot"))
            explained = run_json("explain", *SMALL_MLP, "--plan", file)
            self.assertEqual(explained["notes"], notes)
            out = pathlib.Path(folder) / "run"
            run("train", *SMALL_MLP, "--plan", file, "--steps", 1, "--out", out)
            self.assertIn(said, run("eval", out).stderr)
            self.assertIn("note: ", run("generate", out, "--prompt", "a", "--tokens", 1).stderr)
            self.assertIn("a rank receives", run("explain", *SMALL_MLP, "--plan", file, "--marks").stdout)
            self.assertEqual(len(run_json("explain", *SMALL_MLP, "--plan", file, "--marks")["marks"]), 2)

    def test_a_plan_that_was_found_has_no_notes(self):
        with own_cache(), tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            result = run("train", *SMALL_GPT, "--ranks", 2, "--steps", 1, "--out", out, "--json")
            self.assertTrue(json.loads((out / "plan.json").read_text())["found"])
            self.assertEqual(json.loads(result.stdout)["notes"], [])
            for again in (result, run("eval", out)):
                self.assertNotRegex(again.stderr, "note: (reshard|fallback|waste)")

    def test_waste_is_told_by_train_verify_and_explain(self):
        waste = ["axis 'dp' divides nothing: its 2 ranks do the same work", "axis 'tp' divides nothing: its 2 ranks do the same work"]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "no_marks.json"
            file.write_text(json.dumps({"format": 1, "mesh": {"dp": 2, "tp": 2}}))
            for command in ("train", "verify"):
                result = run(command, *SMALL_MLP, "--plan", file, "--steps", 1, "--json")
                self.assertEqual([line for line in result.stderr.splitlines() if line.startswith("note: ")], [f"note: waste: {text}" for text in waste])
                self.assertEqual([note["text"] for note in json.loads(result.stdout)["notes"]], waste)
            self.assertEqual([note["text"] for note in run_json("explain", *SMALL_MLP, "--plan", file)["notes"]], waste)
            self.assertIn(waste[0], run("explain", *SMALL_MLP, "--plan", file).stdout)

    def test_products_in_chunks_with_sequences_divided_compute_it_too(self):
        plan = ["--plan", "configs/plans/gpt.dp2-tp2-sp.json"]
        self.assertTrue(run_json("verify", *SMALL_GPT, *plan, "--steps", 2)["ok"])
        stages = {stage["name"]: stage["text"] for stage in run_json("explain", *SMALL_GPT, *plan, "--passes")["passes"]}
        self.assertRegex(stages["collective-matmul"], r"(?m)^blocks.0.ffn.up.dot with all-gather blocks.0.norm2.biased .*: 2 chunks of dim 1, ")
        self.assertRegex(stages["collective-matmul"], r"(?m)^blocks.0.ffn.down.dot with reduce-scatter .*: 2 chunks of dim ")

    def test_optional_passes_do_not_change_what_is_computed(self):
        losses = {json.dumps(run_json("train", *SMALL_GPT, "--plan", "configs/plans/gpt.dp2-tp2.json", "--steps", 2, *options)["losses"])
                  for options in ([], ["--disable-pass", "combine"], ["--disable-pass", "buckets", "--disable-pass", "prefetch", "--verify-passes"])}
        self.assertEqual(len(losses), 1)
        # The norm of the clip is added up in another order; without it nothing is.
        losses = {json.dumps(run_json("train", *SMALL_GPT, "optimizer.clip_norm=0", "--plan", "configs/plans/gpt.dp2-tp2.json", "--steps", 2, *options)["losses"])
                  for options in ([], ["--disable-pass", "sum-chains"])}
        self.assertEqual(len(losses), 1)
        self.assertTrue(run_json("verify", *SMALL_GPT, "--plan", "configs/plans/gpt.dp2-tp2.json", "--steps", 1, "--disable-pass", "prefetch")["ok"])

    def test_people_get_a_table_and_a_verdict(self):
        out = run("verify", *SMALL_MLP, "--plan", "configs/plans/mlp.tp4.json", "--steps", 1).stdout
        self.assertIn("loss of the plan", out)
        self.assertIn("verdict  ok", out)


class Explain(unittest.TestCase):
    PLAN = ["--plan", "configs/plans/gpt.dp2-tp2.json"]

    def test_the_whole_lists_parameters_and_communications_with_their_reasons(self):
        result = run_json("explain", *SMALL_GPT, *self.PLAN)
        self.assertEqual(result["mesh"], "dp=2 tp=2")
        up = next(p for p in result["parameters"] if p["name"] == "blocks.0.ffn.up.weight")
        # f32[16,64] halved on its second dim: 16 * 32 * 4 bytes.
        self.assertEqual((up["placement"], up["local"], up["bytes"]), ("f32[16, 64@tp]", "f32[16,32]", 2048))
        self.assertIn("blocks.*.ffn.up.weight", up["reason"])
        self.assertEqual(result["totals"]["forward"]["tensors"], sum(c["role"] == "forward" and c["bytes"] > 0 for c in result["communications"]))
        self.assertTrue(all(c["reason"] for c in result["communications"]))
        # Tensors that are sent together have the number of their exchange.
        numbers = [c["exchange"] for c in result["communications"]]
        self.assertEqual(sorted(set(numbers)), list(range(max(numbers) + 1)))
        # Slices of what a rank has are listed, but nothing is sent.
        sent = [c["exchange"] for c in result["communications"] if c["bytes"] > 0]
        self.assertEqual((result["totals"]["all"]["exchanges"], result["totals"]["all"]["tensors"]), (len(set(sent)), len(sent)))

    def test_many_layers_send_few_messages(self):
        # Each layer has two all-reduces over tp in the forward and two in the backward: 96. The embedding, the head and the loss
        # have six more. All gradients are one exchange, and so are the numbers of the norm with the loss.
        layers = ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.layers=24", *self.PLAN]
        total = run_json("explain", *layers)["totals"]
        self.assertEqual((total["all"]["exchanges"], total["optimizer"]["exchanges"]), (104, 2))
        apart = run_json("explain", *layers, "--disable-pass", "combine", "--disable-pass", "sum-chains")["totals"]
        self.assertEqual(apart["all"]["exchanges"], 734)
        self.assertLessEqual(total["all"]["bytes"], apart["all"]["bytes"])
        self.assertRegex(run("explain", *layers).stdout, r"(?m)^sent in a step +exchanges +tensors +bytes per rank$")

    def test_the_serial_plan_communicates_nothing(self):
        self.assertIn("sent in a step: nothing", run("explain", *SMALL_GPT).stdout)
        self.assertIn("Communication of a step: none", run("explain", *SMALL_GPT, "--full").stdout)

    def test_a_name_gives_its_op_its_operands_and_its_reshards(self):
        out = run("explain", *SMALL_GPT, *self.PLAN, "blocks.0.ffn.down.dot").stdout
        self.assertIn("blocks.0.ffn.down.dot = dot_general(", out)
        self.assertIn("f32[64@tp, 16]", out)
        self.assertIn("reduce", out)
        match = run_json("explain", *SMALL_GPT, *self.PLAN, "blocks.0.ffn.down.dot")["matches"][0]
        self.assertEqual([operand["role"] for operand in match["operands"]], ["input 0", "input 1", "result 0"])
        self.assertTrue(match["communications"])

    def test_an_op_has_the_exchanges_of_the_inputs_that_it_reshards(self):
        matches = run_json("explain", *SMALL_GPT, "--plan", "dp=2,zero=3", "blocks.0.ffn.up.dot")["matches"]
        resharded = {operand["name"] for operand in matches[0]["operands"] if operand["role"].startswith("input") and operand["reshard"]}
        self.assertTrue(resharded)
        self.assertEqual({c["value"] for c in matches[0]["communications"]}, resharded)

    def test_a_pattern_gives_everything_that_fits(self):
        matches = run_json("explain", *SMALL_GPT, *self.PLAN, "blocks.0.attn.{q,k,v}.weight")["matches"]
        self.assertEqual([match["name"] for match in matches], [f"blocks.0.attn.{letter}.weight" for letter in "qkv"])

    def test_passes_are_dumped_in_the_order_of_the_compiler(self):
        names = [stage["name"] for stage in run_json("explain", *SMALL_MLP, "--passes")["passes"]]
        self.assertEqual(names[:7], ["serial", "fold", "algebra", "cse", "dead-code", "recompute", "propagate"])
        self.assertIn("tasks", names)
        out = run("explain", *SMALL_MLP, "--passes").stdout
        self.assertIn("== propagate ==", out)
        self.assertRegex(out, r"(?m)^  partition +\d+\.\d ms$")

    def test_the_passes_have_times_and_their_texts_on_request(self):
        passes = run_json("explain", *SMALL_MLP)["passes"]
        self.assertTrue(all(step["seconds"] >= 0 and "text" not in step for step in passes))
        self.assertIn("partition", [step["name"] for step in passes])

    def test_an_optional_pass_can_be_disabled(self):
        passes = run_json("explain", *SMALL_GPT, *self.PLAN, "--disable-pass", "buckets", "--disable-pass", "prefetch", "--verify-passes")["passes"]
        self.assertFalse({"buckets", "prefetch"} & {step["name"] for step in passes})
        error = run_json("explain", *SMALL_GPT, "--disable-pass", "partition", code=78)["error"]
        self.assertIn("buckets", error["fix"])

    def test_a_rank_shows_what_it_does_in_a_step(self):
        acts = run_json("explain", *SMALL_GPT, *self.PLAN, "--rank", 3)["acts"]
        self.assertTrue(acts[0].startswith("F   feed "))
        self.assertTrue(any("= all-reduce(" in act for act in acts))
        self.assertEqual(run("explain", *SMALL_GPT, *self.PLAN, "--rank", 3).stdout.splitlines(), ["order  F B O", "", *acts])

    def test_the_schedule_is_told_without_the_passes(self):
        small = [word for word in SMALL_GPT if not word.startswith(("model.layers", "train.batch"))] + ["model.layers=2", "train.batch=8"]
        for plan in ("gpt.pp4-zb-h1", "gpt.pp2-zb-v", "gpt.pp4"):
            out = run("explain", *small, "--plan", f"configs/plans/{plan}.json", "--full").stdout
            self.assertRegex(out, r"(?m)^Schedule \S+ of \d+ micro-batches, in times of a micro-batch on the busiest device$")
            self.assertRegex(out, r"(?m)^device 0 .*bubble \d+\.\d% of its span")
            passes = {stage["name"]: stage["text"] for stage in run_json("explain", *small, "--plan", f"configs/plans/{plan}.json", "--passes")["passes"]}
            for line in passes["order"].splitlines():
                words = line.split(": ", 1)[1].split(" ")
                if line.split(":")[0].startswith("device") or line.startswith("step"):
                    continue
                forward = [word for word in words if re.fullmatch(r"F\d+", word)]
                # A stage has one F of each micro-batch; counting the labels of all is not one.
                self.assertEqual(len(forward), len(set(forward)), line)
        self.assertNotIn("Schedule", run("explain", *SMALL_GPT, "--plan", "configs/plans/gpt.dp4.json", "--full").stdout)

    def test_a_rank_of_a_pipeline_shows_its_order_list(self):
        # Two stages, four micro-batches: 1F1B on the first begins its backward after two forwards, on the last after one.
        config = ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.context=8", "--plan", "configs/plans/gpt.pp2.json"]
        self.assertEqual(run_json("explain", *config, "--rank", 0)["order"], "F0 F1 B0 F2 B1 F3 B2 B3 O")
        # In front stands what all micro-batches need of each other: the number of labels that count.
        self.assertTrue(run_json("explain", *config, "--rank", 1)["order"].endswith(" F0 B0 F1 B1 F2 B2 F3 B3 F O"))

    def test_like_layers_have_one_line_also_of_a_model_of_two(self):
        for layers, names in ((2, "0,1"), (3, "0..2"), (9, "0..8")):
            deep = ["explain", *SMALL_GPT, f"model.layers={layers}", *self.PLAN]
            joined, all_layers = run(*deep, "--full").stdout, run(*deep, "--every-layer").stdout
            self.assertIn(f"\n  blocks.{{{names}}}.attn.q.weight  x{layers}  ", joined)
            self.assertNotRegex(joined, r"blocks\.\d\.attn\.q\.weight")
            for layer in range(layers):
                self.assertIn(f"\n  blocks.{layer}.attn.q.weight  ", all_layers)
            self.assertEqual(joined.split("Totals of a step")[1], all_layers.split("Totals of a step")[1])
            self.assertEqual(len(run_json(*deep)["parameters"]), 5 + layers * 16)  # embeddings, norm, head; 16 of each block

    def configured(self):
        """(words of CONFIG with small data, a plan) of every configuration."""
        for file in sorted((ROOT / "configs").glob("*.toml")):
            plans = ["serial", *sorted((ROOT / "configs" / "plans").glob(file.stem + ".*.json"))]
            for plan in plans:
                yield [f"configs/{file.name}", "--plan", plan]

    def test_the_summary_of_every_configuration_has_less_than_40_lines(self):
        deep = [["configs/gpt.toml", "--set", "model.layers=24", "--plan", plan] for plan in
                ("serial", "dp=4", "configs/plans/gpt.dp2-tp2.json", "configs/plans/gpt.pp2-dp2-tp2.json", "configs/plans/gpt.pp4-zb-h1.json")]
        seen = 0
        for words in [*self.configured(), *deep]:
            lines = run("explain", *words).stdout.splitlines()
            self.assertLess(len(lines), 40, words)
            self.assertEqual(lines[-1], "--full prints every tensor, placement and exchange", words)
            for start in ("plan '", "memory of a rank", "sent in a step", "bubble: ", "largest parameters"):
                self.assertEqual(sum(line.startswith(start) for line in lines), 1, (words, start))
            seen += 1
        self.assertGreater(seen, 60)

    def test_the_sums_of_the_summary_are_those_of_the_tables(self):
        for plan in ("serial", "gpt.dp2-tp2", "gpt.dp4", "gpt.pp2-dp2-tp2", "gpt.pp2.fake-last"):
            result = run_json("explain", "configs/gpt.toml", "--set", f"data.path={TEXT}", "--plan", plan if plan == "serial" else f"configs/plans/{plan}.json")
            summary = result["summary"]
            for memory, table in zip(summary["memory"], result["memory"], strict=True):
                self.assertEqual(memory["parameter_bytes"] + memory["optimizer_bytes"], table["state_bytes"])
                self.assertEqual(memory["activation_bytes"], table["arena_bytes"])
                self.assertEqual(memory["bytes"], table["state_bytes"] + table["arena_bytes"])
            self.assertEqual(sum(memory["parameter_bytes"] for memory in summary["memory"]), sum(parameter["bytes"] for parameter in result["parameters"]))
            for column in ("exchanges", "tensors", "bytes"):
                self.assertEqual(sum(line[column] for line in summary["sent"]), result["totals"]["all"][column], (plan, column))
            for line in summary["sent"]:
                self.assertEqual(line["bytes"], sum(c["bytes"] for c in result["communications"] if c["axes"] == line["axes"]))
            self.assertEqual(summary["waste"], [note["text"] for note in result["notes"] if note["kind"] == "waste"])
            self.assertEqual(summary["bubble"] is None, "pp" not in plan)

    def test_the_bubble_of_the_summary_is_that_of_the_schedule(self):
        words = ["explain", "configs/gpt.toml", "--set", f"data.path={TEXT}", "--plan", "configs/plans/gpt.pp2.json"]
        told = [float(text) for text in re.findall(r"(\d+\.\d)% of the step", run(*words, "--full").stdout)]
        bubble = run_json(*words)["summary"]["bubble"]
        self.assertEqual(len(told), 2)
        for text, device in zip(told, bubble["devices"], strict=True):
            self.assertAlmostEqual(text, 100 * device["bubble"], delta=0.051)
        self.assertAlmostEqual(bubble["mean"], sum(device["bubble"] for device in bubble["devices"]) / 2)

    def test_a_plan_compared_with_itself_has_no_difference(self):
        for plan in ("serial", "configs/plans/gpt.dp2-tp2.json", "configs/plans/gpt.pp2.json"):
            words = ["explain", *SMALL_GPT, "model.layers=2", "train.batch=8", "--plan", plan, "--compare", plan]
            self.assertTrue(run(*words).stdout.endswith("\nThe plans have no difference in memory, exchanges and bubble.\n"), plan)
            made = run_json(*words)["comparison"]
            self.assertTrue(made["is_same"])
            self.assertEqual((made["tensors"], made["exchanges"]), ([], []))
            self.assertTrue(all(pair["difference"] == 0 for pair in made["memory"].values()))

    def test_two_plans_are_compared_by_memory_axis_and_tensor(self):
        words = ["explain", *SMALL_GPT, "model.layers=2", *self.PLAN, "--compare", "dp=4"]
        result = run_json(*words)
        other = run_json("explain", *SMALL_GPT, "model.layers=2", "--plan", "dp=4")
        made = result["comparison"]
        self.assertFalse(made["is_same"])
        for key, pair in made["memory"].items():
            self.assertEqual((pair["plan"], pair["other"]), (result["summary"]["memory"][0][key], other["summary"]["memory"][0][key]))
            self.assertEqual(pair["difference"], pair["other"] - pair["plan"])
        tp = next(line for line in made["sent"] if line["axes"] == "tp")
        self.assertEqual((tp["bytes"]["other"], tp["exchanges"]["other"]), (0, 0))
        self.assertGreater(tp["bytes"]["plan"], 0)
        # f32[16,64] of two layers: 8192 bytes, of which tp=2 halves each.
        up = next(tensor for tensor in made["tensors"] if tensor["name"] == "blocks.{0,1}.ffn.up.weight  x2")
        self.assertEqual((up["kind"], up["plan"], up["other"]), ("parameter", "f32[16, 64@tp]", "f32[16, 64]"))
        self.assertEqual(up["bytes"], {"plan": 4096, "other": 8192, "difference": 4096})
        for name in ("tensors", "exchanges"):
            sizes = [abs(line["bytes"]["difference"]) for line in made[name]]
            self.assertEqual(sizes, sorted(sizes, reverse=True))
        short, full = run(*words).stdout, run(*words, "--full").stdout
        self.assertLess(len(short.splitlines()), 45)
        self.assertIn("more lines: --full prints all", short)
        self.assertNotIn("more lines", full)
        self.assertGreater(len(full.splitlines()), len(short.splitlines()))

    def test_the_comparison_refuses_a_wrong_plan_and_what_it_cannot_compare(self):
        self.assertIn("nothing.json", run("explain", *SMALL_GPT, "--compare", "nothing.json", code=66).stderr)
        self.assertIn("--compare does not go with", run("explain", *SMALL_GPT, "--compare", "dp=4", "--rank", 0, code=2).stderr)

    def test_tasks_end_where_the_plan_says(self):
        with tempfile.TemporaryDirectory() as folder:
            tasks = {}
            for word in ("role", "layer", "op"):
                file = pathlib.Path(folder) / f"{word}.json"
                file.write_text(json.dumps({"format": 1, "mesh": {"dp": 1}, "tasks": word}))
                passes = run_json("explain", *SMALL_GPT, "model.layers=2", "--plan", file, "--passes")["passes"]
                text = next(made["text"] for made in passes if made["name"] == "tasks")
                tasks[word] = len(re.findall(r"(?m)^  compute '", text))
            self.assertLess(tasks["role"], tasks["layer"])
            self.assertLess(tasks["layer"], tasks["op"])


class Fuzz(unittest.TestCase):
    def test_random_programs_agree_with_the_serial_ones(self):
        result = run_json("fuzz", "--cases", 20, "--seed", 7)
        self.assertEqual((result["ok"], result["cases"], result["failures"], result["seed"]), (True, 20, 0, 7))

    def test_a_case_in_a_file_is_run_again(self):
        with tempfile.TemporaryDirectory() as folder:
            case = pathlib.Path(folder) / "case.txt"
            case.write_text("seed 1\nsteps 1\nmesh all x=2 at 0\nmark tensor a P(\"x\")\nfill a whole 1 9\ngraph\n"
                            "input a: f32[5]\ny = tanh(a): f32[5]\n")
            self.assertIn("the results equal those of the serial program", run("fuzz", case).stdout)


class Solve(unittest.TestCase):
    PROBLEM = "configs/problems/two_layers.json"

    def test_a_small_problem_is_solved_and_proved(self):
        # Of the 72 assignments the cheapest costs 40 and holds 176; of those within the limit of 110 the cheapest costs 93.
        result = run_json("solve", self.PROBLEM)
        self.assertEqual((result["cost"], result["bound"], result["optimal"]), ("93", "93", True))
        self.assertEqual((result["nodes"], result["edges"], len(result["assignment"])), (5, 4, 5))

    def test_work_instead_of_time_gives_the_same_answer_on_any_number_of_threads(self):
        answers = [run_json("solve", self.PROBLEM, "--work", 5, "--threads", threads, "--seed", 3)["assignment"] for threads in (1, 2, 3)]
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])

    def test_no_assignment_fits_is_an_answer_with_a_code_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            problem = pathlib.Path(folder) / "tight.json"
            problem.write_text('{"problem": {"nodes": {"intervals": [[0, 1]], "costs": [[1, 2]], "usages": [[5, 6]]}, "usage_limit": 4}}')
            result = run("solve", problem, "--json", code=3)
            self.assertTrue(json.loads(result.stdout)["infeasible"])

    def test_a_malformed_file_is_refused_with_its_place(self):
        with tempfile.TemporaryDirectory() as folder:
            problem = pathlib.Path(folder) / "broken.json"
            problem.write_text('{"problem": {"nodes": {"costs": [[1, two]]}}}')
            self.assertIn("line 1, column 38", run("solve", problem, code=65).stderr)


class Inspect(unittest.TestCase):
    def test_a_plan(self):
        result = run_json("inspect", "configs/plans/gpt.dp2-tp2.json")
        self.assertEqual((result["kind"], result["mesh"], result["ranks"], result["fingerprint"]), ("plan", "dp=2 tp=2", 4, None))
        self.assertEqual(result["marks"][0], {"tensor": "{tokens,labels}", "placement": 'P("dp")'})

    def test_a_plan_of_stages_says_its_schedule_and_meshes(self):
        result = run_json("inspect", "configs/plans/gpt.pp4-zb-h1.json")
        self.assertEqual((result["micro_batches"], result["schedule"]), (8, "zb-h1"))
        self.assertIn("attn0", [mark.get("mesh") for mark in result["marks"]])
        out = run("inspect", "configs/plans/gpt.pp4-zb-h1.json").stdout
        self.assertIn("8 micro-batches, schedule zb-h1", out)
        self.assertRegex(out, r"(?m)^  op +\S+ +\S* *attn0$")
        self.assertIsNone(run_json("inspect", "configs/plans/gpt.dp4.json")["schedule"])

    def test_a_run_and_its_latest_checkpoint_say_model_loss_and_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            trained = run_json("train", *SMALL_GPT, "--plan", "configs/plans/gpt.dp2-tp2.json", "--out", out)
            for path in (out, out / "checkpoints" / "latest", out / "checkpoints" / "step-00000006"):
                found = run_json("inspect", path)["run"]
                self.assertRegex(found["model"], "^gpt: .*context 8, .*width 16")
                self.assertEqual((found["step"], found["steps"]), (6, 6))
                self.assertIn("on mesh dp=2 tp=2, 4 ranks", found["plan"])
                text = run("inspect", path).stdout
                for line in ("model    gpt: ", "data     text of ", "steps    6 of 6", "plan     plan 'gpt.dp2-tp2' on mesh"):
                    self.assertIn(line, text)
            run_of = run_json("inspect", out)["run"]
            self.assertEqual((run_of["loss"], run_of["val_loss"]), (trained["loss"], trained["val_loss"]))
            self.assertEqual(run_json("inspect", out / "checkpoints" / "latest")["kind"], "checkpoint")
            self.assertEqual(run_json("inspect", out / "checkpoints")["kind"], "checkpoints")
            for path in (out, f"{out}/"):
                self.assertTrue(run("inspect", path).stdout.startswith(f"{path} is a run\n"), path)
            self.assertTrue(run("inspect", out / "checkpoints").stdout.startswith(f"{out}/checkpoints holds checkpoints\n"))
            # A run that has no checkpoint is a run all the same.
            for checkpoint in (out / "checkpoints").iterdir():
                if checkpoint.is_file():
                    checkpoint.unlink()
                else:
                    for file in checkpoint.iterdir():
                        file.unlink()
                    checkpoint.rmdir()
            self.assertIn("no checkpoint", run("inspect", out).stdout)
            self.assertIn("steps    6 of 6, loss ", run("inspect", out).stdout)

    def test_the_plan_of_a_run_has_the_name_that_the_run_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            for number, plan in enumerate(("dp=2", "serial", "configs/plans/mlp.tp4.json")):
                out = pathlib.Path(folder) / str(number)
                name = re.search(r"plan '[^']*'", run("train", *SMALL_MLP, "--plan", plan, "--out", out).stderr).group()
                self.assertIn(name, run_json("inspect", out)["run"]["plan"])

    def test_the_settings_of_a_run_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            run("train", *SMALL_MLP, "--out", folder)
            result = run_json("inspect", f"{folder}/config.json")
            self.assertEqual((result["kind"], result["settings"]["model"]["width"]), ("settings", 16))
            self.assertRegex(run("inspect", f"{folder}/config.json").stdout, r"(?m)^ *train\.batch +4$")
            self.assertEqual(run_json("inspect", f"{folder}/plan.json")["kind"], "plan")

    def test_an_array(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.npy"
            for kind, size, name in (("|u1", 1, "u8"), ("<f4", 4, "f32"), ("<i8", 8, "i64")):
                path.write_bytes(npy_bytes(kind, (2, 3, 4), bytes(24 * size)))
                result = run_json("inspect", path)
                self.assertEqual((result["kind"], result["type"], result["shape"]), ("array", name, [2, 3, 4]))
                self.assertIn(f"{path} is an array: {name}[2,3,4]", run("inspect", path).stdout)

    def test_a_configuration(self):
        result = run_json("inspect", *SMALL_MLP)
        # tokens 256*4, two hidden layers (8*4*16 + 16) and (16*16 + 16), head 16*256 + 256
        self.assertEqual(result["parameters"], 1024 + 528 + 272 + 4352)
        self.assertEqual(result["settings"]["train"]["steps"], 6)

    def test_a_text(self):
        result = run_json("inspect", TEXT)
        size = TEXT.stat().st_size
        self.assertEqual((result["kind"], result["size"], result["bytes"]["tokens"]), ("text", size, size))
        self.assertEqual(result["characters"]["vocabulary"], len(set(TEXT.read_text())))


class Demo(unittest.TestCase):
    def test_a_small_one_agrees_with_the_serial_run(self):
        result = run_json("demo", "--steps", 12, *SMALL_GPT[1:-1])
        self.assertIs(result["ok"], True)
        self.assertEqual(len(result["losses"]), 12)
        self.assertEqual(len(result["serial_losses"]), 10)
        self.assertTrue(result["text"])
        self.assertTrue(result["plan"])

    def test_people_read_what_is_done_and_what_to_try_next(self):
        out = run("demo", "--steps", 3, *SMALL_GPT[1:-1]).stdout
        for words in ("1. Reads text", "3. Finds a plan for ", " a step, ", "They agree", "bigram entropy", "written by the model", "Try next"):
            self.assertIn(words, out)


if __name__ == "__main__":
    options = cases.parser(__doc__, "program").parse_args()
    PROGRAM = str(pathlib.Path(options.program).resolve())
    sys.exit(cases.run(cases.tests_of(sys.modules[__name__]), options))
