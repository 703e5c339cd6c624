#!/usr/bin/env python3
"""What several processes and hosts gain and cost: rows of a table beside their targets.

usage: cluster_table.py BUILD [--quick] [--repeats N] [--model DIR|NAME]… [ROW…]
"""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from cluster_runs import HOSTS, Bench, Job, hosts

# By method: options, number of samples, expected speed of two workers against one.
METHODS = {
    "batch": (["--method", "batch"], 4, 1.9),
    "cfg": (["--method", "cfg"], 1, 1.85),
    "pipeline": (["--method", "pipeline", "--segments", "2"], 4, 1.8),
    "stale": (["--method", "stale", "--segments", "2"], 1, None),
    "picard": (["--method", "picard"], 1, None),
}
AGAINST_ONE = ("batch", "cfg", "pipeline", "stale")
WARMUP = 3  # exact calls of stale


def median(values):
    return statistics.median(values)


def show(label, value, target=""):
    print(f"  {label:58}{value:>16}  {target}", flush=True)


def times(values, form="{:.2f}"):
    """The median, and the range where there are several."""
    text = form.format(median(values))
    if len(values) > 1:
        text += f" ({form.format(min(values))}–{form.format(max(values))})"
    return text


class Table:
    def __init__(self, options, folder):
        self.build, self.quick = options.build, options.quick
        self.repeats = 1 if options.quick else options.repeats
        self.models = options.models or (
            ["models/demo"] if options.quick else ["models/demo", "dit-xl-2-256"])
        self.folder = folder

    def bench(self, model):
        return Bench(f"{self.build}/troupe", model, self.folder)

    def steps(self, model):
        steps = (10, 50) if os.path.isdir(model) else (4, 10)
        return steps[0 if self.quick else 1]

    def job(self, model, method, samples=None):
        options, usual, _ = METHODS[method]
        arguments = [*options, "--steps", str(self.steps(model)), "-n",
                     str(samples or usual)]
        exact = ["--warmup", str(WARMUP), "--final-fresh", "0"]
        return arguments + (exact if method == "stale" else [])

    # -- rows ----------------------------------------------------------------------

    def ipc(self):
        """Two processes with one thread each against one, over ipc."""
        for model in self.models:
            print(f"ipc: network calls of two processes against those of one, {model}, "
                  f"{self.steps(model)} steps")
            factor = None
            for method in AGAINST_ONE:
                gains = self.gains(self.bench(model), model, method)
                factor = factor or median(gains)  # of batch
                show(method, times(gains), self.target(model, method, factor))

    def gains(self, bench, model, method):
        gains = []
        samples = str(METHODS[method][1])
        for _ in range(self.repeats):
            one = bench.alone(["--method", "batch", "--steps", str(self.steps(model)),
                               "-n", samples])
            two = bench.together(self.job(model, method))
            if method != "stale":
                self.compare(one, two, f"{method} over ipc")
            gains.append(two.speed() / one.speed())
        return gains

    def target(self, model, method, factor):
        wanted = METHODS[method][2]
        if method == "stale":
            steps, exact = self.steps(model) - 1, WARMUP - 1  # the first is not counted
            bound = steps / (exact + (steps - exact) / 2) * factor / 2
            wanted = f"{0.95 * bound:.2f} (95 % of {bound:.2f})"
        return f"stated (>= {wanted})" if os.path.isdir(model) else f">= {wanted}"

    def gigabit(self):
        self.over_link("1 Gbit/s", ["--mbit", "1000"], 3, AGAINST_ONE, {})

    def slow_link(self):
        self.over_link("100 Mbit/s, 20 ms one way", ["--mbit", "100", "--delay", "20"], 5,
                       METHODS, {"batch": 8, "cfg": 8}, delay=0.02)

    def over_link(self, name, link, percent, methods, samples, delay=0.0):
        """The same job over ipc and over a link, in turns."""
        with hosts(3, *link) as network:
            for model in self.models:
                print(f"{name}: time lost against ipc, {model}, {self.steps(model)} steps")
                bench = self.bench(model)
                for method in methods:
                    arguments = self.job(model, method, samples.get(method))
                    losses = []
                    for _ in range(self.repeats):
                        near = bench.together(arguments)
                        far = bench.together(arguments, network)
                        self.compare(near, far, f"{method} over {name}")
                        losses.append(100 * (1 - far.speed() / near.speed()))
                    show(method, times(losses, "{:.1f} %"),
                         self.target_of_link(model, method, percent, samples)
                         + beside_bound(near, far, method, self.steps(model), delay))

    def target_of_link(self, model, method, percent, samples):
        is_bound = not os.path.isdir(model) and (not samples or method in samples)
        return f"<= {percent} %" if is_bound else "stated"

    def coordination(self):
        print("coordination per task, 16 workers, a network that costs nothing")
        for company in ("shared", "sockets"):
            print("  " + company + ": " + self.coordinate(16, company).replace(
                "\n", "\n    "))
        show("", "", "sockets (ipc): <= 25 us per task")
        # Workers that wait for their coordinator only: it is never idle.
        rates = {workers: 1e6 / float(re.search(r"([0-9.]+) us per task", self.coordinate(
            workers, "sockets"))[1]) for workers in (4, 16, 64)}
        most = max(rates, key=rates.get)
        show("tasks/s where one coordinator saturates, over ipc",
             f"{rates[most]:,.0f}", f"with {most} workers; stated")

    def coordinate(self, workers, company):
        return self.output("tests/actors/bench_coordination", str(workers),
                           "5000" if self.quick else "50000", TROUPE_TEST_COMPANY=company)

    def lane(self):
        print("value lane")
        print(self.output("tests/net/bench_link", "0.3" if self.quick else "3"))
        show("", "", "without keys >= 3 (ipc) and >= 2 GB/s (tcp); 16 KiB one way <= 100 us")

    def unequal(self):
        print("unequal workers that sleep, over ipc: used of their summed speed")
        print(self.output("tests/actors/bench_unequal", "2" if self.quick else "10",
                          str(self.repeats), TROUPE_TEST_COMPANY="sockets"))
        show("", "", ">= 0.92; that drops in mid-run >= 0.87, stale: stated")

    def loss(self):
        """From a fault until the coordinator says so, and to the first task of the victim's
        samples on another worker."""
        print("a worker is lost: until its samples are worked on elsewhere, demo, batch")
        bench = self.bench("models/demo")
        with hosts(3, "--mbit", "1000") as network:
            self.losses("killed, ipc", bench, bench.ipc, kill)
            self.losses("killed, 1 Gbit/s", bench, network, kill)
            self.losses("frozen, 1 Gbit/s", bench, network, freeze)
            self.losses("unplugged, 1 Gbit/s", bench, network, unplug)

    def losses(self, label, bench, network, fault):
        noticed, found = [], []
        for _ in range(self.repeats):
            job = Job(bench, ["--method", "batch", "-n", "4", "--steps", "50"], network)
            victim = job.add_worker(), job.add_worker()
            job.wait_for_share(0.25)
            fault(victim[1])
            moment = time.monotonic()
            run = job.finish()
            if fault is unplug:
                subprocess.run([HOSTS, "plug", "3"], check=True)
            if job.lost_at is None:
                raise SystemExit("bench_cluster: nobody said that a process was lost")
            noticed.append(job.lost_at - moment)
            found.append(elsewhere(run, moment - job.zero))
        crash = fault is kill
        show(f"{label}: noticed", times(noticed, "{:.3f} s"),
             "<= 0.05 s" if crash else "<= 1 s")
        show(f"{label}: elsewhere", times(found, "{:.2f} s"),
             "<= 0.5 s" if crash else "<= 2 s")

    def join(self):
        print("a worker joins in mid-run, demo, batch")
        bench, found = self.bench("models/demo"), []
        for _ in range(self.repeats):
            job = Job(bench, ["--method", "batch", "-n", "8", "--steps", "50"], bench.ipc)
            job.add_worker()
            job.wait_for_share(0.1)
            moment = time.monotonic()
            job.add_worker()
            run = job.finish()
            ends = [span.end for span in run.spans if span.worker == 1]
            if not ends:
                raise SystemExit("bench_cluster: the job was over before the worker came")
            found.append(min(ends) - (moment - job.zero))
        show("from its start to its first result", times(found, "{:.2f} s"), "<= 1.5 s")

    def crowd(self):
        print("sessions that join over tcp with keys, and killed ones, beside one at work")
        print(self.output("tests/net/bench_crowd", "join", "30" if self.quick else "300"))
        show("", "", "300 within a minute: all in, no stall over 100 ms")
        print(self.output("tests/net/bench_crowd", "crash", "3" if self.quick else "50"))
        show("", "", "noticed within 50 ms")

    def memory(self):
        """Resident memory of processes that hold a segment each, in mid-run."""
        model = "models/demo" if self.quick else "dit-xl-2-256"
        bench, steps = self.bench(model), str(self.steps(model))
        print(f"memory of 4 segments on 4 processes against that of the whole, {model}")
        whole, parts = [], []
        for _ in range(self.repeats):
            job = Job(bench, ["--method", "batch", "-n", "2", "--steps", steps])
            job.wait_for_share(0.5)
            whole.append(job.resident(job.head))
            job.finish()
            job = Job(bench, ["--method", "pipeline", "--segments", "4", "-n", "8",
                              "--steps", steps], bench.ipc)
            workers = [job.add_worker() for _ in range(4)]
            # Who came first has read others' segments, and has let them go by then.
            job.wait_for_share(0.7)
            parts += [100 * job.resident(worker) / whole[-1] for worker in workers]
            four = job.finish()
            if len({call.worker for call in four.calls}) != 4:
                raise SystemExit("bench_cluster: a segment had no worker of its own")
        show("the whole, in one process", times(whole, "{:.0f} MiB"))
        show("of it in each process of four", times(parts, "{:.0f} %"),
             "<= 30 % at DiT-XL/2 size" if not self.quick else "stated")

    # -- helpers -------------------------------------------------------------------

    def compare(self, one, other, what):
        if one.latents != other.latents:
            raise SystemExit(f"bench_cluster: {what}: other bytes: {one.latents} and "
                             f"{other.latents}")

    def output(self, program, *arguments, **variables):
        done = subprocess.run([f"{self.build}/{program}", *arguments], text=True,
                              capture_output=True, env={**os.environ, **variables})
        if done.returncode != 0:
            raise SystemExit(f"bench_cluster: {program} ended with exit code "
                             f"{done.returncode}: {done.stderr}")
        return done.stdout.rstrip()


def beside_bound(near, far, method, steps, delay):
    """What the delay allows: a step needs two trips, there and back. In a pipeline
    those of all samples overlap, in a stale one those of two steps."""
    if not delay or method not in ("pipeline", "stale"):
        return ""
    step = 2 * delay + far.call_seconds()
    bound = steps * step if method == "pipeline" else (
        WARMUP * step + (steps - WARMUP) * step / 2)
    bound = max(bound, near.seconds())
    return f"; the last took {far.seconds():.2f} s, the delay allows {bound:.2f} s"


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)


def freeze(process):
    os.killpg(process.pid, signal.SIGSTOP)


def unplug(_):
    subprocess.run([HOSTS, "unplug", "3"], check=True)


def elsewhere(run, moment):
    """Seconds from the fault to the first task elsewhere of a sample that the victim had
    begun."""
    last = {}
    for span in run.spans:
        last[span.worker] = max(span.end, last.get(span.worker, 0))
    victim = min(last, key=last.get)
    decoded = {span.sample for span in run.spans
               if span.name == "decode" and span.worker == victim}
    held = {span.sample for span in run.spans if span.worker == victim} - decoded
    starts = [span.start for span in run.spans
              if span.worker != victim and span.sample in held and span.start > moment]
    if len(last) < 2 or not starts:
        raise SystemExit("bench_cluster: the fault came too early or too late")
    return min(starts) - moment


ROWS = {"ipc": Table.ipc, "gigabit": Table.gigabit, "slow-link": Table.slow_link,
        "coordination": Table.coordination, "lane": Table.lane,
        "unequal": Table.unequal, "loss": Table.loss, "join": Table.join,
        "crowd": Table.crowd, "memory": Table.memory}


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", action="append", dest="models")
    parser.add_argument("rows", nargs="*")
    options = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        table = Table(options, folder)
        for name in options.rows or ROWS:
            start = time.monotonic()
            ROWS[name](table)
            print(f"  -- {name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
