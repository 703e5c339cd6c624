"""What a process holds over a long time: memory, descriptors, threads."""

import pathlib
import statistics

# Growth of a median over the middle third that counts as none: a share, and so much
# more. Descriptors: a sample may be taken while three peers more are connected.
ALLOWED = {"memory, MiB": (0.10, 8.0), "descriptors": (0.10, 9), "threads": (0.10, 2)}
WARM_UP = 0.2  # of the time: caches fill, heaps find their size
LEAST = 9  # samples that say something


def vitals_of(pid):
    """None: the process has gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return {"memory, MiB": int(fields["VmRSS"].split()[0]) / 1024,
                "descriptors": len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())),
                "threads": int(fields["Threads"])}
    except (FileNotFoundError, KeyError, ProcessLookupError):
        return None


class Series:
    """Of one process."""

    def __init__(self, name):
        self.name, self.samples = name, []

    def add(self, vitals):
        self.samples.append(vitals)

    def rows(self):
        """(figure, median at first, median at last, the most it may be, is it flat)."""
        settled = self.samples[int(WARM_UP * len(self.samples)):]
        third = len(settled) // 3
        for figure, (share, more) in ALLOWED.items():
            if len(settled) < LEAST:
                yield figure, 0, 0, 0, False
                continue
            first, last = (statistics.median(sample[figure] for sample in part)
                           for part in (settled[:third], settled[-third:]))
            most = first * (1 + share) + more
            yield figure, first, last, most, last <= most


def print_table(all_series):
    """Whether everything is flat."""
    print(f"{'process':28}{'':14}{'first third':>12}{'last third':>12}{'at most':>10}")
    is_flat = True
    for series in all_series:
        for figure, first, last, most, is_one in series.rows():
            verdict = "" if is_one else "  GROWS" if most else "  TOO FEW SAMPLES"
            print(f"{series.name:28}{figure:14}{first:12.1f}{last:12.1f}{most:10.1f}"
                  f"{verdict}")
            is_flat = is_flat and is_one
    return is_flat
