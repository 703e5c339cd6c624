"""What an approximate method gives over classes, seeds, steps and dtypes.

Runs `troupe bench` with the flags that it is given, over sixteen classes of the
demo model. None of the figures depends on how fast the machine is or what else
it does.
"""

import json
import statistics
import subprocess
import sys

TROUPE, *FLAGS = sys.argv[1:]


def has(flag):
    return any(word == flag or word.startswith(flag + "=") for word in FLAGS)


CLASSES = (*range(0, 28, 2), 27, 28)
SEEDS = (3, 7)
STEPS = (None,) if has("--steps") else (20, 50)
# bf16 only where the processor has it: bench says which dtype it was.
DTYPES = ((),) if has("--dtype") else (("--dtype", "auto"), ("--dtype", "f32"))
FAR = 0.07


def command(steps, label, seed, dtype):
    return [TROUPE, "bench", "--model", "models/demo", "--class", str(label),
            "--seed", str(seed), *([] if steps is None else ["--steps", str(steps)]),
            *FLAGS, *dtype]


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
print(f"classes {' '.join(map(str, CLASSES))}; seeds {' '.join(map(str, SEEDS))}")
print(f"{'dtype':>5} {'calls':>5} {'rounds':>8} {'mean':>5} {'evaluations':>12}"
      f" {'per call':>8}  relative RMSE: median, worst, above {FAR}")
for dtype in DTYPES:
    for steps in STEPS:
        measured = [bench(steps, label, seed, dtype)
                    for seed in SEEDS for label in CLASSES]
        name, calls, _ = measured[0]
        rows = [row for *_, row in measured]
        errors = [row["relative_rmse"] for row in rows]
        rounds = statistics.mean(row["rounds"] for row in rows)
        per_call = statistics.mean(row["nfe"] for row in rows) / calls
        print(f"{name:>5} {calls:5} {span(rows, 'rounds'):>8} {rounds:5.1f}"
              f" {span(rows, 'nfe'):>12} {per_call:8.2f}"
              f"  {statistics.median(errors):.3f} {max(errors):.3f}"
              f" {sum(error > FAR for error in errors)} of {len(errors)}",
              flush=True)
