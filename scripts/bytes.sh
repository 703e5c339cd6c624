#!/usr/bin/env bash
# Whether this tree computes the bytes of another commit: every method, solver,
# preset and dtype over the demo model and a tiny DiT, every kind of network with
# its autoencoder and cuts, and the mixture and a toy network. Both programs run
# on this machine: hashes of another CPU mean nothing. Ends with 1 where anything
# differs that no --allow names.
# usage: scripts/bytes.sh BASE_COMMIT [--every N] [--only GLOB]
#          [--allow GLOB=REASON]… [--list] [--self-test]
# BYTES_PRESET is the build of both (release); with `emulated` also jobs on an
# emulated GPU. The base is built in build/bytes
# and stays there. Where the base is this very tree, it is run twice.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
[[ $# -ge 1 && "$1" != -* ]] || die "which commit? usage: scripts/bytes.sh BASE_COMMIT [--every N] [--only GLOB] [--allow GLOB=REASON]… [--list] [--self-test]"
commit=$(git rev-parse --verify --quiet "$1^{commit}") || die "no such commit: '$1'"
shift
preset=${BYTES_PRESET:-release}

# build FOLDER PRESET: the programs of the sources there.
build() {
  local targets=(troupe)
  [[ ! -f "$1/tests/probes/bytes_probe.cpp" ]] || targets+=(bytes_probe)
  [[ "$2" != emulated ]] || targets+=(troupe_emulated)
  "$1/scripts/build.sh" "$2" "${targets[@]}"
}

build . "$preset"
scripts/build.sh "$preset" forward_probe  # which names the kinds of network
base=.
base_preset=$preset
if [[ "$commit" != "$(git rev-parse HEAD)" ]] || ! git diff --quiet HEAD --; then
  base=build/bytes/$commit
  if [[ ! -d "$base" ]]; then
    rm -rf "$base.part"
    mkdir -p "$base.part"
    git archive "$commit" | tar -x -C "$base.part"
    mv "$base.part" "$base"
  fi
  if ! grep -q "\"name\": \"$preset\"" "$base/CMakePresets.json"; then
    base_preset=release
    echo "the base has no preset $preset: its preset release is built"
  fi
  build "$base" "$base_preset"
fi
exec python3 -B scripts/bytes/compare.py --base "$base/build/$base_preset" \
  --tree "build/$preset" "$@"
