#!/usr/bin/env bash
# Jobs over three hosts on this machine, by every method, a worker of each killed, frozen,
# unplugged, slowed or asked to leave at a random moment: are the bytes those of one process?
# Needs root; 77 where there can be no hosts.
# usage: scripts/cluster_bytes.sh [TRIALS] [SEED]    (default 20, 1)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# <= 2)) || die "got $# arguments, expected [TRIALS] [SEED]"
need_number TRIALS "${1:-20}"
need_number SEED "${2:-1}"
preset=${CLUSTER_PRESET:-release}
scripts/build.sh "$preset" troupe
export HOSTS_PREFIX=${HOSTS_PREFIX:-trbytes}
scripts/hosts.sh up 3 --mbit 1000
trap 'scripts/hosts.sh down' EXIT
python3 scripts/bench/cluster_bytes.py "build/$preset/troupe" models/demo "${1:-20}" \
  "${2:-1}"
