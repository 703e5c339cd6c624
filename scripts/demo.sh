#!/usr/bin/env bash
# From a bare Debian 12 machine to pictures: installs, builds, samples the
# bundled model with a company of two workers.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
scripts/setup.sh
scripts/build.sh release troupe
exec build/release/troupe sample --model models/demo --samples 16 \
  --seed 2024 --workers 2 --threads 1 \
  --out demo --exists replace --grid demo.png "$@"
