"""Tiny tokenizers, trained on the spot: folders as diffusers has them, and the
pipelines of the `tokenizers` library that transformers 5 makes of them."""

import base64
import io
import json
import pathlib
import shutil

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, models, normalizers,
                        pre_tokenizers, processors, trainers)

BUNDLED = pathlib.Path(__file__).resolve().parents[2] / "models/text/bundled"
BOS, EOS = "<|startoftext|>", "<|endoftext|>"
CLIP_WORDS = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"
              r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")


def special(content):
    return AddedToken(content, special=True)


def clip_pipeline(vocab, merges, tokens=(special(BOS), special(EOS))):
    """transformers 5, models/clip/tokenization_clip.py."""
    tokenizer = Tokenizer(models.BPE(
        vocab=vocab, merges=merges, continuing_subword_prefix="",
        end_of_word_suffix="</w>", fuse_unk=False, unk_token=EOS))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
        normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CLIP_WORDS), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.add_tokens(list(tokens))
    tokenizer.post_processor = processors.RobertaProcessing(
        (EOS, tokenizer.token_to_id(EOS)), (BOS, tokenizer.token_to_id(BOS)),
        False, False)
    return tokenizer


def t5_pipeline(pieces, unknown, charsmap, tokens):
    """transformers 5, models/t5/tokenization_t5.py; but for the id of the
    unknown piece, which it fixes at 2."""
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unknown,
                                         byte_fallback=False))
    if charsmap:
        tokenizer.normalizer = normalizers.Precompiled(charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Metaspace("\u2581", "always", split=True)])
    tokenizer.add_tokens(list(tokens))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"],
        special_tokens=[("</s>", tokenizer.token_to_id("</s>"))])
    return tokenizer


def train_clip(lines, num_merges):
    """Vocabulary and merges in the order of CLIP's files: bytes, bytes at the
    end of a word, merges, marks."""
    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    empty = clip_pipeline({BOS: 0, EOS: 1}, [])
    trained.normalizer = empty.normalizer
    trained.pre_tokenizer = empty.pre_tokenizer
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    # Of the bytes at the end of a word it knows only those that it meets.
    trained.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=4 * 256 + num_merges, initial_alphabet=alphabet,
        end_of_word_suffix="</w>", show_progress=False))
    merges = [tuple(pair) for pair in
              json.loads(trained.to_str())["model"]["merges"]][:num_merges]
    names = byte_order()
    names += [name + "</w>" for name in names]
    names += [left + right for left, right in merges]
    vocab = {}
    for name in names + [BOS, EOS]:
        vocab.setdefault(name, len(vocab))
    return vocab, merges


def byte_order():
    """The characters for bytes in the order of CLIP's vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(68)]


def train_unigram(lines, size, **options):
    """A spiece.model with the character map nmt_nfkc, as bytes."""
    model = io.BytesIO()
    options = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1,
               "normalization_rule_name": "nmt_nfkc", **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model,
        model_type="unigram", vocab_size=size, hard_vocab_limit=False,
        minloglevel=2, **options)
    return model.getvalue()


def fields(message):
    """(number, value) of each field of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(tag & 7) or varint()
        yield tag >> 3, message[at:at + size]
        at += size


def charsmap_of(model):
    for number, value in fields(model):
        if number == 3:
            return dict(fields(value)).get(2, b"")
    return b""


def pieces_of(model):
    """(piece, score) of each, the unknown id, and the control pieces."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = range(processor.get_piece_size())
    return ([(processor.id_to_piece(i), processor.get_score(i)) for i in ids],
            processor.unk_id(),
            [processor.id_to_piece(i) for i in ids if processor.is_control(i)])


def sentinels(count):
    return [f"<extra_id_{i}>" for i in range(count - 1, -1, -1)]


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False))


def clip_files(folder, lines, size=600, _options=None):
    """As Stable Diffusion 1.5 has them: marks are looked for in the normalised
    text, but the pad token, which is the end mark, is not."""
    vocab, merges = train_clip(lines, size)
    folder.mkdir()
    write_json(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text(
        "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    flags = {"lstrip": False, "normalized": True, "rstrip": False,
             "single_word": False}
    write_json(folder / "tokenizer_config.json", {
        "model_max_length": 77, "tokenizer_class": "CLIPTokenizer",
        "pad_token": EOS,
        "bos_token": {"__type": "AddedToken", "content": BOS, **flags},
        "eos_token": {"__type": "AddedToken", "content": EOS, **flags},
        "unk_token": {"__type": "AddedToken", "content": EOS, **flags}})
    write_json(folder / "special_tokens_map.json", {
        "bos_token": {"content": BOS, **flags}, "pad_token": EOS,
        "eos_token": {"content": EOS, **flags},
        "unk_token": {"content": EOS, **flags}})
    return clip_pipeline(vocab, merges, [
        AddedToken(BOS, special=True, normalized=True), special(EOS)]), \
        vocab[EOS]


def clip_json(folder, lines, size=300, _options=None):
    """As OpenCLIP's: tokenizer.json, padded with "!", and a token of a
    user's with white space around it."""
    vocab, merges = train_clip(lines[::2], size)
    tokens = [special("!"), special(BOS), special(EOS),
              AddedToken("<Cat-Toy>", normalized=True, lstrip=True,
                         rstrip=True)]
    tokenizer = clip_pipeline(vocab, merges, tokens)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    write_json(folder / "tokenizer_config.json", {
        "model_max_length": 77, "pad_token": "!",
        "tokenizer_class": "CLIPTokenizer"})
    return tokenizer, vocab["!"]


def t5_files(folder, lines, size=500, options=None):
    """As PixArt's: spiece.model alone."""
    model = train_unigram(lines, size, **(options or {}))
    pieces, unknown, controls = pieces_of(model)
    extra = sentinels(100)
    folder.mkdir()
    (folder / "spiece.model").write_bytes(model)
    write_json(folder / "tokenizer_config.json", {
        "model_max_length": 512, "tokenizer_class": "T5Tokenizer",
        "extra_ids": 100})
    return t5_pipeline(
        pieces + [(token, 0.0) for token in extra], unknown,
        charsmap_of(model),
        [special(t) for t in [*controls, "<unk>", *extra]]), 0


def umt5_json(folder, lines, size=800, options=None):
    """As UMT5's: tokenizer.json with byte pieces, which go unused."""
    model = train_unigram(lines, 256 + size, bos_id=2, unk_id=3,
                          byte_fallback=True, remove_extra_whitespaces=False,
                          **(options or {}))
    pieces, unknown, controls = pieces_of(model)
    extra = sentinels(300)
    pieces += [(token, 0.0) for token in extra]
    tokens = [special(t) for t in [*controls, "<unk>"]] + [
        AddedToken(t, special=True, lstrip=True, rstrip=True) for t in extra]
    tokenizer = t5_pipeline(pieces, unknown, charsmap_of(model), tokens)
    folder.mkdir()
    whole = json.loads(tokenizer.to_str())
    whole["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap":
         base64.b64encode(charsmap_of(model)).decode()},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"},
         "content": "\u2581"}]}
    write_json(folder / "tokenizer.json", whole)
    write_json(folder / "tokenizer_config.json", {
        "model_max_length": 1e30, "tokenizer_class": "T5Tokenizer",
        "extra_ids": 300})
    return tokenizer, 0


def bundled_clip(folder, _lines):
    """Ours, as a folder."""
    shutil.copytree(BUNDLED / "clip", folder)
    vocab = json.loads((folder / "vocab.json").read_text())
    lines = (folder / "merges.txt").read_text().splitlines()[1:]
    return clip_pipeline(vocab, [tuple(line.split(" ")) for line in lines]), \
        vocab[EOS]


def bundled_t5(folder, _lines):
    """Ours, as a folder."""
    shutil.copytree(BUNDLED / "t5", folder)
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    return t5_pipeline(
        [tuple(piece) for piece in model["vocab"]], model["unk_id"], b"",
        [special(t) for t in ["<pad>", "</s>", "<unk>", *sentinels(100)]]), 0


# Each writes a folder and returns (pipeline, pad id). `size`: merges or pieces;
# `options`: of the trainer of SentencePiece.
TRAINED = {"clip_files": clip_files, "clip_json": clip_json,
           "t5_files": t5_files, "umt5_json": umt5_json}
KINDS = {**TRAINED, "bundled_clip": bundled_clip, "bundled_t5": bundled_t5}
