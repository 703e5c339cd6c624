#!/usr/bin/env python3
"""Runs the program over a thousand and more hostile inputs; see corpus.sh."""
import argparse
import fnmatch
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile

import array_cases
import json_cases
import picture_cases
import weight_cases
import word_cases
from check import MIB, Limits, run_case
from formats import (VAE_WEIGHTS_FILE, WEIGHTS_FILE, Golden, generator)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FEWEST = 1000


def refuse(text):
    """A mistake of the caller's: one line, as the other scripts say it."""
    print("corpus: " + text, file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        refuse(message)


def all_cases(program, folder):
    golden = Golden(os.path.join(ROOT, "tests", "golden"))
    made = []
    made += json_cases.cases(golden, (WEIGHTS_FILE, VAE_WEIGHTS_FILE))
    made += weight_cases.cases(golden)
    made += picture_cases.cases(picture_cases.recipe_of(program, folder))
    made += array_cases.cases(golden)
    made += word_cases.cases(program)
    names = [case.name for case in made]
    twice = {name for name in names if names.count(name) > 1} if len(
        set(names)) < len(names) else set()
    if twice:
        refuse("names that stand twice: %s" % sorted(twice)[:5])
    return made


def run_one(task):
    case_index, seed, folder, limits = task
    case = CASES[case_index]
    place = tempfile.mkdtemp(dir=folder)
    os.chmod(place, 0o755)
    try:
        return run_case(case, generator(seed, case.name), place, limits)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def report(results):
    failed = [r for r in results if r.failures]
    for result in failed:
        print("FAILED %s: troupe %s" % (result.name, result.command))
        for line in result.failures:
            print("    " + line)
    if results:
        slow = sorted(results, key=lambda r: -r.seconds)[:3]
        large = sorted(results, key=lambda r: -r.peak)[:3]
        print("slowest: " + ", ".join("%s %.1f s" % (r.name, r.seconds)
                                      for r in slow))
        print("largest: " + ", ".join("%s %d MiB" % (r.name, r.peak // MIB)
                                      for r in large))
    print("%d cases, %d failed" % (len(results), len(failed)))
    if failed:
        print("one alone: scripts/corpus.sh --only %s" % failed[0].name)
    return 1 if failed else 0


def parse(arguments):
    parser = Parser(prog="scripts/corpus.sh", description=__doc__)
    parser.add_argument("--program", default=os.path.join(
        ROOT, "build", "release", "troupe"))
    parser.add_argument("--only", metavar="NAME", help="* and ? stand for others")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="each Nth case only")
    parser.add_argument("--sanitized", action="store_true",
                        help="a build with sanitizers: no bound on memory")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", metavar="DIR", help="builds the case there")
    parser.add_argument("--self-test", action="store_true",
                        help="whether it finds what is wrong")
    return parser.parse_args(arguments)


def main():
    global CASES
    options = parse(sys.argv[1:])
    if options.self_test:
        import self_test
        return self_test.main()
    if not os.access(options.program, os.X_OK):
        refuse("no program at %s: scripts/build.sh release troupe" %
                 options.program)
    folder = tempfile.mkdtemp(prefix="troupe_corpus_")
    os.chmod(folder, 0o755)
    try:
        # Others than root may not be let into the build's folder.
        program = os.path.join(folder, "troupe")
        shutil.copy(options.program, program)
        CASES = all_cases(program, folder)
        indices = [i for i, case in enumerate(CASES) if not options.only or
                   fnmatch.fnmatch(case.name, options.only)][::options.every]
        if options.list:
            print("\n".join(CASES[i].name for i in indices))
            return 0
        if options.keep:
            for i in indices:
                CASES[i].build(os.path.join(options.keep, CASES[i].name),
                               generator(options.seed, CASES[i].name))
                print(os.path.join(options.keep, CASES[i].name), CASES[i].runs)
            return 0
        if not indices or (not options.only and options.every == 1 and
                           len(indices) < FEWEST):
            refuse("only %d cases" % len(indices))
        slower = 8 if options.sanitized else 1
        limits = Limits(program, cpu_seconds=10 * slower,
                        wall_seconds=60 * slower,
                        bounds_memory=not options.sanitized)
        tasks = [(i, options.seed, folder, limits) for i in indices]
        # What a process holds when it starts another counts as the other's.
        with multiprocessing.Pool(options.jobs, maxtasksperchild=50) as pool:
            results = list(pool.imap_unordered(run_one, tasks, chunksize=4))
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if own > limits.memory // 2:
            refuse("it holds %d MiB itself, and its figures are not "
                     "the program's" % (own // MIB))
        return report(sorted(results, key=lambda r: r.name))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
