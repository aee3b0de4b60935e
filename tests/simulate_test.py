#!/usr/bin/env python3
"""The command simulate, and the predictions of train, as scripts use them.

    simulate_test.py PROGRAM [--only NAME] [--list] [--xml FILE]

Small models on a text of the repository.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from html.parser import HTMLParser

from support import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ""
TEXT = ROOT / "tests" / "errors" / "inputs" / "text.txt"
SMALL = ["--set", f"data.path={TEXT}", "model.width=32", "model.context=16", "model.layers=2", "train.batch=8", "train.steps=4"]
GPT = ["configs/gpt.toml", *SMALL]
CPU = ["--cluster", "cpu:2"]
TWO_SERVERS = ["--cluster", "2x4xa100-80g;ib=100Gb"]


def run(*arguments, code=0):
    result = subprocess.run([PROGRAM, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert result.returncode == code, f"{arguments}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def run_json(*arguments, code=0):
    return json.loads(run(*arguments, "--json", code=code).stdout)


class Page(HTMLParser):
    """Collects what a page would load, and its tags."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads = set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.loads += [value for key, value in attributes if key in ("src", "href", "xlink:href", "data", "action")]


class Simulate(unittest.TestCase):
    def test_json_has_the_keys_of_the_contract(self):
        result = run_json("simulate", *GPT, "--plan", "dp=2,tp=2", *CPU)
        self.assertLessEqual({"step_seconds", "bubble", "exposed_comm_seconds", "peak_bytes", "mfu"}, result.keys())
        self.assertAlmostEqual(1e3 * result["step_seconds"], result["step_ms"])

    def test_the_critical_path_adds_up_to_the_step(self):
        result = run_json("simulate", *GPT, "--plan", "pp=2,dp=2,micro_batches=4", *TWO_SERVERS)
        self.assertAlmostEqual(sum(part["ms"] for part in result["critical_path"]) / result["step_ms"], 1, places=6)
        self.assertTrue(any(part["what"].startswith("matmul") for part in result["critical_path"]))

    def test_the_memory_over_time_stays_within_what_is_allocated(self):
        result = run_json("simulate", *GPT, "--plan", "tp=2", *TWO_SERVERS)
        ranks = {rank["rank"]: rank for rank in result["ranks"]}
        for memory in result["memory_over_time"]:
            rank = ranks[memory["rank"]]
            allocated = rank["variable_bytes"] + rank["arena_bytes"]
            self.assertLessEqual(max(moment[1] for moment in memory["moments"]), allocated)
            self.assertEqual(sum(memory["contents"].values()), memory["peak_bytes"])
            self.assertEqual(memory["contents"]["variables"], rank["variable_bytes"])
            self.assertGreater(memory["contents"]["activations kept for the backward"], 0)

    def test_a_runtime_that_fuses_takes_less_time_and_memory(self):
        large = ["--set", "model.width=2048", "model.heads=16", "model.context=512", "train.batch=32", "train.precision=bf16"]
        words = ["simulate", *GPT, *large, "--plan", "dp=2", "--cluster", "2xa100-80g"]
        usual = run_json(*words)
        self.assertEqual(usual["runtime"], "torch-compile")
        ours, fused = (run_json(*words, "--runtime", name) for name in ("tessera", "torch-compile"))
        self.assertEqual(ours["runtime"], "tessera")
        self.assertEqual(fused["step_seconds"], usual["step_seconds"])
        self.assertEqual(fused["peak_bytes"], usual["peak_bytes"])
        self.assertEqual(run_json("simulate", *GPT, "--plan", "dp=2", *CPU)["runtime"], "tessera")
        self.assertLess(fused["step_seconds"], ours["step_seconds"])
        self.assertLess(fused["peak_bytes"], ours["peak_bytes"])
        self.assertEqual(fused["memory_over_time"], [])
        self.assertIn("torch-eager", run(*words, "--runtime", "pytorch", code=66).stderr)

    def test_a_plan_for_a_runtime_is_promised_what_is_simulated(self):
        model = [*GPT, "--set", "model.width=512", "model.heads=8", "model.layers=4", "train.batch=64", "train.precision=bf16"]
        for runtime in ("torch-compile", "megatron"):
            for fixed in ("", "pp=2,micro_batches=4"):
                with tempfile.TemporaryDirectory() as folder, self.subTest(runtime=runtime, fixed=fixed):
                    words = ["--cluster", "4xa100-80g", "--runtime", runtime]
                    file = pathlib.Path(folder) / "plan.json"
                    planned = run_json("plan", *model, *words, "--no-cache", "--fix", fixed, "--out", file)
                    simulated = run_json("simulate", *model, *words, "--plan", file)
                    self.assertEqual(planned["runtime"], runtime)
                    self.assertAlmostEqual(planned["step_seconds"] / simulated["step_seconds"], 1, places=4)
                    self.assertEqual(planned["peak_bytes"] - planned["reserve_bytes"], simulated["peak_bytes"])
                    self.assertLess(planned["floor_seconds"], planned["step_seconds"])

    def test_types_that_a_device_does_not_compute_are_priced_as_f32_and_said(self):
        words = [*GPT, "--plan", "dp=2", "--cluster", "2xv100-16g", "--set", "model.width=2048", "model.heads=16", "model.context=512", "train.batch=32"]
        half = run("simulate", *words, "train.precision=bf16", "--json")
        self.assertIn("v100-16g has no arithmetic in bf16", half.stderr)
        short = run("simulate", *words, "train.precision=f16", "--json")
        self.assertNotIn("arithmetic in", short.stderr)
        self.assertLess(json.loads(short.stdout)["step_ms"], json.loads(half.stdout)["step_ms"])

    def test_activations_of_a_layer_are_those_of_published_formulas(self):
        # Korthikanti et al., 2205.05198, table 2; without scores in memory its selective recompute.
        length, width, heads, tp = 2048, 6144, 64, 8
        scores = 5 * heads * length / width
        plain, divided = "tp=8", "tp=8,sequence_parallel=true"
        formulas = [
            (plain, "scores", 10 + 24 / tp + scores / tp),
            (divided, "scores", (34 + scores) / tp),
            (plain, "blocked", 10 + 24 / tp),
            (divided, "blocked", 34 / tp),
            ("tp=8,recompute=full", "scores", 2),
        ]
        with tempfile.TemporaryDirectory() as folder:
            profile = pathlib.Path(folder) / "profile.toml"
            for plan, attention, formula in formulas:
                profile.write_text(f'profile = "megatron"\nattention = "{attention}"\nmargin = 0.0\n')

                def arena(layers, batch):
                    return max(rank["arena_bytes"] for rank in run_json(
                        "simulate", "configs/gpt.toml", "--plan", plan, "--cluster", "8xa100-80g", "--runtime", profile,
                        "--set", f"model.layers={layers}", f"train.batch={batch}", f"model.width={width}", f"model.heads={heads}",
                        f"model.context={length}", "model.dropout=0.1", "train.precision=f16", "data.held_out=0")["ranks"])

                # What the batch adds, so that copies of weights and gradients are not in it.
                added = arena(4, 32) - arena(2, 32) - arena(4, 16) + arena(2, 16)
                with self.subTest(plan=plan, attention=attention):
                    self.assertAlmostEqual(added / (2 * 16 * length * width) / formula, 1, delta=0.02)

    def test_runs_of_a_table_are_replayed_and_a_profile_is_fitted_to_them(self):
        table = ROOT / "docs/examples/runs.csv"
        replayed = run_json("replay", table)
        self.assertEqual(len(replayed["runs"]), 3)
        for each in replayed["runs"]:
            self.assertAlmostEqual(each["error"], each["predicted_s"] / each["measured_s"] - 1)
            self.assertIn("matmul", each["critical"])
        with tempfile.TemporaryDirectory() as folder:
            profile = pathlib.Path(folder) / "profile.toml"
            fitted = run_json("calibrate", table, "--runtime", "megatron", "--out", profile)
            self.assertEqual(sum(each["fitted"] for each in fitted["numbers"]), 1)
            again = run_json("replay", table, "--runtime", profile)
            for run_of_fit, each in zip(fitted["runs"], again["runs"], strict=True):
                self.assertAlmostEqual(run_of_fit["after_s"], each["predicted_s"], places=6)
            simulated = run("simulate", *GPT, "--plan", "dp=2", "--cluster", "2xa100-80g", "--runtime", profile)
            self.assertIn("8 of 10 measured steps take", simulated.stdout)

    def test_peak_bytes_are_those_of_train(self):
        for config in ("gpt", "mlp", "gpt_tied"):
            for plan in ("serial", "dp=2", "pp=2,micro_batches=2"):
                arguments = [f"configs/{config}.toml", *(SMALL if config != "mlp" else SMALL[:3] + SMALL[5:]), "--plan", plan]
                trained = run_json("train", *arguments, "--steps", "1")["peak_bytes"]
                predicted = run_json("simulate", *arguments, *CPU)["peak_bytes"]
                self.assertLess(abs(predicted / trained - 1), 0.01, (config, plan))

    def test_without_held_out_data_no_evaluation_is_counted(self):
        arguments = [*GPT, "data.held_out=0"]
        self.assertEqual(run_json("simulate", *arguments, *CPU)["peak_bytes"], run_json("train", *arguments)["peak_bytes"])

    def test_several_plans_are_compared(self):
        result = run_json("simulate", *GPT, "--plan", "dp=2", "--compare", "tp=2", "--compare", "serial", *CPU)
        self.assertEqual([other["plan"] for other in result["compared"]], ["tp=2", "serial"])
        self.assertEqual(len(result["compared"][1]["ranks"]), 1)


class MapRanks(unittest.TestCase):
    PLAN = ["--plan", "tp=2,dp=4"]

    def test_the_mapping_is_stored_and_used_again(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mapped.json"
            mapped = run_json("simulate", *GPT, *self.PLAN, *TWO_SERVERS, "--map-ranks", "-o", file)
            mapping = json.loads(file.read_text())["mapping"]
            self.assertEqual(mapping["devices"], [rank["device"] for rank in mapped["ranks"]])
            self.assertEqual(len(set(mapping["devices"])), 8)
            again = run_json("simulate", *GPT, "--plan", file, *TWO_SERVERS)
            self.assertEqual(again["step_ms"], mapped["step_ms"])
            other = run_json("simulate", *GPT, "--plan", file, "--cluster", "8xh100-sxm")
            self.assertEqual([rank["device"] for rank in other["ranks"]], [f"n0/{i}" for i in range(8)])

    def test_it_costs_no_more_than_the_devices_in_order(self):
        for plan in ("tp=2,dp=4", "pp=2,tp=2,dp=2,micro_batches=2"):
            mapping = run_json("simulate", *GPT, "--plan", plan, *TWO_SERVERS, "--map-ranks")["mapping"]
            self.assertLessEqual(mapping["cost_seconds"], mapping["in_order_cost_seconds"] * (1 + 1e-9))
            self.assertLessEqual(mapping["bound_seconds"], mapping["cost_seconds"] * (1 + 1e-9))

    def test_wrong_mappings_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "plan.json"
            for devices, words in ((["n0/0"], "1 device for 2 ranks"), (["n0/0", "n0/0"], "twice"), (["n0/0", "n7/0"], "'n7/0'")):
                file.write_text(json.dumps({"mesh": {"dp": 2}, "mapping": {"cluster": "2xa100-80g", "devices": devices}}))
                message = run("simulate", *GPT, "--plan", file, "--cluster", "2xa100-80g", code=78).stderr
                self.assertIn(words, message)
                self.assertIn("fix:", message)


class Report(unittest.TestCase):
    def page(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "report.html"
            run("simulate", *GPT, *arguments, "--report", file)
            return file.read_text()

    def check(self, text):
        page = Page(text)
        self.assertEqual(page.loads, [])
        self.assertFalse(page.tags & {"script", "link", "img", "iframe", "object"})
        self.assertNotIn("http", text)
        xml.etree.ElementTree.fromstring(text.split("\n", 1)[1])  # throws unless well-formed
        return page

    def test_it_is_one_page_that_loads_nothing(self):
        text = self.page("--plan", "pp=2,dp=2,tp=2,micro_batches=2", *TWO_SERVERS, "--map-ranks")
        self.assertIn("svg", self.check(text).tags)
        for words in ("Timeline of a step", "Memory over time", "Communication", "Ranks on the devices", "Shardings", "Critical path"):
            self.assertIn(words, text)

    def test_plans_stand_side_by_side(self):
        text = self.page("--plan", "dp=2", "--compare", "tp=2", *TWO_SERVERS)
        self.check(text)
        self.assertEqual(text.count("<article>"), 2)

    def test_hostile_names_are_text(self):
        name = "a\"><script>x</script>&'b"
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / (name.replace("/", "_") + ".json")
            plan.write_text(json.dumps({"mesh": {"dp": 2}, "marks": [{"tensor": "tokens", "placement": "P(\"dp\")"}]}))
            text = self.page("--plan", plan, *TWO_SERVERS)
        self.check(text)
        self.assertIn("&lt;script&gt;x&lt;_script&gt;&amp;&#39;b", text)


class Train(unittest.TestCase):
    def test_a_cluster_gives_the_prediction_beside_the_measured_step(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            result = run_json("train", *GPT, "--plan", "dp=2", *CPU, "--out", out)
            steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        predicted = result["predicted"]
        self.assertGreater(predicted["step_ms"], 0)
        self.assertAlmostEqual(predicted["step_error"], predicted["step_ms"] / predicted["measured_step_ms"] - 1, places=6)
        self.assertLess(abs(predicted["peak_bytes"] / result["peak_bytes"] - 1), 0.01)
        steps = [step for step in steps if step["kind"] == "step"]
        for step in steps:
            self.assertGreater(step["mfu"], 0)
            self.assertGreaterEqual(step["hfu"], 0)

    def test_the_time_of_a_step_is_divided_where_it_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            run("train", *GPT, "--plan", "dp=2", "--out", out)
            steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        for step in (step for step in steps if step["kind"] == "step"):
            self.assertIsNone(step["mfu"])
            self.assertGreater(step["comm_exposed_ms"], 0)
            self.assertGreaterEqual(step["bubble_ms"], 0)
            self.assertLess(step["comm_exposed_ms"] + step["bubble_ms"], 2 * step["step_time_ms"])

    def test_a_serial_run_exchanges_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            run("train", *GPT, "--out", out)
            step = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
        self.assertEqual(step["comm_exposed_ms"], 0)

    def test_a_cluster_that_is_too_small_is_refused_before_the_first_step(self):
        self.assertIn("fix:", run("train", *GPT, "--plan", "dp=2", "--cluster", "1xa100-80g", code=78).stderr)


class Measured(unittest.TestCase):
    def test_a_run_stands_beside_its_prediction(self):
        with tempfile.TemporaryDirectory() as folder:
            out, page = pathlib.Path(folder) / "run", pathlib.Path(folder) / "page.html"
            run("train", *GPT, "--plan", "dp=2", "--out", out)
            steps = [json.loads(line)["step_time_ms"] for line in (out / "metrics.jsonl").read_text().splitlines() if "step_time_ms" in line]
            result = run_json("simulate", *GPT, "--plan", "dp=2", *CPU, "--measured", out, "--report", page)
            # Of four steps, without the first two, the later one of the two in the middle.
            self.assertAlmostEqual(result["measured"]["measured_step_ms"], sorted(steps[2:])[1], places=6)
            self.assertAlmostEqual(result["measured"]["step_ms"], result["step_ms"])
            self.assertEqual(result["measured"]["measured_peak_bytes"], max(json.loads(line).get("peak_bytes", 0) for line in (out / "metrics.jsonl").read_text().splitlines()))
            self.assertIn("Predicted and measured", page.read_text())
            run("simulate", *GPT, "--plan", "dp=2", *CPU, "--report", page)
            self.assertNotIn("Predicted and measured", page.read_text())
            self.assertIn("predicted  ", run("simulate", *GPT, "--plan", "dp=2", *CPU, "--measured", out).stdout)
            refused = run("simulate", *GPT, "--plan", "tp=2", *CPU, "--measured", out, code=78)
            self.assertIn("it would stand beside the prediction of tp=2 with 1 micro-batch", refused.stderr)

    def test_a_damaged_record_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            run("train", *GPT, "--out", out)
            for text, code in [("", 78), ('{"step_time_ms": "fast"}\n', 78), ('{"step_time_ms": -1}\n', 78), ("{", 78)]:
                (out / "metrics.jsonl").write_text(text)
                run("simulate", *GPT, *CPU, "--measured", out, code=code)


class Hardware(unittest.TestCase):
    def test_stages_get_the_devices_that_they_need(self):
        with tempfile.TemporaryDirectory() as folder:
            cluster = "1x2xv100+1x2xp100"
            types = [group["device"] for group in run_json("inspect", cluster)["groups"]]
            serial = run_json("simulate", *GPT, "--cluster", cluster)["step_ms"]
            plan, steps = pathlib.Path(folder) / "plan.json", {}
            for need in [*types, "gpu", ""]:
                plan.write_text(json.dumps({"mesh": {}, "hardware": need}))
                steps[need] = run_json("simulate", *GPT, "--plan", plan, "--cluster", cluster)["step_ms"]
            self.assertAlmostEqual(steps[types[0]], serial)
            self.assertAlmostEqual(steps["gpu"], serial)
            self.assertAlmostEqual(steps[""], serial)
            self.assertGreater(steps[types[1]], serial, "a slower device")
            plan.write_text(json.dumps({"mesh": {"dp": 3}, "hardware": types[1]}))
            refused = run("simulate", *GPT, "--set", "train.batch=9", "--plan", plan, "--cluster", cluster, code=78)
            self.assertRegex(refused.stderr, r"needs '.*' for 3 ranks, and the cluster has 2 such devices")

    def test_a_run_on_this_machine_has_its_cores(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "plan.json"
            plan.write_text(json.dumps({"mesh": {}, "hardware": "gpu"}))
            self.assertIn("note: the plan asks for 'gpu'; its ranks compute on the cores of this machine", run("train", *GPT, "--plan", plan).stderr)
            run("train", *GPT, "--plan", plan, *CPU, code=78)
            plan.write_text(json.dumps({"mesh": {}, "hardware": "cpu"}))
            self.assertNotIn("asks for", run("train", *GPT, "--plan", plan, *CPU).stderr)


class PricedByACluster(unittest.TestCase):
    def test_a_plan_records_the_fingerprint_of_the_cluster_that_priced_it(self):
        with tempfile.TemporaryDirectory() as folder:
            plans = []
            for cluster in ["cpu:2", "cpu:4", "cpu:2"]:
                run("simulate", *GPT, "--plan", "dp=2", "--cluster", cluster, "-o", pathlib.Path(folder) / "plan.json")
                plans.append(json.loads((pathlib.Path(folder) / "plan.json").read_text())["cost"]["cluster"])
                self.assertEqual(plans[-1], run_json("inspect", cluster)["fingerprint"])
            self.assertEqual(plans[0], plans[2])
            self.assertNotEqual(plans[0], plans[1])
            run("train", *GPT, "--plan", pathlib.Path(folder) / "plan.json")


class Calibrate(unittest.TestCase):
    def recorded(self, folder, name, plan, factor):
        """The folder of a run whose steps took `factor` times what is predicted on a common machine."""
        out = pathlib.Path(folder) / name
        run("train", *GPT, "--plan", plan, "--out", out)
        predicted = run_json("simulate", *GPT, "--plan", plan, *CPU)["step_ms"]
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            if "step_time_ms" in line:
                line["step_time_ms"] = factor * predicted
        (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return out

    def test_recorded_runs_correct_the_cluster_also_for_runs_that_are_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            serial, halves, other = (self.recorded(folder, *run) for run in [("serial", "serial", 2), ("dp2", "dp=2", 2), ("tp2", "tp=2", 2)])
            out = pathlib.Path(folder) / "fitted.toml"
            result = run_json("calibrate", serial, halves, "--check", other, "--cluster", "cpu:2", "-o", out)
            self.assertEqual([(each["name"], each["fitted"]) for each in result["runs"]], [(str(serial), True), (str(halves), True), (str(other), False)])
            for each in result["runs"]:
                # The plans of the folders are compiled with their own prices, so the prediction before is not exactly half.
                self.assertAlmostEqual(each["error_before"], -0.5, delta=0.05, msg=each["name"])
                self.assertLess(abs(each["error_after"]), 0.1, each["name"])
            for constant in result["constants"]:
                self.assertTrue(0.25 <= constant["factor"] <= 4, constant)
            sources = run_json("inspect", out)["description"]["sources"]
            self.assertRegex(sources["device.cpu.rates.matmul.time_factor"], r"^calibrated \d{4}-\d\d-\d\d by 2 runs: [\d.]+ x the time$")
            self.assertEqual(run_json("inspect", out)["fingerprint"], result["fingerprint"])
            after = run_json("simulate", *GPT, "--cluster", out)["step_ms"]
            self.assertAlmostEqual(after / result["runs"][0]["after_ms"], 1, places=6)

    def test_runs_are_measured_on_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "small.toml"
            config.write_text(f'[model]\nkind = "gpt"\nwidth = 16\ncontext = 8\nlayers = 1\n[data]\npath = "{TEXT}"\n[train]\nbatch = 4\n')
            result = run_json("calibrate", config, f"{config}:dp=2", *CPU, "--steps", 3, "--rounds", 1, "-o", pathlib.Path(folder) / "c.json")
            self.assertTrue(all(each["measured_ms"] > 0 for each in result["runs"]))
            self.assertIn("sources", json.loads((pathlib.Path(folder) / "c.json").read_text()))


if __name__ == "__main__":
    options = cases.parser(__doc__, "program").parse_args()
    PROGRAM = str(pathlib.Path(options.program).resolve())
    sys.exit(cases.run(cases.tests_of(sys.modules[__name__]), options))
