#!/usr/bin/env bash
# What several processes and hosts gain and cost, beside the targets. Both sides of a ratio
# are measured in one run, in turns; medians and ranges. Nothing else should be running.
#   scripts/bench_cluster.sh [--quick] [--repeats N] [--model DIR|BUNDLED_NAME]… [ROW…]
# Rows (all by default): ipc gigabit slow-link coordination lane unequal loss join crowd
# memory.
# Those with links need root (scripts/hosts.sh). --quick: do they work? No figures.
# CLUSTER_PRESET names a build (release).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
rows=(ipc gigabit slow-link coordination lane unequal loss join crowd memory)
arguments=("$@")
while (($# > 0)); do
  case "$1" in
    --quick) ;;
    --repeats) need_number "$1" "${2:-}" && shift ;;
    --model) [[ -n "${2:-}" ]] || die "--model: got nothing" && shift ;;
    *) [[ " ${rows[*]} " == *" $1 "* ]] || die "got '$1', expected one of ${rows[*]}" ;;
  esac
  shift
done
preset=${CLUSTER_PRESET:-release}
scripts/build.sh "$preset" troupe bench_link bench_crowd bench_coordination bench_unequal \
  delay_switch
export HOSTS_PREFIX=${HOSTS_PREFIX:-trcluster}
export DELAY_SWITCH=$PWD/build/$preset/tests/probes/delay_switch
# Also after a run that was killed: the next one begins with this.
trap 'scripts/hosts.sh down 2>/dev/null || true' EXIT
python3 -B scripts/bench/cluster_table.py "build/$preset" "${arguments[@]}"
