#!/usr/bin/env python3
"""Writes models/text/bundled: the tokenizers of pipelines with random weights,
trained on scripts/prompts.txt and the project's own prose. Needs
parity/requirements.txt. usage: scripts/make_stand_in_tokenizers.py"""

import json
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/parity"))

import texts  # noqa: E402
import tokenizers_of as tiny  # noqa: E402

MERGES = 2000
PIECES = 2000


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False,
                               separators=(",", ":")) + "\n")


def write_clip(folder, lines):
    vocab, merges = tiny.train_clip(lines, MERGES)
    # Encoders look for the end mark by its id: the marks keep those of CLIP.
    vocab[tiny.BOS], vocab[tiny.EOS] = 49406, 49407
    write(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text(
        "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    write(folder / "tokenizer_config.json", {
        "tokenizer_class": "CLIPTokenizer", "model_max_length": 77,
        "bos_token": tiny.BOS, "eos_token": tiny.EOS, "unk_token": tiny.EOS,
        "pad_token": tiny.EOS})


def write_t5(folder, lines):
    model = tiny.train_unigram(lines, PIECES,
                               normalization_rule_name="identity")
    pieces, unknown, controls = tiny.pieces_of(model)
    pieces = [(piece, round(score, 4)) for piece, score in pieces]
    extra = tiny.sentinels(100)
    tokenizer = tiny.t5_pipeline(
        pieces + [(token, 0.0) for token in extra], unknown, b"",
        [tiny.special(t) for t in [*controls, "<unk>", *extra]])
    whole = json.loads(tokenizer.to_str())
    whole["added_tokens"] = []  # the class adds them
    write(folder / "tokenizer.json", whole)
    write(folder / "tokenizer_config.json", {
        "tokenizer_class": "T5Tokenizer", "model_max_length": 512,
        "extra_ids": 100, "eos_token": "</s>", "unk_token": "<unk>",
        "pad_token": "<pad>"})


def main():
    prompts = (ROOT / "scripts/prompts.txt").read_text().splitlines()
    lines = prompts * 4 + texts.training_lines()
    for name, make in {"clip": write_clip, "t5": write_t5}.items():
        folder = ROOT / "models/text/bundled" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder, lines)
        print(name, {f.name: f.stat().st_size for f in folder.iterdir()})


if __name__ == "__main__":
    main()
