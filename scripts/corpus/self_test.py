"""Whether the corpus finds what is wrong: a program that misbehaves in every
way must fail, and one that does as it should must not."""
import os
import shutil
import sys
import tempfile

from check import MIB, Case, Limits, run_case
from formats import generator, put

GOOD = 'err("troupe: [a.png] not a PNG; get it again"); sys.exit(2)'
JSON = 'print(\'{"exit_code":2}\'); ' + GOOD
# How it behaves -> (its code, a word of what is to be said, empty: nothing).
WAYS = {
    "good": (GOOD, ""),
    "good_note": ('err("12:00:01 warning an old file"); ' + GOOD, ""),
    "bug": ('err("troupe: [x] a bug"); sys.exit(1)', "exit code 1"),
    "success": ("sys.exit(0)", "exit code 0"),
    "crash": ("os.kill(os.getpid(), 11)", "SIGSEGV"),
    "abort": ("os.abort()", "SIGABRT"),
    "sleep": ("time.sleep(60)", "took more than"),
    "spin": ("\nwhile True: pass", "took more than"),
    "slow": ("\nend = time.process_time() + 0.7\nwhile time.process_time() < "
             "end: pass\n" + GOOD, "at most 0.50 expected"),
    "silent": ("sys.exit(2)", "0 error lines"),
    "two_errors": ('err("troupe: a"); ' + GOOD, "2 error lines"),
    "other_line": ('err("terminate called"); ' + GOOD, "no known kind"),
    "many_notes": ('[err("12:00:01 warning x") for i in range(50)]; ' + GOOD,
                   "50 notes"),
    "long_line": ('err("troupe: " + "x" * 5000); sys.exit(2)', "line of 5008"),
    "no_end": ('sys.stderr.write("troupe: x"); sys.exit(2)', "line's end"),
    "bytes": ('raw(b"troupe: \\xff\\xfe\\n"); sys.exit(2)', "not UTF-8"),
    "escape": ('err("troupe: \\x1b[31m"); sys.exit(2)', "control character"),
    "c1": ('err("troupe: \\u009b31m"); sys.exit(2)', "control character"),
    "override": ('err("troupe: a\\u202eb"); sys.exit(2)', "control character"),
    "stdout": ('print("half a result"); ' + GOOD, "stdout is not empty"),
    "stdout_escape": ('print("\\x07"); ' + GOOD, "control character"),
    "output": ('put(sys.argv[2] + "/a.png"); ' + GOOD, "left behind"),
    "folder": ('os.mkdir(sys.argv[2] + "/new"); ' + GOOD, "left behind"),
    "temporary": ('put("a.tmp"); ' + GOOD, "left behind"),
    "home": ('put(os.environ["HOME"] + "/.x"); ' + GOOD, "left behind"),
    "input": ('put(sys.argv[1] + "/a"); ' + GOOD, "left behind"),
    "input_gone": ('os.remove(sys.argv[1] + "/a"); ' + GOOD, "left behind"),
    "memory": ("x = b'x' * (100 << 20); " + GOOD, "held"),
    "json": (JSON, ""),
    "json_none": (GOOD, "not one JSON object"),
    "json_twice": ('print(\'{"exit_code":2}\'); ' + JSON, "not one JSON object"),
    "json_cut": ('print(\'{"exit_code":\'); ' + GOOD, "not one JSON object"),
    "json_code": ('print(\'{"exit_code":0}\'); ' + GOOD, "another exit code"),
}
HEAD = """#!%s
import os, sys, time
def err(text): sys.stderr.write(text + "\\n")
def raw(content): sys.stderr.buffer.write(content)
def put(path): open(path, "w").write("x")
sys.stdout.reconfigure(encoding="utf-8"); sys.stderr.reconfigure(encoding="utf-8")
"""


def judge(way, code, folder):
    """What run_case says of a program that behaves like this."""
    program = os.path.join(folder, "program")
    put(program, HEAD % sys.executable + code + "\n")
    os.chmod(program, 0o755)
    arguments = ["{in}", "{out}"] + (["--json"] if "json" in way else [])
    case = Case(way, lambda inputs, _: put(os.path.join(inputs, "a"), "input"),
                [arguments], most_seconds=0.5 if way == "slow" else 0)
    limits = Limits(program, cpu_seconds=1, wall_seconds=5, memory=64 * MIB)
    place = os.path.join(folder, "case")
    os.mkdir(place)
    return run_case(case, generator(1, way), place, limits).failures


def main():
    wrong = 0
    for way, (code, expected) in WAYS.items():
        folder = tempfile.mkdtemp(prefix="troupe_corpus_test_")
        try:
            failures = judge(way, code, folder)
        finally:
            shutil.rmtree(folder)
        found = any(expected in line for line in failures) if expected \
            else not failures
        if not found:
            wrong += 1
            print("self-test: %s: expected %r, got %s" % (way, expected, failures))
    print("self-test: %d ways to behave, %d judged wrongly" % (len(WAYS), wrong))
    return 1 if wrong else 0
