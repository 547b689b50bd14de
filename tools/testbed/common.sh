# Functions for two_nodes.sh, rank_nodes.sh, mortal_nodes.sh and slurm_cluster.sh, which source this file. A host is a
# network namespace. Its only interface besides `lo` is connected to a port of a bridge in another namespace. Nothing
# outside these namespaces changes. The names of the namespaces begin with hx and the process id, so that several
# testbeds can exist at the same time.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=hx$$  # prefix of host names; whole names have at most 15 characters
frame=32000
. "$here/../launcher.sh"
order=()  # hosts in the order of their ranks; empty: ascending numbers

# usage [ERROR]: prints ERROR and the comment at the top of the script that sources this file, and exits with 2.
usage() {
  [ $# -eq 0 ] || echo "$(basename "$0"): $1" >&2
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
skip() {
  echo "$(basename "$0"): skipped: $1" >&2
  exit 77
}
check_count() { # check_count OPTION VALUE: exits if VALUE is not a whole number from 1 to 99
  [[ $2 =~ ^[1-9][0-9]?$ ]] || usage "$1 is '$2', expected a whole number from 1 to 99"
}
rate_form='^([0-9]+|[0-9]+\.[0-9]+)(k|m|g)bit$'
check_rate() { # check_rate OPTION VALUE: exits if VALUE is not a rate
  [[ $2 =~ $rate_form ]] || usage "$1 is '$2', expected a number of kbit, mbit or gbit per second, such as 200mbit"
}
# burst_of RATE: prints the number of bytes that a link of RATE may send at once after an idle time. This is the traffic
# of one millisecond, but at least one frame.
burst_of() {
  [[ $1 =~ $rate_form ]]
  awk -v n="${BASH_REMATCH[1]}" -v unit="${BASH_REMATCH[2]}" -v least=$frame \
    'BEGIN { bytes = n * (unit == "k" ? 1 : unit == "m" ? 1e3 : 1e6) / 8; print int(bytes > least ? bytes : least) }'
}
# burst_entry GROUP BYTES RATE: prints an entry of the key `bursts` of a cluster file: the seconds that BYTES take at
# RATE.
burst_entry() {
  [[ $3 =~ $rate_form ]]
  awk -v group="$1" -v bytes="$2" -v n="${BASH_REMATCH[1]}" -v unit="${BASH_REMATCH[2]}" \
    'BEGIN { printf "{group: %s, seconds: %.6f}\n", group, 8 * bytes / (n * (unit == "k" ? 1e3 : unit == "m" ? 1e6 : 1e9)) }'
}

spaces() { ip netns list | awk -v own="$name" '$1 == own "sw" || index($1, own "n") == 1 {print $1}'; }
processes() {
  local space
  for space in $(spaces); do ip netns pids "$space"; done
}
take_down() {
  local round pids
  # Repeats, because a process that is being ended may still start a new process.
  for ((round = 0; round < 100; round++)); do
    pids=$(processes 2>/dev/null)
    [ -n "$pids" ] || break
    kill -9 $pids 2>/dev/null || true
    sleep 0.02
  done
  # Deleting a namespace also deletes its links and the bridge.
  local space
  for space in $(spaces); do ip netns del "$space"; done
  rm -rf "$state"
}

# Starts a process that removes the testbed when this script ends for any reason, including kill -9. The process reads
# from a pipe that this script holds open, so the read ends when the script ends.
watch_over() {
  exec {alive}> >(
    trap '' INT TERM HUP
    set +e
    cat >/dev/null
    take_down >/dev/null 2>&1
  )
  watcher=$!
}
finish() {
  local code=$?
  trap - EXIT
  exec {alive}>&-
  wait "$watcher" || true
  exit $code
}

# Checks the requirements and makes the bridge. From now on, the testbed is removed when the script ends.
build_testbed() {
  [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
  local program
  for program in ip tc; do command -v $program >/dev/null || skip "$program is missing (apt install iproute2)"; done
  command -v mpirun >/dev/null || skip "mpirun is missing (apt install openmpi-bin)"
  require_open_mpi "the emulated nodes are started by its launch agent"
  state=$(mktemp -d)
  watch_over
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  ip netns add ${name}sw 2>"$state/error" || skip "no permission to create network namespaces: $(cat "$state/error")"
  ip -n ${name}sw link add bridge type bridge
  ip -n ${name}sw link set bridge up
}

add_host() { # add_host NUMBER ADDRESS/BITS: makes a host and connects it to the bridge
  local host=${name}n$1
  ip netns add "$host"
  # Uses large frames. With frames of 1500 bytes, the shaper's timers would use half a core that the ranks need.
  ip -n ${name}sw link add "port$1" mtu $frame type veth peer name eth0 mtu $frame netns "$host"
  ip -n ${name}sw link set "port$1" master bridge up
  ip -n "$host" addr add "$2" dev eth0
  ip -n "$host" link set lo up
  ip -n "$host" link set eth0 up
  ip netns exec "$host" sysctl -qw net.ipv4.tcp_slow_start_after_idle=0
}
# shape_host HOST TC_ARGUMENT... runs tc for the traffic that a host sends, and shape_port HOST TC_ARGUMENT... for the
# traffic that it receives. Example: shape_host 3 qdisc add root ...
shape_host() { tc -n "${name}n$1" "$2" "$3" dev eth0 "${@:4}"; }
shape_port() { tc -n ${name}sw "$2" "$3" dev "port$1" "${@:4}"; }

# set_mca SUBNET: sets the array `mca` to the parameters of Open MPI, as NAME VALUE, with which mpirun starts ranks on
# the hosts. Uses large eager limits. Without eager sends, the answer of a rendezvous waits behind bulk data in the same
# socket. Exchanges in both directions then become half duplex.
set_mca() {
  mca=(
    plm_rsh_agent "$here/enter_node.sh" plm_rsh_no_tree_spawn 1 orte_leave_session_attached 1
    btl tcp,self,vader btl_vader_single_copy_mechanism none
    btl_tcp_if_include "$1" oob_tcp_if_include "$1"
    btl_tcp_eager_limit 8388608 btl_tcp_rndv_eager_limit 8388608 btl_tcp_max_send_size 8388608
    mpi_yield_when_idle 1
  )
}

# run_ranks HOSTS RANKS_OF_A_HOST NODES SUBNET COMMAND...: runs COMMAND on ranks that are numbered host by host. The
# array `order` has the order of the hosts; if it is empty, the order is ascending. Uses bind-to none, because the
# daemon of every host would otherwise bind its first rank to core 0. enter_node.sh gives each host its cores.
run_ranks() {
  local hosts=$1 ranks=$2 nodes=$3 subnet=$4 list= i mca
  shift 4
  [ ${#order[@]} -gt 0 ] || order=($(seq 0 $((hosts - 1))))
  for i in "${order[@]}"; do list+=${list:+,}${name}n$i:$ranks; done
  set_mca "$subnet"
  export HEXAD_TESTBED_STATE=$state HEXAD_TESTBED_HOSTS=$hosts HEXAD_TESTBED_NODES=$nodes
  # Runs in the background, so that a signal ends the hosts immediately and not after the command. All hosts share one
  # session: if the scheduler distributes cores by session, sched_yield() does not yield to other sessions.
  setsid "$here/enter_node.sh" ${name}n0 mpirun --allow-run-as-root --oversubscribe --bind-to none \
    $(printf -- '--mca %s %s ' "${mca[@]}") --host "$list" -np $((hosts * ranks)) "$(printf '%q ' "$@")" \
    <&0 {alive}>&- &
  wait $!
}
