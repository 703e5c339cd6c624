"""Random texts that tokenizers may disagree about, and text to train them on."""

import functools
import pathlib
import sys
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]

# From the tests of transformers, and from the notes on each rule.
FIXED = [
    "", " ", "a photo of a cat", "A\n'll 11p223RF☆ho!!to?'d'd''d of a cat to-$''d.",
    "xa\u0303y x\xe3y", "a\u2009\u00a0\u3000\u0085b", "\u0130\u0130stanbul İI",
    "'stop it's we're I'LL 'Tis", "１２３ ﬁne ﬀ ㍿ ﷺ ① ½", "\u2581a\u2581\u2581b",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 👍🏽", "नमस्ते दुनिया क्षत्रिय", "각\u1100\u1161\u11a8 한국어",
    "\u0301lone \u0301\u0316\u0301 z\u0316\u0301", "ΣΑΣ Σ ς", "a\u200db\u200cc\u200b",
    "\x00\x01\x7f\x80\x9f", "<|startoftext|>hi<|endoftext|>!!",
    "<|STARTOFTEXT|>!! x<|EndOfText|>?", "<|ENDOFTEXT|><|ENDOFTEXT|>'RE",
    "!<|startoftext|>!", "</s><pad><unk>", "<extra_id_0> a  <extra_id_99>b", "＜/s＞ ＜extra_id_5＞", "<cat-toy>  x <CAT-TOY>!",
    "ﬁ\u0301 é\u0301 \r\n\r\n \u0600a \u06dd1", "x" * 300, "ab" * 200, "!" * 99,
]

SPECIAL = ["<|startoftext|>", "<|endoftext|>", "<|ENDOFTEXT|>", "</s>", "<pad>",
           "<unk>", "<extra_id_0>", "<extra_id_42>", "<extra_id_299>", "＜/s＞",
           "<cat-toy>", "<Cat-Toy>", "'s", "'ll", "'RE", "\u2581", "!", "<|"]
EMOJI = ["👩‍🚀", "👨‍👩‍👧", "🏳️‍🌈", "❤️", "🇯🇵", "🇩", "👍🏿", "☆", "1️⃣", "🫠"]
JOINERS = "\u200d\u200c\ufe0f\u20e3\u200b\u2060\ufeff\u00ad\u034f"
SPACES = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000"
# First and last code point of blocks that are likely in prompts, or odd.
BLOCKS = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x52f),
          (0x590, 0x6ff), (0x900, 0x9ff), (0xe00, 0xeff), (0x1100, 0x11ff),
          (0x1e00, 0x1fff), (0x2000, 0x22ff), (0x2460, 0x24ff),
          (0x3000, 0x33ff), (0x4e00, 0x5200), (0xac00, 0xae00),
          (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xfe20, 0xfeff),
          (0xff00, 0xffef), (0x1d400, 0x1d7ff), (0x1f300, 0x1faff)]


@functools.cache
def assigned():
    """Every character that Python's Unicode knows. (Newer ones have other
    properties in libraries of other ages.)"""
    return [chr(c) for c in range(sys.maxunicode + 1)
            if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


@functools.cache
def block(bounds):
    return [chr(c) for c in range(bounds[0], bounds[1] + 1)
            if unicodedata.category(chr(c)) != "Cn"]


@functools.cache
def training_lines():
    """The project's own prose, and some text in other scripts."""
    files = sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("*/README.md"))
    lines = [line.strip() for f in files for line in f.read_text().splitlines()]
    lines = [line[:400] for line in lines if len(line) > 20]
    return lines + ["ein Bär läuft über die Brücke, naïve façade",
                    "кошка сидит на окне", "μια γάτα στο παράθυρο",
                    "窓辺に猫が座っている", "고양이가 창가에 앉아 있다",
                    "قطة تجلس على النافذة", "खिड़की पर बिल्ली"] * 8


def part(rng, words):
    """A few characters of one sort."""
    kind = rng.randrange(12)
    if kind < 4:
        word = rng.choice(words)
        return rng.choice((word, word.upper(), word.title()))
    if kind == 4:
        return rng.choice(SPECIAL)
    if kind == 5:
        return rng.choice(EMOJI)
    if kind == 6:
        return "".join(rng.choices(assigned(), k=rng.randint(1, 4)))
    if kind == 7:
        return rng.choice("aeoué1न가ﬁ") + "".join(
            rng.choices(block((0x300, 0x36f)), k=rng.randint(1, 4)))
    if kind == 8:
        return rng.choice(JOINERS) + rng.choice(("", "\u0130", "\x00", "\x1f"))
    if kind == 9:
        return "".join(rng.choices(SPACES, k=rng.randint(1, 3)))
    return "".join(rng.choices(block(rng.choice(BLOCKS)), k=rng.randint(1, 8)))


def random_text(rng, words):
    text = []
    for _ in range(rng.randint(1, 12)):
        text.append(part(rng, words))
        if rng.random() < 0.5:
            text.append(" ")
    return "".join(text)


def long_text(rng, words):
    """10,000 characters: one word, marks in no order, or everything."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(words).lower() * 10_000
    if kind == 1:
        return "a" + "".join(rng.choices("\u0301\u0316\u0327\u05b0", k=10_000))
    if kind == 2:
        return "".join(rng.choices("abcdefgh", k=10_000))
    text = ""
    while len(text) < 10_000:
        text += random_text(rng, words)
    return text


def texts(rng, count):
    words = sorted({w for line in training_lines() for w in line.split()})
    result = list(FIXED)
    while len(result) < count:
        result.append(long_text(rng, words)[:10_000] if len(result) % 2_000 == 0
                      else random_text(rng, words))
    return result
