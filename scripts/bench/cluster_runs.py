"""Jobs of one process and of several, for cluster_table.py: on this machine over ipc, or
on hosts of scripts/hosts.sh. Times come from traces, whose clock begins with the job."""

import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import threading
import time

HOSTS = "scripts/hosts.sh"
# What a killed bench started ends with it.
BOUND = ["setpriv", "--pdeathsig", "KILL"]


class Network:
    """Where the processes of a company run, and where the first one listens."""

    def __init__(self, endpoint, hosts=()):
        self.endpoint, self.hosts = endpoint, hosts

    def start(self, index, command, **options):
        """The first process has the index 0."""
        if self.hosts:
            command = [HOSTS, "run", str(self.hosts[index]), *command]
        return subprocess.Popen([*BOUND, *command], start_new_session=True, **options)


@contextlib.contextmanager
def hosts(number, *link):
    subprocess.run([HOSTS, "up", str(number), *link], check=True)
    try:
        yield Network("tcp://10.77.0.1:7010", range(1, number + 1))
    finally:
        subprocess.run([HOSTS, "down"], check=True)


def end(process):
    """The program and what ran it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Span:
    """A task on a worker, in seconds of the job."""

    def __init__(self, event):
        self.worker, self.name = event["tid"], event["name"]
        self.start = event["ts"] / 1e6
        self.end = self.start + event["dur"] / 1e6
        self.sample, self.rows = event["args"]["sample"], event["args"]["rows"]
        self.segment = event["args"]["segment"]


class Run:
    """What is known of a job that is over."""

    def __init__(self, summary, trace):
        self.summary, self.latents = summary, summary["latents_xxh3"]
        events = json.loads(trace.read_text())["traceEvents"]
        self.spans = [Span(event) for event in events if event["ph"] == "X"]
        self.calls = [s for s in self.spans if s.name in ("evaluate", "segment")]

    def seconds(self):
        """From the first network call to the end of the last one."""
        return max(s.end for s in self.calls) - min(s.start for s in self.calls)

    def speed(self):
        """The part of the job's network calls that is done in a second, from when each
        worker has done its first call: that one reads the weights, and workers do not
        join at the same moment. Decodes come after the last call."""
        ends = {}
        for call in self.calls:
            ends[call.worker] = min(call.end, ends.get(call.worker, call.end))
        begin, end = max(ends.values()), max(call.end for call in self.calls)
        if begin >= end:
            raise SystemExit("bench_cluster: a worker came too late to be measured")
        share = sum(call.rows * max(0, call.end - max(call.start, begin))
                    / (call.end - call.start) for call in self.calls)
        return share / sum(call.rows for call in self.calls) / (end - begin)

    def call_seconds(self):
        """Of a network call that is cut into segments: medians, summed."""
        return sum(statistics.median(c.end - c.start for c in self.calls
                                     if c.segment == number)
                   for number in {call.segment for call in self.calls})


class Job:
    """A job that runs: the first process, its workers, and when its clock began."""

    def __init__(self, bench, arguments, network=None):
        self.bench, self.network, self.workers = bench, network, []
        self.trace = bench.folder / "trace.json"
        self.events, self.zero, self.lost_at = [], None, None
        command = [bench.troupe, "sample", *bench.source, "--threads", "1", "--guidance",
                   "1.5", "--seed", "1", "--class", "0", "--json", "--progress", "json",
                   "--exists", "replace", "--trace", self.trace, *arguments,
                   "-o", bench.folder / "pictures/"]
        if network:
            command += ["--workers", "0", "--listen", network.endpoint,
                        "--secret-file", bench.key]
        else:
            command += ["--workers", "1"]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [str(word) for word in command]
        self.head = (network.start(0, command, **options) if network else
                     subprocess.Popen([*BOUND, *command], start_new_session=True,
                                      **options))
        self.listener = threading.Thread(target=self.listen)
        self.listener.start()

    def listen(self):
        """Progress lines say how old the job is: so its clock can be told by ours."""
        for line in self.head.stderr:
            now = time.monotonic()
            self.events.append(line)
            if line.startswith('{"event":"progress"'):
                zero = now - json.loads(line)["elapsed_seconds"]
                self.zero = zero if self.zero is None else min(self.zero, zero)
            elif " is lost, the job " in line and self.lost_at is None:
                self.lost_at = now

    def add_worker(self):
        self.workers.append(self.network.start(
            len(self.workers) + 1,
            [self.bench.troupe, "worker", "-q", "--join", self.network.endpoint,
             "--secret-file", self.bench.key, *self.bench.model_of_workers,
             "--workers", "1", "--threads", "1", "--wait", "60"],
            stdout=subprocess.DEVNULL))
        return self.workers[-1]

    def calls(self):
        """Network calls done so far, and of all."""
        for line in reversed(self.events):
            if line.startswith('{"event":"progress"'):
                event = json.loads(line)
                return event["calls_done"], event["calls_total"]
        return 0, 1

    @staticmethod
    def resident(process):
        """MiB of memory that a process of the job holds now."""
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024

    def wait_for_share(self, share, patience=600):
        limit = time.monotonic() + patience
        try:
            while self.calls()[0] < share * self.calls()[1]:
                if self.head.poll() is not None or time.monotonic() > limit:
                    self.fail(f"it did not come to {share:.0%}")
                time.sleep(0.005)
        except BaseException:
            self.stop()
            raise

    def fail(self, what):
        self.stop()
        raise SystemExit(f"bench_cluster: {what}: {''.join(self.events)}")

    def stop(self):
        for process in [*self.workers, self.head]:
            end(process)

    def finish(self):
        try:
            out = self.head.stdout.read()
            self.head.wait()
            self.listener.join()
        finally:
            self.stop()
        if self.head.returncode != 0:
            self.fail(f"exit code {self.head.returncode}")
        return Run(json.loads(out.splitlines()[-1]), self.trace)


class Bench:
    """The program, a model, and a folder for keys, sockets and pictures."""

    def __init__(self, troupe, model, folder):
        self.troupe, self.folder = troupe, pathlib.Path(folder)
        is_folder = os.path.isdir(model)
        self.source = ["--model" if is_folder else "--random-weights", model]
        self.model_of_workers = ["--model", model] if is_folder else []
        self.key = self.folder / "company.key"
        if not self.key.exists():
            subprocess.run([troupe, "keys", "new", "-q", "--out", self.key], check=True)
        self.ipc = Network(f"ipc://{self.folder}/link")

    def alone(self, arguments):
        return Job(self, arguments).finish()

    def together(self, arguments, network=None, workers=2):
        job = Job(self, arguments, network or self.ipc)
        for _ in range(workers):
            job.add_worker()
        return job.finish()
