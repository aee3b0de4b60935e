#!/usr/bin/env python3
"""Test programs name the case that crashes or hangs, and run the cases after it.

    supervisor_test.py SAMPLE    SAMPLE is the program of supervisor_sample.cpp
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SAMPLE = ""


def run(*flags, **environment):
    """Exit code and output of the sample; a case may take five seconds."""
    return subprocess.run([SAMPLE, *flags], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
                          env={**os.environ, "TESSERA_CASE_SECONDS": "5", **environment})


def results(folder):
    """The result of each case in the reports of a run: passed, failed, crashed, hung, skipped."""
    found = {}
    for path in pathlib.Path(folder).iterdir():
        for case in xml.etree.ElementTree.parse(path).iter("testcase"):
            failure = case.find("failure")
            message = "passed" if failure is None else failure.get("message")
            skipped = case.find("skipped") is not None
            found[case.get("name")] = "skipped" if skipped else message if message in ("passed", "crashed", "hung") else "failed"
    return found


class Supervisor(unittest.TestCase):
    def test_a_crash_and_a_hang_are_named_and_the_other_cases_run(self):
        with tempfile.TemporaryDirectory() as folder:
            ended = run(f"--gtest_output=xml:{folder}/report.xml")
            self.assertEqual(ended.returncode, 1)
            self.assertIn("[ CRASHED ] Sample.Crashes: signal 6", ended.stdout)
            self.assertIn("[  HUNG   ] Sample.Hangs", ended.stdout)
            self.assertIn("[ CRASHED ] Sample.EndsTheProgram: it ended the program with exit code 0", ended.stdout)
            self.assertEqual(results(folder), {"Passes": "passed", "Crashes": "crashed", "Fails": "failed", "Hangs": "hung", "Skips": "skipped",
                                               "EndsTheProgram": "crashed", "PassesAfterAllOthers": "passed"})

    def test_shards_have_each_case_once(self):
        with tempfile.TemporaryDirectory() as folder:
            for shard in range(3):
                run(f"--gtest_output=xml:{folder}/{shard}.xml", GTEST_TOTAL_SHARDS="3", GTEST_SHARD_INDEX=str(shard))
            self.assertEqual(len(results(folder)), 7)

    def test_a_program_whose_cases_pass_ends_with_0(self):
        ended = run("--gtest_filter=*Passes*")
        self.assertEqual(ended.returncode, 0)
        self.assertIn("2 tests", ended.stdout)

    def test_without_supervision_the_cases_run_in_the_process_itself(self):
        ended = run("--gtest_filter=*Crashes", TESSERA_SUPERVISE="0")
        self.assertEqual(ended.returncode, -6)


if __name__ == "__main__":
    SAMPLE = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
