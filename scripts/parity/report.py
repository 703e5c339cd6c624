"""Collects errors and prints one table; knows which of them are too large."""

import contextlib
import math

# Untrained weights may magnify a rounding without bound, and of a few roundings
# the ratio is chance: of 300 decoders one was 3.6 times as far off in bf16 as
# diffusers' own, of 200 runs one passed its limit. The middle of three did not.
DRAWS = 3


class Report:
    def __init__(self, quiet=False):
        self.rows = []
        self.quiet = quiet

    def add(self, kind, case, error, limit):
        """`error` and `limit` are relative L2 errors (or ratios)."""
        ok = error <= limit  # false for NaN too
        self.rows.append((kind, case, error, limit, ok))
        if not ok and not self.quiet:
            print(f"  ABOVE LIMIT {kind}: {case}: {error:.3g} > {limit:.3g}",
                  flush=True)

    @contextlib.contextmanager
    def middle_of_draws(self):
        """Yields a report for DRAWS draws of one case. Of each kind of row the
        middle one, as error / limit, comes into this report: or one that is not
        finite, which is never chance."""
        draws = Report(quiet=True)
        yield draws
        for kind in draws.kinds():
            rows = sorted(draws.rows_of(kind), key=lambda row: row[2] / row[3])
            chosen = next((row for row in rows if not math.isfinite(row[2])),
                          rows[len(rows) // 2])
            self.add(*chosen[:4])

    def kinds(self):
        return list(dict.fromkeys(row[0] for row in self.rows))

    def rows_of(self, kind):
        return [row for row in self.rows if row[0] == kind]

    def print_table(self):
        print(f"{'what':34} {'cases':>5} {'worst':>10} {'limit':>9}")
        for kind in self.kinds():
            rows = self.rows_of(kind)
            worst = max(rows, key=lambda row: (not row[4], row[2] / row[3]))
            mark = "" if all(row[4] for row in rows) else "   ABOVE LIMIT"
            print(f"{kind:34} {len(rows):5d} {worst[2]:10.3g} "
                  f"{worst[3]:9.3g}{mark}")

    def ok(self):
        return bool(self.rows) and all(row[4] for row in self.rows)


def relative_l2(ours, theirs):
    """‖ours − theirs‖ / ‖theirs‖ in float64."""
    ours, theirs = ours.double().flatten(), theirs.double().flatten()
    return float((ours - theirs).norm() / theirs.norm().clamp_min(1e-30))
