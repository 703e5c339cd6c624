"""README's commands for several machines, word for word, on two hosts.

  python3 test_several_machines.py TROUPE [unittest's arguments]

Needs root; ends with 77 (skipped) where namespaces cannot be made.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import host_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTS = str(ROOT / "scripts/hosts.sh")
TROUPE = pathlib.Path(sys.argv.pop(1)).resolve()
MODEL = ROOT / "tests/golden/dit_unusual"
ENVIRONMENT = {**os.environ, "HOSTS_PREFIX": f"troupe-readme{os.getpid()}"}
PATIENCE = 240  # seconds, for what is not expected to take twenty


def hosts(*arguments):
    return subprocess.run([HOSTS, *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE, env=ENVIRONMENT)


def commands_of_readme():
    section = (ROOT / "README.md").read_text().split("\n## Several machines\n")[1]
    block = re.search(r"```sh\n(.*?)```", section, re.S)[1]
    return [line.split("  #")[0].strip() for line in block.splitlines()]


class SeveralMachines(unittest.TestCase):
    """Each host has a folder of its own, and README's addresses."""

    def setUp(self):
        self.addCleanup(hosts, "down")
        assert hosts("up", 2).returncode == 0
        self.folders = {}
        for host in (1, 2):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            self.folders[host] = pathlib.Path(folder.name)
            (self.folders[host] / "bin").mkdir()
            (self.folders[host] / "bin/troupe").symlink_to(TROUPE)
            device = hosts("run", host, "sh", "-c",
                           "ip -o -4 route show to match 10.77.0.9 | "
                           "sed 's/.* dev //; s/ .*//'").stdout.strip()
            done = hosts("run", host, "ip", "addr", "add", f"10.0.0.{host}/24", "dev", device)
            self.assertEqual(done.returncode, 0, done.stderr)

    def start(self, host, command, **more):
        folder = self.folders[host]
        environment = {**ENVIRONMENT, "PATH": f"{folder}/bin:{os.environ['PATH']}", **more}
        process = subprocess.Popen([HOSTS, "run", str(host), "sh", "-c", "exec " + command],
                                   cwd=folder, env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_the_commands_make_the_pictures(self):
        keys, sample, worker = commands_of_readme()
        shutil.copytree(MODEL, self.folders[1] / "DIR")
        shutil.copytree(MODEL, self.folders[2] / "models/DIR")
        self.assertEqual(self.start(1, keys).wait(PATIENCE), 0)
        shutil.copy(self.folders[1] / "company.key", self.folders[2])
        # It leaves the work to the other host: the job is so small that it would be over
        # before anybody had joined.
        head = self.start(1, sample, TROUPE_WORKERS="0")
        other = self.start(2, worker, TROUPE_WAIT="60")
        _, said = head.communicate(timeout=PATIENCE)
        self.assertEqual(head.returncode, 0, said)
        self.assertEqual(len(list((self.folders[1] / "images").glob("*.png"))), 64)
        _, of_worker = other.communicate(timeout=PATIENCE)
        self.assertEqual(other.returncode, 0, of_worker)
        self.assertIn("of the job at tcp://10.0.0.1:7010", of_worker)


if __name__ == "__main__":
    host_tests.main(hosts)
