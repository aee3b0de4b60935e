#!/usr/bin/env python3
"""A network that is no family in several processes: the same bits as with ranks as threads of one.

    own_network_test.py PROGRAM MPIRUN [--only NAME] [--list] [--xml FILE]

PROGRAM is own_network.cpp; MPIRUN is "" where MPI was not found: then all is skipped.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import cases

PROGRAM = ""
MPIRUN = ""
# Open MPI starts no more processes than there are cores, and none for root, unless its environment allows it.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def run(processes, plan, then, code=0):
    with tempfile.TemporaryDirectory() as folder:
        start = [MPIRUN, "-n", str(processes)] if processes > 1 else []
        result = subprocess.run([*start, PROGRAM, plan, then, folder], capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL,
                                env=ENVIRONMENT)
    assert result.returncode == code, f"{plan}, {then}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def run_each(processes, *arguments):
    """The standard output, and the exit code of each process."""
    with tempfile.TemporaryDirectory() as folder:
        report_code = f'"$@"; echo $? > "{folder}/$OMPI_COMM_WORLD_RANK"'
        result = subprocess.run([MPIRUN, "-n", str(processes), "sh", "-c", report_code, "sh", PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                                timeout=100, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
        assert result.returncode == 0, result.stderr
        return result.stdout, [(pathlib.Path(folder) / str(process)).read_text().strip() for process in range(processes)]


class OwnNetwork(unittest.TestCase):
    def setUp(self):
        if not MPIRUN:
            self.skipTest("MPI was not found when this was configured")

    def test_fit_checkpoint_switch_evaluation_and_prediction_have_the_bits_of_threads(self):
        for processes, plan, then in [(2, "dp2", "tp2"), (2, "pp2-m3", "dp2-tp2"), (4, "dp2-tp2", "dp4")]:
            threads = run(1, plan, then).stdout.splitlines()
            self.assertEqual(len(threads), 3 + 3 + 1 + 3 + 3)
            self.assertEqual(run(processes, plan, then).stdout.splitlines(), threads, (plan, then))
            # Steps 4, 5 and 6 again, from the checkpoint and under the second plan.
            self.assertEqual(threads[-3:], threads[3:6])

    def test_a_verification_finds_the_fault_of_one_rank_and_ends_all_processes_with_its_code(self):
        for plan, rank in [("dp4", 3), ("dp2-tp2", 0), ("dp2-tp2", 2)]:
            found, codes = run_each(4, "verify", plan, rank)
            self.assertEqual(codes, ["6"] * 4, (plan, rank))
            threads = subprocess.run([PROGRAM, "verify", plan, str(rank)], capture_output=True, text=True, timeout=100)
            self.assertEqual((threads.returncode, threads.stdout), (6, found))
            self.assertRegex(found, r"^FAILED\napart \[")

    def test_a_verification_without_a_fault_ends_all_processes_with_0(self):
        self.assertEqual(run_each(4, "verify", "dp2-tp2", 99), ("ok\n", ["0"] * 4))

    def test_a_plan_with_fewer_ranks_than_processes_is_refused(self):
        self.assertIn("a plan of 1 ranks does not run in 2 processes\n  why: every process runs at least one rank", run(2, "dp2", "serial", 1).stderr)


if __name__ == "__main__":
    options = cases.parser(__doc__, "program", "mpirun").parse_args()
    PROGRAM, MPIRUN = str(pathlib.Path(options.program).resolve()), options.mpirun
    sys.exit(cases.run(cases.tests_of(sys.modules[__name__]), options))
