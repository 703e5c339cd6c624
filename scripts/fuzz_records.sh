#!/usr/bin/env bash
# Feeds hostile records to all that reads what a peer sends (actors/wire), half of them
# to the reader of jobs: libFuzzer with AddressSanitizer and UBSan, at most 1 GiB of
# memory; the target stops where a record makes a reader hold more than a multiple of its
# size, or where what was read does not travel on.
# usage: scripts/fuzz_records.sh [RUNS|SECONDSs]    (1000000; 60s: for a minute)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
source scripts/fuzz_limit.sh
fuzz_limit "${1:-1000000}"
scripts/build.sh asan fuzz_records
corpus=build/fuzz/records
mkdir -p "$corpus"
# The first corpus is made by the mutator of the fuzzer. Choosing inputs by entropy and
# long stacks of allocations take a fifth of the time, and find no more here.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}:malloc_context_size=3
build/asan/tests/actors/fuzz_records "$limit" -max_len=16384 -entropic=0 \
  -artifact_prefix=build/fuzz/ -len_control=0 -rss_limit_mb=1024 -malloc_limit_mb=128 \
  -print_final_stats=1 "$corpus"
