#!/usr/bin/env bash
# Tries the packages of package.sh on a bare Debian 12, in the namespaces that it makes.
# usage: try_packages.sh FOLDER TROUPE
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
(($# == 2)) && (($$ == 1)) || die "this is called by scripts/package.sh"
packages=$1 troupe=$2
root=/mnt/root

# Runs a command in the bare Debian; the output is shown after a failure.
inside() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
    DEBIAN_FRONTEND=noninteractive "$@"
}

quietly() {
  "$@" >/mnt/log 2>&1 || {
    tail -n 30 /mnt/log >&2
    die "$* failed: see above"
  }
}

# What one picture of the bundled model comes to: its class and latents.
draw() {
  local program=$1 model=$2 summary
  shift 2
  summary=$("$@" "$program" sample --model "$model" --class faces --seed 4 --steps 20 \
    --out /mnt/picture.png --exists replace --json --quiet)
  grep -o '"\(execution_class\|latents_xxh3\)": *"[0-9a-f]*"' <<<"$summary" | sort -u
}

# try NAME PROGRAM MODEL
try() {
  inside "$2" --version
  inside "$2" doctor >/mnt/log || die "$1: doctor is not content: $(cat /mnt/log)"
  local drawn
  drawn=$(draw "$2" "$3" inside)
  [[ -n "$drawn" && "$drawn" == "$expected" ]] ||
    die "$1: got $drawn, expected what the build gives: $expected"
  echo "$1: the picture of the build"
}

mount -t tmpfs tmpfs /mnt
expected=$(draw "$troupe" models/demo env)
quietly debootstrap --variant=minbase bookworm "$root" "$PACKAGE_MIRROR"
mount -t proc proc "$root/proc"
mkdir "$root/mnt/packages"
cp "$packages"/* "$root/mnt/packages/"
quietly inside sh -c 'apt-get update && apt-get install -y --no-install-recommends \
  /mnt/packages/*.deb'
echo "on a bare Debian $(cat "$root/etc/debian_version"):"
try "package" troupe /usr/share/troupe/models/demo
# The libraries stay.
quietly inside dpkg --purge troupe
[[ ! -e "$root/usr/share/troupe" ]] || die "the package leaves files behind"
quietly inside sh -c 'mkdir "/opt/a folder" && tar -xzf /mnt/packages/*.tar.gz \
  -C "/opt/a folder" --strip-components=1'
try "tarball" "/opt/a folder/bin/troupe" "/opt/a folder/share/troupe/models/demo"
