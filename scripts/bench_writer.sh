#!/usr/bin/env bash
# Pictures on a slow disk: how much longer a job takes than its computing, and how
# much memory grows behind the disk. Every sync takes longer; medians of three.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# == 0)) || die "takes no arguments: got $*"
scripts/build.sh release troupe slow_disk
exec python3 - <<'PY'
import json, os, statistics, subprocess, tempfile, time
BUILD = "build/release"


def images(folder):
    return sum(not entry.name.startswith(".") for entry in os.scandir(folder))


def resident_mib(pid):
    try:
        with open(f"/proc/{pid}/status") as status:
            lines = [line for line in status if line.startswith("VmRSS")]
    except FileNotFoundError:
        return 0
    return int(lines[0].split()[1]) / 1024 if lines else 0


def run(milliseconds, arguments, watch=False):
    """The summary, and the memory at each number of images."""
    environment = dict(os.environ, SLOW_DISK_MS=str(milliseconds),
                       LD_PRELOAD=os.path.abspath(f"{BUILD}/tests/probes/slow_disk.so"))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as out:
        program = subprocess.Popen(
            [f"{BUILD}/troupe", "sample", "--class", "0", "--steps", "1", "--out", folder,
             "--progress", "none", "--json", "-q", *arguments], env=environment, stdout=out)
        memory = []
        while program.poll() is None:
            if watch:
                memory.append((images(folder), resident_mib(program.pid)))
            time.sleep(0.02)
        if program.returncode != 0:
            raise SystemExit(f"bench_writer: troupe ended with exit code {program.returncode}")
        out.seek(0)
        return json.loads(out.read().splitlines()[-1]), memory


walls = {0: [], 30: []}
for _ in range(3):
    for milliseconds, all_walls in walls.items():
        summary, _ = run(milliseconds, ["--model", "models/demo", "--samples", "1000"])
        all_walls.append(summary["wall_seconds"])
quick, slow = (statistics.median(walls[ms]) for ms in (0, 30))
print(f"1,000 one-step images of the demo model: {quick:.1f} s; "
      f"each sync 30 ms slower: {slow:.1f} s ({slow / quick:.2f} times)")

grown, whole = [], []
for _ in range(3):
    summary, memory = run(5, ["--random-weights", "dit-tiny", "--samples", "10000"], watch=True)
    first = next(mib for count, mib in memory if count >= 1000)
    grown.append(max(mib for count, mib in memory if 1000 <= count < 10000) - first)
    whole.append(summary["wall_seconds"])
print(f"10,000 one-step images of dit-tiny, each sync 5 ms slower: "
      f"{statistics.median(whole):.1f} s, memory grows by "
      f"{statistics.median(grown):.1f} MiB after the first 1,000")
PY
