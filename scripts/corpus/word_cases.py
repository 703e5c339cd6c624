"""Argument lists, environments and TOML files that nobody should write."""
import os
import re
import subprocess

from check import Case
from formats import put
from json_cases import ANSI, KINDS, LONG

TINY = ["sample", "--random-weights", "dit-tiny", "--steps", "2", "--class", "1",
        "--dtype", "f32", "--workers", "1", "--progress", "none"]
END = ["--save", "latents={out}/l.npz", "--dry-run"]
# The system takes at most 128 KiB in one argument.
LONGEST = 120_000

ODD = {
    "empty": "", "nan": "nan", "inf": "inf", "minus": "-1", "huge": "1e999",
    "digits": "9" * 5000, "two_64": "18446744073709551616", "word": "wombat",
    "long": "x" * LONGEST, "escape": ANSI, "ill_formed": b"\xff\xfe\xc3",
    "newline": "a\nb", "commas": "1,,2", "many": ",".join(["1"] * 30_000),
    "percent": "%s%n%d{}{0}", "nested": "[" * 5000, "slashes": "/" * 4000,
    "dashes": "--",
}
# Options that take any text, or any number of them.
MAY_RUN = {
    "class": set(ODD), "seed": set(ODD) - {"word", "long"}, "samples": set(ODD),
    "preview-every": {"two_64"}, "out": set(ODD), "model": set(),
}
SWITCHES = {"karras", "json", "quiet", "verbose", "dry-run", "print-config",
            "print-job", "tf32", "vae-tiling", "no-resolution-bins"}
# Options with numbers, for which some odd words are valid.
SIGNED = {"eta", "guidance", "tolerance", "shift"}


def options_of(program):
    """The options that --help names."""
    text = subprocess.run([program, "sample", "--help"], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
    return re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)", text, re.M)


def without(words, option):
    """The words, but for this option and its value: no option has two values."""
    at = words.index(option) if option in words else len(words)
    return words[:at] + words[at + 2:]


def odd_cases(options):
    def nothing(folder, _):
        pass
    for option in options:
        tiny = without(TINY, "--" + option)
        for what, value in ODD.items():
            text = value if isinstance(value, str) else os.fsdecode(value)
            joined = "--%s=%s" % (option, text)
            codes = (2, 6) if option not in MAY_RUN and option not in SIGNED \
                else (0, 2, 6)
            if what in ("empty", "ill_formed", "nan", "inf", "huge"):
                codes = (2, 6)
            # Text that is itself the value of a list, a name or a file.
            if option in ("out", "cache", "grid", "preview", "trace", "save", "config",
                          "class", "samples", "sigmas", "timesteps", "ages",
                          "seed", "from", "help", "version", "exists",
                          "preview-samples", "warmup", "final-fresh", "batch",
                          "workers", "threads", "require-class", "window",
                          "segments", "steps", "order", "preview-every"):
                codes = (0, 2, 6)
            if option in SWITCHES:
                codes = (0, 2, 6)
            yield Case("option-%s-%s" % (option, what), nothing,
                       [tiny + [joined] + END], codes, may_print=option == "json")
        for what, value in (("next", ["--" + option, "--json"]),
                            ("last", ["--" + option])):
            yield Case("option-%s-%s" % (option, what), nothing,
                       [tiny + END + value], (0, 2), may_print=True)


def line_cases():
    def nothing(folder, _):
        pass
    lists = {
        "nothing": [], "empty": [""], "dash": ["-"], "dashes": ["--"],
        "verb": ["smaple"], "escape": [ANSI], "long": ["x" * LONGEST],
        "ill_formed": [os.fsdecode(b"\xff\xfe")], "slash": ["/"],
        "twice": TINY + ["--steps", "3"] + END, "flag": TINY + ["--setps", "3"] + END,
        "short": TINY + ["-Z"] + END, "joined": TINY + ["-qvqvqv"] + END,
        "file": TINY + ["stray"] + END, "files": TINY + ["stray"] * 1000 + END,
        "long_flag": TINY + ["--" + "x" * LONGEST] + END,
        "escape_flag": TINY + ["--" + ANSI] + END,
        "ill_flag": TINY + [os.fsdecode(b"--\xff\xfe=1")] + END,
        "equals": TINY + ["--=3"] + END, "only_equals": TINY + ["="] + END,
        "inspect": ["inspect"], "inspect_empty": ["inspect", ""],
        "inspect_long": ["inspect", "x" * LONGEST],
        "inspect_escape": ["inspect", ANSI],
        "inspect_ill": ["inspect", os.fsdecode(b"/\xff\xfe")],
        "inspect_many": ["inspect"] + ["/nowhere"] * 1000,
        "verify": ["verify"], "verify_three": ["verify", "a", "b", "c"],
        "verify_escape": ["verify", ANSI, ANSI],
        "verify_ill": ["verify", os.fsdecode(b"\xff")],
        "from_ill": ["sample", "--from", os.fsdecode(b"\xff.png")],
        "model_long": ["sample", "-m", "x" * LONGEST],
        "model_nul_path": ["sample", "-m", "/proc/self/mem"],
        "model_device": ["sample", "-m", "/dev/zero"],
        "model_root": ["sample", "-m", "/"],
        "model_proc": ["sample", "-m", "/proc/self"],
        "out_proc": TINY + ["-o", "/proc/x.png"],
        "out_device": TINY + ["-o", "/dev/full"],
        "samples_huge": TINY + ["-n", "0:18446744073709551615"] + END,
        "samples_many": TINY + ["-n", "100000000000"] + END,
        "workers_many": TINY + ["--workers", "1000000"] + END,
        "threads_many": TINY + ["--threads", "1000000"] + END,
    }
    for what, arguments in lists.items():
        codes = (2, 6)
        if what in ("nothing", "joined", "files", "file", "samples_huge",
                    "samples_many"):
            codes = (0, 2)
        errors = 3 if what == "verify_three" else 1  # one of each file
        yield Case("line-%s" % what, nothing, [arguments], codes,
                   most_errors=errors)
        if len(arguments) > 0 and arguments[0] in ("sample", "inspect", "verify"):
            yield Case("line-json-%s" % what, nothing,
                       [arguments[:1] + ["--json"] + arguments[1:]], codes,
                       most_errors=errors)


def toml_texts(options):
    good = 'steps = 3\nseed = 7\n'
    texts = {
        "empty": "", "bom": "\ufeff" + good, "nul": "steps = 3\0\n",
        "ill_formed": b"seed = 7 # \xff\xfe\n", "ill_value": b'sampler = "\xff"\n',
        "escape": 'sampler = "%s"\n' % ANSI, "escape_text":
            'sampler = "\\u001b[31m"\n', "control": "steps = 3\x01\n",
        "unknown": "wokers = 3\n", "escape_key": '"\\u001b[31m" = 1\n',
        "long_key": "k" * LONG + " = 1\n", "long_value":
            'sampler = "%s"\n' % ("x" * LONG), "keys": "".join(
                "key%d = 1\n" % i for i in range(20_000)),
        "twice": good + "steps = 4\n", "table": "[steps]\nx = 1\n",
        "tables": "[a.b.c]\n" * 2, "deep": "steps = " + "[" * 5_000 + "]" * 5_000,
        "deeper": "steps = " + "[" * 200_000, "deep_key":
            ".".join(["a"] * 5000) + " = 1\n",
        "deep_table": "steps = " + "{a=" * 5_000 + "1" + "}" * 5_000,
        "half": "steps = \n", "open": 'sampler = "ddim\n', "open_list": "sigmas = [",
        "equals": "= 3\n", "word": "steps\n", "json": '{"steps": 3}',
        "utf16": good.encode("utf-16"), "binary": bytes(range(256)) * 16,
        "long_line": "# " + "x" * LONG + "\n" + good, "date": "seed = 2020-01-01\n",
        "digits": "steps = " + "9" * 5000 + "\n", "nan": "guidance = nan\n",
        "inf": "guidance = -inf\n", "float": "steps = 3.5\n",
        "bool": "steps = true\n", "list": "steps = [1, 2]\n",
        "mixed": 'sigmas = [1, "a", []]\n', "null": "steps = null\n",
        "config": 'config = "a.toml"\n', "windows": good.replace("\n", "\r\n"),
    }
    for option in options:
        texts["typed_" + option] = "%s = [[{a = 1}]]\n" % option
    return texts


def toml_cases(options):
    fine = {"empty", "bom", "windows", "long_line", "ill_formed"}
    for what, content in toml_texts(options).items():
        def build(folder, _, content=content):
            put(os.path.join(folder, "a.toml"), content)
        yield Case("toml-%s" % what, build,
                   [TINY[:3] + TINY[5:] + END + ["--config", "{in}/a.toml"]],
                   (0, 2, 6) if what in fine else (2, 6))
    for kind, make in KINDS.items():
        def build(folder, _, make=make):
            make(os.path.join(folder, "a.toml"))
        yield Case("toml-kind-%s" % kind, build,
                   [TINY + END + ["--config", "{in}/a.toml"]],
                   (0, 2, 6) if kind == "nothing" else (2, 6),
                   needs_user=kind == "unreadable")


def cases(program):
    options = options_of(program)
    yield from odd_cases(options)
    yield from line_cases()
    yield from toml_cases(options)
