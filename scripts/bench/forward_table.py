"""Reads the JSON lines of bench_forward.sh; prints medians and ratios."""

import json
import statistics
import sys

# What a pass may take: packed weights and a fifth, and the activations.
WEIGHTS_SHARE = 1.2


def median(rows, key):
    values = [row[key] for row in rows if key in row]
    return statistics.median(values) if values else None


def memory_line(rows):
    """The workspace is where activations live; the peak is the process's, with
    its code, libraries and what loading took."""
    weights, workspace, peak = (
        median(rows, key)
        for key in ("parameter_bytes", "workspace_bytes", "peak_rss_bytes"))
    allowed = WEIGHTS_SHARE * weights + workspace
    return (f"  memory: weights {weights / 2**20:.0f} MiB, activations "
            f"{workspace / 2**20:.0f} MiB, peak {peak / 2**20:.0f} MiB; peak / "
            f"weights {peak / weights:.2f}; {peak / allowed:.0%} of weights + "
            f"20 % + activations")


if len(sys.argv) != 3:
    raise SystemExit("usage: forward_table.py MODEL DTYPE < LINES")
rows = [json.loads(line) for line in sys.stdin if line.strip()]
ours = median(rows, "forward_s")
if ours is None:
    raise SystemExit("forward_table: no line of forward_probe came in")
print(f"{sys.argv[1]} {sys.argv[2]}: troupe {ours * 1e3:.1f} ms "
      f"({median(rows, 'gflops'):.0f} GFLOP/s)")
print(memory_line(rows))
for key, name in (("eager_s", "PyTorch eager"),
                  ("compile_s", "torch.compile")):
    theirs = median(rows, key)
    if theirs:
        print(f"  {name}: {theirs * 1e3:.1f} ms, troupe is "
              f"{theirs / ours:.2f}x as fast")
