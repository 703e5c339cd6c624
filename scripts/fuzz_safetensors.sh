#!/usr/bin/env bash
# Feeds hostile files to the safetensors reader: libFuzzer with AddressSanitizer,
# at most 512 MiB of memory; the target stops where a file makes the reader hold
# more than a small multiple of its size.
# usage: scripts/fuzz_safetensors.sh [RUNS|SECONDSs]    (1000000; 60s: for a minute)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
source scripts/fuzz_limit.sh
fuzz_limit "${1:-1000000}"
build=build/fuzz
mkdir -p "$build/corpus"
scripts/build.sh asan fuzz_safetensors

# Seeds: valid files of each kind, so that mutations start inside the format.
python3 - "$build/corpus" <<'PYTHON'
import json, os, struct, sys
DTYPES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "I16": 2, "F16": 2,
          "BF16": 2, "F32": 4, "I64": 8, "F64": 8}
def write(name, header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(sys.argv[1], name), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
for dtype, size in DTYPES.items():
    write(dtype, {"a": {"dtype": dtype, "shape": [2, 3],
                        "data_offsets": [0, 6 * size]}}, bytes(6 * size))
write("empty", {}, b"")
write("metadata", {"__metadata__": {"format": "pt"}}, b"")
write("two", {"a": {"dtype": "F32", "shape": [], "data_offsets": [4, 8]},
              "b": {"dtype": "F4", "shape": [8], "data_offsets": [0, 4]}},
      bytes(8))
# Much to remember for little text.
write("dense", {"%x" % i: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
                for i in range(56)}, b"")
write("words", {"__metadata__": {"%x" % i: "" for i in range(300)}}, b"")
PYTHON
cat > "$build/words.dict" <<'DICT'
"\"dtype\":"
"\"shape\":"
"\"data_offsets\":"
"\"__metadata__\":"
"\"F32\""
"\"BF16\""
"\"F4\""
"18446744073709551615"
"9223372036854775807"
"4294967296"
"[0,0]"
DICT
build/asan/tests/models/fuzz_safetensors "$limit" -max_len=4096 \
  -dict="$build/words.dict" -artifact_prefix="$build/" -rss_limit_mb=512 \
  -malloc_limit_mb=16 -print_final_stats=1 "$build/corpus"
