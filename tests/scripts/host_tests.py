"""How tests on the hosts of scripts/hosts.sh begin."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTS = str(ROOT / "scripts/hosts.sh")
ENVIRONMENT = {**os.environ, "HOSTS_PREFIX": f"troupe-test{os.getpid()}"}
ENDPOINT = "tcp://10.77.0.1:7010"
PATIENCE = 240  # seconds, for what is not expected to take twenty


def hosts(*arguments):
    return subprocess.run([HOSTS, *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE, env=ENVIRONMENT)


class TwoHosts(unittest.TestCase):
    """Two hosts, and a folder with the keys of a company. `up`: more arguments of `hosts.sh
    up`; `troupe`: the program."""

    troupe, up = None, ()

    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(hosts, "down")
        done = hosts("up", 2, *cls.up)
        assert done.returncode == 0, done

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for made in (["new", "--out", "ours.key"],
                     ["worker", "--from", "ours.key", "--out", "ours.node"]):
            subprocess.run([self.troupe, "keys", "-q", *made], check=True, cwd=self.folder)

    def start(self, host, *command):
        process = subprocess.Popen([HOSTS, "run", str(host), self.troupe, *command], text=True,
                                   cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=ENVIRONMENT)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


def main(hosts, prepare=None):
    """Runs the tests; ends with 77 (skipped) where hosts cannot be made. hosts: runs
    scripts/hosts.sh with its arguments. prepare: called before the tests."""
    probe = hosts("up", 1)
    hosts("down")
    if probe.returncode == 77:
        print(probe.stderr, end="", file=sys.stderr)
        sys.exit(77)
    if prepare is not None:
        prepare()
    unittest.main()
