"""A worker whose host is unplugged stops, looks for its job for --wait, and ends.

  python3 test_unplugged.py TROUPE [unittest's arguments]

Two hosts of scripts/hosts.sh. Needs root; ends with 77 (skipped) where namespaces cannot be
made. Nothing here depends on how fast the machine is.
"""

import json
import pathlib
import subprocess
import sys
import time

import host_tests
from host_tests import ENDPOINT, PATIENCE, hosts

TROUPE = str(pathlib.Path(sys.argv.pop(1)).resolve())
# Of the worker and of the job's first process alike: enough for seconds of work.
JOB = ["sample", "--random-weights", "dit-tiny", "--method", "batch", "-n", "200", "--steps",
       "50", "--threads", "1", "--workers", "1", "--json"]


class Unplugged(host_tests.TwoHosts):
    troupe = TROUPE

    def look(self):
        done = hosts("run", 1, TROUPE, "ls", ENDPOINT, "--json", "--secret-file",
                     self.folder / "ours.node")
        return json.loads(done.stdout) if done.returncode == 0 else {"nodes": []}

    def await_rows_of_the_worker(self, head):
        deadline = time.monotonic() + PATIENCE
        while not any(node["process"] > 0 and node["rows"] > 0 for node in self.look()["nodes"]):
            self.assertIsNone(head.poll(), "the job is over")
            self.assertLess(time.monotonic(), deadline)

    def test_a_worker_ends_and_the_job_goes_on(self):
        head = self.start(1, *JOB, "--listen", ENDPOINT, "--secret-file", "ours.key", "--out",
                          "together")
        worker = self.start(2, "worker", "--join", ENDPOINT, "--secret-file", "ours.node",
                            "--workers", "1", "--threads", "1", "--wait", "2")
        self.await_rows_of_the_worker(head)
        self.assertEqual(hosts("unplug", 2).returncode, 0)
        out, err = worker.communicate(timeout=PATIENCE)
        self.assertEqual((worker.returncode, out), (4, ""), err)
        lines = err.splitlines()
        self.assertEqual(len(lines), 3, err)
        self.assertIn(f"of the job at {ENDPOINT}", lines[0])
        self.assertIn(f"nothing was heard of {ENDPOINT} for 1000 ms", lines[1])
        self.assertIn(f"no job was found again at {ENDPOINT} within ", lines[2])
        out, err = head.communicate(timeout=PATIENCE)
        self.assertEqual(head.returncode, 0, err)
        together = json.loads(out.splitlines()[-1])
        self.assertEqual([node["status"] for node in together["nodes"]], ["done", "left"])
        alone = subprocess.run([TROUPE, *JOB, "-q", "--out", "alone"], cwd=self.folder,
                               check=True, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(together["latents_xxh3"],
                         json.loads(alone.stdout.splitlines()[-1])["latents_xxh3"])


if __name__ == "__main__":
    host_tests.main(hosts)
