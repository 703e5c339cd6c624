"""A worker behind a link that is too slow for a job is left out, and says so in the log.

  python3 test_slow_links.py TROUPE [unittest's arguments]

Two hosts of scripts/hosts.sh at 2 Mbit/s. Needs root; ends with 77 (skipped) where
namespaces cannot be made. What counts is who computed what, never how long it took.
"""

import json
import pathlib
import subprocess
import sys

import host_tests
from host_tests import ENDPOINT, PATIENCE, hosts

TROUPE = str(pathlib.Path(sys.argv.pop(1)).resolve())
JOB = ["sample", "--random-weights", "dit-tiny", "--steps", "50", "--threads", "1", "--workers",
       "1", "--json"]


class SlowLinks(host_tests.TwoHosts):
    troupe = TROUPE
    up = ("--mbit", 2)

    def draw(self, *method):
        """What the job said, its summary, and rows by process."""
        worker = self.start(2, "worker", "--join", ENDPOINT, "--secret-file", "ours.node",
                            "--workers", "1", "--threads", "1", "--wait", "60")
        head = self.start(1, *JOB, *method, "--listen", ENDPOINT, "--secret-file", "ours.key",
                          "--wait-workers", "1", "--out", "together")
        out, err = head.communicate(timeout=PATIENCE)
        self.assertEqual(head.returncode, 0, err)
        worker.communicate(timeout=PATIENCE)
        summary = json.loads(out.splitlines()[-1])
        return err, summary, {node["process"]: node["rows"] for node in summary["nodes"]}

    def assert_left_out(self, share, *method):
        """Its rows are fewer than this share of the other worker's."""
        said, summary, rows = self.draw(*method)
        self.assertEqual(len(rows), 2, "the worker has joined")
        self.assertIn("worker 1 of process 1 (", said)
        self.assertIn("is left out: its link (", said)
        # It computed rows until their time was known.
        self.assertLess(rows[1], rows[0] * share)
        self.assertEqual(summary["recoveries"], 0)
        alone = subprocess.run([TROUPE, *JOB, *method, "-q", "--out", "alone"], check=True,
                               cwd=self.folder, capture_output=True, text=True,
                               timeout=PATIENCE)
        self.assertEqual(summary["latents_xxh3"],
                         json.loads(alone.stdout.splitlines()[-1])["latents_xxh3"])

    # Seconds of work each, so that the other worker has joined before all is done.
    def test_a_pipeline_goes_on_without_a_slow_part(self):
        self.assert_left_out(1 / 20, "--method", "pipeline", "--segments", "2", "-n", "60")

    # Where other tests slow down the rows, a row on the other worker comes before the
    # round ends, in spite of its link: then the worker takes part again.
    def test_rows_of_a_window_stay_near(self):
        self.assert_left_out(1 / 2, "--method", "picard", "--window", "8", "-n", "15")


if __name__ == "__main__":
    host_tests.main(hosts)
