#!/usr/bin/env python3
"""Jobs over three hosts of scripts/hosts.sh, a worker of each killed, frozen, unplugged, slowed
or asked to leave at a random moment, against the same jobs in one process: their bytes must be equal.

usage: cluster_bytes.py TROUPE MODEL TRIALS SEED
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

HOSTS = "scripts/hosts.sh"
ENDPOINT = "tcp://10.77.0.1:7010"
METHODS = {
    "sequential": ["--method", "sequential", "-n", "3"],
    "batch": ["--method", "batch", "-n", "6"],
    "cfg": ["--method", "cfg", "--guidance", "1.5", "-n", "2"],
    "picard": ["--method", "picard", "--tolerance", "0.03", "-n", "2"],
    "picard, tolerance 0": ["--method", "picard", "--tolerance", "0", "-n", "1"],
    "pipeline": ["--method", "pipeline", "--segments", "2", "-n", "3"],
    "stale": ["--method", "stale", "--segments", "2", "--warmup", "3", "-n", "2"],
    "stale, ages of 2": ["--method", "stale", "--segments", "2", "--ages", "2",
                         "--warmup", "3", "-n", "2"],
    "batch, SDE solver": ["--method", "batch", "--sampler", "dpm++2m-sde", "-n", "4"],
    "batch, multistep solver": ["--method", "batch", "--sampler", "unipc", "-n", "4"],
    "pipeline, two processes": ["--method", "pipeline", "--segments", "2", "-n", "3"],
}
# Methods of two processes: the first process computes, and one worker joins.
OF_TWO_PROCESSES = {"pipeline, two processes"}
# Faults take turns. There are 11 methods, so in 55 trials every method meets every
# fault.
FAULTS = ("kill", "stop", "unplug", "slow", "drain")
LEASE = 1  # seconds: after so much silence a link is lost, on both sides


def on_host(host, command, **options):
    return subprocess.Popen([HOSTS, "run", str(host), *command],
                            start_new_session=True, **options)


def end(process):
    """The program and what ran it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def summary_of(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


class Trial:
    def __init__(self, troupe, model, folder):
        self.troupe, self.model, self.folder = troupe, model, folder
        self.alone = {}  # what one process gives
        for args in (["new"], ["worker", "--from", folder / "company.key"]):
            out = folder / ("company.key" if args[0] == "new" else "node.key")
            subprocess.run([troupe, "keys", *args, "-q", "--out", out], check=True)

    def job(self, name, seed):
        return [self.troupe, "sample", "-m", self.model, "-q", "--json", "--steps", "20",
                "--threads", "1", "--seed", str(seed), "--exists", "replace",
                *METHODS[name]]

    def worker(self, host):
        return on_host(host, [self.troupe, "worker", "-q", "--join", ENDPOINT,
                              "--secret-file", self.folder / "node.key",
                              "-m", self.model, "--workers", "1", "--threads", "1",
                              "--wait", "30"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def expected(self, name, seed):
        if (name, seed) not in self.alone:
            out = summary_of([*self.job(name, seed), "--workers", "1",
                              "-o", str(self.folder / "alone")])
            self.alone[name, seed] = out["latents_xxh3"], out["wall_seconds"]
        return self.alone[name, seed]

    def harm(self, fault, worker, host):
        """When it returns, another worker may come to the host."""
        if fault == "kill":
            os.killpg(worker.pid, signal.SIGKILL)
        elif fault == "stop":
            os.killpg(worker.pid, signal.SIGSTOP)
        elif fault == "drain":
            os.killpg(worker.pid, signal.SIGTERM)
        elif fault == "unplug":
            subprocess.run([HOSTS, "unplug", str(host)], check=True)
            time.sleep(LEASE + 0.5)
            subprocess.run([HOSTS, "plug", str(host)], check=True)
        else:
            for _ in range(8):
                os.killpg(worker.pid, signal.SIGSTOP)
                time.sleep(0.4 * LEASE)
                os.killpg(worker.pid, signal.SIGCONT)
                time.sleep(0.15 * LEASE)

    def await_rows(self):
        """Until a worker has computed something: it is harmed at work, not while it joins."""
        look = [HOSTS, "run", "1", self.troupe, "ls", ENDPOINT, "--json", "--secret-file",
                self.folder / "company.key"]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            seen = subprocess.run(look, capture_output=True, text=True, check=False)
            if seen.returncode == 0 and any(
                    node["rows"] > 0 for node in json.loads(seen.stdout)["nodes"][1:]):
                return
            time.sleep(0.05)

    def run(self, name, seed, fault, rng):
        """Whether the bytes are those of one process, and whether a worker was lost."""
        bytes_alone, seconds = self.expected(name, seed)
        is_of_two = name in OF_TWO_PROCESSES
        head = on_host(1, [*self.job(name, seed), "--workers", "1" if is_of_two else "0",
                           "--listen", ENDPOINT,
                           "--secret-file", self.folder / "company.key",
                           "-o", self.folder / "together"],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        hosts = (2,) if is_of_two else (2, 3)
        workers = [self.worker(host) for host in hosts]
        self.await_rows()
        # Two workers need half of what one needs.
        time.sleep(rng.uniform(0, 0.3 * seconds))
        victim = rng.randrange(len(workers))
        try:
            self.harm(fault, workers[victim], hosts[victim])
            if fault != "slow":
                workers.append(self.worker(hosts[victim]))  # comes back as another one
            out, err = head.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            out, err = "", "not over after two minutes"
        finally:
            for process in [*workers, head]:
                end(process)
        if head.returncode != 0:
            print(f"{name}, seed {seed}: {err}", file=sys.stderr)
            return False, False
        result = json.loads(out.splitlines()[-1])
        return result["latents_xxh3"] == bytes_alone, result["recoveries"] > 0


def main():
    troupe, model, trials, seed = sys.argv[1:]
    rng = random.Random(int(seed))
    of_methods, of_faults = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(troupe, model, pathlib.Path(folder))
        for number in range(int(trials)):
            name = list(METHODS)[number % len(METHODS)]
            fault = FAULTS[(number + int(seed)) % len(FAULTS)]
            is_equal, was_hit = trial.run(name, rng.randrange(3), fault, rng)
            for counts, key in ((of_methods, name), (of_faults, fault)):
                row = counts.setdefault(key, [0, 0, 0])
                for i, count in enumerate((1, is_equal, was_hit)):
                    row[i] += count
            if not is_equal:
                print(f"trial {number}: {name}, {fault}: other bytes", file=sys.stderr)
    print(f"{'':26}{'jobs':>6}{'equal':>7}{'worker lost in mid-job':>24}")
    total = [sum(row[i] for row in of_methods.values()) for i in range(3)]
    for name, row in [*of_methods.items(), *of_faults.items(), ("all", total)]:
        print(f"{name:26}{row[0]:6}{row[1]:7}{row[2]:24}")
    sys.exit(0 if total[0] == total[1] else 1)


if __name__ == "__main__":
    main()
