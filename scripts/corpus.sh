#!/usr/bin/env bash
# Runs the built program over some thousands of hostile inputs: checkpoint
# folders, PNGs, arrays, TOML files, argument lists. Each run is bounded in time
# and memory, must end with an exit code that fits, one line on stderr and, with
# --json, one object, and may leave nothing behind.
# usage: scripts/corpus.sh [--only NAME] [--every N] [--program FILE]
#          [--sanitized] [--seed N] [--list] [--self-test]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
exec python3 -B scripts/corpus/corpus.py "$@"
