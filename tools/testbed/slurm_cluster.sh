#!/usr/bin/env bash
# Runs a command next to a Slurm cluster of emulated nodes on this machine. The nodes are network namespaces, each with
# its own host name and shared memory. A bridge in another namespace connects them. The command runs on the controller's
# host and may call sbatch, srun, scancel and scontrol.
#
#   tools/testbed/slurm_cluster.sh [--nodes 2] [--cpus 2] COMMAND...
#
# --cpus: number of processors of a node for Slurm; all nodes share the machine's cores. RequeueExit is 75. Slurm kills
# a job 10 s after it has requested the job to end. A node that does not answer counts as down after 60 s.
# SLURM_TESTBED_STATE is the folder of slurm.conf and the daemons' logs. Nothing outside the new namespaces changes.
# When this script ends, it removes the namespaces and all processes in them. Needs root, iproute2, openmpi-bin and
# Slurm (tools/install-dependencies.sh --slurm). Otherwise, prints the reason and exits with 77 (a skipped test).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

nodes=2 cpus=2
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) nodes=${2:?} ;;
  --cpus) cpus=${2:?} ;;
  -*) usage "unknown option '$1'" ;;
  *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || usage
check_count --nodes "$nodes"
check_count --cpus "$cpus"
for program in slurmctld slurmd srun sbatch; do
  command -v $program >/dev/null || skip "$program is missing (tools/install-dependencies.sh --slurm)"
done
# Slurm's plugin loads PMIx by a file name that only the development package contains.
compgen -G '/usr/lib/*/pmix2/lib/libpmix.so' >/dev/null || skip "libpmix.so is missing (apt install libpmix-dev)"

# Writes the files of Slurm's configuration. Host 0 is the controller. The other hosts are the nodes.
write_configuration() {
  local i
  mkdir -p "$state"/save
  # A namespace has no control groups, but slurmd looks for control groups of version 2 even if nothing uses them.
  echo 'CgroupPlugin=cgroup/v1' >"$state/cgroup.conf"
  cat >"$state/slurm.conf" <<C
ClusterName=testbed
SlurmctldHost=${name}n0(10.79.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$state/save
SlurmdSpoolDir=$state/%n/spool
TmpFS=$state/%n/tmp
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/%n/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/%n/slurmd.log
MailProg=/bin/true
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
MpiDefault=none
ReturnToService=2
SlurmdTimeout=60
KillWait=10
RequeueExit=75
C
  for ((i = 1; i <= nodes; i++)); do
    mkdir -p "$state/${name}n$i"/{spool,tmp}
    echo "NodeName=${name}n$i NodeAddr=10.79.0.$((i + 1)) CPUs=$cpus State=UNKNOWN"
  done >>"$state/slurm.conf"
  echo 'PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP' >>"$state/slurm.conf"
}
idle_nodes() { ip netns exec "${name}n0" sinfo -h -t idle -o %D 2>/dev/null; }
start_slurm() {
  local i
  "$here/enter_node.sh" "${name}n0" slurmctld -D >"$state/slurmctld.out" 2>&1 {alive}>&- &
  for ((i = 1; i <= nodes; i++)); do
    "$here/enter_node.sh" "${name}n$i" slurmd -D >"$state/${name}n$i/slurmd.out" 2>&1 {alive}>&- &
  done
  for ((i = 0; i < 300; i++)); do
    [ "$(idle_nodes)" != "$nodes" ] || return 0
    sleep 0.1
  done
  tail -n 20 "$state"/*.out "$state"/*/*.out >&2
  echo "$(basename "$0"): Slurm did not start within 30 s; see the logs above" >&2
  exit 1
}

build_testbed
for ((i = 0; i <= nodes; i++)); do add_host $i 10.79.0.$((i + 1))/24; done
write_configuration
export SLURM_CONF=$state/slurm.conf SLURM_TESTBED_STATE=$state
export HEXAD_TESTBED_STATE=$state HEXAD_TESTBED_HOSTS=$((nodes + 1)) HEXAD_TESTBED_NODES=1
start_slurm
# Runs in the background, so that a signal ends the nodes immediately and not after the command.
"$here/enter_node.sh" "${name}n0" "$(printf '%q ' "$@")" <&0 {alive}>&- &
wait $!
