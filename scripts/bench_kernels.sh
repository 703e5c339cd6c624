#!/bin/sh
# Builds and runs the kernel benchmark. Nothing else should be running: a
# background process takes a whole core.
set -eu
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target bench_kernels
exec build/release/kernels/bench_kernels
