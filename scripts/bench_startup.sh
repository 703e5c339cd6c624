#!/usr/bin/env bash
# The demo model: start-up without computing (the process without the time from
# its first task to its last file; with it the numeric probe, the check of row
# subsets and the weights), a run of one step, and one of 50: medians of 15.
# Nothing is kept between runs, so a first run does no more; the machine's page
# cache is warm.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# == 0)) || die "takes no arguments: got $*"
scripts/build.sh release troupe
exec python3 - <<'PY'
import json, statistics, subprocess, tempfile, time
def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench_startup: troupe ended with exit code {done.returncode}: "
                         f"{done.stderr.strip()}")
    return done.stdout


start_up, first, whole, load = [], [], [], []
with tempfile.TemporaryDirectory() as folder:
    for _ in range(15):
        command = ["build/release/troupe", "sample", "--model", "models/demo",
                   "--class", "0", "--samples", "1", "--exists", "replace",
                   "--out", folder + "/one.png", "--progress", "none", "--json",
                   "-q"]
        start = time.perf_counter()
        summary = json.loads(run(command + ["--steps", "1"]))
        first.append(time.perf_counter() - start)
        start_up.append(first[-1] - summary["wall_seconds"])
        start = time.perf_counter()
        summary = run(command + ["--steps", "50"])
        whole.append(time.perf_counter() - start)
        load.append(json.loads(summary)["load_seconds"])
print(f"start-up: {statistics.median(start_up):.3f} s")
print(f"process with one step, start to exit: {statistics.median(first):.3f} s"
      f" (load {statistics.median(load):.3f} s)")
print(f"process with 50 steps, start to exit: {statistics.median(whole):.3f} s")
PY
