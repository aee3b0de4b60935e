#!/usr/bin/env python3
"""A run over two machines, which are two network namespaces of this machine. Each has a name and an
address, and a virtual cable connects them.

    machines_test.py PROGRAM MPIRUN [--only NAME] [--list] [--xml FILE]

The test is skipped when namespaces cannot be made or MPI was not found (MPIRUN is "").
"""
import json
import os
import pathlib
import shutil
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
RANKS = 4
RANK_LOST = 69
SILENT = 5.0  # seconds without a heartbeat
TIMEOUT = 120  # seconds
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
# Each stage is on devices of its own machine. Data between them is copied to the host, sent, and
# copied to the other device.
PLAN = {
    "meshes": [
        {"name": "near", "mesh": {"dp": 2}, "ranks": [0, 1], "device": "fake"},
        {"name": "far", "mesh": {"dp": 2}, "ranks": [2, 3], "device": "fake"},
    ],
    "marks": [
        {"op": "blocks.0.*", "mesh": "near"},
        {"op": "blocks.1.*", "mesh": "far"},
        {"tensor": "{tokens,labels}", "placement": 'P("dp")'},
    ],
    "micro_batches": 2,
}


class Machines:
    """Makes two machines and removes them at the end."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.names = [f"tessera-{os.getpid()}-{letter}" for letter in "ab"]
        self.cables = [f"tes{os.getpid()}{letter}" for letter in "ab"]
        self.made = []

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def __enter__(self):
        try:
            for name in self.names:
                self.ip("netns", "add", name)
                self.made.append(name)
                # ip netns exec mounts these files over /etc.
                etc = pathlib.Path("/etc/netns") / name
                etc.mkdir(parents=True)
                (etc / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"10.91.7.{i + 1} {other}\n" for i, other in enumerate(self.names)))
            self.ip("link", "add", self.cables[0], "netns", self.names[0], "type", "veth", "peer", "name", self.cables[1], "netns", self.names[1])
            for i, name in enumerate(self.names):
                self.ip("-n", name, "addr", "add", f"10.91.7.{i + 1}/24", "dev", self.cables[i])
                self.ip("-n", name, "link", "set", self.cables[i], "up")
                self.ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            raise unittest.SkipTest(f"network namespaces cannot be made here: {getattr(error, 'stderr', None) or error}")
        self.agent = self.folder / "agent"
        self.agent.write_text('#!/bin/sh\nhost="$1"; shift\nexec ip netns exec "$host" unshare --uts sh -c "hostname $host && $*"\n')
        self.agent.chmod(0o755)
        return self

    def __exit__(self, *unused):
        for name in self.made:
            for process in self.processes(self.names.index(name)):
                os.kill(int(process), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            for file in (pathlib.Path("/etc/netns") / name).glob("*"):
                file.unlink()
            (pathlib.Path("/etc/netns") / name).rmdir()

    def cut_the_cable(self):
        self.ip("-n", self.names[0], "link", "set", self.cables[0], "down")

    def processes(self, machine):
        return subprocess.run(["ip", "netns", "pids", self.names[machine]], capture_output=True, text=True).stdout.split()

    def ranks(self, machine):
        """The processes of the program, without those of MPI itself."""
        names = [pathlib.Path(f"/proc/{process}/comm") for process in self.processes(machine)]
        return [name for name in names if name.exists() and name.read_text().strip() == pathlib.Path(PROGRAM).name]

    def start(self, *words):
        """A command on the first machine, whose mpirun starts half of the processes on each."""
        hosts = self.folder / "hosts"
        hosts.write_text("".join(f"{name} slots={RANKS // 2}\n" for name in self.names))
        inside = f"hostname {self.names[0]} && exec " + " ".join(f"'{word}'" for word in words)
        # The output goes to files: a process that is cut off would hold a pipe for ever.
        environment = {**ENVIRONMENT, "OMPI_MCA_orte_default_hostfile": str(hosts), "OMPI_MCA_plm_rsh_agent": str(self.agent),
                       "OMPI_MCA_btl": "self,vader,tcp"}
        with open(self.folder / "stdout", "w") as said, open(self.folder / "stderr", "w") as errors:
            return subprocess.Popen(["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c", inside], cwd=ROOT, env=environment,
                                    stdin=subprocess.DEVNULL, stdout=said, stderr=errors)


class TwoMachines(unittest.TestCase):
    def setUp(self):
        if not MPIRUN:
            self.skipTest("MPI was not found when this was configured")
        if missing := [tool for tool in ("ip", "unshare", "hostname") if not shutil.which(tool)]:
            self.skipTest(f"there is no {missing[0]} here")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.machines = self.enterContext(Machines(folder.name))
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps(PLAN))
        self.train = ["train", "configs/gpt.toml", "--plan", str(plan), "--rank-deadline", str(SILENT), "--set", f"data.path={TEXT}", "model.width=16",
                      "model.context=8", "model.layers=2", "train.batch=4"]

    def said(self, stream):
        return (self.folder / stream).read_text()

    def test_devices_on_two_machines_give_the_losses_of_threads(self):
        words = [*self.train, "train.steps=4", "--json"]
        over_the_cable = self.machines.start(MPIRUN, "-n", str(RANKS), PROGRAM, *words)
        code = over_the_cable.wait(timeout=TIMEOUT)
        self.assertEqual(code, 0, self.said("stderr"))
        threads = subprocess.run([PROGRAM, *words], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(json.loads(self.said("stdout"))["losses"], json.loads(threads.stdout)["losses"])

    def test_a_cable_that_is_cut_ends_the_run_and_names_a_rank_after_it(self):
        out = self.folder / "out"
        run = self.machines.start(PROGRAM, "launch", "-n", str(RANKS), "--", *self.train, "train.steps=100000", "--out", str(out))
        end = time.time() + TIMEOUT
        while not (out / "metrics.jsonl").exists() or len((out / "metrics.jsonl").read_bytes().splitlines()) < 3:
            self.assertLess(time.time(), end, "it does not begin")
            self.assertIsNone(run.poll(), "it ended")
            time.sleep(0.05)
        self.machines.cut_the_cable()
        # The launcher gives mpirun three seconds, which waits for ever for its own process on the other machine.
        code = run.wait(timeout=TIMEOUT)
        self.assertEqual(code, RANK_LOST, self.said("stderr"))
        self.assertRegex(self.said("stderr"), rf"rank [23] was lost\n  why: its process \d+ on host {self.machines.names[1]} has sent no heartbeat for 5 s")
        end = time.time() + TIMEOUT
        while self.machines.ranks(1) and time.time() < end:
            time.sleep(0.05)
        self.assertEqual(self.machines.ranks(1), [], "processes are left behind the cable")


if __name__ == "__main__":
    options = cases.parser(__doc__, "program", "mpirun").parse_args()
    PROGRAM, MPIRUN = str(pathlib.Path(options.program).resolve()), options.mpirun
    sys.exit(cases.run(cases.tests_of(sys.modules[__name__]), options))
