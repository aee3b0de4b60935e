#!/usr/bin/env python3
"""The program with hostile or unlucky users: what it refuses, and what it never damages.

    hostile_test.py PROGRAM [--only NAME] [--list] [--xml FILE]
"""
import bisect
import gzip
import json
import math
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

from support import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ""
LIMIT = 240  # seconds of a command, or of what a case waits for
TEXT = ROOT / "tests" / "errors" / "inputs" / "text.txt"
SMALL_GPT = ["configs/gpt.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.context=8", "model.layers=2", "train.batch=4", "train.steps=4"]
SMALL = ["configs/mlp.toml", "--set", f"data.path={TEXT}", "model.width=16", "model.embedding=4", "train.batch=4", "train.steps=4"]


def run(*arguments, code=0, limit=None, **options):
    """Runs the program, under a limit of prlimit such as fsize=4096, and compares the exit code."""
    result = subprocess.run([*limited(limit), PROGRAM, *map(str, arguments)], cwd=ROOT, timeout=LIMIT, text=True,
                            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
    assert result.returncode == code, f"{arguments}: exit code {result.returncode}, not {code}\n{result.stdout}\n{result.stderr}"
    return result


def limited(limit):
    return ["prlimit", f"--{limit}"] if limit else []


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
        """Returns the step whose checkpoint is refused.

        Whether the loss or a variable is the first to be not finite depends on rounding, and so on the processor: seeds are tried until a
        variable is."""
        for seed in range(1, 17):
            self.exploding = [*self.EXPLODE, "optimizer.weight_decay=10", f"train.seed={seed}"]
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            message = run("train", *SMALL_GPT, *self.exploding, "checkpoint.every=1", *options, "--out", self.folder / "run", code=5).stderr
            self.assert_three_parts(message)
            self.assertTrue(self.checkpoints())
            for checkpoint in self.checkpoints():
                for shard in checkpoint.glob("*.safetensors"):
                    self.assertTrue(all(map(math.isfinite, numbers_of(shard))), checkpoint.name)
            refused = re.search(r"the checkpoint of step (\d+) is not stored: '\S+' has values that are not finite", message)
            if refused:
                return int(refused[1])
        return self.fail("of no seed a variable is the first to be not finite")

    def test_a_diverged_run_keeps_its_last_good_checkpoint(self):
        refused = self.diverge("checkpoint.keep_last=1")
        names = [path.name for path in self.checkpoints()]
        self.assertEqual(names[-1], f"step-{refused - 1:08}")
        self.assertLessEqual(len(names), 2)  # the newest, and the last one before the losses grew

    def test_a_diverged_run_of_several_ranks_keeps_its_last_good_checkpoint(self):
        self.diverge("checkpoint.keep_last=2", "--plan", "configs/plans/gpt.dp2-tp2.json")
        self.assertIn(len(self.checkpoints()), (2, 3))

    def test_finite_nonsense_does_not_replace_a_good_checkpoint(self):
        """A rate of 1000 spoils the variables in one step; the loss of the next one shows it."""
        out = self.folder / "run"
        sound = [*SMALL_GPT[:-1], "optimizer.kind=sgd", "optimizer.learning_rate=0.01", "optimizer.warmup=0", "optimizer.schedule=constant", "checkpoint.every=1", "checkpoint.keep_last=1"]
        run("train", *sound, "train.steps=30", "--out", out)
        good = json.loads(run("eval", out, "--json").stdout)["val_loss"]
        spoiled = run("train", *sound, "train.steps=36", "optimizer.learning_rate=1000", "--out", out, "--resume").stderr
        self.assertIn("far outside of the last ones", spoiled)
        self.assertEqual([path.name for path in self.checkpoints()], ["step-00000030", "step-00000036"])
        self.assertEqual((out / "checkpoints" / "latest_good").read_text(), "step-00000030\n")
        listed = json.loads(run("inspect", out, "--json").stdout)
        self.assertEqual((listed["latest"], listed["latest_good"]), ("step-00000036", "step-00000030"))
        evaluated = run("eval", out, "--json")
        self.assertEqual(json.loads(evaluated.stdout)["val_loss"], good)
        self.assertIn("step-00000030 is used", evaluated.stderr)
        run("train", *sound, "train.steps=40", "--out", out, "--resume")
        self.assertEqual((out / "checkpoints" / "latest_good").read_text(), "step-00000040\n")

    def test_variables_that_are_not_finite_after_the_last_step_are_an_error(self):
        last = self.diverge()
        finished = run("train", *SMALL_GPT, *self.exploding, f"train.steps={last}", code=5)
        self.assertEqual(finished.stdout, "")
        self.assertIn("the validation loss is not a number", finished.stderr)
        document = json.loads(run("train", *SMALL_GPT, *self.exploding, f"train.steps={last}", "--json", code=5).stdout)
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


class Outputs(Case):
    def test_a_trace_into_a_device_leaves_it_a_device(self):
        null = self.folder / "null"
        null.symlink_to("/dev/null")
        run("train", *SMALL, "--trace", null)
        self.assertTrue(null.is_symlink() and pathlib.Path("/dev/null").is_char_device())

    def test_a_trace_that_cannot_be_written_is_refused_before_the_run(self):
        (self.folder / "full").symlink_to("/dev/full")
        self.assert_three_parts(run("train", *SMALL, "--trace", self.folder / "full", code=1).stderr)
        message = run("train", *SMALL, "--trace", self.folder / "none" / "t.json", code=1).stderr
        self.assert_three_parts(message)
        self.assertNotIn("step: 1", message)

    def test_a_trace_leaves_the_files_of_others(self):
        theirs = self.write("t.json.tmp", "theirs")
        run("train", *SMALL, "--trace", self.folder / "t.json")
        self.assertEqual(theirs.read_text(), "theirs")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["t.json", "t.json.tmp"])


    def test_no_output_replaces_an_input_of_its_command(self):
        config = self.write("c.toml", (ROOT / "configs" / "gpt.toml").read_text())
        cluster = self.write("cluster.toml", (ROOT / "configs" / "clusters" / "two_racks.toml").read_text())
        plan = self.write("p.json", (ROOT / "configs" / "plans" / "gpt.dp2-tp2.json").read_text())
        rows = self.write("rows.jsonl", '{"tokens": [1, 2, 3, 4, 5, 6, 7, 8]}\n')
        link = self.folder / "link"
        link.symlink_to(config)
        text = self.write("text.txt", TEXT.read_bytes())
        small = [config, *SMALL_GPT[1:2], f"data.path={text}", *SMALL_GPT[3:]]
        out = self.folder / "run"
        run("train", *small, "--out", out)
        contents = {path: path.read_bytes() for path in (config, cluster, plan, text, rows)}
        for command in (["train", *small, "--trace", config], ["train", *small, "--trace", link], ["train", *small, "--trace", text],
                        ["train", *small, "--plan", plan, "--trace", plan],
                        ["plan", config, *small[1:], "--cluster", cluster, "-o", config], ["plan", config, *small[1:], "--cluster", cluster, "--report", cluster],
                        ["simulate", *small, "--plan", plan, "--cluster", cluster, "-o", plan], ["simulate", *small, "--plan", plan, "--cluster", cluster, "--report", cluster],
                        ["predict", out, "--data", rows, "-o", rows]):
            message = run(*command, code=2).stderr
            self.assertIn("is read by this command", message, command)
            self.assert_three_parts(message)
            for path, content in contents.items():
                self.assertEqual(path.read_bytes(), content, command)

    def test_no_output_goes_into_a_checkpoint(self):
        out = self.folder / "run"
        run("train", *SMALL, "--out", out)
        checkpoint = out / "checkpoints" / "step-00000004"
        shard = checkpoint / "shard-00000-model-00001-of-00001.safetensors"
        for command in (["export", out, "--to", shard], ["export", out, "--to", checkpoint / "new.safetensors"], ["train", *SMALL, "--trace", checkpoint / "t.json"],
                        ["train", *SMALL, "--out", checkpoint], ["train", *SMALL, "--out", checkpoint / "run"]):
            message = run(*command, code=2).stderr
            self.assertIn("is inside of a checkpoint", message)
            self.assert_three_parts(message)
        run("eval", out)
        self.assertEqual(len(list(checkpoint.iterdir())), 5)


class StandardStreams(Case):
    COMMANDS = [["train", *SMALL], ["train", *SMALL, "--json"], ["explain", "configs/mlp.toml"], ["inspect", "configs/mlp.toml"], ["--help"]]

    def test_a_full_one_is_an_error(self):
        for command in self.COMMANDS:
            with open("/dev/full", "w") as full:
                self.assert_three_parts(run(*command, code=1, stdout=full).stderr)

    def test_a_closed_one_is_an_error_and_no_file_gets_its_output(self):
        for closed in (">&-", "<&- >&-", "<&- >&- 2>&-"):
            out = self.folder / f"run{len(closed)}"
            words = " ".join(["train", *SMALL[:2], *(f"'{word}'" for word in SMALL[2:]), "checkpoint.every=1", "--out", str(out)])
            finished = subprocess.run(["bash", "-c", f"{PROGRAM} {words} {closed}"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(finished.returncode, 1, finished.stderr)
            for line in (out / "metrics.jsonl").read_text().splitlines():
                json.loads(line)
            for file in out.rglob("*"):
                self.assertFalse(file.is_file() and b"trained  " in file.read_bytes(), file)
            run("eval", out)

    def test_a_run_goes_on_without_its_reader_and_stores_its_checkpoint(self):
        out = self.folder / "run"
        reader, writer = os.pipe()
        process = subprocess.Popen([PROGRAM, "train", *SMALL, "--out", str(out)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer)
        os.close(writer)
        os.close(reader)
        self.assertEqual(process.wait(timeout=LIMIT), 1)
        self.assertTrue((out / "checkpoints" / "step-00000004" / "index.json").exists())

    def test_a_limit_of_the_size_of_files_is_an_error_with_three_parts(self):
        for limit in (4096, 20000):
            out = self.folder / f"run{limit}"
            finished = run("train", *SMALL, "--out", out, code=1, limit=f"fsize={limit}")
            self.assert_three_parts(finished.stderr)


class RunFolder(Case):
    LONG = [*SMALL[:-1], "train.steps=1000000", "optimizer.schedule=constant", "optimizer.warmup=0"]

    def start(self, *further, stderr=subprocess.DEVNULL):
        process = subprocess.Popen([PROGRAM, "train", *self.LONG, *further, "--out", str(self.folder / "run")], cwd=ROOT, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=stderr)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        metrics = self.folder / "run" / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.stat().st_size, process)
        return process

    def wait_for(self, condition, process):
        end = time.monotonic() + LIMIT
        while not condition():
            self.assertIsNone(process.poll(), "it ended too early")
            self.assertLess(time.monotonic(), end, "waited too long")
            time.sleep(0.01)


class ChangingInputs(RunFolder):
    def test_a_text_that_changes_under_a_run_ends_it_with_a_checkpoint(self):
        for change in ("shorter", "empty", "rewritten"):
            text = self.write("text.txt", (b"the quick brown fox jumps over the lazy dog. " * 6000))
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            process = self.start(f"data.path={text}", stderr=subprocess.PIPE)
            if change == "rewritten":
                text.write_bytes(text.read_bytes().swapcase())
            else:
                os.truncate(text, 100_000 if change == "shorter" else 0)
            message = process.communicate(timeout=LIMIT)[1].decode()
            self.assertEqual(process.returncode, 65, message)
            self.assertIn("has changed since this command opened it", message)
            self.assert_three_parts(message)
            last = json.loads((self.folder / "run" / "metrics.jsonl").read_text().splitlines()[-1])["step"]
            self.assertTrue((self.folder / "run" / "checkpoints" / f"step-{last:08}" / "index.json").exists())


class RunFolderLock(RunFolder):
    def test_a_second_run_is_refused_with_the_process_of_the_first(self):
        first = self.start()
        for further in ([], ["--resume"]):
            message = run("train", *SMALL, "--out", self.folder / "run", *further, code=2).stderr
            self.assert_three_parts(message)
            self.assertIn(f"process {first.pid} on host", message)

    def test_the_lock_ends_with_its_process_however_that_ends(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            process = self.start(*(["--resume"] if (self.folder / "run").exists() else []))
            process.send_signal(number)
            process.wait(timeout=LIMIT)
            resumed = json.loads(run("train", *self.LONG, "--steps", "1", "--out", self.folder / "run", "--resume", "--json").stdout)
            self.assertGreaterEqual(resumed["step"], 1)

    def test_eval_of_a_run_that_is_going_on_is_allowed(self):
        process = self.start("--set", "checkpoint.every=1")
        self.wait_for((self.folder / "run" / "checkpoints" / "latest").exists, process)
        run("inspect", self.folder / "run")


class Messages(Case):
    def assert_safe(self, text):
        self.assertNotRegex(text, r"[\x00-\x08\x0b-\x1f\x7f]")
        self.assert_three_parts(text)

    def test_a_zero_byte_cuts_no_message_off(self):
        plan = self.write("plan.json", r'{"format": 1, "mesh": {"a\u0000b": 0}}')
        message = run("train", *SMALL, "--plan", plan, code=78).stderr
        self.assert_safe(message)
        self.assertIn(r"a\x00b", message)

    def test_escape_sequences_do_not_reach_the_terminal(self):
        for text in ("\x1b[31m = 1", '"\\u001b]0;title\\u0007" = 1', "[model]\nkind = \"\\u001b[2J\""):
            self.assert_safe(run("train", self.write("c.toml", text), code=78).stderr)

    def test_nor_do_those_of_names_in_files_on_standard_output(self):
        header = json.dumps({"\x1b]0;title\x07\u009b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        file = self.write("x.safetensors", struct.pack("<Q", len(header)) + header + bytes(4))
        shown = run("inspect", file).stdout
        self.assertNotRegex(shown, r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
        self.assertIn(r"\x1b]0;title\x07", shown)
        self.assertNotRegex(run("inspect", file, "--json").stdout, r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

    def test_nor_do_those_of_arguments_and_data(self):
        self.assert_safe(run("train", *SMALL, "--set", "model.\x1b[31mred=1", code=78).stderr)
        self.assert_safe(run("solve", self.write("p.json", b'{"\x1b[31m": \x00}'), code=65).stderr)


class Toml(Case):
    def refused(self, text):
        for command in ("inspect", "train"):
            self.assert_three_parts(run(command, self.write("c.toml", text), code=78).stderr)

    def test_table_names_that_do_not_begin_like_names(self):
        for name in ("é", ".", "\x01", "", "=", "#", "\n", "a.é", "a.", " é "):
            self.refused(f"[{name}]\n")
            self.refused(f"[[{name}]]\n")
            self.refused(f"x = 1\n[{name}")

    def test_names_and_values_that_are_nested_deeply(self):
        many = 200_000
        for text in (".".join(["a"] * many) + " = 1", "[" + ".".join(["a"] * 50_000) + "]", "a = " + "[" * many, "a = " + "{b=" * many,
                     ".".join(['"a"'] * many) + " = 1", "\n".join(["[" + ".".join(["a"] * 100) + "]", "x = {" + ".".join(["a"] * 300) + " = 1}"])):
            self.refused(text)

    def test_brackets_and_dots_in_texts_and_comments_do_not_count(self):
        dots = "." * 1000
        self.write("ok.toml", f"# [é] {dots}\n[model]\nkind = \"mlp\"\n[data]\npath = [\n[\"a\"]\n]\n" )
        message = run("inspect", self.folder / "ok.toml", code=78).stderr
        self.assertIn("data.path", message)
        for quote in ('"', "'", '"""', "\'\'\'"):
            text = self.write("t.toml", f"[data]\npath = {quote}{dots}[é]{quote}\n[é]")
            self.assertIn("t.toml:3:1: this is not TOML", run("inspect", text, code=78).stderr)


class Plans(Case):
    def plan(self, **keys):
        return self.write("plan.json", json.dumps({"format": 1, **keys}))

    def refused(self, why, **keys):
        message = run("train", *SMALL, "--plan", self.plan(**keys), code=78).stderr
        self.assert_three_parts(message)
        self.assertIn(why, message)

    def test_meshes_have_a_limit(self):
        for mesh in ({"dp": 2147483648, "tp": 8589934592}, {"dp": 2147483648}, {"dp": 4611686018427387904}, {"dp": 65537}, {"a": 256, "b": 256, "c": 2},
                     {"a": 2**62, "b": 4}):
            self.refused("the mesh has more than 65536 ranks", mesh=mesh)
            self.refused("the mesh has more than 65536 ranks", meshes=[{"name": "m", "mesh": mesh, "ranks": [0]}])

    def test_axes_have_a_limit(self):
        for count in (9, 1000):
            self.refused(f"the mesh has {count} axes", mesh={f"a{i}": 1 for i in range(count)})

    def test_a_mesh_without_axes_is_a_stage_of_one_rank(self):
        gpt = ["train", *SMALL_GPT, "--json"]
        serial = json.loads(run(*gpt).stdout)
        marks = [{"op": "blocks.1.*", "mesh": "last"}]
        for first, last in (({}, {}), ({"tp": 1}, {}), ({}, {"dp": 1})):
            plan = self.plan(meshes=[{"name": "first", "mesh": first, "ranks": [0]}, {"name": "last", "mesh": last, "ranks": [1]}], marks=marks)
            trained = json.loads(run(*gpt, "--plan", plan, errors=None).stdout)
            for mine, theirs in zip(trained["losses"] + [trained["val_loss"]], serial["losses"] + [serial["val_loss"]], strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-4)

    def test_braces_have_a_limit(self):
        for pattern in ("{a,b}" * 14, "{a,b}" * 64, "{" * 20_000 + "}" * 20_000, "{a}" * 20_000, "{" + "a," * 5000 + "b}"):
            self.refused("braces multiplies", marks=[{"tensor": pattern, "placement": "P()"}], mesh={"dp": 2})
        self.assert_three_parts(run("explain", "configs/mlp.toml", "{a,b}" * 20, code=78).stderr)

    def test_a_key_that_is_there_twice_is_refused(self):
        for text in ('{"format": 1, "mesh": {"dp": 2}, "mesh": {"dp": 4}}', '{"format": 1, "mesh": {"dp": 2, "dp": 2}}', '{"format": 1, "format": 1}'):
            message = run("train", *SMALL, "--plan", self.write("plan.json", text), code=78).stderr
            self.assertRegex(message, "gives the key '.*' twice")


def gzip_of(byte, mebibytes):
    """A gzip member of equal bytes, put together of compressed mebibytes: compressing them all would take seconds."""
    block = byte * (1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = 0
    for _ in range(mebibytes):
        checksum = zlib.crc32(block, checksum)
    header, end = b"\x1f\x8b\x08" + bytes(6) + b"\xff", b"\x03\x00"
    return header + piece * mebibytes + end + struct.pack("<II", checksum, mebibytes << 20 & 0xFFFFFFFF)


class Problems(Case):
    def test_nesting_in_keys_that_are_not_known_has_a_limit(self):
        for text in ('{"x":' + "[" * 200_000, '{"x":' + '{"a":' * 200_000, '{"x":' + '[{"a":' * 100_000):
            self.assertIn("nested 256 deep", run("solve", self.write("p.json", text), code=65).stderr)

    def refused(self, content, why):
        message = run("solve", self.write("p.json.gz", content), code=65, limit=f"as={4 << 30}").stderr
        self.assert_three_parts(message)
        self.assertIn(why, message)

    def test_a_file_that_decompresses_without_end_is_refused(self):
        for block in (b"\0", b" "):
            self.refused(gzip_of(block, 1056), "decompresses to more than 1 GiB")

    def test_several_members_count_together_and_nothing_may_follow_them(self):
        self.refused(gzip_of(b" ", 256) * 5, "decompresses to more than 1 GiB")
        self.refused(gzip.compress(b"{}") + b"junk", "4 bytes follow the end of the compressed data")
        self.refused(gzip.compress(b"{}")[:-4], "unexpected end of file")


class SpecialFiles(Case):
    def config(self, kind, path):
        return self.write("c.toml", f'[model]\nkind = "gpt"\ncontext = 8\nwidth = 16\n[data]\nkind = "{kind}"\npath = "{path}"\n')

    def test_data_without_an_end_are_refused(self):
        for device in ("/dev/zero", "/dev/random", "/dev/full"):
            for kind in ("jsonl", "npy"):
                message = run("train", self.config(kind, device), code=66).stderr
                self.assertIn("it is a device", message)

    def test_a_pipe_in_the_place_of_a_file_of_a_checkpoint_does_not_block(self):
        out = self.folder / "run"
        run("train", *SMALL, "--out", out)
        checkpoint = out / "checkpoints" / "step-00000004"
        for name in ("index.json", "state.json", "checksums.txt", "shard-00000-model-00001-of-00001.safetensors"):
            content = (checkpoint / name).read_bytes()
            (checkpoint / name).unlink()
            os.mkfifo(checkpoint / name)
            for command in (["eval", out], ["inspect", checkpoint], ["train", *SMALL, "train.steps=5", "--out", out, "--resume"]):
                self.assertIn("regular file", run(*command, code=65).stderr)
            (checkpoint / name).unlink()
            (checkpoint / name).write_bytes(content)

    def test_a_pipe_in_the_place_of_a_file_of_a_run_does_not_block(self):
        out = self.folder / "run"
        run("train", *SMALL, "--out", out)
        for name in ("metrics.jsonl", "logs/rank-00000.jsonl", "config.json", "plan.json", "checkpoints/latest", "checkpoints/latest_good"):
            content = (out / name).read_bytes()
            (out / name).unlink()
            os.mkfifo(out / name)
            finished = subprocess.run([PROGRAM, "train", *SMALL, "train.steps=5", "--out", out, "--resume"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
            if name.startswith("checkpoints"):  # the newest complete one is found without it
                self.assertEqual(finished.returncode, 0, finished.stderr)
            else:
                self.assertIn(finished.returncode, (1, 66), finished.stderr)
                self.assertIn("is not a regular file", finished.stderr)
                self.assert_three_parts(finished.stderr)
                (out / name).unlink()
            (out / name).write_bytes(content)

    def test_a_zero_byte_in_the_name_of_a_shard_is_refused(self):
        out = self.folder / "run"
        run("train", *SMALL, "--out", out)
        checkpoint = out / "checkpoints" / "step-00000004"
        index = (checkpoint / "index.json").read_text().replace(".safetensors", ".safetensors\\u0000x")
        (checkpoint / "index.json").write_text(index)
        lines = (checkpoint / "checksums.txt").read_text().splitlines()
        lines[1] = f"{crc32c(index.encode()):08x} {len(index)} index.json"
        (checkpoint / "checksums.txt").write_text("\n".join(lines) + "\n")
        for command in (["eval", out], ["inspect", checkpoint], ["export", out, "--to", self.folder / "e.safetensors"], ["train", *SMALL, "train.steps=5", "--out", out, "--resume"]):
            self.assertIn("lie in its own folder", run(*command, code=65).stderr)

    def test_one_damaged_token_makes_no_model_of_gigabytes(self):
        for token in (10_000_000, 1 << 18, (1 << 31) - 1):
            tokens = struct.pack("<200i", *([1, 2, 3, 4] * 49), token, 1, 2, 3)
            header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (200,), }"
            header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
            path = self.write("t.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + tokens)
            message = run("train", self.config("npy", path), code=65).stderr
            self.assertIn("data.vocabulary", message)


    def test_paths_that_cannot_be_looked_up_are_named(self):
        loop = self.folder / "loop"
        loop.symlink_to("loop")
        for path in (loop, self.folder / ("x" * 300)):
            for options, code in ((["--plan", path], 66), (["--out", path], 1)):
                message = run("train", *SMALL, *options, code=code).stderr
                self.assertIn(path.name, message)
                self.assertNotIn("a library reported it", message)
                self.assert_three_parts(message)


    def test_a_path_of_data_that_settings_cannot_hold_is_refused(self):
        message = run("train", *SMALL, f"data.path={self.folder}/" + b"\xff.txt".decode(errors="surrogateescape"), "--out", self.folder / "run", code=78, errors="replace").stderr
        self.assertIn("is not UTF-8", message)
        self.assert_three_parts(message)

    def test_a_case_of_fuzz_that_is_none_is_refused(self):
        head = "seed 3\nmode exact\nmesh all x=2 at 0\ngraph\ninput a: f32[4]\n"
        for line, code in (("y = neg(a): bool[00,4]", 65), ("y = compare(a, a) {relation=9223372036854775807}: bool[4]", 65),
                           ("input b: f32[2147483648,4]", 4), ("y = neg(a): f32[4]", 0)):
            run("fuzz", self.write("case.txt", head + line + "\n"), code=code)


class Resume(Case):
    def test_other_settings_are_named_and_no_fingerprint_is_to_be_removed(self):
        out = self.folder / "run"
        run("train", *SMALL, "--out", out)
        other = self.write("other.txt", "a text of other characters 0123456789 " * 200)
        for changed, named in ((["train.batch=8"], "batch was 4 and is 8"), (["model.width=32"], "does not fit the model"),
                               ([f"data.path={other}"], "text was"), (["train.seed=5"], "seed was 1 and is 5")):
            message = run("train", *SMALL, "train.steps=6", *changed, "--out", out, "--resume", code=65).stderr
            self.assertIn(named, message)
            self.assertNotIn("fingerprint", message)


class SystemLimits(Case):
    @staticmethod
    def least_address_space():
        """Of the program that prints its help; the stack of a thread is larger than the step."""
        def is_enough(size):
            return subprocess.run([*limited(f"as={size}"), PROGRAM, "help"], cwd=ROOT, capture_output=True, timeout=LIMIT).returncode == 0
        sizes = range(32 << 20, 1 << 30, 2 << 20)
        assert is_enough(sizes[-1]), "the program needs more than 1 GiB to print its help"
        return sizes[bisect.bisect_left(sizes, True, key=is_enough)]

    def test_threads_that_cannot_be_made_are_named(self):
        limits = [f"as={self.least_address_space() + (2 << 20)}"]
        if os.geteuid() != 0:  # root has no limit of processes
            limits.append("nproc=5")
        for limit in limits:
            finished = subprocess.run([*limited(limit), PROGRAM, "train", *SMALL, "--plan", "configs/plans/mlp.dp4.json"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
            self.assertIn(finished.returncode, (1, 4))
            self.assert_three_parts(finished.stderr)
            self.assertNotIn("a library reported it", finished.stderr)


    def test_memory_that_ends_anywhere_is_an_error_with_three_parts(self):
        least = self.least_address_space()
        codes = set()
        for more in range(2, 122, 12):
            for ranks in (4, 16):
                finished = subprocess.run([*limited(f"as={least + (more << 20)}"), PROGRAM, "train", *SMALL, "train.batch=16", "train.steps=1", "--plan", f"dp={ranks}"],
                                          cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
                self.assertIn(finished.returncode, (0, 1, 4), (more, ranks, finished.stderr))
                if finished.returncode:
                    self.assert_three_parts(finished.stderr)
                codes.add(finished.returncode)
        self.assertIn(4, codes)

    def test_a_process_of_many_ranks_needs_few_open_files(self):
        """A file of each of 32 ranks, open at the same time, does not fit into the limit."""
        plan = self.write("plan.json", '{"mesh": {"dp": 32}, "marks": [{"tensor": "{tokens,labels}", "placement": "P(\\"dp\\")"}]}')
        run("train", *SMALL, "train.batch=32", "train.steps=1", "--plan", plan, "--out", self.folder / "run", limit="nofile=42")
        self.assertEqual(len(list((self.folder / "run" / "logs").iterdir())), 32)


if __name__ == "__main__":
    options = cases.parser(__doc__, "program").parse_args()
    PROGRAM = str(pathlib.Path(options.program).resolve())
    sys.exit(cases.run(cases.tests_of(sys.modules[__name__]), options))
