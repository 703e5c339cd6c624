#!/usr/bin/env bash
# Jobs by scripts/slurm.sbatch under a real Slurm with three nodes on this machine: a
# company, an array, a requeue, the signal before the time limit, nodes that are set down
# in mid-run. Their bytes must be those of one process. Needs root.
#   scripts/slurm_test.sh [--time-limit]
# --time-limit waits for a limit to come near, too: one to three minutes more.
# SLURM_PRESET names a build (release). Exit code 77: this machine cannot do it.
#
# Slurm, its nodes and its jobs live in namespaces of their own: processes, network (no
# way out) and mounts (their files lie in memory). All of it ends with the first process
# in there, and that ends with this script, even if it is killed: nothing can be left.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
[[ $# == 0 || "$*" == --time-limit ]] || die "got '$*', expected nothing or --time-limit"

cannot() {
  echo "slurm_test: not on this machine: $*" >&2
  exit 77
}

((EUID == 0)) || cannot "this needs root"
namespaces=(unshare --pid --mount --net --uts --fork --kill-child --mount-proc)
why=$("${namespaces[@]}" sh -c 'mount -t tmpfs tmpfs /mnt && ip link add probe type bridge' \
  2>&1) || cannot "no namespaces, or no bridge in them: ${why%%$'\n'*}"
scripts/setup.sh slurm
preset=${SLURM_PRESET:-release}
scripts/build.sh "$preset" troupe

setpriv --pdeathsig KILL "${namespaces[@]}" \
  scripts/slurm/cluster.sh "$PWD/build/$preset/troupe" "$@" </dev/null &
cluster=$!
trap 'kill -KILL "$cluster" 2>/dev/null || true' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
wait "$cluster"
