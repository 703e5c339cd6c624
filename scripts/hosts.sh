#!/usr/bin/env bash
# Several "hosts" on this machine: network namespaces on one switch, with addresses
# 10.77.0.1, 10.77.0.2, … Nothing leaves them. Needs root.
#   scripts/hosts.sh up N [--mbit M] [--delay MS]   N hosts, instead of those there are;
#                     M Mbit/s from and to each; MS ms from any to any other, one way
#   scripts/hosts.sh run I COMMAND…   runs a command on host I
#   scripts/hosts.sh unplug I         takes host I off the switch
#   scripts/hosts.sh plug I           and puts it back
#   scripts/hosts.sh status           what is there, a line for each host
#   scripts/hosts.sh down             ends all processes on hosts and removes everything
# HOSTS_PREFIX (troupe-hosts) begins the names of the namespaces: another one makes other
# hosts beside these. DELAY_SWITCH names the program of --delay (tests/probes).
# Exit code 77: this machine cannot do it. Tests take that as skipped.
set -euo pipefail
source "$(dirname "$0")/say_why.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=${HOSTS_PREFIX:-troupe-hosts}
net=$prefix-net

cannot() {
  echo "hosts: not on this machine: $*" >&2
  exit 77
}

# The first line of what a command complains of; fails as it does.
complaint_of() {
  local said
  said=$("$@" 2>&1) && return
  said=${said%%$'\n'*}
  echo "${said:-no reason is given}"
  return 1
}

need_root() {
  ((EUID == 0)) || cannot "this needs root"
  local program
  for program in ip tc nsenter unshare flock; do
    command -v "$program" >/dev/null ||
      cannot "$program is missing; apt-get install iproute2 util-linux"
  done
}

# One call at a time makes or removes namespaces. The lock is on this file, which
# stays: nothing else is left behind. (/run/netns is locked by ip itself.)
lock() {
  exec 9<"$root/scripts/hosts.sh"
  flock -w 60 9 || die "another call has been busy for a minute"
}

# From the folder: `ip netns list` complains about half-made namespaces.
namespaces() {
  local path
  for path in "/run/netns/$prefix"-*; do
    [[ ! "$path" =~ /($prefix-([0-9]+|net))$ ]] || echo "${BASH_REMATCH[1]}"
  done
}

# The kernel's part, tried where it leaves no trace.
check_kernel() {
  local why
  why=$(complaint_of unshare --net true) || cannot "no network namespaces: $why"
  why=$(complaint_of unshare --net sh -ec '
    ip link add probe type bridge
    ip link add probe1 type veth peer name probe2
    tc qdisc add dev probe1 root tbf rate 1mbit burst 6000 latency 50ms') ||
    cannot "the kernel has no bridge, veth or tbf: $why"
}

remove_all() {
  local name pids tries
  for name in $(namespaces); do
    # Until there is none: they may start others.
    for ((tries = 0; tries < 200; ++tries)); do
      pids=$(ip netns pids "$name" 2>/dev/null || true)
      [[ -n "$pids" ]] || break
      # Some may have ended by now.
      kill -KILL $pids 2>/dev/null || true
      sleep 0.05
    done
    [[ -z "$pids" ]] || die "processes on $name do not end: $pids"
    ip netns del "$name"
  done
}

# A link's rate, with room for half a millisecond: what waits longer is lost after
# 50 ms, as in a switch.
limit() {
  local burst=$((mbit * 125 / 2))
  tc -n "$1" qdisc add dev "$2" root tbf rate "${mbit}mbit" \
    burst $((burst < 6000 ? 6000 : burst)) latency 50ms
}

add_host() {
  local host=$prefix-$1 port=port$1
  ip netns add "$host"
  ip -n "$host" link set lo up
  ip -n "$net" link add "$port" type veth peer name eth0 netns "$host"
  ip -n "$host" address add "10.77.0.$1/24" dev eth0
  if ((mbit)); then
    limit "$net" "$port"
    limit "$host" eth0
  fi
  ((delay)) || ip -n "$net" link set "$port" master switch
  ip -n "$net" link set "$port" up
  ip -n "$host" link set eth0 up
}

find_delay_switch() {
  local programs=("$root"/build/{release,dev,cuda,emulated}/tests/probes/delay_switch) program
  for program in "${DELAY_SWITCH:-${programs[@]}}"; do
    [[ ! -x "$program" ]] || { echo "$program" && return; }
  done
  return 1
}

up() {
  (($# > 0)) || die "up: got nothing, expected the number of hosts"
  local hosts=$1 mbit=0 delay=0 i switch=
  need_number up "$hosts"
  ((hosts <= 250)) || die "up: got $hosts, expected at most 250"
  shift
  while (($# > 0)); do
    [[ "$1" =~ ^--(mbit|delay)$ ]] || die "up: got '$1', expected --mbit or --delay"
    need_number "$1" "${2:-}"
    if [[ "$1" == --mbit ]]; then mbit=$2; else delay=$2; fi
    shift 2
  done
  need_root
  if ((delay)); then
    switch=$(find_delay_switch) ||
      die "--delay: ${DELAY_SWITCH:-its program} is missing: scripts/build.sh release delay_switch"
  fi
  check_kernel
  lock
  remove_all
  local why
  why=$(complaint_of ip netns add "$net") || cannot "ip netns add $net: $why"
  # Half a network is none.
  trap 'code=$?; trap - EXIT; ((code == 0)) || remove_all; exit "$code"' EXIT
  ((delay)) || ip -n "$net" link add switch type bridge
  ((delay)) || ip -n "$net" link set switch up
  for ((i = 1; i <= hosts; ++i)); do
    add_host "$i"
  done
  if ((delay)); then
    why=$(complaint_of nsenter --net="/run/netns/$net" "$switch" "$delay" \
      $(seq --format=port%.0f "$hosts") 9>&-) || die "$switch cannot start: $why"
  fi
}

need_host() {
  need_number "${FUNCNAME[1]}" "${1:-}"
  [[ -e "/run/netns/$prefix-$1" ]] ||
    die "${FUNCNAME[1]}: there is no host $1: scripts/hosts.sh status"
}

run() {
  need_root
  need_host "${1:-}"
  (($# > 1)) || die "run: got no command"
  local host=$1
  shift
  exec nsenter --net="/run/netns/$prefix-$host" -- "$@"
}

unplug() {
  need_root
  need_host "$@"
  ip -n "$net" link set "port$1" down
}

plug() {
  need_root
  need_host "$@"
  ip -n "$net" link set "port$1" up
}

status() {
  need_root
  local name host rate plugged
  for name in $(namespaces | sort -V); do
    host=${name##*-}
    [[ "$host" != net ]] || continue
    rate=$(tc -n "$name" qdisc show dev eth0 | sed -n 's/.* rate \([^ ]*\) .*/\1/p')
    plugged=unplugged
    # Looks up the namespace of the other end, and complains about half-made ones.
    [[ -z "$(ip -n "$net" -o link show "port$host" up 2>/dev/null)" ]] || plugged=plugged
    echo "$host 10.77.0.$host $plugged ${rate:-unlimited} $(ip netns pids "$name" | wc -l) processes"
  done
}

down() {
  need_root
  lock
  remove_all
}

[[ "$prefix" =~ ^[a-z0-9-]+$ ]] || die "HOSTS_PREFIX: got '$prefix', expected a-z, 0-9 and -"
verb=${1:-}
case "$verb" in
  up | run | unplug | plug) ;;
  status | down) (($# == 1)) || die "$verb: takes no arguments" ;;
  *) die "got '$verb', expected up, run, unplug, plug, status or down" ;;
esac
shift
"$verb" "$@"
