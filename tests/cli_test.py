#!/usr/bin/env python3
"""The program as scripts use it: its JSON objects, its files and its exit codes.

    cli_test.py PROGRAM [NAME...]

Runs small models on a text of the repository, so that it takes seconds.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ""
TEXT = ROOT / "tests" / "errors" / "inputs" / "text.txt"
SMALL_GPT = ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.context=8", "model.layers=1", "train.batch=4", "train.steps=6"]
SMALL_MLP = ["configs/mlp.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.embedding=4", "train.batch=4", "train.steps=6"]


METRICS = {"step", "loss", "lr", "grad_norm", "step_time_ms", "tokens", "tokens_per_s", "tokens_per_s_per_device", "tflops_per_device", "mfu", "hfu",
           "mem_peak_bytes", "data_wait_ms", "comm_exposed_ms", "bubble_ms", "skipped", "nan"}


def run(*arguments, code=0):
    result = subprocess.run([PROGRAM, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert result.returncode == code, f"{arguments}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def run_json(*arguments, code=0):
    return json.loads(run(*arguments, "--json", code=code).stdout)


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

    def test_every_plan_starts_at_the_serial_loss(self):
        for model, config in (("gpt", SMALL_GPT), ("mlp", SMALL_MLP)):
            serial = run_json("train", *config, "--plan", f"configs/plans/{model}.serial.json")["losses"]
            # A mean of sums of at most `terms` addends each: sqrt(terms) roundings of 2^-24, four times for signs that fall worse. Later steps
            # carry what the steps before left in the weights.
            terms = 256
            for plan in ("dp4", "tp4", "dp2-tp2"):
                divided = run_json("train", *config, "--plan", f"configs/plans/{model}.{plan}.json")
                self.assertEqual(divided["ranks"], 4)
                for step, (a, b) in enumerate(zip(serial, divided["losses"], strict=True)):
                    self.assertLessEqual(abs(a - b), 4 * (step + 1) * math.sqrt(terms) * 2**-24 * abs(a), f"{model} {plan} step {step + 1}")

    def test_steps_sets_the_length_and_set_overrides_keys(self):
        result = run_json("train", *SMALL_MLP, "--steps", 2)
        self.assertEqual(result["steps"], 2)

    def test_progress_goes_to_standard_error_and_the_result_to_standard_output(self):
        result = run("train", *SMALL_GPT)
        self.assertRegex(result.stderr, r"(?m)^step: 6  loss: \d+\.\d{4}  grad_norm: \d+\.\d{4}  tok/s: [\d,]+$")
        self.assertNotIn("step: 6", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^trained    6 steps under plan 'serial', one process$")

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
            self.assertEqual(lines[-1], {"step": 6, **{key: result[key] for key in ("val_loss", "val_perplexity", "val_accuracy", "val_bits_per_byte")}})
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
            self.assertEqual([line["log_type_name"] for line in lines], ["start", "program_loaded", "step_end", "step_end", "evaluate", "end"])
            self.assertEqual({line["rank"] for line in lines}, {3})
            [events] = pathlib.Path(folder).glob("events.out.tfevents.*")
            data = events.read_bytes()
            self.assertEqual(data[:12], bytes.fromhex("1800000000000000a37f4b22"))
            self.assertEqual((data.count(b"train/loss"), data.count(b"val/accuracy")), (6, 1))

    def test_a_run_is_not_written_over_another(self):
        with tempfile.TemporaryDirectory() as folder:
            run("train", *SMALL_MLP, "--steps", 1, "--out", folder)
            before = (pathlib.Path(folder) / "metrics.jsonl").read_text()
            error = run_json("train", *SMALL_MLP, "--steps", 2, "--out", folder, code=2)["error"]
            self.assertEqual(error["what"], f"'{folder}' holds a run already")
            self.assertEqual((pathlib.Path(folder) / "metrics.jsonl").read_text(), before)

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


class Verify(unittest.TestCase):
    def test_a_plan_computes_what_the_serial_program_computes(self):
        result = run_json("verify", *SMALL_GPT, "--plan", "configs/plans/gpt.dp2-tp2.json", "--steps", 2)
        self.assertLessEqual({"ok", "max_error", "first_difference", "losses", "serial_losses"}, result.keys())
        self.assertIs(result["ok"], True)
        self.assertIsNone(result["first_difference"])
        self.assertLessEqual(result["max_error"], 1)
        self.assertEqual(len(result["losses"]), 2)
        self.assertEqual(len(result["serial_losses"]), 2)

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
        self.assertEqual(result["totals"]["forward"]["exchanges"], sum(c["role"] == "forward" for c in result["communications"]))
        self.assertTrue(all(c["reason"] for c in result["communications"]))

    def test_the_serial_plan_communicates_nothing(self):
        self.assertIn("Communication of a step: none", run("explain", *SMALL_GPT).stdout)

    def test_a_name_gives_its_op_its_operands_and_its_reshards(self):
        out = run("explain", *SMALL_GPT, *self.PLAN, "blocks.0.ffn.down.dot").stdout
        self.assertIn("blocks.0.ffn.down.dot = dot_general(", out)
        self.assertIn("f32[64@tp, 16]", out)
        self.assertIn("reduce", out)
        match = run_json("explain", *SMALL_GPT, *self.PLAN, "blocks.0.ffn.down.dot")["matches"][0]
        self.assertEqual([operand["role"] for operand in match["operands"]], ["input 0", "input 1", "result 0"])
        self.assertTrue(match["communications"])

    def test_a_pattern_gives_everything_that_fits(self):
        matches = run_json("explain", *SMALL_GPT, *self.PLAN, "blocks.0.attn.{q,k,v}.weight")["matches"]
        self.assertEqual([match["name"] for match in matches], [f"blocks.0.attn.{letter}.weight" for letter in "qkv"])

    def test_stages_are_dumped_in_the_order_of_the_compiler(self):
        names = [stage["name"] for stage in run_json("explain", *SMALL_MLP, "--stages")["stages"]]
        self.assertEqual(names[:3], ["serial", "propagate", "partition"])
        self.assertIn("tasks", names)
        self.assertIn("== propagate ==", run("explain", *SMALL_MLP, "--stages").stdout)


class Inspect(unittest.TestCase):
    def test_a_plan(self):
        result = run_json("inspect", "configs/plans/gpt.dp2-tp2.json")
        self.assertEqual((result["kind"], result["mesh"], result["ranks"], result["fingerprint"]), ("plan", "dp=2 tp=2", 4, None))
        self.assertEqual(result["marks"][0], {"tensor": "{tokens,labels}", "placement": 'P("dp")'})

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

    def test_people_read_what_is_done_and_what_to_try_next(self):
        out = run("demo", "--steps", 3, *SMALL_GPT[1:-1]).stdout
        for words in ("1. Reads text", "They agree", "bigram entropy", "written by the model", "Try next"):
            self.assertIn(words, out)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
