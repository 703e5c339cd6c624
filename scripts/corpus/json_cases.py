"""Checkpoint folders whose JSON files are wrong: every key with every kind of
value, and files that are no JSON, or too much of it."""
import functools
import json
import os
import socket

from check import MIB, Case
from formats import (CONFIG_FILE, INDEX_FILE, MODEL_INDEX, SCHEDULER,
                     SCHEDULER_FILE, VAE_CONFIG_FILE, checkpoint, put)

INSPECT = ["inspect", "{in}", "--json"]
SAMPLE = ["sample", "-m", "{in}", "--steps", "2", "--class", "1", "--dtype",
          "f32", "--workers", "1", "--progress", "none", "--save",
          "latents={out}/latents.npz"]
# With the decoder, which --save alone does not need.
PICTURE = SAMPLE[:-2] + ["-o", "{out}/a.png"]
DRY = SAMPLE + ["--dry-run", "--json"]
SCHEDULE = ["schedule", "-m", "{in}", "--steps", "2"]

LONG = 1_000_000
ANSI = "\x1b[31mred\x1b[0m\x07"

# Raw text, because a JSON writer would refuse some of the values.
VALUES = {
    "text": b'"seven"', "long_text": b'"' + b"x" * LONG + b'"',
    "escape": json.dumps(ANSI).encode(), "ill_formed": b'"\xff\xfe\xc3"',
    "list": b"[]", "nested": b"[" * 50_000 + b"]" * 50_000,
    "object": b'{"a": {"b": 1}}', "true": b"true", "negative": b"-1",
    "zero": b"0", "half": b"0.5", "huge": b"1e308", "too_huge": b"1e999",
    "two_31": b"2147483648", "two_63": b"9223372036854775808",
    "two_64": b"18446744073709551616", "digits": b"9" * 100_000,
    "nan": b"NaN", "infinity": b"-Infinity",
    "tiny": b"1e-999999999999", "surrogate": b'"\\ud800"', "nul": b'"a\\u0000b"',
}
# Defaults that a model's folder carries.
DEFAULTS_FILE = "sampling.json"
DEFAULTS = {"guidance": 1.5, "sampler": "ddim", "eta": 0.0,
            "timestep_spacing": "leading", "steps": 4}
ANY_NUMBER = {"zero", "half", "huge", "tiny", "negative", "two_31", "two_63",
              "two_64"}

# What no reader of JSON may take, whatever the key.
NEVER = {"ill_formed", "nested", "nan", "infinity"}

# Keys whose value decides nothing here: anything that is JSON may pass.
IGNORED = {"_diffusers_version", "dropout", "upcast_attention",
           "norm_num_groups", "force_upcast", "down_block_types", "sample_size",
           "in_channels", "use_quant_conv", "use_linear_projection"}


def with_value(config, key, raw):
    """`config` as JSON with the bytes `raw` at `key`."""
    text = json.dumps({**config, key: "@@"}).encode()
    return text.replace(b'"@@"', raw, 1)


def replaced(golden, file, content, vae=False):
    def build(folder, _):
        checkpoint(folder, golden, vae)
        put(os.path.join(folder, file), content() if callable(content) else content)
    return build


def harmless(file, key, value):
    """Whether this value may mean something and run."""
    if value in NEVER:
        return False
    if file == CONFIG_FILE:
        return key in {"_diffusers_version", "dropout", "upcast_attention",
                       "norm_num_groups"} or (
            key, value) in {("norm_eps", "zero"), ("norm_eps", "half"),
                            ("norm_eps", "huge"), ("norm_eps", "tiny"),
                            ("attention_bias", "true")} or (
            key in {"norm_eps"} and value.startswith("two_"))
    if file == VAE_CONFIG_FILE:
        return key in IGNORED or key in {"scaling_factor", "shift_factor",
                                         "latents_mean", "latents_std"} or (
            value == "true" and key.startswith(("use_", "mid_")))
    if file == DEFAULTS_FILE:
        return key in ("guidance", "eta") and value in ANY_NUMBER
    return True  # the scheduler's own keys are judged by what they give


def value_cases(golden):
    files = {CONFIG_FILE: golden.dit_config, SCHEDULER_FILE: SCHEDULER,
             INDEX_FILE: MODEL_INDEX, VAE_CONFIG_FILE: golden.vae_config,
             DEFAULTS_FILE: DEFAULTS}
    for file, config in files.items():
        for key in config:
            for value, raw in VALUES.items():
                codes = (2, 3, 6)
                if harmless(file, key, value):
                    codes += (0,)
                vae = file == VAE_CONFIG_FILE
                # The decoder's tensors are read where pictures are made.
                runs = {CONFIG_FILE: [SAMPLE], SCHEDULER_FILE: [SCHEDULE],
                        INDEX_FILE: [INSPECT], VAE_CONFIG_FILE: [PICTURE],
                        DEFAULTS_FILE: [DRY]}[file]
                yield Case("json-%s-%s-%s" % (file.split("/")[0], key, value),
                           replaced(golden, file, functools.partial(
                               with_value, config, key, raw), vae), runs, codes,
                           more_bytes=64 * MIB if value == "nested" else 0)


def many_keys(good, count):
    return b"{" + b"".join(b'"key%d": %d, ' % (i, i) for i in range(count)) + \
        good.lstrip()[1:]


def broken_texts(config):
    """Name -> (content or what makes it, whether it may be taken)."""
    good = json.dumps(config, indent=1).encode()
    first = next(iter(config))
    texts = {
        "empty": (b"", False), "blank": (b" \n\t ", False),
        "nul": (b"\0" * 100, False), "bom": (b"\xef\xbb\xbf" + good, True),
        "utf16": (good.decode().encode("utf-16"), False),
        "array": (b"[1, 2, 3]", False), "text": (b'"DDIMScheduler"', False),
        "number": (b"7", False), "null": (b"null", False),
        "object": (b"{}", True), "brackets": (b"{}" * 1000, False),
        "deep": (lambda: b"[" * 1_000_000, False),
        "deep_objects": (lambda: b'{"a":' * 200_000, False),
        "trailing": (good + b" x", False), "twice": (good + good, False),
        "comma": (good.rstrip()[:-1].rstrip() + b",}", False),
        "single_quotes": (good.replace(b'"', b"'"), False),
        "comment": (b"// a comment\n" + good, False),
        "ill_formed_key": (b'{"\xff\xc0": 1,' + good.lstrip()[1:], False),
        "escape_key": (json.dumps({ANSI: 1, **config}).encode(), True),
        "control": (b'{"a\x01b": 1,' + good.lstrip()[1:], False),
        "long_key": (lambda: json.dumps({"k" * LONG: 1, **config}), True),
        "long_number": (lambda: b'{"n": ' + b"1" * LONG + b"," + good.lstrip()[1:], True),
        "unknown_keys": (lambda: many_keys(good, 500_000), True),
        "unknown_objects": (lambda: b'{"n": [' + b"{}," * 500_000 + b"{}]," +
                            good.lstrip()[1:], True),
        "unknown_lists": (lambda: b'{"n": {' + b"".join(
            b'"%d":[],' % i for i in range(200_000)) + b'"a":[]},' +
                          good.lstrip()[1:], True),
        "unknown_list": (lambda: b'{"n": [' + b"0," * 500_000 + b"0]," +
                         good.lstrip()[1:], True),
        "duplicate": (b'{"%s": 1,' % first.encode() + good.lstrip()[1:], False),
        "duplicate_last": (good.rstrip()[:-1] + b', "%s": 1}' % first.encode(),
                           False),
        "html": (b"<!DOCTYPE html><html>404</html>", False),
        "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
                False),
        "pickle": (b"\x80\x02}q\x00.", False),
    }
    for i in range(30):
        at = 1 + i * (len(good) - 2) // 30
        texts["cut_%d" % at] = (good[:at], False)
    return texts


def text_cases(golden):
    files = {CONFIG_FILE: golden.dit_config, SCHEDULER_FILE: SCHEDULER,
             INDEX_FILE: MODEL_INDEX, VAE_CONFIG_FILE: golden.vae_config,
             DEFAULTS_FILE: DEFAULTS}
    for file, config in files.items():
        for name, (content, is_valid) in broken_texts(config).items():
            runs = [DRY if file in (CONFIG_FILE, DEFAULTS_FILE) else INSPECT]
            if file == SCHEDULER_FILE:
                runs.append(SCHEDULE)
            # Nothing known in a file of the network or decoder: its weights do
            # not fit to the defaults of its class.
            codes = (0, 2, 6) if is_valid else (2, 6)
            yield Case("text-%s-%s" % (file.split("/")[0], name),
                       replaced(golden, file, content,
                                file == VAE_CONFIG_FILE), runs, codes,
                       # Of --dry-run the measurement takes longer than that.
                       most_seconds=0 if DRY in runs else 2)


def labels(count):
    return lambda: json.dumps(
        {"_class_name": "DiTPipeline",
         "id2label": {str(i): "label %d" % i for i in range(count)}})


def label_cases(golden):
    odd = {
        "many": labels(200_000), "negative": '{"-1": "a"}', "word": '{"a": "a"}',
        "fraction": '{"0.5": "a"}', "huge": '{"99999999999999999999": "a"}',
        "number": '{"0": 7}', "list": '["a", "b"]', "text": '"a"',
        "same": '{"0": "a", "1": "a"}', "padded": '{"00": "a", "0": "b"}',
        "escape": json.dumps({"0": ANSI}), "long": json.dumps({"0": "x" * LONG}),
        "newline": json.dumps({"0": "a\nb\r\nc"}), "empty": '{"0": ""}',
        "bidi": json.dumps({"0": "a\u202eb\u2066"}),
        "ill_formed": b'{"0": "\xff\xfe"}', "beyond": '{"5": "a", "1000": "b"}',
    }
    for name, content in odd.items():
        if not callable(content):
            raw = content if isinstance(content, bytes) else content.encode()
            content = b'{"_class_name": "DiTPipeline", "id2label": ' + raw + b"}"
        for verb, run in (("inspect", INSPECT), ("text", ["inspect", "{in}"]),
                          ("sample", SAMPLE)):
            codes = (2, 6) if name == "ill_formed" else (0, 2, 6)
            yield Case("labels-%s-%s" % (name, verb),
                       replaced(golden, INDEX_FILE, content), [run], codes)


def instead(golden, file, make, vae):
    def build(folder, _):
        checkpoint(folder, golden, vae)
        path = os.path.join(folder, file)
        if os.path.exists(path):
            os.remove(path)
        make(path)
    return build


def bind_socket(path):
    name = os.path.basename(path)
    here = os.getcwd()
    os.chdir(os.path.dirname(path))  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(name)
    finally:
        os.chdir(here)


def unreadable(path):
    put(path, "{}")
    os.chmod(path, 0)


KINDS = {
    "folder": os.mkdir, "fifo": os.mkfifo, "socket": bind_socket,
    "loop": lambda path: os.symlink(os.path.basename(path), path),
    "dangling": lambda path: os.symlink("/nowhere/at/all", path),
    "zeros": lambda path: os.symlink("/dev/zero", path),
    "nothing": lambda path: os.symlink("/dev/null", path),
    "terminal": lambda path: os.symlink("/dev/tty", path),
    "own_folder": lambda path: os.symlink(".", path),
    "unreadable": unreadable, "gone": lambda path: None,
}


def kind_cases(golden, weights_files):
    for file in (CONFIG_FILE, SCHEDULER_FILE, INDEX_FILE, VAE_CONFIG_FILE,
                 DEFAULTS_FILE) + weights_files:
        for kind, make in KINDS.items():
            vae = file.startswith("vae")
            # A scheduler's file may be missing, and so may be the pipeline's.
            codes = (2, 6)
            may_be_gone = (SCHEDULER_FILE, INDEX_FILE, DEFAULTS_FILE)
            if kind in ("gone", "dangling") and file in may_be_gone:
                codes = (0, 2, 6)
            yield Case("kind-%s-%s-%s" % (file.split("/")[0],
                                          file.split("/")[-1].split(".")[0], kind),
                       instead(golden, file, make, vae), [DRY] if file == DEFAULTS_FILE else [INSPECT, DRY],
                       codes, needs_user=kind == "unreadable")


def cases(golden, weights_files):
    yield from value_cases(golden)
    yield from text_cases(golden)
    yield from label_cases(golden)
    yield from kind_cases(golden, weights_files)
