# Functions for the scripts of this folder, which source this file.

. "$(dirname "${BASH_SOURCE[0]}")/../launcher.sh"

hexad=${HEXAD:-build/release/bin/hexad}

# need PROGRAM HOW_TO_GET_IT: exits with the advice HOW_TO_GET_IT if PROGRAM does not exist.
need() {
  [ -x "$1" ] || command -v "$1" >/dev/null || {
    echo "$(basename "$0"): $1 is missing: $2" >&2
    exit 1
  }
}

# need_bench NAME: sets $bench to the benchmark program NAME, and checks that $hexad and $bench exist (environment:
# BENCH).
need_bench() {
  bench=${BENCH:-build/release/bench/$1}
  need "$hexad" 'cmake --preset release && cmake --build --preset release'
  need "$bench" "cmake --build --preset release --target $1"
}

# usage [ERROR]: prints ERROR and the comment at the top of the script that sources this file, and exits with 2.
usage() {
  [ $# -eq 0 ] || echo "$(basename "$0"): $1" >&2
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

# take_only OPTION...: sets $only to the pattern of --only. Without --only, sets $only to a pattern that matches every
# row. Scripts that print a line for each row of a table have no other option.
take_only() {
  only=.
  while [ $# -gt 0 ]; do
    case $1 in
    --only) only=${2:?} ;;
    *) usage "unknown option '$1'" ;;
    esac
    shift 2
  done
}

# take_steps OPTION...: sets $rounds, $steps and $core to the values of the options --rounds, --steps and --core. Without
# an option, the variable keeps its value.
take_steps() {
  while [ $# -gt 0 ]; do
    case $1 in
    --rounds) rounds=${2:?} ;;
    --steps) steps=${2:?} ;;
    --core) core=${2:?} ;;
    *) usage "unknown option '$1'" ;;
    esac
    shift 2
  done
  [ "$steps" -ge 2 ] || usage "--steps is '$steps', expected at least 2, because the first is not counted"
}

# machine: prints the date, the commit, the processor and the load.
machine() {
  echo "date:      $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  echo "commit:    $(git describe --always --dirty 2>/dev/null || echo unknown)"
  echo "processor: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
  echo "load:      $(cut -d' ' -f1-3 /proc/loadavg) at the start"
}

# number KEY FILE: prints the number that follows "KEY": in each line of FILE; the last one if a line has several. Skips
# values that are not a number, such as the list of the ranks' step_seconds in metrics.jsonl.
number() { sed -n "s/.*\"$1\": *\([-0-9][0-9.eE+-]*\).*/\1/p" "$2"; }

# launch N COMMAND...: runs COMMAND on N ranks under mpirun on this machine, even with fewer cores. Prints the
# output of COMMAND only if COMMAND fails, and then exits.
launch() {
  local log=$scratch/log mpi
  set_launcher "$1" mpi_yield_when_idle 1
  "${mpi[@]}" "${@:2}" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
}

# profile_into FILE SECONDS TESTBED...: measures the testbed and writes a profile to FILE. If the array `products` names
# grouped products (8x512x1024), measures these instead of the default ones. The array `profile_options` has further
# options of `hexad profile`. Adds the bursts of the testbed's links, which the program does not measure. Prints the
# output only if the measurement fails, and then exits.
profile_into() {
  "${@:3}" "$hexad" profile "${products[@]/#/--product=}" "${profile_options[@]}" --seconds "$2" --out "$1" \
    >"$scratch/profile.log" 2>&1 || {
    local status=$?
    cat "$scratch/profile.log" >&2
    exit $status
  }
  local bursts
  bursts=$("${@:3}" --bursts)
  sed -i '/^bursts:/d' "$1"
  echo "bursts: $bursts" >>"$1"
}

# keep_settings FOLDER SETTINGS: records the settings and the commit with which the rows in FOLDER are measured. Exits
# if FOLDER has rows of other settings or of another commit.
keep_settings() {
  local settings
  settings="$2, commit $(git describe --always --dirty 2>/dev/null || echo unknown)"
  [ -e "$1/settings" ] || echo "$settings" >"$1/settings"
  [ "$(cat "$1/settings")" = "$settings" ] ||
    usage "--output: $1 has rows of other settings: $(cat "$1/settings"); now: $settings; choose another folder"
}

# keep_complete FILE COUNT: removes rows of moe_layer from FILE if fewer than COUNT begin with the same layer, because
# their measurement was interrupted. Fields may precede the layer. Also removes lines "ranks" of these layers.
keep_complete() {
  touch "$1"
  [ ! -s "$1" ] || [ -z "$(tail -c 1 "$1")" ] || sed -i '$d' "$1"  # the last line is not complete
  awk -F '\t' -v wanted="$2" '
    function key(    i, text) { for (i = 1; i <= NF - 12; i++) text = text FS $i; return text }
    NR == FNR { count[key()]++; next }
    $1 == "ranks" ? count[FS $2] >= wanted : NF > 12 && count[key()] >= wanted' "$1" "$1" >"$1.complete"
  mv "$1.complete" "$1"
}

# print_rows FILE: prints a heading and the rows of moe_layer.
print_rows() {
  printf '\nlayer, round, schedule, pass, seconds: whole pass, task graph, communication, computation, predicted graph and\n'
  printf 'gathering outside the graph; bytes sent: ep, etp and tp; peak bytes. Lines "ranks": layer, seed, mean number of ranks with\n'
  printf 'experts of a token, and its expectation for random experts\n'
  cat "$1"
}

# bits RATE: prints a rate such as 25mbit in bits per second.
bits() {
  case $1 in
  *gbit) awk -v n="${1%gbit}" 'BEGIN { printf "%.0f\n", n * 1e9 }' ;;
  *mbit) awk -v n="${1%mbit}" 'BEGIN { printf "%.0f\n", n * 1e6 }' ;;
  *kbit) awk -v n="${1%kbit}" 'BEGIN { printf "%.0f\n", n * 1e3 }' ;;
  *) usage "a rate is '$1', expected a number with kbit, mbit or gbit, such as 25mbit" ;;
  esac
}

# print_steps FILE: prints a heading and the rows of train_schedules, each of which begins with its case.
print_steps() {
  printf '\ncase, round, schedule, seconds: step, passes, forward, layer, predicted layer, all-to-alls and all-gathers of a\n'
  printf 'forward, all-to-alls, these and all-gathers, exposed; tokens/s, peak bytes; of control, tp, ep, pp, cp and dp: bytes, seconds under way, seconds waited for\n'
  cat "$1"
}

products=() profile_options=()

# The scratch folder is removed when the script ends. A script that sets its own EXIT trap must also remove the folder.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
