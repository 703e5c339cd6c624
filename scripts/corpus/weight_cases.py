"""Checkpoint folders whose weights lie."""
import json
import os
import struct
from functools import partial

from check import Case
from formats import (VAE_WEIGHTS_FILE, WEIGHTS_FILE, checkpoint,
                     parse_safetensors, put, safetensors)
from json_cases import ANSI, DRY, INSPECT, LONG, PICTURE, SAMPLE

FILE = ["inspect", "{in}/" + WEIGHTS_FILE, "--json"]
FILE_TEXT = ["inspect", "{in}/" + WEIGHTS_FILE]
INDEX = WEIGHTS_FILE + ".index.json"


def file_of(entries, data):
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def written(golden, write, file=WEIGHTS_FILE):
    """`write(path, rng)` makes the file."""
    def build(folder, rng):
        checkpoint(folder, golden, file == VAE_WEIGHTS_FILE)
        write(os.path.join(folder, file), rng)
    return build


def replaced(golden, content, file=WEIGHTS_FILE):
    """`content`: bytes, or what makes them."""
    return written(golden, lambda path, _: put(
        path, content() if callable(content) else content), file)


def entry_lies(entries, name):
    """Name -> what the entry of one tensor becomes."""
    good = entries[name]
    begin, end = good["data_offsets"]
    size = end - begin
    lies = {
        "no_dtype": {k: good[k] for k in ("shape", "data_offsets")},
        "no_shape": {k: good[k] for k in ("dtype", "data_offsets")},
        "no_offsets": {k: good[k] for k in ("dtype", "shape")},
        "more_keys": {**good, "what": "this"}, "null": None, "list": [1, 2],
        "text": "F32", "number": 7,
    }
    for value in ("F33", "f32", "", 4, None, [], ANSI, "x" * LONG, "F16", "I64",
                  "BOOL", "F8_E4M3", "F4", "C64"):
        lies["dtype_%.8s" % repr(value).strip("'\"").replace("\\", "")] = {
            **good, "dtype": value}
    for what, value in {
            "negative": [-1, size // 4], "minus_two": [-2, -(size // 8)],
            "zero": [0], "zeros": [0] * 9, "empty": [], "overflow": [1 << 62, 8],
            "product": [1 << 32, 1 << 32, 1 << 32], "wrap": [1 << 63, 2],
            "two_64": [1 << 64], "float": [size / 4.0], "text": ["4"],
            "object": {"0": 4}, "null": None, "deep": [[4]],
            "rank_10000": [1] * 10_000, "less": [1], "true": [True]}.items():
        lies["shape_" + what] = {**good, "shape": value}
    for what, value in {
            "behind": [begin + (1 << 40), end + (1 << 40)],
            "reversed": [end, begin], "negative": [-size, 0], "one": [begin],
            "three": [begin, end, end], "shifted": [begin + 4, end + 4],
            "overlap": [max(0, begin - 4), end - 4] if begin else [0, end + 4],
            "two_64": [0, 1 << 64], "two_63": [(1 << 63) - size, 1 << 63],
            "float": [float(begin), float(end)], "half": [begin + 0.5, end],
            "text": [str(begin), str(end)], "null": None, "empty": [],
            "short": [begin, end - 4], "long": [begin, end + 4]}.items():
        lies["offsets_" + what] = {**good, "data_offsets": value}
    return lies


def entry_cases(golden):
    entries, data = parse_safetensors(golden.dit_weights)
    names = [n for n in entries if n != "__metadata__"]
    for place, name in (("first", names[0]), ("last", names[-1])):
        for what, entry in entry_lies(entries, name).items():
            # Whole numbers may be written as 4.0; a float is still no index.
            codes = (2, 6)
            yield Case("entry-%s-%s" % (place, what),
                       replaced(golden, partial(file_of, {**entries, name: entry},
                                            data)),
                       [FILE, SAMPLE],
                       codes if what not in ("more_keys",) else (0, 2, 6))


def without(entries, data, left_out):
    """The file without one tensor, and without a gap."""
    kept, parts, at = {}, [], 0
    for name, entry in entries.items():
        if name in ("__metadata__", left_out):
            continue
        begin, end = entry["data_offsets"]
        kept[name] = {**entry, "data_offsets": [at, at + end - begin]}
        parts.append(data[begin:end])
        at += end - begin
    return file_of(kept, b"".join(parts))


def with_first(entries, data, name, value):
    """The file with one number of one tensor changed."""
    begin = entries[name]["data_offsets"][0]
    return file_of(entries, data[:begin] + struct.pack("<f", value) +
                   data[begin + 4:])


def tensor_cases(golden):
    for part, content, file in (("dit", golden.dit_weights, WEIGHTS_FILE),
                                ("vae", golden.vae_weights, VAE_WEIGHTS_FILE)):
        entries, data = parse_safetensors(content)
        names = [n for n in entries if n != "__metadata__"]
        for name in names:
            if part == "vae" and name.startswith(("encoder", "quant")):
                continue  # sampling does not need them
            yield Case("missing-%s-%s" % (part, name),
                       replaced(golden, partial(without, entries, data, name),
                                file),
                       [SAMPLE if part == "dit" else PICTURE])
        if part == "dit":
            for name in names:
                for what, value in (("nan", float("nan")), ("inf", float("inf"))):
                    yield Case("%s-%s" % (what, name),
                               replaced(golden, partial(with_first, entries, data,
                                                        name, value)), [SAMPLE],
                               (2, 3, 6, 7) if "embedder" not in name
                               else (0, 2, 3, 6, 7))
    entries, data = parse_safetensors(golden.dit_weights)
    more = {**entries, "another.weight": {
        "dtype": "F32", "shape": [2], "data_offsets": [len(data), len(data) + 8]}}
    yield Case("extra-tensor", replaced(golden, partial(file_of, more, data + bytes(8))),
               [SAMPLE])
    fewer = {**golden.dit_config, "num_layers": 1}
    for layers in (1, 3, 1 << 31):
        def build(folder, _, layers=layers):
            checkpoint(folder, golden)
            put(os.path.join(folder, "transformer/config.json"),
                json.dumps({**fewer, "num_layers": layers}))
        yield Case("layers-%d" % layers, build, [SAMPLE])


def header_cases(golden):
    whole = golden.dit_weights
    size = struct.unpack("<Q", whole[:8])[0]
    entries, data = parse_safetensors(whole)
    text = whole[8:8 + size]
    contents = {
        "empty": b"", "seven": whole[:7], "eight": whole[:8],
        "zero": bytes(8), "braces": struct.pack("<Q", 2) + b"{}",
        "no_tensors": safetensors({}), "blank": struct.pack("<Q", 8) + b" " * 8,
        "array": safetensors({}, header=b"[1,2,3]"),
        "null": safetensors({}, header=b"null"),
        "longer": struct.pack("<Q", size + 8) + whole[8:],
        "shorter": struct.pack("<Q", size - 8) + whole[8:],
        "two_63": struct.pack("<Q", 1 << 63) + whole[8:],
        "all_ones": b"\xff" * 8 + whole[8:],
        "100MB": struct.pack("<Q", 100_000_000) + whole[8:],
        "1GB": struct.pack("<Q", 1 << 30) + whole[8:],
        "trailing": whole + b"more", "no_data": whole[:8 + size],
        "deep": safetensors({}, header=b'{"a":' * 100_000),
        "deep_lists": safetensors({}, header=b"[" * 1_000_000),
        "ill_formed": safetensors({}, header=text.replace(b"blocks", b"bl\xffcks")),
        "nul": safetensors({}, header=text[:-1] + b"\0}"),
        "bom": safetensors({}, header=b"\xef\xbb\xbf" + text),
        "escape": safetensors({ANSI: ("F32", [2])}),
        "long_name": safetensors({"n" * LONG: ("F32", [2])}),
        "duplicate": safetensors(
            {}, data=bytes(4), header=b'{"a":{"dtype":"F32","shape":[1],'
            b'"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],'
            b'"data_offsets":[0,4]}}'),
        "duplicate_key": safetensors(
            {}, data=bytes(4), header=b'{"a":{"dtype":"F32","dtype":"F32",'
            b'"shape":[1],"data_offsets":[0,4]}}'),
        "pickle": b"\x80\x02}q\x00.", "zip": b"PK\x03\x04" + bytes(200),
        "lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "gap": safetensors({"a": {"dtype": "U8", "shape": [1],
                                  "data_offsets": [1, 2]}}, data=bytes(2)),
    }
    readable = {"braces", "no_tensors", "escape", "long_name"}
    for what, content in contents.items():
        yield Case("header-%s" % what, replaced(golden, content), [SAMPLE])
        yield Case("header-file-%s" % what, replaced(golden, content),
                   [FILE, FILE_TEXT],
                   (0, 2, 6) if what in readable else (2, 6))
    metadata = {"list": [1], "number": 7, "nested": {"a": {"b": "c"}},
                "value": {"a": 7}, "escape": {ANSI: ANSI},
                "long": {"a": "x" * LONG}, "null": None}
    for what, value in metadata.items():
        changed = {**entries, "__metadata__": value}
        yield Case("metadata-%s" % what, replaced(golden, partial(file_of, changed, data)),
                   [FILE, SAMPLE],
                   (0, 2, 6) if what in ("escape", "long", "null") else (2, 6))
    step = max(1, (8 + size) // 40)
    for at in list(range(1, 8 + size, step)) + [
            8 + size + i * len(data) // 20 for i in range(20)]:
        yield Case("cut-%d" % at, replaced(golden, lambda at=at: whole[:at]), [FILE, SAMPLE])
    for i in range(40):  # a flipped bit of the header
        def flip(path, rng):
            bad = bytearray(whole)
            bad[rng.randrange(8 + size)] ^= 1 << rng.randrange(8)
            put(path, bytes(bad))
        yield Case("flip-%d" % i, written(golden, flip), [FILE, SAMPLE],
                   (0, 2, 3, 6, 7))


def large_header(path, entries):
    """Many tensors without elements, written piece by piece."""
    piece = lambda i: b'"tensor.%08d.weight":{"dtype":"F32","shape":[0],' \
        b'"data_offsets":[0,0]}' % i
    length = entries * (len(piece(0)) + 1) + 1
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", length) + b"{")
        for i in range(entries):
            f.write((b"," if i else b"") + piece(i))
        f.write(b"}")


def large_cases(golden):
    for count in (100_000, 600_000):
        yield Case("tensors-%d" % count,
                   written(golden, lambda path, _, n=count: large_header(path, n)),
                   [SAMPLE])
    def sparse(path, _):
        put(path, golden.dit_weights)
        os.truncate(path, 1 << 40)
    yield Case("sparse-terabyte", written(golden, sparse), [FILE, DRY])


def index_cases(golden):
    entries, _ = parse_safetensors(golden.dit_weights)
    names = [n for n in entries if n != "__metadata__"]
    shard = "model-00001-of-00001.safetensors"
    good = {"metadata": {"total_size": 1}, "weight_map": {n: shard for n in names}}
    maps = {
        "missing": {n: "gone.safetensors" for n in names},
        "upwards": {n: "../../../../etc/passwd" for n in names},
        "absolute": {n: "/etc/passwd" for n in names},
        "device": {n: "/dev/zero" for n in names}, "numbers": {n: 7 for n in names},
        "empty_name": {n: "" for n in names}, "dot": {n: "." for n in names},
        "nothing": {}, "list": names, "null": None, "escape": {n: ANSI for n in names},
        "long": {n: "x" * LONG for n in names[:3]},
        "nul": {n: "a\0.safetensors" for n in names},
        "partial": {n: shard for n in names[1:]},
        "more": {**good["weight_map"], "another.weight": shard},
        "shards": {n: "shard-%d.safetensors" % i for i, n in enumerate(names)},
        "many": {"t%d" % i: "shard-%d.safetensors" % i for i in range(50_000)},
        "itself": {n: os.path.basename(INDEX) for n in names},
    }
    contents = {what: json.dumps({**good, "weight_map": value}).encode()
                for what, value in maps.items()}
    contents.update({
        "no_map": b'{"metadata": {}}', "array": b"[]", "empty": b"",
        "bare": b"{}", "ill_formed": b'{"weight_map": {"a": "\xff"}}',
        "duplicate": b'{"weight_map": {}, "weight_map": {}}',
        "duplicate_tensor": b'{"weight_map": {"a": "b", "a": "b"}}',
        "cut": json.dumps(good).encode()[:200], "deep": b'{"weight_map":' * 100_000,
    })
    for what, content in contents.items():
        def build(folder, _, content=content):
            checkpoint(folder, golden)
            whole = os.path.join(folder, WEIGHTS_FILE)
            os.rename(whole, os.path.join(os.path.dirname(whole), shard))
            put(os.path.join(folder, INDEX), content)
        # Shards are read whole: a tensor that the index leaves out is there.
        yield Case("index-%s" % what, build, [INSPECT, SAMPLE],
                   (0, 2, 6) if what == "partial" else (2, 6))
    for only in ("diffusion_pytorch_model.fp16.safetensors",
                 "diffusion_pytorch_model.bin", "model.safetensors", "model.pt"):
        def build(folder, _, only=only):
            checkpoint(folder, golden)
            whole = os.path.join(folder, WEIGHTS_FILE)
            os.rename(whole, os.path.join(os.path.dirname(whole), only))
        # A variant is loaded, and that is said; the rest is refused.
        yield Case("only-%s" % only, build, [INSPECT, SAMPLE],
                   (0, 2, 6) if "fp16" in only else (2, 6))


def cases(golden):
    for make in (entry_cases, tensor_cases, header_cases, large_cases,
                 index_cases):
        yield from make(golden)
