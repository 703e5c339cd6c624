#!/usr/bin/env python3
"""Writes tests/golden/tokens_*: tiny tokenizers, and the ids that the
`tokenizers` library gives for texts. Needs parity/requirements.txt.
usage: scripts/make_text_golden.py"""

import json
import pathlib
import random
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/parity"))

import texts  # noqa: E402
import tokenizers_of  # noqa: E402

# A character map of 30 rules; the real one has 240 kB.
RULES = {"\t": " ", "\n": " ", "\r": " ", "\x0b": " ", "\u00a0": " ",
         "\u3000": " ", "\u0085": " ", "\u200b": " ", "\u200d": " ",
         "\x01": "", "\x7f": "", "\ufb01": "fi", "\ufb00": "ff",
         "\u2460": "1", "\uff1c": "<", "\uff0f": "/", "\uff1e": ">",
         "\uff53": "s", "\u00bd": "1\u20442", "\u337f": "株式会社",
         "a\u0303": "ã", "y\u0303": "ỹ", "e\u0301": "é", "ﬁ\u0301": "fí",
         "\uff11": "1", "\uff12": "2", "\uff13": "3", "\r\n": " ",
         "\u0130": "I\u0307", "\ufdfa": "صلى الله عليه وسلم"}


def rules_file(folder):
    path = pathlib.Path(folder) / "rules.tsv"

    def codes(text):
        return " ".join(f"{ord(c):X}" for c in text)

    path.write_text("".join(f"{codes(k)}\t{codes(v)}\n"
                            for k, v in RULES.items()))
    return str(path)


def main():
    prompts = (ROOT / "scripts/prompts.txt").read_text().splitlines()
    rng = random.Random(1)
    words = sorted({w for line in prompts for w in line.split()})
    strings = texts.FIXED + [texts.random_text(rng, words) for _ in range(60)]
    with tempfile.TemporaryDirectory() as folder:
        options = {"normalization_rule_tsv": rules_file(folder)}
        for name, make in tokenizers_of.TRAINED.items():
            place = ROOT / "tests/golden" / f"tokens_{name}"
            shutil.rmtree(place, ignore_errors=True)
            tokenizer, pad = make(place, prompts * 2, 120, options)
            whole = [tokenizer.encode(s).ids for s in strings]
            tokenizer.enable_truncation(16)
            tokenizer.enable_padding(length=16, pad_id=pad)
            (place / "golden.json").write_text(json.dumps([
                {"text": s, "ids": ids, "ids16": tokenizer.encode(s).ids}
                for s, ids in zip(strings, whole)]))
            print(place.name, sum(f.stat().st_size for f in place.iterdir()))


if __name__ == "__main__":
    main()
