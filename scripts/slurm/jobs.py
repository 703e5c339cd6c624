#!/usr/bin/env python3
"""Jobs of scripts/slurm.sbatch on the nodes of cluster.sh, against one process: their
pictures and latents must have the same bytes.

usage: jobs.py MODEL [--time-limit]
TROUPE names the program, SBATCH_SCRIPT the script.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

TROUPE, SCRIPT, MODEL = os.environ["TROUPE"], os.environ["SBATCH_SCRIPT"], sys.argv[1]
ARGUMENTS = ["--model", MODEL, "--steps", "20", "--seed", "5", "--workers", "1",
             "--threads", "1", "--json", "--quiet"]
SAMPLES = 12
PATIENCE = 600  # seconds, for what is not expected to take sixty


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        expect(time.monotonic() < end, f"{what}: not after {PATIENCE} s")
        time.sleep(0.1)


def pictures(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).glob("*.png")}


def summaries(text):
    """The JSON objects of the runs that came to their end."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if line["status"] == "done"]


class Job:
    """A job of slurm.sbatch. Its pictures lie in the folder `name`."""

    def __init__(self, name, *options, samples=SAMPLES):
        self.folder = pathlib.Path(name)
        self.id = output_of("sbatch", "--parsable", "--job-name", name, "--time=10",
                            "--output", f"{name}-%a.txt", *options, SCRIPT, *ARGUMENTS,
                            "--samples", str(samples), "--out", name + "/").strip()

    def fields(self):
        """Of each task: what scontrol knows of it."""
        text = output_of("scontrol", "show", "job", "--oneliner", self.id)
        return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in text.splitlines()]

    def nodes(self):
        return output_of("scontrol", "show", "hostnames",
                         self.fields()[0]["NodeList"]).split()

    def wait_for_pictures(self, number):
        wait_until(lambda: len(pictures(self.folder)) >= number or self.is_over(),
                   f"{number} pictures of {self.folder}")
        expect(not self.is_over(), f"{self.folder} was over before it was disturbed")

    def is_over(self):
        over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
        return all(task["JobState"] in over for task in self.fields())

    def said(self):
        return "".join(path.read_text() for path in
                       pathlib.Path().glob(f"{self.folder}-*.txt"))

    def finish(self, expected, restarts=(0,)):
        """Its summaries, after its state and its bytes were compared."""
        wait_until(self.is_over, f"the end of {self.folder}")
        for task in self.fields():
            expect(task["JobState"] == "COMPLETED" and task["ExitCode"] == "0:0",
                   f"{self.folder}: {task['JobState']} {task['ExitCode']}")
            expect(int(task["Restarts"]) in restarts,
                   f"{self.folder}: started again {task['Restarts']} times")
        drawn = pictures(self.folder)
        expect(drawn.keys() == expected.pictures.keys(),
               f"{self.folder}: got the pictures {sorted(drawn)}")
        for name, data in drawn.items():
            expect(data == expected.pictures[name], f"{self.folder}/{name}: other bytes")
        ends = summaries(self.said())
        for image in (image for end in ends for image in end["images"]):
            expect(image["latents_xxh3"] == expected.latents[image["index"]],
                   f"{self.folder}, sample {image['index']}: other latents")
        expect(not list(pathlib.Path().glob(".troupe-*")), "a key was left behind")
        return ends


class Alone:
    """What one process gives."""

    def __init__(self, samples=SAMPLES):
        folder = f"alone-{samples}"
        end = json.loads(output_of(TROUPE, "sample", *ARGUMENTS, "--samples", str(samples),
                                   "--out", folder))
        self.pictures, self.hash = pictures(folder), end["latents_xxh3"]
        self.latents = {image["index"]: image["latents_xxh3"] for image in end["images"]}
        expect(len(self.pictures) == samples, "one process did not draw all pictures")


def test_company(alone):
    end, = Job("company", "--nodes=3").finish(alone)
    expect(end["latents_xxh3"] == alone.hash, "company: other latents")
    hosts = sorted(node["name"].split(":")[0] for node in end["nodes"])
    expect(hosts == ["n1", "n2", "n3"], f"company: got processes on {hosts}, expected n1 to n3")
    expect(all(node["status"] == "done" for node in end["nodes"]), f"{end['nodes']}")


def test_array(alone):
    ends = Job("array", "--nodes=1", "--array=0-4").finish(alone)
    counts = sorted(len(end["images"]) for end in ends)
    expect(counts == [2, 2, 2, 3, 3], f"array: got tasks of {counts} pictures")


def test_array_from_1(_):
    """Its parts would not be those of the array from 0."""
    job = Job("array-from-1", "--array=1-2")
    wait_until(job.is_over, "the end of array-from-1")
    expect({task["ExitCode"] for task in job.fields()} == {"2:0"},
           f"array from 1: got {job.fields()}")
    expect(job.said().count("expected 0-N") == 2, f"array from 1: said {job.said()}")


def test_requeue(alone):
    job = Job("requeue", "--nodes=2")
    job.wait_for_pictures(2)
    output_of("scontrol", "requeue", job.id)
    end = job.finish(alone, restarts=(1,))[-1]
    expect(any(image["status"] == "skipped" for image in end["images"]),
           "requeue: it started from the beginning")


def test_signal(alone):
    """The one that Slurm sends before the time limit, sent by hand."""
    job = Job("signal", "--nodes=2")
    job.wait_for_pictures(2)
    output_of("scancel", "--batch", "--signal=USR1", job.id)
    end = job.finish(alone, restarts=(1,))[-1]
    expect(any(image["status"] == "skipped" for image in end["images"]),
           "signal: it started from the beginning")
    expect("goes back to the queue" in job.said(), "signal: the script does not say so")


def test_cancel(_):
    job = Job("cancel", "--nodes=2", samples=4000)
    job.wait_for_pictures(2)
    port = 20000 + int(job.id) % 12000
    output_of(TROUPE, "cancel", f"tcp://{job.nodes()[0]}:{port}", "--secret-file",
              f".troupe-{job.id}.key")
    wait_until(job.is_over, "the end of cancel")
    task, = job.fields()
    expect((task["JobState"], task["ExitCode"], task["Requeue"], task["Restarts"]) ==
           ("FAILED", "9:0", "0", "0"), f"cancel: got {task}")
    expect("cancelled by " in job.said(), "cancel: it does not say by whom")


def test_time_limit(_):
    """Slurm looks at the clock every half minute, and sends the signal early."""
    samples = 60
    alone = Alone(samples)
    job = Job("time-limit", "--nodes=1", "--time=1", samples=samples)
    job.finish(alone, restarts=range(1, 10))
    expect("goes back to the queue" in job.said(), "time limit: it was not felt")


def set_down(node):
    output_of("scontrol", "update", f"nodename={node}", "state=down", "reason=test")


def resume(node):
    output_of("scontrol", "update", f"nodename={node}", "state=resume")
    wait_until(lambda: output_of("sinfo", "--noheader", "--format=%t", "--nodes",
                                 node).strip() == "idle", f"{node} in service")


def test_node_down(alone):
    job = Job("node-down", "--nodes=3")
    job.wait_for_pictures(2)
    lost = job.nodes()[-1]
    set_down(lost)
    end, = job.finish(alone)
    gone = [node["name"].split(":")[0] for node in end["nodes"] if node["status"] == "left"]
    expect(gone == [lost], f"node-down: got {end['nodes']}, expected that {lost} left")
    resume(lost)


def test_first_node_down(alone):
    """Slurm starts a job again if it may not go on without a node."""
    job = Job("first-node-down", "--nodes=2", "--no-kill=off")
    job.wait_for_pictures(2)
    lost = job.nodes()[0]
    set_down(lost)
    job.finish(alone, restarts=(1,))
    resume(lost)


TESTS = (test_company, test_array, test_array_from_1, test_requeue, test_signal,
         test_cancel, test_node_down, test_first_node_down)


def main():
    alone = Alone()
    for test in [*TESTS, *([test_time_limit] if "--time-limit" in sys.argv else [])]:
        start = time.monotonic()
        name = test.__name__.removeprefix("test_").replace("_", " ")
        try:
            test(alone)
        except Failure as failure:
            print(output_of("squeue", "--long"), end="", file=sys.stderr)
            for path in pathlib.Path().glob("*.txt"):
                print(f"-- {path}", path.read_text(), sep="\n", file=sys.stderr)
            sys.exit(f"slurm_test: {name}: {failure}")
        print(f"{name:18} as expected, {time.monotonic() - start:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
