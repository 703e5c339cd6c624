"""Collects errors and prints one table; knows which of them are too large."""


class Report:
    def __init__(self):
        self.rows = []

    def add(self, kind, case, error, limit):
        """`error` and `limit` are relative L2 errors (or ratios)."""
        ok = error <= limit  # false for NaN too
        self.rows.append((kind, case, error, limit, ok))
        if not ok:
            print(f"  ABOVE LIMIT {kind}: {case}: {error:.3g} > {limit:.3g}",
                  flush=True)

    def print_table(self):
        print(f"{'what':34} {'cases':>5} {'worst':>10} {'limit':>9}")
        for kind in dict.fromkeys(row[0] for row in self.rows):
            rows = [row for row in self.rows if row[0] == kind]
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
