"""Runs `troupe bench` for every method; prints one table against its targets."""

import json
import os
import subprocess
import sys

if len(sys.argv) != 5:
    raise SystemExit("usage: parallel_table.py TROUPE MODEL STEPS REPEATS")
TROUPE, MODEL, STEPS, REPEATS = sys.argv[1:]
WARMUP = 5
GUIDANCE = "1.5"


def bench(samples, *arguments):
    """The rows of one run: 1 thread, 2 threads, the method."""
    source = "--model" if os.path.isdir(MODEL) else "--random-weights"
    done = subprocess.run(
        [TROUPE, "bench", source, MODEL, "--samples", str(samples), "--class",
         "0", "--steps", STEPS, "--guidance", GUIDANCE, "--seed", "1",
         "--workers", "2", "--threads", "1", "--repeats", REPEATS, "--json", "-q",
         *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"troupe bench ended with exit code {done.returncode}: "
                         f"{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])["rows"]


def show(label, rows, target=""):
    one, _, row = rows
    print(f"{label:34} {row['seconds']:8.3f} {row['speedup_over_1_thread']:7.2f}"
          f" {row['speedup_over_2_threads']:7.2f} {row['nfe']:6d}"
          f" {row['rounds']:6d} {row['relative_rmse']:9.1e}  {target}",
          flush=True)
    return one, row


print(f"{MODEL}, DDIM {STEPS} steps, guidance {GUIDANCE}, median of {REPEATS}")
print(f"{'two workers x one thread':34} {'seconds':>8} {'/1 thr':>7} "
      f"{'/2 thr':>7} {'NFE':>6} {'rounds':>6} {'rel RMSE':>9}  target")
_, batch = show("batch, 4 samples", bench(4, "--method", "batch"), ">= 1.9")
factor = batch["speedup_over_1_thread"]
show("cfg, 1 sample", bench(1, "--method", "cfg"), ">= 1.85")
show("pipeline, 2 segments, 4 samples",
     bench(4, "--method", "pipeline", "--segments", "2"), ">= 1.8")
steps = int(STEPS)
ideal = steps / (WARMUP + (steps - WARMUP) / 2) * factor / 2
show(f"stale, 2 segments, warm-up {WARMUP}",
     bench(1, "--method", "stale", "--segments", "2", "--warmup", str(WARMUP),
           "--final-fresh", "0"),
     f">= {0.95 * ideal:.2f} (95 % of {ideal:.2f})")
for window in (4, 8):
    _, round_of = show(f"batch, {window} samples",
                       bench(window, "--method", "batch"))
    round_s = round_of["seconds"] / round_of["rounds"]
    for tolerance in ("0", "0.01", "0.03", "0.1", "0.3"):
        one, row = show(
            f"picard, window {window}, tolerance {tolerance}",
            bench(1, "--method", "picard", "--window", str(window),
                  "--tolerance", tolerance, "--guess", "constant_x0"))
        calls_s = row["nfe"] * one["seconds"] / one["nfe"] / factor
        print(f"{'':34} wall / (rounds x a round of batch {window}) = "
              f"{row['seconds'] / (row['rounds'] * round_s):.2f}, / (NFE x "
              f"time of one / batch factor) = {row['seconds'] / calls_s:.2f}")
