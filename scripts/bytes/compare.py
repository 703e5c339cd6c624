#!/usr/bin/env python3
"""Compares the bytes of two builds, job by job; see ../bytes.sh."""
import argparse
import concurrent.futures
import fnmatch
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zlib

import cases

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What a summary says of the bytes and of how they were reached.
FIELDS = ("latents_xxh3", "nfe", "rounds")


def refuse(text):
    """A mistake of the caller's: one line, as the other scripts say it."""
    print("bytes: " + text, file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        refuse(message)


def program_of(build, case):
    return os.path.join(ROOT, build, "tests/cuda/troupe_emulated" if case.is_gpu
                        else "troupe")


def pixels_of(path):
    """The bytes of a PNG's pixels: its text has the name of the class, which
    another build has too."""
    with open(path, "rb") as file:
        png = file.read()
    place, packed = 8, b""
    while place < len(png):
        size = int.from_bytes(png[place:place + 4], "big")
        if png[place + 4:place + 8] == b"IDAT":
            packed += png[place + 8:place + 8 + size]
        place += size + 12
    return zlib.decompress(packed)


def answer_of(build, case, further=()):
    """What the program says of a job: its bytes, or why there are none."""
    environment = dict(os.environ)
    if case.isa:
        environment["ONEDNN_MAX_CPU_ISA"] = case.isa
    pixels = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [program_of(build, case), "sample", *case.words,
             "--save", "latents=" + os.path.join(folder, "latents.npz"),
             "--out", os.path.join(folder, "{index:03}.png"),
             "--json", "-q", *further],
            cwd=ROOT, env=environment, capture_output=True, text=True)
        for path in sorted(glob.glob(os.path.join(folder, "*.png"))):
            pixels.update(pixels_of(path))
    try:
        said = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return "exit code %d without JSON: %s" % (
            done.returncode, done.stderr.strip()[:200])
    if said["exit_code"] != 0:
        return "exit code %d: %s" % (said["exit_code"], said["error"]["code"])
    return " ".join("%s %s" % (field, said[field]) for field in FIELDS) + (
        " pixels " + pixels.hexdigest()[:16])


def all_cases(options):
    return cases.cases(os.path.join(ROOT, options.tree, "tests/probes/forward_probe"))


def probe_of(build):
    """{case: answer} of the probe; None where the build has none."""
    program = os.path.join(ROOT, build, "tests", "probes", "bytes_probe")
    if not os.path.exists(program):
        return None
    done = subprocess.run([program], capture_output=True, text=True)
    if done.returncode != 0:
        refuse("%s ended with exit code %d: %s" % (
            program, done.returncode, done.stderr.strip()[:200]))
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


class Report:
    """Counts what is equal, and says what is not."""

    def __init__(self, allowed, say=print):
        self.allowed = allowed
        self.say = say
        self.equal = self.refused = self.different = 0
        self.let_pass = dict.fromkeys(allowed, 0)

    def add(self, name, base, tree):
        if base == tree:
            self.equal += 1
            self.refused += base.startswith("exit code")
            return
        for pattern in self.allowed:
            if fnmatch.fnmatchcase(name, pattern):
                self.let_pass[pattern] += 1
                return
        self.different += 1
        self.say("DIFFERENT %s\n    base: %s\n    tree: %s" % (name, base, tree))

    def end(self):
        for pattern, count in self.let_pass.items():
            print("allowed: %d of %s (%s)" % (count, pattern, self.allowed[pattern]))
        print("%d equal (%d of them refused by both), %d different" % (
            self.equal, self.refused, self.different))
        made = self.equal - self.refused + sum(self.let_pass.values())
        return 1 if self.different or not made else 0


def compare(options, chosen, report):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        base = pool.map(lambda case: answer_of(options.base, case), chosen)
        tree = pool.map(lambda case: answer_of(options.tree, case), chosen)
        for case, one, other in zip(chosen, base, tree):
            report.add(case.name, one, other)


def compare_probes(options, wanted, report):
    tree = probe_of(options.tree)
    base = probe_of(options.base)
    if base is None or tree is None:
        print("left out: the mixture and the toy network; the %s has no bytes_probe"
              % ("base" if tree else "tree"))
        return
    names = [name for name in {**base, **tree} if wanted(name)]
    for name in names:
        report.add(name, base.get(name, "no such case"),
                   tree.get(name, "no such case"))


def self_test(options):
    """Another seed must be seen as different bytes, the same one as equal."""
    case = next(c for c in all_cases(options) if c.name == "tiny/ddim/batch/f32")
    same = Report({})
    same.add(case.name, answer_of(options.base, case), answer_of(options.base, case))
    said = []
    other = Report({}, said.append)
    other.add(case.name, answer_of(options.base, case),
              answer_of(options.base, case, ("--seed", "4")))
    passed = Report({"tiny/*": "a seed"})
    passed.add(case.name, "latents_xxh3 1", "latents_xxh3 2")
    counts = (same.equal, same.refused, other.different, len(said),
              sum(passed.let_pass.values()))
    if counts != (1, 0, 1, 1, 1):
        refuse("the self-test failed: %s" % (counts,))
    print("self-test: ok")
    return 0


def allowed_of(texts):
    allowed = {}
    for text in texts:
        pattern, _, reason = text.partition("=")
        if not pattern or not reason:
            refuse("--allow: got '%s', expected GLOB=REASON" % text)
        allowed[pattern] = reason
    return allowed


def main():
    parser = Parser(prog="scripts/bytes.sh BASE_COMMIT", description=__doc__)
    parser.add_argument("--base", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--tree", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--only", default="*", metavar="GLOB")
    parser.add_argument("--allow", action="append", default=[], metavar="GLOB=REASON")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test(options)
    if options.every < 1:
        refuse("--every: got %d, expected at least 1" % options.every)

    def wanted(name):
        return fnmatch.fnmatchcase(name, options.only)

    chosen = [c for c in all_cases(options) if wanted(c.name)][::options.every]
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    report = Report(allowed_of(options.allow))
    lacking = [c for c in chosen if not all(
        os.path.exists(program_of(build, c)) for build in (options.base, options.tree))]
    if lacking:
        print("left out: %d jobs on emulated GPUs; BYTES_PRESET=emulated builds the"
              " programs" % len(lacking))
    compare(options, [c for c in chosen if c not in lacking], report)
    compare_probes(options, wanted, report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
