#!/usr/bin/env python3
"""Two companies under faults, over tcp with keys, for a while:

  long   one job from the first minute to the last; its first process computes too
  short  one job after the other, by every method; one worker with --stay serves them all

Workers are killed, frozen for less or more than their lease, and asked to leave. The first
process of `long` and the worker that stays may not grow; pictures of `long` and latents of
`short` must be those of one undisturbed process.

usage: soak.py TROUPE [--minutes N] [--seed N] [--self-test]
"""

import argparse
import json
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

from company import BOUND, Broken, Company, Place
from vitals import Series, print_table, vitals_of

MODEL = ["sample", "--random-weights", "dit-tiny", "--threads", "1", "--json", "-q"]
# Many steps, few images: a job keeps 1.2 KB of each for its summary, which is no leak.
LONG = [*MODEL, "--method", "pipeline", "--segments", "2", "--steps", "500"]
METHODS = {
    "batch": ["--method", "batch", "-n", "24"],
    "cfg": ["--method", "cfg", "--guidance", "3", "-n", "12"],
    "picard": ["--method", "picard", "-n", "6"],
    "pipeline": ["--method", "pipeline", "--segments", "2", "-n", "12"],
    "stale": ["--method", "stale", "--segments", "2", "-n", "12"],
}
IMAGES_PER_SECOND = 20  # more than the long job can make: it is ended before its last
COMPARED_BLOCKS, BLOCK = 8, 2  # images of the long job that are made again
BETWEEN_FAULTS = {  # seconds, on average
    "killed": 2, "frozen": 5, "frozen past the lease": 10, "asked to leave": 5}
SAMPLES = 300  # of the vitals, in the whole time


def free_endpoint():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def alone(troupe, arguments):
    run = subprocess.run([*BOUND, troupe, *map(str, arguments), "--workers", "1",
                          "--exists", "replace"],
                         capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise Broken(f"one process alone: exit code {run.returncode}: {run.stderr}")
    return run.stdout


class Soak:
    def __init__(self, troupe, folder, seed, minutes):
        self.troupe, self.folder = troupe, folder
        self.rng, self.seconds = random.Random(seed), 60 * minutes
        self.place = Place(troupe, folder)
        self.long = Company(self.place, "long", free_endpoint(), False, 2)
        self.short = Company(self.place, "short", free_endpoint(), True, 1)
        self.series = [Series("first process, one job"), Series("worker with --stay")]
        self.counts = dict.fromkeys([*BETWEEN_FAULTS, "jobs", "images", "images made again"], 0)
        self.hashes = {}  # of the short jobs' latents: by method, a table for each job

    def strike(self, what):
        """For a worker that is there."""
        there = [one for one in [*self.long.workers(), *self.short.workers()]
                 if one.is_there() and (what.startswith("frozen") or not one.stays)]
        if not there:
            return
        victim = self.rng.choice(there)
        self.counts[what] += 1
        if what == "killed":
            victim.process.kill()
        elif what == "asked to leave":
            victim.process.terminate()
        else:
            victim.freeze(self.rng.uniform(0.1, 1.5) if what == "frozen"
                          else self.rng.uniform(2.5, 5))

    def begin_short(self, method):
        self.method = method
        self.short.begin([*MODEL, "--steps", "50", *METHODS[method], "--workers", "0",
                          "--exists", "replace", "-o", f"{self.folder}/short/"])

    def end_short(self):
        """Over by itself, with every image."""
        summary = self.short.summary({0})
        self.counts["jobs"] += 1
        self.hashes.setdefault(self.method, []).append(
            {image["index"]: image["latents_xxh3"] for image in summary["images"]})

    def look_around(self):
        for worker in [*self.long.workers(), *self.short.workers()]:
            worker.look_after(self.rng)
        if self.long.head.poll() is not None:
            self.long.summary({75})
            raise Broken("the long job ended early")
        if self.short.head.poll() is not None:
            self.end_short()
            methods = list(METHODS)
            self.begin_short(methods[self.counts["jobs"] % len(methods)])

    def measure(self):
        for series, process in zip(self.series, [self.long.head, self.short.stay.process]):
            vitals = vitals_of(process.pid)
            if vitals is not None:
                series.add(vitals)

    def run(self):
        self.long.begin([*LONG, "-n", int(IMAGES_PER_SECOND * self.seconds),
                         "--workers", "1", "-o", f"{self.folder}/long/"])
        self.begin_short("batch")
        begin = time.monotonic()
        measured = begin
        faults = {what: begin + self.rng.expovariate(1 / seconds)
                  for what, seconds in BETWEEN_FAULTS.items()}
        while (now := time.monotonic()) < begin + self.seconds:
            self.look_around()
            for what, due in faults.items():
                if now >= due:
                    self.strike(what)
                    faults[what] = now + self.rng.expovariate(1 / BETWEEN_FAULTS[what])
            if now >= measured:
                self.measure()
                measured = now + self.seconds / SAMPLES
            time.sleep(0.02)
        self.finish()

    def finish(self):
        for worker in [*self.long.workers(), *self.short.workers()]:
            if worker.thaws is not None:
                worker.thaw()
        self.end_short()
        self.long.head.terminate()
        summary = self.long.summary({75})
        states = [image["status"] for image in summary["images"]]
        self.counts["images"] = states.count("done")
        if "failed" in states:
            raise Broken("an image of the long job failed")

    # ---- the bytes

    def compare_short(self):
        for method, jobs in self.hashes.items():
            out = alone(self.troupe, [*MODEL, "--steps", "50", *METHODS[method],
                                      "-o", f"{self.folder}/alone/"])
            expected = {image["index"]: image["latents_xxh3"]
                        for image in json.loads(out.splitlines()[-1])["images"]}
            for job in jobs:
                for index, latents in expected.items():
                    if job.get(index) != latents:
                        raise Broken(f"{method}, image {index}: other latents, or none")

    def compare_long(self):
        """Blocks of pictures, at random, and the first and the last."""
        made = sorted(int(path.stem) for path in (self.folder / "long").glob("*.png"))
        if not made:
            raise Broken("the long job made no image")
        firsts = {made[0], made[max(0, len(made) - BLOCK)],
                  *self.rng.sample(made, min(len(made), COMPARED_BLOCKS))}
        again = self.folder / "again"
        for first in firsts:
            alone(self.troupe, [*LONG, "-n", f"{first}:{first + BLOCK}", "-o", f"{again}/"])
        for path in sorted(again.glob("*.png")):
            twin = self.folder / "long" / path.name
            if twin.exists():
                self.counts["images made again"] += 1
                if twin.read_bytes() != path.read_bytes():
                    raise Broken(f"{path.name} of the long job has other bytes")


def show(soak, is_flat):
    for what, count in soak.counts.items():
        print(f"{what:28}{count:6}")
    print("flat, with the bytes of one process" if is_flat else "not flat")


def self_test(troupe, folder):
    """What must be found is planted."""
    rng = random.Random(1)
    steady, leaking = Series("steady"), Series("leaking")
    for number in range(SAMPLES):
        vitals = {"memory, MiB": rng.uniform(40, 44), "descriptors": rng.randrange(60, 70),
                  "threads": rng.randrange(12, 14)}
        steady.add(vitals)
        leaking.add({figure: value + number / 5 for figure, value in vitals.items()})
    if not print_table([steady]) or any(row[-1] for row in leaking.rows()):
        raise Broken("growth is not found, or found where there is none")
    soak = Soak(troupe, folder, 1, 1)
    alone(troupe, [*LONG, "-n", BLOCK, "-o", f"{folder}/long/"])
    soak.compare_long()
    path = folder / "long" / f"{BLOCK - 1:05}.png"
    damaged = bytearray(path.read_bytes())
    damaged[-20] ^= 1
    path.write_bytes(damaged)
    try:
        soak.compare_long()
    except Broken:
        return
    raise Broken("a damaged picture is not found")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("troupe", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**6))
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda code, _: sys.exit(128 + code))
    with tempfile.TemporaryDirectory(prefix="troupe-soak-") as folder:
        folder = pathlib.Path(folder)
        if args.self_test:
            self_test(args.troupe, folder)
            print("what was planted was found")
            return 0
        print(f"seed {args.seed}, {args.minutes:g} minutes", flush=True)
        soak = Soak(args.troupe, folder, args.seed, args.minutes)
        try:
            soak.run()
        finally:
            held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
            signal.pthread_sigmask(signal.SIG_BLOCK, held)  # this is short
            soak.place.end_all()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
        soak.compare_short()
        soak.compare_long()
        is_flat = print_table(soak.series)
        show(soak, is_flat)
        return 0 if is_flat else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as error:
        sys.exit(f"soak: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
