#!/usr/bin/env python3
"""The program with hostile or unlucky users: what it refuses, and what it never damages.

    hostile_test.py PROGRAM [NAME...]
"""
import json
import math
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ""
TEXT = ROOT / "tests" / "errors" / "inputs" / "text.txt"
SMALL_GPT = ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.context=8", "model.layers=2", "train.batch=4", "train.steps=4"]
SMALL = ["configs/mlp.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.embedding=4", "train.batch=4", "train.steps=4"]


def run(*arguments, code=0, **options):
    """Runs the program and compares the exit code."""
    result = subprocess.run([PROGRAM, *map(str, arguments)], cwd=ROOT, timeout=60, text=True,
                            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
    assert result.returncode == code, f"{arguments}: exit code {result.returncode}, not {code}\n{result.stdout}\n{result.stderr}"
    return result


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def assert_three_parts(self, text):
        self.assertRegex(text, r"(?s)\S.*\n  why: \S.*\n  fix: \S")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def numbers_of(shard):
    """All numbers of a safetensors file of f32 tensors."""
    content = shard.read_bytes()
    [size] = struct.unpack("<Q", content[:8])
    data = content[8 + size :]
    return struct.unpack(f"<{len(data) // 4}f", data)


def store_number(checkpoint, name, value):
    """Changes the first number of a tensor, with checksums that fit: as a version stored it that did not check."""
    index = json.loads((checkpoint / "index.json").read_text())
    part = index["tensors"][name]["parts"][0]
    content = bytearray((checkpoint / part["file"]).read_bytes())
    content[part["offset"] : part["offset"] + 4] = struct.pack("<f", value)
    (checkpoint / part["file"]).write_bytes(content)
    size = 4
    for extent in part["shape"]:
        size *= extent
    first_block = content[part["offset"] : part["offset"] + min(size, part["block_bytes"])]
    part["checksums"] = f"{crc32c(first_block):08x}" + part["checksums"][8:]
    text = json.dumps(index, separators=(",", ":"))
    (checkpoint / "index.json").write_text(text)
    lines = (checkpoint / "checksums.txt").read_text().splitlines()
    lines[1] = f"{crc32c(text.encode()):08x} {len(text)} index.json"
    (checkpoint / "checksums.txt").write_text("\n".join(lines) + "\n")


class NotFinite(Case):
    # The variables of the small gpt leave the range of f32 in a step whose loss is still a number.
    EXPLODE = ["optimizer.kind=sgd", "optimizer.learning_rate=1000", "optimizer.clip_norm=0", "optimizer.warmup=0", "optimizer.schedule=constant", "train.steps=60"]

    def checkpoints(self):
        return sorted((self.folder / "run" / "checkpoints").glob("step-????????"))

    def diverge(self, *options):
        """Returns the step whose checkpoint is refused."""
        message = run("train", *SMALL_GPT, *self.EXPLODE, "checkpoint.every=1", *options, "--out", self.folder / "run", code=5).stderr
        self.assert_three_parts(message)
        self.assertTrue(self.checkpoints())
        for checkpoint in self.checkpoints():
            for shard in checkpoint.glob("*.safetensors"):
                self.assertTrue(all(map(math.isfinite, numbers_of(shard))), checkpoint.name)
        return int(re.search(r"the checkpoint of step (\d+) is not stored: '\S+' has values that are not finite", message)[1])

    def test_a_diverged_run_keeps_its_last_good_checkpoint(self):
        refused = self.diverge("checkpoint.keep_last=1")
        self.assertEqual([path.name for path in self.checkpoints()], [f"step-{refused - 1:08}"])

    def test_a_diverged_run_of_several_ranks_keeps_its_last_good_checkpoint(self):
        self.diverge("checkpoint.keep_last=2", "--plan", "configs/plans/gpt.dp2-tp2.json")
        self.assertEqual(len(self.checkpoints()), 2)

    def test_variables_that_are_not_finite_after_the_last_step_are_an_error(self):
        last = self.diverge()
        finished = run("train", *SMALL_GPT, *self.EXPLODE, f"train.steps={last}", code=5)
        self.assertEqual(finished.stdout, "")
        self.assertIn("the validation loss is not a number", finished.stderr)
        document = json.loads(run("train", *SMALL_GPT, *self.EXPLODE, f"train.steps={last}", "--json", code=5).stdout)
        self.assertEqual(document["exit_code"], 5)

    def test_the_step_that_is_named_is_the_one_after_the_last_that_is_reported(self):
        out = self.folder / "run"
        weights_explode = [*self.EXPLODE, "optimizer.weight_decay=10"]
        for plan in ("serial", "configs/plans/mlp.dp4.json"):
            message = run("train", *SMALL, *weights_explode, "--out", out / pathlib.Path(plan).stem, "--plan", plan, code=5).stderr
            reported = (out / pathlib.Path(plan).stem / "metrics.jsonl").read_text().splitlines()
            self.assertIn(f"the loss of step {json.loads(reported[-1])['step'] + 1} is not a number", message)

    def test_verify_calls_a_run_that_diverges_by_its_name(self):
        for further in ([], ["optimizer.weight_decay=10"], ["optimizer.kind=adamw", "optimizer.weight_decay=10"]):
            finished = run("verify", *SMALL_GPT, *self.EXPLODE, *further, "--plan", "configs/plans/gpt.dp2-tp2.json", "--steps", "8", code=5)
            self.assertEqual(finished.stdout, "")
            self.assertIn("diverged", finished.stderr)

    def test_a_stored_one_is_refused_by_every_command_that_loads_it(self):
        out = self.folder / "run"
        run("train", *SMALL, "--out", out)
        for value in (math.nan, -math.inf):
            store_number(out / "checkpoints" / "step-00000004", "head.bias", value)
            for command in (["eval", out], ["train", *SMALL, "train.steps=6", "--out", out, "--resume"]):
                message = run(*command, code=65).stderr
                self.assertIn("'head.bias' has values that are not finite", message)
                self.assert_three_parts(message)

    def test_generate_refuses_it_and_an_earlier_one_is_named(self):
        out = self.folder / "run"
        gpt = ["configs/gpt.toml", *SMALL[1:3], "model.width=16", "model.context=8", "model.layers=1", "train.batch=4", "train.steps=2", "checkpoint.every=1"]
        run("train", *gpt, "--out", out)
        store_number(out / "checkpoints" / "step-00000002", "head.weight", math.inf)
        finished = run("generate", out, "--prompt", "the", code=65)
        self.assertEqual(finished.stdout, "")
        self.assertIn("resume from step-00000001", finished.stderr)
        run("generate", out / "checkpoints" / "step-00000001", "--prompt", "the", errors="replace")


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
