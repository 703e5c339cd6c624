"""PNGs that lie: chunks, pixels, recipes. Each is looked at, verified, sampled
from and met as an output that is there."""
import json
import os
import subprocess
import zlib

from check import MIB, Case
from formats import SIGNATURE, chunk, idat, ihdr, itxt, png, put, zeros
from json_cases import ANSI, KINDS, LONG, VALUES

SAMPLE = ["sample", "--random-weights", "dit-tiny", "--steps", "2", "--class",
          "1", "--dtype", "f32", "--workers", "1", "--progress", "none"]
INSPECT = ["inspect", "{in}/a.png", "--json"]
INSPECT_TEXT = ["inspect", "{in}/a.png"]
VERIFY = ["verify", "{in}/a.png"]
FROM = ["sample", "--from", "{in}/a.png", "-o", "{out}/b.png", "--progress",
        "none"]
SKIP = SAMPLE + ["-o", "{in}/a.png", "--exists", "skip"]
GRID = SAMPLE + ["--save", "latents={out}/l.npz", "--grid", "{in}/a.png",
                 "--exists", "skip"]
READERS = [INSPECT, VERIFY, FROM]


def write(content):
    return lambda folder, _: put(
        os.path.join(folder, "a.png"), content() if callable(content) else content)


def chunk_cases():
    most = (1 << 31) - 1
    names = ("iTXt", "tEXt", "zTXt", "iCCP", "sPLT", "eXIf", "hIST", "tRNS",
             "PLTE", "bKGD", "cHRM", "gAMA", "pCAL", "sCAL", "tIME", "prVt",
             "IDAT", "IEND", "IHDR", "ABCD")
    for name in names:
        for what, length in (("most", most), ("4GB", (1 << 32) - 1),
                             ("1GB", 1 << 30), ("one_more", 1)):
            # Nothing but the claim; and with the rest of the picture behind it.
            head = SIGNATURE + ihdr()
            claim = chunk(name, length=length)[:8]
            yield Case("chunk-%s-%s" % (name, what),
                       write(head + claim), READERS + [SKIP, GRID])
            yield Case("chunk-pixels-%s-%s" % (name, what),
                       write(head + claim + idat() + chunk("IEND")),
                       READERS + [SKIP])
    cut = png(itxt("troupe", "{}"))
    for at in range(0, len(cut), 3):
        yield Case("png-cut-%d" % at, write(cut[:at]), [INSPECT, VERIFY])


def picture_bytes(*parts, head=None):
    return SIGNATURE + (ihdr() if head is None else head) + b"".join(parts)


def shape_cases():
    end = chunk("IEND")
    broken = {
        "empty": b"", "signature": SIGNATURE, "text": b"hello",
        "no_header": SIGNATURE + idat() + end,
        "two_headers": picture_bytes(ihdr(), idat(), end),
        "late_header": SIGNATURE + chunk("tIME", bytes(7)) + ihdr() + idat() + end,
        "short_header": picture_bytes(idat(), end, head=chunk("IHDR", bytes(5))),
        "no_pixels": picture_bytes(end), "no_end": picture_bytes(idat()),
        "garbage_name": picture_bytes(chunk(b"\x00\x01\x02\x03"), idat(), end),
        "escape_name": picture_bytes(chunk(b"\x1b[3m"), idat(), end),
        "zero_width": picture_bytes(idat(), end, head=ihdr(0, 16)),
        "zero_height": picture_bytes(idat(), end, head=ihdr(16, 0)),
        "widest": picture_bytes(idat(), end, head=ihdr((1 << 31) - 1, 1)),
        "largest": picture_bytes(idat(), end,
                                 head=ihdr((1 << 31) - 1, (1 << 31) - 1)),
        "sixteen_k": picture_bytes(idat(), end, head=ihdr(16384, 16384)),
        "negative": picture_bytes(idat(), end, head=ihdr(1 << 31, 16)),
        "depth_3": picture_bytes(idat(), end, head=ihdr(depth=3)),
        "depth_255": picture_bytes(idat(), end, head=ihdr(depth=255)),
        "colour_1": picture_bytes(idat(), end, head=ihdr(colour=1)),
        "compression": picture_bytes(idat(), end, head=ihdr(compression=7)),
        "filter": picture_bytes(idat(), end, head=ihdr(filtering=7)),
        "interlace": picture_bytes(idat(), end, head=ihdr(interlace=7)),
        "no_palette": picture_bytes(idat(channels=1), end, head=ihdr(colour=3)),
        "crc": picture_bytes(chunk("IDAT", zlib.compress(bytes(784)), crc=1), end),
        "not_zlib": picture_bytes(chunk("IDAT", b"\xff" * 100), end),
        "short_pixels": picture_bytes(chunk("IDAT", zlib.compress(bytes(9))), end),
        "empty_pixels": picture_bytes(chunk("IDAT"), end),
        "filter_type": picture_bytes(
            chunk("IDAT", zlib.compress(b"\x09" * 784)), end),
        "gap": picture_bytes(chunk("IDAT", zlib.compress(bytes(784))[:9]),
                             chunk("tIME", bytes(7)),
                             chunk("IDAT", zlib.compress(bytes(784))[9:]), end),
    }
    for what, content in broken.items():
        yield Case("png-%s" % what, write(content), READERS + [SKIP])
    bombs = {
        "pixels": lambda: picture_bytes(chunk("IDAT", zeros(1000 * MIB)), end),
        "empty_chunks": lambda: picture_bytes(chunk("IDAT") * 200_000, idat(), end),
        "chunks": lambda: picture_bytes(chunk("prVt") * 300_000, idat(), end),
    }
    for what, content in bombs.items():
        yield Case("png-bomb-%s" % what, write(content), READERS + [SKIP])
    # What a reader has no need of may be large; the picture is still one.
    profile = b"a profile\0\0"
    passed = {
        "ztxt": lambda: png(chunk("zTXt", b"troupe\0\0" + zeros(1000 * MIB))),
        "ztxts": lambda: png(*[chunk("zTXt", b"troupe\0\0" + zeros(20 * MIB))] * 200),
        "itxt": lambda: png(chunk("iTXt", b"troupe\0\1\0\0\0" + zeros(1000 * MIB))),
        "iccp": lambda: png(chunk("iCCP", profile + zeros(1000 * MIB))),
        "iccps": lambda: png(*[chunk("iCCP", profile + zeros(20 * MIB))] * 200),
        "texts": lambda: png(*[itxt("k%d" % i, "x" * 20_000) for i in range(900)]),
        "long_text": lambda: png(itxt("troupe", "x" * 30 * MIB)),
        "long_plain": lambda: png(chunk("tEXt", b"troupe\0" + b"x" * 30 * MIB)),
        "private": lambda: png(chunk("prVt", bytes(30 * MIB))),
        "splt": lambda: png(chunk("sPLT", b"name\0\x08" + bytes(30 * MIB))),
        "trailing": png() + b"more",
        "no_recipe": png(), "other_texts": png(itxt("Comment", ANSI)),
    }
    for what, content in passed.items():
        yield Case("png-large-%s" % what, write(content), [INSPECT], (0, 6))
        yield Case("png-large-run-%s" % what, write(content), [VERIFY, FROM, SKIP])
    # Black pictures of the size that a header may name.
    for side, codes in ((9000, (0,)), (16384, (6,))):
        def black(side=side):
            pixels = chunk("IDAT", zeros((side * 3 + 1) * side))
            return picture_bytes(pixels, end, head=ihdr(side, side))
        yield Case("png-black-%d" % side, write(black), [INSPECT], codes,
                   more_bytes=64 * MIB)


def recipe_of(program, folder):
    """The recipe of a picture that the program makes."""
    path = os.path.join(folder, "seed.png")
    subprocess.run([program] + SAMPLE + ["-o", path], check=True,
                   stdout=subprocess.DEVNULL)
    text = subprocess.run([program, "inspect", path], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
    return json.loads(text[text.index("{"):])


def set_key(recipe, path, raw):
    """The recipe as JSON with raw bytes at a path of keys; None removes it."""
    copy = json.loads(json.dumps(recipe))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if raw is None:
        del inner[path[-1]]
        return json.dumps(copy).encode()
    inner[path[-1]] = "@@"
    return json.dumps(copy).encode().replace(b'"@@"', raw, 1)


def recipe_cases(recipe):
    paths = [(key,) for key in recipe if not isinstance(recipe[key], dict)]
    paths += [(outer, key) for outer in ("schedule", "method")
              for key in recipe[outer]]
    few = ("text", "escape", "ill_formed", "list", "object", "negative", "huge",
           "too_huge", "two_64", "nan", "nested")
    known = {"class_name", "execution_class", "init_latents_xxh3",
             "latents_xxh3", "model", "version", "weights_xxh3", "dtype"}
    for path in paths:
        for value in few:
            raw = VALUES[value]
            if value == "nested":
                raw = b"[" * 1000 + b"]" * 1000
            name = "recipe-%s-%s" % (".".join(path), value)
            text = set_key(recipe, path, raw)
            # Names and hashes may be any text; and what the picture's numbers
            # are for this sampler may be no part of its steps.
            codes = (0, 2, 3, 6)
            if value in ("ill_formed", "nan", "nested", "object"):
                codes = (2, 6)
            if value == "text" and path[-1] in known:
                codes = (0, 2, 6)
            yield Case(name, write(png(itxt("troupe", text))), [INSPECT_TEXT,
                       FROM + ["--dry-run"]], codes)
        yield Case("recipe-%s-gone" % ".".join(path),
                   write(png(itxt("troupe", set_key(recipe, path, None)))),
                   [INSPECT, FROM + ["--dry-run"]], (0, 2, 6))
    whole = json.dumps(recipe)
    texts = {
        "empty": "", "braces": "{}", "array": "[]", "null": "null", "cut": whole[:99],
        "deep": "[" * 500_000,
        "objects": '{"n": [' + "{}," * 200_000 + "{}]," + whole[1:], "nul": whole[:50] + "\0" + whole[50:],
        "duplicate": '{"seed": 1,' + whole[1:], "unknown": '{"sed": 1,' + whole[1:],
        "newer": whole.replace('"schema": 1', '"schema": 99'),
        "escape": json.dumps({**recipe, ANSI: 1}), "bom": "\ufeff" + whole,
        "long_key": json.dumps({**recipe, "k" * (LONG // 2): 1}),
        "keys": json.dumps({**recipe, **{"k%d" % i: 1 for i in range(50_000)}}),
        "model_path": json.dumps({**recipe, "model": "/etc/passwd",
                                  "random_weights": ""}),
        "random_path": json.dumps({**recipe, "random_weights": "../../etc"}),
        "other_net": json.dumps({**recipe, "random_weights": ANSI}),
    }
    for what, text in texts.items():
        codes = (0, 2, 6) if what in ("newer", "model_path", "random_path",
                                      "other_net", "bom") else (2, 6)
        readers = [INSPECT, FROM + ["--dry-run"]]
        yield Case("recipe-text-%s" % what, write(png(itxt("troupe", text))),
                   readers if what != "empty" else [FROM + ["--dry-run"]], codes)
        yield Case("recipe-packed-%s" % what,
                   write(png(itxt("troupe", text, compressed=True))),
                   readers if what != "empty" else [FROM + ["--dry-run"]], codes)
        yield Case("recipe-skip-%s" % what, write(png(itxt("troupe", text))),
                   [SKIP, GRID], codes)
    for bad in (b"\xff\xfe", b"\xc3(", b"\xed\xa0\x80"):
        yield Case("recipe-bytes-%s" % bad.hex(),
                   write(png(itxt("troupe", whole.encode().replace(
                       b"philox", bad)))), [INSPECT, FROM, SKIP])


def kind_cases():
    for kind, make in KINDS.items():
        if kind == "gone":
            continue
        def build(folder, _, make=make):
            make(os.path.join(folder, "a.png"))
        yield Case("png-kind-%s" % kind, build,
                   [INSPECT, VERIFY, FROM, GRID] if kind != "dangling"
                   else [INSPECT, VERIFY, FROM], (2, 6),
                   needs_user=kind == "unreadable")


def output_cases():
    """What stands where a run is to write, and is no file of an earlier run."""
    outputs = {"-o": "a.png", "--grid": "a.png", "--preview": "a.png",
               "--trace": "a.json", "--save": "a.npz"}
    for option, name in outputs.items():
        for kind, make in KINDS.items():
            if kind in ("gone", "unreadable"):
                continue
            for exists in ("error", "skip", "replace"):
                def build(folder, _, make=make, name=name):
                    make(os.path.join(os.path.dirname(folder), "out", name))
                path = "{out}/" + name
                kept = ["-o", "{out}/kept.png"] if option != "-o" else []
                # Images may go to a folder of any name.
                is_folder = option == "-o" and kind in ("folder", "own_folder")
                codes = (0,) if is_folder else (2, 6)
                yield Case("output-%s-%s-%s" % (option.strip("-"), kind, exists),
                           build, [SAMPLE + kept + [
                               option, "latents=" + path if option == "--save"
                               else path, "--exists", exists]], codes)


def cases(recipe):
    yield from chunk_cases()
    yield from shape_cases()
    yield from recipe_cases(recipe)
    yield from kind_cases()
    yield from output_cases()
