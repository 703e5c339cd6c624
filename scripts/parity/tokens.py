"""Compares Troupe's tokenizers with the `tokenizers` library, which is what
transformers 5 runs: tiny ones, trained on the spot, over random texts, id for
id. usage: tokens.py PROBE [--count N] [--seed N]"""

import argparse
import pathlib
import random
import secrets
import struct
import subprocess
import sys
import tempfile
import time

import texts
import tokenizers_of


def ours(probe, folder, strings, length):
    packed = b"".join(struct.pack("<I", len(s)) + s
                      for s in (t.encode() for t in strings))
    done = subprocess.run([probe, str(folder), str(length)], input=packed,
                          stdout=subprocess.PIPE, check=True)
    return [[int(i) for i in line.split()]
            for line in done.stdout.decode().splitlines()]


def theirs(tokenizer, strings):
    result = []
    for begin in range(0, len(strings), 1_000):
        result += [e.ids for e in
                   tokenizer.encode_batch(strings[begin:begin + 1_000])]
    return result


def first_difference(name, strings, got, expected):
    """0 or 1: how many to count as a failure; says which text it was."""
    wrong = [i for i, (a, b) in enumerate(zip(got, expected)) if a != b]
    if not wrong and len(got) == len(expected) == len(strings):
        return 0
    print(f"tokens: {name}: {len(wrong)} of {len(strings)} texts differ",
          file=sys.stderr)
    for i in sorted(wrong, key=lambda i: len(strings[i]))[:5]:
        print(f"  {ascii(strings[i][:300])}\n    ours     {got[i][:40]}\n"
              f"    expected {expected[i][:40]}", file=sys.stderr)
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=20_000,
                        help="texts for each tokenizer (default 20000)")
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    args, _ = parser.parse_known_args()  # others are parity.py's

    print(f"tokens: --seed {args.seed}", flush=True)
    rng = random.Random(args.seed)
    strings = texts.texts(rng, args.count)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, make in tokenizers_of.KINDS.items():
            begin = time.monotonic()
            place = pathlib.Path(folder) / name
            tokenizer, pad = make(place, texts.training_lines())
            expected = theirs(tokenizer, strings)
            failures += first_difference(
                name, strings, ours(args.probe, place, strings, 0), expected)
            # Cut and padded.
            few = strings[:2_000]
            tokenizer.enable_truncation(77)
            tokenizer.enable_padding(length=77, pad_id=pad)
            failures += first_difference(
                name + ", 77 ids", few, ours(args.probe, place, few, 77),
                theirs(tokenizer, few))
            print(f"tokens: {name}: {len(strings)} texts, "
                  f"{sum(map(len, expected))} ids, "
                  f"{time.monotonic() - begin:.1f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
