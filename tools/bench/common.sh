# Functions for the scripts of this folder, which source this file.

. "$(dirname "${BASH_SOURCE[0]}")/../launcher.sh"

hexad=${HEXAD:-build/release/bin/hexad}

# need PROGRAM HOW_TO_GET_IT: if PROGRAM does not exist, prints the advice HOW_TO_GET_IT and exits.
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
# row. For scripts whose only option is --only.
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

# take_steps OPTION...: sets $rounds, $steps and $core to the values of the options --rounds, --steps and --core.
# Without an option, the variable keeps its value.
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
  [ "$steps" -ge 2 ] || usage "--steps is '$steps', expected at least 2, because the first step is not counted"
}

# machine: prints the date, the commit, the processor and the load.
machine() {
  echo "date:      $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  echo "commit:    $(commit)"
  echo "processor: $(processor)"
  echo "load:      $(load) at the start"
}
# commit, processor, load: print the commit of the sources, the processor of this machine, and its load.
commit() { git describe --always --dirty 2>/dev/null || echo unknown; }
processor() { echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"; }
load() { cut -d' ' -f1-3 /proc/loadavg; }

# number KEY FILE: prints the number that follows "KEY": in each line of FILE. If "KEY": occurs several times in a line,
# prints the last number. Skips values that are not numbers, such as the list of the ranks' step_seconds in
# metrics.jsonl.
number() { sed -n "s/.*\"$1\": *\([-0-9][0-9.eE+-]*\).*/\1/p" "$2"; }

# launch N COMMAND...: runs COMMAND on N ranks under mpirun on this machine, even if it has fewer cores. Prints the
# output of COMMAND only if COMMAND fails, and then exits.
launch() {
  local log=$scratch/log mpi
  set_launcher "$1" mpi_yield_when_idle 1
  "${mpi[@]}" "${@:2}" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
}

# launched_rows N BEGINNING COMMAND...: like launch, and then prints the output lines that begin with BEGINNING. The
# field "memory" or "ranks" may precede BEGINNING in these lines.
launched_rows() {
  launch "$1" "${@:3}"
  grep -E "^((memory|ranks)"$'\t'")?$2" "$scratch/log"
}

# profile_into FILE SECONDS TESTBED...: measures the testbed and writes a profile to FILE. If the array `products` names
# grouped products (8x512x1024), measures these instead of the default ones. The array `profile_options` has options of
# `hexad profile`. Adds the bursts of the testbed's links, because the program does not measure bursts. Prints the
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

# longest_burst TESTBED...: prints the longest burst of the testbed's links in seconds. After this idle time, every link
# can send its burst again.
longest_burst() {
  "$@" --bursts | grep -o 'seconds: [0-9.]*' | awk '$2 > longest { longest = $2 } END { print longest + 0 }'
}

# keep_profile FILE SECONDS TESTBED...: like profile_into, but does nothing if FILE exists.
keep_profile() {
  [ ! -e "$1" ] || return 0
  profile_into "$scratch/profiled.yaml" "${@:2}"
  mv "$scratch/profiled.yaml" "$1"
}

# keep_settings FOLDER SETTINGS: records the settings with which the rows in FOLDER are measured. Exits if FOLDER has
# rows of other settings. Rows of other commits and machines are allowed: print_runs names them.
keep_settings() {
  [ -e "$1/settings" ] || echo "$2" >"$1/settings"
  [ "$(cat "$1/settings")" = "$2" ] ||
    usage "--output: $1 has rows of other settings: $(cat "$1/settings"); this call has: $2; choose another folder"
}

# add_run FILE: appends a line to FILE that describes the run of the following rows: "run", date, commit, machine, load.
# The field machine contains a hash of the machine's name, because machines with the same processor differ.
add_run() {
  printf 'run\t%s\t%s\t%s\t%s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(commit)" \
    "$(processor), machine $(uname -n | sha256sum | cut -c 1-8)" "$(load)" >>"$1"
}

# add_rows FILE COMMAND...: appends a line "run" and the output of COMMAND to FILE, while COMMAND prints it.
add_rows() {
  add_run "$1"
  "${@:2}" >>"$1"
}

# add_whole FILE COMMAND...: like add_rows, but leaves FILE as it is if COMMAND fails or is interrupted.
add_whole() {
  rm -f "$1.new"
  [ ! -e "$1" ] || cp "$1" "$1.new"
  add_rows "$1.new" "${@:2}"
  mv "$1.new" "$1"
}

# add_once FILE COMMAND...: like add_whole, but does nothing if FILE exists.
add_once() { [ -e "$1" ] || add_whole "$@"; }

# prefixed TEXT COMMAND...: prints the output of COMMAND. Each line gets TEXT as its first field.
prefixed() { "${@:2}" | sed -u "s/^/$1\t/"; }

# keep_complete FILE COUNT [SEARCHES]: removes from FILE the layers whose measurement was interrupted. These are the
# layers with fewer than COUNT rows of moe_layer, or with fewer than SEARCHES lines "search". Fields may precede the
# layer in a row. Also removes the lines "ranks" and "search" of these layers, and lines "run" without rows.
keep_complete() {
  touch "$1"
  [ ! -s "$1" ] || [ -z "$(tail -c 1 "$1")" ] || sed -i '$d' "$1"  # removes an incomplete last line
  awk -F '\t' -v wanted="$2" -v searches="${3:-0}" '
    function key(    i, text) {
      if ($1 == "ranks" || $1 == "search") return FS $2
      for (i = 1; i <= NF - 12; i++) text = text FS $i
      return text
    }
    NR == FNR { if ($1 == "search") found[key()]++; else if (NF > 12) count[key()]++; next }
    $1 == "run" { run = $0 "\n"; next }
    count[key()] >= wanted && found[key()] >= searches { printf "%s%s\n", run, $0; run = "" }' "$1" "$1" >"$1.complete"
  mv "$1.complete" "$1"
}

# has_rows FILE FIELDS: true if a row of FILE begins with FIELDS, which are separated by tabs.
has_rows() { [ -e "$1" ] && grep -q "^$2"$'\t' "$1"; }

# find_missing FILE PREFIX LAYER...: sets the array `missing` to an option --layer for each layer without rows in FILE.
# A row begins with PREFIX (empty, or ending with a tab), followed by the layer.
find_missing() {
  local layer
  missing=()
  for layer in "${@:3}"; do has_rows "$1" "$2$layer" || missing+=(--layer "$layer"); done
}

# print_runs FILE...: prints when, at which commit, where and under which load (mean over a minute) the rows of the
# files were measured. Also prints a line if the rows are of several commits or machines. The times of such rows also
# differ for other reasons than the schedules.
print_runs() {
  awk -F '\t' '
    function add(values, value) { return index(values "; ", "; " value "; ") ? values : values "; " value }
    function note(values, what) {
      if (gsub(/; /, "; ", values) > 1) print "mixed:     rows are of several " what ": " substr(values, 3)
    }
    FNR == 1 { where = "" }
    $1 == "run" { where = "commit " $3 " on " $4; commit = $3; machine = $4; date = $2; load = $5 + 0; next }
    {
      if (where != "" && !(where in rows)) { groups[++count] = where; first[where] = date; least[where] = load }
      rows[where]++
      if (date < first[where]) first[where] = date
      if (date > last[where]) last[where] = date
      if (load < least[where]) least[where] = load
      if (load > most[where]) most[where] = load
      if (where != "") { commits = add(commits, commit); machines = add(machines, machine) }
    }
    END {
      for (i = 1; i <= count; i++) {
        where = groups[i]
        printf "measured:  %d rows of %s, %s to %s, load %.2f to %.2f at the starts\n", rows[where], where,
          first[where], last[where], least[where], most[where]
      }
      if (rows[""]) print "mixed:     " rows[""] " rows do not say where they were measured"
      note(commits, "commits")
      note(machines, "machines")
    }' "$@"
}

# print_rows FILE...: prints a heading and the rows of moe_layer.
print_rows() {
  printf '\nlayer, round, schedule, pass, seconds: whole pass, task graph, communication, computation, predicted graph and\n'
  printf 'gathering outside the graph; bytes sent: ep, etp and tp; peak bytes. Lines "run": date, commit, machine, load. Lines\n'
  printf '"ranks": layer, seed, mean number of ranks with experts of a token, and its expectation for random experts\n'
  cat "$@"
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
  printf '\ncase, round, schedule; seconds: step, all passes, forward of a layer, both passes of a layer, the latter as predicted,\n'
  printf 'all-to-alls and all-gathers in the forward of a layer; seconds of all passes: all-to-alls, all-to-alls and all-gathers,\n'
  printf 'communication without computation; tokens/s, peak bytes; for each of control, tp, ep, pp, cp and dp: bytes sent,\n'
  printf 'seconds in flight, seconds waited for. Lines "run": date, commit, machine, load\n'
  cat "$1"
}

products=() profile_options=()

# The scratch folder is removed when the script ends. A script that sets its own EXIT trap must also remove the folder.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
