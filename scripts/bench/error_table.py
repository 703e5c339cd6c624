"""What an approximate method gives over classes, steps, seeds and dtypes.

Runs `troupe bench` with the flags that it is given, over eight classes of the
demo model. None of the figures depends on how fast the machine is or what else
it does.
"""

import json
import statistics
import subprocess
import sys

TROUPE, SEEDS, *FLAGS = sys.argv[1:]
CLASSES = (4, 5, 8, 10, 15, 20, 23, 26)
STEPS = (20, 50, 100)
# bf16 only where the processor has it: bench says which dtype it was.
DTYPES = ((),) if "--dtype" in FLAGS else (("--dtype", "f32"), ("--dtype", "auto"))


def command(steps, label, seed, dtype):
    return [TROUPE, "bench", "--model", "models/demo", "--class", str(label),
            "--seed", str(seed), "--steps", str(steps), *FLAGS, *dtype]


def bench(*job):
    done = subprocess.run(
        command(*job) + ["--workers", "1", "--threads", "1", "--repeats", "1",
                         "--json", "-q"],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    sequential, *_, row = summary["rows"]
    return summary["dtype"], sequential["nfe"], row


def span(rows, key):
    values = [row[key] for row in rows]
    return f"{min(values)}-{max(values)}"


print(" ".join(command("S", "C", "N", ("--dtype", "D"))))
print("classes " + " ".join(map(str, CLASSES)))
print(f"{'dtype':>5} {'steps':>5} {'seed':>4} {'calls':>5} {'rounds':>8}"
      f" {'evaluations':>12} {'per call':>9} {'rel RMSE: median':>16}"
      f" {'worst':>6}  of each class")
for dtype in DTYPES:
    for steps in STEPS:
        for seed in SEEDS.split(","):
            measured = [bench(steps, label, seed, dtype) for label in CLASSES]
            name, calls, _ = measured[0]
            rows = [row for *_, row in measured]
            errors = [row["relative_rmse"] for row in rows]
            per_call = [row["nfe"] / calls for row in rows]
            print(f"{name:>5} {steps:5} {seed:>4} {calls:5}"
                  f" {span(rows, 'rounds'):>8} {span(rows, 'nfe'):>12}"
                  f" {min(per_call):4.2f}-{max(per_call):4.2f}"
                  f" {statistics.median(errors):16.3f} {max(errors):6.3f}  "
                  + " ".join(f"{error:.3f}" for error in errors), flush=True)
