#!/usr/bin/env bash
# Makes build/packages/troupe-*.tar.gz, which runs from any folder, and troupe_*.deb. Then
# tries both on a bare Debian 12: the programs start, see the machine, and draw what the
# build draws. Trying needs root and a Debian mirror; it takes a minute.
#   scripts/package.sh         makes them and tries them
#   scripts/package.sh make    makes them only
# PACKAGE_PRESET names a build (release), PACKAGE_MIRROR the mirror.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
[[ $# == 0 || "$*" == make ]] || die "got '$*', expected nothing or make"
preset=${PACKAGE_PRESET:-release}
export PACKAGE_MIRROR=${PACKAGE_MIRROR:-http://deb.debian.org/debian}
if [[ $# == 0 ]]; then
  ((EUID == 0)) || die "trying them needs root; scripts/package.sh make does not"
  scripts/setup.sh package
else
  scripts/setup.sh
fi

scripts/build.sh "$preset" troupe
packages=$PWD/build/packages
rm -rf "$packages"
cpack --config "build/$preset/CPackConfig.cmake" -B "$packages" >"$packages.log" 2>&1 || {
  cat "$packages.log" >&2
  die "cpack failed: see above"
}
rm -rf "$packages.log" "$packages/_CPack_Packages"
ls -sh "$packages"
[[ $# == 0 ]] || exit 0

# The bare Debian lies in memory, in a mount namespace that ends with its processes. The
# processes end with this script, even if the script is killed.
setpriv --pdeathsig KILL unshare --pid --mount --uts --fork --kill-child --mount-proc \
  scripts/try_packages.sh "$packages" "build/$preset/troupe" </dev/null &
attempt=$!
trap 'kill -KILL "$attempt" 2>/dev/null || true' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
wait "$attempt"
