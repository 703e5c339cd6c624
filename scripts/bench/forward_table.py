"""Reads the JSON lines of bench_forward.sh; prints medians and ratios."""

import json
import statistics
import sys


def median(rows, key):
    values = [row[key] for row in rows if key in row]
    return statistics.median(values) if values else None


rows = [json.loads(line) for line in sys.stdin if line.strip()]
ours = median(rows, "forward_s")
print(f"{sys.argv[1]} {sys.argv[2]}: troupe {ours * 1e3:.1f} ms "
      f"({median(rows, 'gflops'):.0f} GFLOP/s), weights "
      f"{median(rows, 'parameter_bytes') / 2**20:.0f} MiB, peak "
      f"{median(rows, 'peak_rss_bytes') / 2**20:.0f} MiB")
for key, name in (("eager_s", "PyTorch eager"),
                  ("compile_s", "torch.compile")):
    theirs = median(rows, key)
    if theirs:
        print(f"  {name}: {theirs * 1e3:.1f} ms, troupe is "
              f"{theirs / ours:.2f}x as fast")
