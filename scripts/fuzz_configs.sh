#!/usr/bin/env bash
# Opens checkpoints of which one configuration is hostile (a network's, a decoder's, a
# text encoder's, the pipeline's or the scheduler's): libFuzzer with AddressSanitizer, at
# most 512 MiB of memory. The target stops where a folder makes the reader hold more than
# 64 MiB.
# usage: scripts/fuzz_configs.sh [RUNS|SECONDSs]    (1000000; 60s: for a minute)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
source scripts/fuzz_limit.sh
fuzz_limit "${1:-1000000}"
build=build/fuzz_configs
mkdir -p "$build/corpus"
scripts/build.sh asan fuzz_configs

# Seeds: the configurations as they are.
python3 - "$build/corpus" <<'PYTHON'
import pathlib, sys
golden = pathlib.Path("tests/golden")
for folder in "pipeline_pixart", "pipeline_sd15", "pipeline_sdxl", "dit_unusual":
    for file in (golden / folder).rglob("*.json"):
        name = str(file.relative_to(golden))
        if "tokenizer" not in name and file.name != "golden.json":
            seed = pathlib.Path(sys.argv[1], name.replace("/", "_"))
            seed.write_bytes(name.encode() + b"\n" + file.read_bytes())
sampling = pathlib.Path("models/demo/sampling.json").read_bytes()
pathlib.Path(sys.argv[1], "sampling").write_bytes(
    b"dit_unusual/sampling.json\n" + sampling)
PYTHON
# A folder of its own for what the target writes.
export TMPDIR=$PWD/$build
# Short stacks of allocations, and no choice of inputs by entropy: both take time.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}:malloc_context_size=3:quarantine_size_mb=64
build/asan/tests/config/fuzz_configs "$limit" -max_len=8192 -timeout=20 \
  -entropic=0 -artifact_prefix="$build/" -rss_limit_mb=512 -malloc_limit_mb=64 \
  -print_final_stats=1 "$build/corpus"
