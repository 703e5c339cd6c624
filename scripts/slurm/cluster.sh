#!/usr/bin/env bash
# Brings up Slurm with the nodes n1, n2 and n3, then runs jobs.py. For slurm_test.sh,
# in the namespaces that it makes.
# usage: cluster.sh TROUPE [--time-limit]
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/say_why.sh
(($# >= 1)) && (($$ == 1)) || die "this is called by scripts/slurm_test.sh"
troupe=$1
shift
nodes=(n1 n2 n3)

# All files. /mnt of these namespaces, not the machine's.
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/{spool,log,munge,shared}

# Slurm looks for addresses that are not 127.0.0.1.
hostname n0
ip link set lo up
ip link add nodes type bridge
ip link set nodes up
cp /etc/hosts /mnt/hosts
for i in 0 1 2 3; do
  ip address add "10.78.0.1$i/24" dev nodes
  echo "10.78.0.1$i n$i" >>/mnt/hosts
done
mount --bind /mnt/hosts /etc/hosts

# Errors of daemons stand in their logs.
fail() {
  tail -n 20 /mnt/log/* >&2
  die "$@"
}

start_munge() {
  (umask 077 && head -c 1024 /dev/urandom >/mnt/munge/key)
  munged --key-file=/mnt/munge/key --socket=/mnt/munge/socket \
    --pid-file=/mnt/munge/pid --seed-file=/mnt/munge/seed --log-file=/mnt/log/munged ||
    fail "munged does not start"
}

# cred_expire is also how long a job waits before it starts again.
write_configuration() {
  cat >/mnt/slurm.conf <<CONF
ClusterName=troupe
SlurmctldHost=n0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=/mnt/munge/socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1
MpiDefault=none
ReturnToService=0
KillWait=5
SlurmdParameters=config_overrides
SlurmctldPidFile=/mnt/spool/slurmctld.pid
SlurmctldLogFile=/mnt/log/slurmctld
StateSaveLocation=/mnt/spool/slurmctld
SlurmdPidFile=/mnt/spool/%n.pid
SlurmdLogFile=/mnt/log/%n
SlurmdSpoolDir=/mnt/spool/%n
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  local i
  for i in 1 2 3; do
    echo "NodeName=n$i NodeAddr=10.78.0.1$i Port=$((16820 + i)) CPUs=2 RealMemory=1000" \
      >>/mnt/slurm.conf
  done
}

start_slurm() {
  export SLURM_CONF=/mnt/slurm.conf
  slurmctld || fail "slurmctld does not start"
  local node tries
  for node in "${nodes[@]}"; do
    # A node has its own name, as another machine has.
    unshare --uts sh -c 'hostname "$1" && exec slurmd -N "$1"' _ "$node" ||
      fail "slurmd does not start on $node"
  done
  for ((tries = 0; tries < 300; ++tries)); do
    (($(sinfo --noheader --Node --format=%t 2>/dev/null | grep -c '^idle$') < 3)) ||
      return 0
    sleep 0.1
  done
  sinfo >&2 || true
  fail "the nodes are not ready after 30 s"
}

start_munge
write_configuration
start_slurm
cd /mnt/shared
SBATCH_SCRIPT=$OLDPWD/scripts/slurm.sbatch TROUPE=$troupe \
  python3 -B "$OLDPWD/scripts/slurm/jobs.py" "$OLDPWD/models/demo" "$@" ||
  fail "a job did not do what was expected: see above, and the logs' ends"
