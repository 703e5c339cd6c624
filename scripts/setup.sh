#!/usr/bin/env bash
# Installs what Troupe needs on Debian 12; does nothing when all is there.
#   scripts/setup.sh           to build and run
#   scripts/setup.sh parity    also what scripts/parity.sh needs
#   scripts/setup.sh slurm     also what scripts/slurm_test.sh needs
#   scripts/setup.sh package   also what scripts/package.sh needs
set -euo pipefail
source "$(dirname "$0")/say_why.sh"
[[ $# == 0 || "$*" =~ ^(parity|slurm|package)$ ]] ||
  die "got '$*', expected nothing, parity, slurm or package"

packages=(
  build-essential cmake ninja-build ccache mold pkg-config
  libcaf-dev libzmq3-dev cppzmq-dev libsodium-dev libboost-dev libdnnl-dev libhwy-dev
  librandom123-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev
  libspdlog-dev libfmt-dev libpng-dev zlib1g-dev libxxhash-dev libutf8proc-dev
  libprotobuf-dev protobuf-compiler prometheus-cpp-dev
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev iproute2
  clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev python3
)
if [[ "${1:-}" == parity ]]; then
  # Without OpenBLAS torch multiplies with the reference BLAS, ten times slower.
  packages+=(python3-torch python3-venv python3-numpy libopenblas0-pthread)
elif [[ "${1:-}" == slurm ]]; then
  packages+=(slurmctld slurmd slurm-client munge)
elif [[ "${1:-}" == package ]]; then
  packages+=(debootstrap)
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$state" == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

command -v apt-get >/dev/null ||
  die "no apt-get: this is for Debian 12; install by hand: ${missing[*]}"
echo "setup: installing ${missing[*]}" >&2
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    die "not root and no sudo; run as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
