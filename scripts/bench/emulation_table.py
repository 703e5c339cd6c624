"""Two real workers against their emulation, method by method.

A row alone and a guided row are timed with one worker and one thread. The
emulation is told what they took, and a link that costs nothing.
"""

import json
import subprocess
import sys

TROUPE, SAMPLES, STEPS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
METHODS = (["batch"], ["cfg"], ["picard"], ["pipeline", "--segments", "2"],
           ["stale", "--segments", "2"])


def bench(*flags):
    done = subprocess.run(
        [TROUPE, "bench", "--model", "models/demo", "--class", "8",
         "--samples", str(SAMPLES), "--steps", str(STEPS), "--quiet", "--json",
         *flags], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])["rows"]


def real(*flags):
    return bench(*flags, "--threads", "1", "--repeats", "3")


def ms_per_call(row):
    return 1e3 * row["seconds"] / (SAMPLES * STEPS)


alone = ms_per_call(real("--method", "sequential", "--workers", "1",
                         "--guidance", "1")[0])
print(f"{SAMPLES} samples, {STEPS} steps; a row alone takes {alone:.2f} ms")
print(f"{'method':<10} {'guided row':>12} {'real':>8} {'emulated':>9} {'off':>7}")
for method in METHODS:
    rows = real("--method", *method, "--workers", "2")
    guided = ms_per_call(rows[0])
    slope = max(guided / alone - 1, 0)
    emulated = bench("--method", *method, "--emulate", "2", "--step-ms",
                        repr(guided / (1 + slope)), "--row-slope", repr(slope),
                        "--link-gbps", "1e6", "--link-us", "0")[1]
    seconds = rows[2]["seconds"]
    print(f"{method[0]:<10} {guided:9.2f} ms {seconds:6.3f} s"
          f" {emulated['seconds']:7.3f} s"
          f" {100 * (emulated['seconds'] / seconds - 1):+6.1f} %", flush=True)
