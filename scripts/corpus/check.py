"""Runs one case through the program and says what is wrong with what it did."""
import dataclasses
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import threading
import unicodedata

MIB = 1 << 20
MOST_CHARACTERS = 2000
# Bidirectional overrides reorder the surrounding text on a terminal.
OVERRIDES = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
PICTURE = "in/a.png"  # the only input that may also be an output
NOTE = re.compile(r"^\d\d:\d\d:\d\d (info|warning|error) ")
ERROR = "troupe: "
MOST_NOTES = 20
# The most bytes of output of a run: far more than any case prints.
MOST_OUTPUT = 64 * MIB


@dataclasses.dataclass
class Case:
    """A hostile input. `build(folder, rng)` writes it; {in} of an argument is
    that folder, {out} an empty one for what the run writes."""
    name: str
    build: object
    runs: list  # argument lists
    codes: tuple = (2, 6)  # exit codes that are right, 0 where it is valid
    more_bytes: int = 0  # of memory, beside the bound for all
    needs_user: bool = False  # means nothing to root: run as nobody
    most_errors: int = 1  # lines on stderr that say what failed
    may_print: bool = False  # whether --json was understood is not known
    prints_findings: bool = False  # text on stdout, whatever the exit code
    most_seconds: float = 0  # of CPU, instead of the bound for all


@dataclasses.dataclass
class Limits:
    program: str
    cpu_seconds: int = 10
    wall_seconds: int = 60
    memory: int = 256 * MIB
    bounds_memory: bool = True  # a sanitizer's shadow is no use of memory


@dataclasses.dataclass
class Result:
    name: str
    failures: list
    command: str = ""
    seconds: float = 0.0
    peak: int = 0


def sizes(folder):
    """Every path below `folder`, with what a change of it would change."""
    found = {}
    for base, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(base, name)
            status = os.lstat(path)
            is_folder = stat.S_ISDIR(status.st_mode)
            found[os.path.relpath(path, folder)] = (
                stat.S_IFMT(status.st_mode), status.st_ino,
                0 if is_folder else status.st_size,
                0 if is_folder else status.st_mtime_ns)
    return found


def check_text(what, content, failures, is_json=False):
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        failures.append("%s is not UTF-8: %r" % (
            what, content[max(0, error.start - 20):error.start + 20]))
        return content.decode("utf-8", "replace")
    for at, character in enumerate(text):
        is_control = character not in "\n\t" and \
            unicodedata.category(character) == "Cc"
        if is_control or (character in OVERRIDES and not is_json):
            failures.append("%s has a control character: %r" % (
                what, text[max(0, at - 20):at + 20]))
            break
    return text


def check_stderr(text, code, most_errors, failures):
    lines = text.split("\n")
    if lines.pop() != "":
        failures.append("stderr does not end with a line's end")
    errors = [line for line in lines if line.startswith(ERROR)]
    notes = [line for line in lines if NOTE.match(line)]
    if len(errors) + len(notes) != len(lines):
        other = [l for l in lines if l not in errors and l not in notes]
        failures.append("stderr has a line of no known kind: %.200r" % other[0])
    if not (1 if code else 0) <= len(errors) <= (most_errors if code else 0):
        failures.append("stderr has %d error lines: %.300r" % (len(errors), text))
    if len(notes) > MOST_NOTES:
        failures.append("stderr has %d notes" % len(notes))
    for line in lines:
        if len(line) > MOST_CHARACTERS:
            failures.append("stderr has a line of %d characters: %.100r…" % (
                len(line), line))
            break


def check_stdout(text, code, is_json, failures):
    if is_json:
        lines = text.split("\n")
        try:
            if len(lines) != 2 or lines[1] != "":
                raise ValueError("%d lines" % len(lines))
            if json.loads(lines[0])["exit_code"] != code:
                failures.append("the JSON names another exit code: %.200r" % text)
        except (ValueError, KeyError, TypeError) as error:
            failures.append("stdout is not one JSON object (%s): %.200r" % (
                error, text))
    elif code != 0 and text != "":
        failures.append("stdout is not empty: %.200r" % text)


def check_left(before, after, code, made_anew, failures):
    changed = sorted(path for path in before.keys() | after.keys()
                     if before.get(path) != after.get(path))
    if made_anew:
        changed = [path for path in changed if path != PICTURE]
    if code == 0:  # only what was asked for, under its name
        changed = [path for path in changed if not path.startswith("out/") or
                   path.endswith(".tmp")]
    if changed:
        failures.append("left behind or changed: %s" % ", ".join(changed[:5]))


def run_bounded(limits, arguments, folder, as_nobody):
    """(exit code or None, stdout, stderr, seconds of CPU, bytes held)"""
    # Also keeps a run that takes what it likes from ending the machine.
    most = limits.memory * 16

    def bound():
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # The first ends a run with SIGXCPU, the second with SIGKILL.
        resource.setrlimit(resource.RLIMIT_CPU,
                           (limits.cpu_seconds, limits.cpu_seconds + 5))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_OUTPUT, MOST_OUTPUT))
        if limits.bounds_memory:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith("TROUPE_")}
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        environment[name] = os.path.join(folder, "home")
    output = [os.path.join(folder, name) for name in ("stdout", "stderr")]
    with open(output[0], "wb") as out, open(output[1], "wb") as err:
        child = subprocess.Popen(
            [limits.program] + arguments, stdin=subprocess.DEVNULL, stdout=out,
            stderr=err, preexec_fn=bound, env=environment,
            cwd=os.path.join(folder, "work"),
            **({"user": "nobody", "group": "nogroup"} if as_nobody else {}))
        is_late = threading.Event()

        def end_it():
            is_late.set()
            os.kill(child.pid, signal.SIGKILL)

        watch = threading.Timer(limits.wall_seconds, end_it)
        watch.start()
        _, status, usage = os.wait4(child.pid, 0)
        watch.cancel()
        child.returncode = 0  # it has been waited for
    code = os.waitstatus_to_exitcode(status)
    if is_late.is_set() or code == -signal.SIGXCPU:
        code = None
    contents = []
    for name in output:
        with open(name, "rb") as f:
            contents.append(f.read(MOST_OUTPUT))
        os.remove(name)
    return (code, contents[0], contents[1], usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024)


def run_case(case, rng, folder, limits):
    """Builds the case in `folder`, an empty one, and runs all of its commands."""
    result = Result(case.name, [])
    for name in ("in", "out", "work", "home"):
        os.makedirs(os.path.join(folder, name))
        os.chmod(os.path.join(folder, name), 0o777)
    inputs = os.path.join(folder, "in")
    case.build(inputs, rng)
    input_bytes = sum(size for kind, _, size, _ in sizes(inputs).values()
                      if kind == stat.S_IFREG)
    bound = limits.memory + 2 * input_bytes + case.more_bytes
    for command in case.runs:
        arguments = [a.replace("{in}", inputs).replace(
            "{out}", os.path.join(folder, "out")) for a in command]
        before = sizes(folder)
        code, out, err, seconds, peak = run_bounded(
            limits, arguments, folder, case.needs_user and os.geteuid() == 0)
        after = sizes(folder)
        failures = []
        if code is None:
            failures.append("took more than %d s (%d s on the clock)" % (
                limits.cpu_seconds, limits.wall_seconds))
        elif code < 0:
            failures.append("ended by %s: %.300r" % (
                signal.Signals(-code).name, err[-300:]))
        else:
            # A run makes a damaged picture of its own anew, and says so.
            made_anew = code == 0 and b"made anew: " in err
            if code not in case.codes and not made_anew:
                failures.append("exit code %d, expected %s: %.300s" % (
                    code, " or ".join(map(str, case.codes)),
                    err.decode("utf-8", "replace")))
            check_stderr(check_text("stderr", err, failures), code,
                         case.most_errors, failures)
            is_json = "--json" in arguments
            if limits.bounds_memory and 0 < case.most_seconds < seconds:
                failures.append("took %.2f s, at most %.2f expected" % (
                    seconds, case.most_seconds))
            text = check_text("stdout", out, failures, is_json)
            if case.may_print:
                is_json = code != 0 and text != ""
            if is_json or not (case.may_print or case.prints_findings):
                check_stdout(text, code, is_json, failures)
            check_left(before, after, code, made_anew, failures)
        if limits.bounds_memory and peak > bound:
            failures.append("held %d MiB, at most %d expected" % (
                peak // MIB, bound // MIB))
        result.seconds = max(result.seconds, seconds)
        result.peak = max(result.peak, peak)
        if failures:
            result.failures = failures
            result.command = " ".join(
                a if len(a) < 100 else a[:100] + "…" for a in arguments)
            return result
        shutil.rmtree(os.path.join(folder, "out"))
        os.mkdir(os.path.join(folder, "out"))
        os.chmod(os.path.join(folder, "out"), 0o777)
    return result
