#!/usr/bin/env bash
# Feeds hostile files and prompts to the tokenizers: libFuzzer with
# AddressSanitizer, at most 512 MiB of memory. The target stops where an input
# makes the reader hold more than a multiple of its size.
# usage: scripts/fuzz_tokenizers.sh [RUNS|SECONDSs]    (1000000; 60s: for a minute)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
source scripts/fuzz_limit.sh
fuzz_limit "${1:-1000000}"
build=build/fuzz_tokenizers
mkdir -p "$build/corpus"
scripts/build.sh asan fuzz_tokenizers

# Seeds: the tiny tokenizers of the tests, cut down so that mutations reach
# everything, each with a prompt.
python3 - "$build/corpus" <<'PYTHON'
import json, pathlib, sys
LETTERS = {"tokenizer.json": "j", "vocab.json": "v", "merges.txt": "m",
           "spiece.model": "s", "tokenizer_config.json": "c",
           "special_tokens_map.json": "t", "added_tokens.json": "a"}
PROMPT = "a photo's ﬁne <a> Cat\u0301 １ <|endoftext|> </s> <extra_id_3> \u2581b"
out = pathlib.Path(sys.argv[1])

def write(name, parts):
    text = b"".join(b"\xff" + LETTERS.get(k, "p").encode() +
                    v.replace(b"\xff", b"\xff\xff") for k, v in parts.items())
    (out / name).write_bytes(text)

def few(pieces):
    """A vocabulary of which little is left; unknown bytes are allowed."""
    kept = [p for p in pieces if len(p) < 3 or p.startswith("<")][:60]
    kept += [p for p in pieces if p.startswith("<|")]
    return {p: i for i, p in enumerate(dict.fromkeys(kept))}

for folder in pathlib.Path("tests/golden").glob("tokens_*"):
    parts = {f.name: f.read_bytes() for f in folder.iterdir()
             if f.name in LETTERS}
    parts["added_tokens.json"] = b'{"<a>": 700, "<a>_1": 701}'
    parts["prompt"] = PROMPT.encode()
    if "spiece.model" in parts:
        write(folder.name, parts)
    if "vocab.json" in parts:
        vocab = few(json.loads(parts["vocab.json"]))
        parts["vocab.json"] = json.dumps(vocab).encode()
        parts["merges.txt"] = b"#version: 0.2\n"
        write("small_" + folder.name, parts)
    if "tokenizer.json" in parts:
        whole = json.loads(parts["tokenizer.json"])
        whole["added_tokens"] = whole["added_tokens"][:4]
        if whole["model"]["type"] == "BPE":
            whole["model"].update(vocab=few(whole["model"]["vocab"]), merges=[])
        else:
            whole["model"]["vocab"] = whole["model"]["vocab"][:3] + \
                whole["model"]["vocab"][-330:-300]
            whole["model"]["unk_id"] = 2
        parts["tokenizer.json"] = json.dumps(whole, ensure_ascii=False).encode()
        parts["tokenizer_config.json"] = b'{"extra_ids": 2}'
        write("small_" + folder.name, parts)
PYTHON
cat > "$build/words.dict" <<'DICT'
"\"model\":"
"\"vocab\":"
"\"merges\":"
"\"added_tokens\":"
"\"added_tokens_decoder\":"
"\"additional_special_tokens\":"
"\"content\":"
"\"normalized\":true"
"\"lstrip\":true"
"\"rstrip\":true"
"\"unk_id\":"
"\"extra_ids\":"
"\"precompiled_charsmap\":"
"</w>"
"<|startoftext|>"
"<|STARTOFTEXT|>"
"\xe2\x96\x81"
"\xff\xff"
"\xffp"
"\xffs"
"\xcc\x81"
"1e30"
"9223372036854775808"
DICT
build/asan/tests/models/fuzz_tokenizers "$limit" -max_len=4096 \
  -dict="$build/words.dict" -artifact_prefix="$build/" -rss_limit_mb=512 \
  -malloc_limit_mb=64 -print_final_stats=1 "$build/corpus"
