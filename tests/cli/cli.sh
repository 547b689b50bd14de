# This file is sourced by the tests in this folder. Each function test_* is a test. `run_tests` runs the tests
# named on the command line, or all tests of the script. Each test runs in a new folder with tiny.yaml. $HEXAD is the
# program and $MPIEXEC is the launcher.
#
#   HEXAD=build/release/bin/hexad MPIEXEC=mpirun tests/cli/preemption_ranks_test.sh test_sigterm_to_mpirun_saves
set -uo pipefail

: "${HEXAD:?the program under test}" "${MPIEXEC:=mpirun}"
HEXAD=$(realpath "$HEXAD")
CLI_TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
unset HEXAD_FAULT OMPI_MCA_odls_base_sigkill_timeout SLURM_JOB_ID SLURM_RESTART_COUNT  # tests that need these variables set them

# Runs the program on N ranks under the launcher: `ranks 2 train tiny.yaml`.
# $MPIEXEC_FLAGS replaces the options of Open MPI's launcher.
read -ra mpiexec_flags <<<"${MPIEXEC_FLAGS---oversubscribe --bind-to none}"
launch=("$MPIEXEC" "${mpiexec_flags[@]}")
ranks() { "${launch[@]}" -np "$1" "$HEXAD" "${@:2}"; }

# Runs a command. Sets $code to its exit code. Its output is in the files out and err.
run() {
  "$@" >out 2>err
  code=$?
}

show() { sed "s/^/    $1: /" "$1" | head -20; }
failed() {
  printf '  %s: line %s: %s\n' "${FUNCNAME[2]}" "${BASH_LINENO[1]}" "$*"
  [ -f out ] && show out
  [ -f err ] && show err
  exit 1
}

# `expect N COMMAND...`: expects the command to end with exit code N.
expect() {
  local wanted=$1
  shift
  run "$@"
  [ "$code" -eq "$wanted" ] || failed "exit code $code, expected $wanted: $*"
}
# `expect_text FILE TEXT...`: expects the file to contain each text, literally.
expect_text() {
  local file=$1 text
  shift
  for text in "$@"; do grep -qF -- "$text" "$file" || failed "'$text' is not in $file, expected it there"; done
}
expect_no_text() {
  local file=$1 text
  [ -f "$file" ] || failed "there is no file $file"
  shift
  for text in "$@"; do ! grep -qF -- "$text" "$file" || failed "'$text' is in $file, expected it not to be there"; done
}
# `expect_count COUNT FILE TEXT`: expects the text in COUNT lines of the file.
expect_count() {
  local found
  found=$(grep -cF -- "$3" "$2")
  [ "$found" -eq "$1" ] || failed "'$3' is in $found lines of $2, expected $1 lines"
}
expect_equal() { [ "$1" == "$2" ] || failed "'$1' is not '$2', expected equal texts"; }
expect_file() { [ -f "$1" ] || failed "$1 is missing, expected a file"; }
expect_nothing_at() { [ ! -e "$1" ] || failed "$1 exists, expected nothing there"; }
# Expects the file to contain no control code except tabs and newlines. Output to files and pipes must not contain
# escape sequences or carriage returns.
expect_plain() {
  [ -f "$1" ] || failed "$1 is missing, expected a file"
  ! LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]' "$1" || failed "control codes in $1, expected none: $(cat -v "$1")"
}

# `losses RUN`: prints the lines "STEP LOSS" of the run's metrics.
losses() { sed -nE 's/.*"step":([0-9]+),.*"loss":([^,]+),.*/\1 \2/p' "$1/metrics.jsonl"; }
# `expect_same_losses RUN RUN`: expects the same steps in both runs, with losses that agree within 1e-9 of their value.
expect_same_losses() {
  paste -d' ' <(losses "$1") <(losses "$2") | awk '
    NF != 4 || $1 != $3 { print "steps differ: " $0; exit 1 }
    { d = $2 > $4 ? $2 - $4 : $4 - $2; if (!(d <= 1e-9 * $4)) { print "step " $1 ": " $2 " and " $4; exit 1 } }
    END { if (NR == 0) { print "no steps"; exit 1 } }' >difference ||
    failed "losses of $1 and $2 differ, expected equal losses: $(cat difference)"
}
# `expect_same_weights RUN RUN STEP`: expects the same bytes in the shards of both runs' checkpoints of the step.
expect_same_weights() {
  local shard name
  name=$(printf 'checkpoints/step-%08d' "$3")
  for shard in "$1/$name"/*.safetensors; do
    cmp -s "$shard" "$2/$name/${shard##*/}" || failed "$shard differs from the shard of $2, expected the same bytes"
  done
}

# Waits until the condition holds. Fails the test if it does not hold after 30 s.
wait_until() {
  local i
  for ((i = 0; i < 600; i++)); do
    if "$@"; then return 0; fi
    sleep 0.05
  done
  failed "this condition does not hold after 30 s: $*"
}
# `process_of RANK`: prints the id of the process that the launcher $launcher has started for the rank.
process_of() {
  local pid
  for pid in $(pgrep -P "$launcher"); do
    if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then echo "$pid"; fi
  done
}
# `has_steps RUN COUNT`: true once the run's metrics have lines of at least COUNT steps.
has_steps() { [ -f "$1/metrics.jsonl" ] && [ "$(grep -cF '"loss"' "$1/metrics.jsonl")" -ge "$2" ]; }
# `has_lines FILE COUNT`: true once the file has at least COUNT lines.
has_lines() { [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }

run_tests() {
  local name failures=0 names=("$@")
  trap 'rm -rf "${folder:-}"' EXIT  # removes the folder of an interrupted test
  [ ${#names[@]} -gt 0 ] || mapfile -t names < <(declare -F | sed -n 's/^declare -f \(test_.*\)/\1/p')
  for name in "${names[@]}"; do
    folder=$(mktemp -d "${TMPDIR:-/tmp}/hexad-$name.XXXXXX")
    cp "$CLI_TESTS/tiny.yaml" "$folder"
    if (cd "$folder" && "$name"); then
      echo "passed: $name"
    else
      echo "FAILED: $name"
      failures=$((failures + 1))
    fi
    rm -rf "$folder"
  done
  [ "$failures" -eq 0 ]
}
