"""Runs `troupe bench --method picard` over classes, steps and seeds."""

import json
import statistics
import subprocess
import sys

TROUPE, SEEDS, *FLAGS = sys.argv[1:]
CLASSES = (4, 5, 8, 10, 15, 20, 23, 26)
STEPS = (20, 50, 100)


def command(steps, label, seed):
    return [TROUPE, "bench", "--model", "models/demo", "--class", str(label),
            "--seed", str(seed), "--steps", str(steps), "--method", "picard", *FLAGS]


def bench(steps, label, seed):
    done = subprocess.run(
        command(steps, label, seed) + ["--workers", "1", "--threads", "1",
                                       "--repeats", "1", "--json", "-q"],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    sequential, *_, picard = json.loads(
        done.stdout.strip().splitlines()[-1])["rows"]
    return sequential["nfe"], picard


def span(rows, key):
    values = [row[key] for row in rows]
    return f"{min(values)}-{max(values)}"


print(" ".join(command("S", "C", "N")))
print("classes " + " ".join(map(str, CLASSES)))
print(f"{'steps':>5} {'seed':>4} {'calls':>5} {'rounds':>8} {'evaluations':>12}"
      f" {'per call':>8} {'rel RMSE: median':>16} {'worst':>6}  of each class")
for steps in STEPS:
    for seed in SEEDS.split(","):
        measured = [bench(steps, label, seed) for label in CLASSES]
        calls = measured[0][0]
        rows = [row for _, row in measured]
        errors = [row["relative_rmse"] for row in rows]
        per_call = statistics.mean(row["nfe"] for row in rows) / calls
        print(f"{steps:5} {seed:>4} {calls:5} {span(rows, 'rounds'):>8}"
              f" {span(rows, 'nfe'):>12} {per_call:8.2f}"
              f" {statistics.median(errors):16.3f} {max(errors):6.3f}  "
              + " ".join(f"{error:.3f}" for error in errors), flush=True)
