# Options and functions of predicted_steps.sh and exhaustive_plans.sh, which source this file after common.sh. A place
# is either a number of ranks, each bound to its own core, or "nodes": two emulated nodes (tools/testbed/two_nodes.sh).
# The emulated nodes need root, iproute2 and two cores.

recipe=recipes/bench-cpu.yaml
counted_after=2  # number of uncounted first steps of each run
most_draws=400   # maximum number of draws for one case

# Defaults of the options that predicted_steps.sh and exhaustive_plans.sh share.
seed=1 cases=40 cluster='' seconds=120 output='' predict_only=no

# take_option OPTION [VALUE]: sets the variable of an option that the two scripts share. Sets $taken to the number of
# arguments used. Returns 1 for other options.
take_option() {
  taken=2
  case $1 in
  --seed) seed=${2:?} ;;
  --cases) cases=${2:?} ;;
  --cluster) cluster=${2:?} ;;
  --seconds) seconds=${2:?} ;;
  --output) output=${2:?} ;;
  --predict-only) predict_only=yes taken=1 ;;
  *) return 1 ;;
  esac
}

# check_options: checks the values of --seed, --cases, --seconds, --steps and --cluster.
check_options() {
  [[ $seed =~ ^[0-9]{1,5}$ ]] || usage "--seed is '$seed', expected a whole number from 0 to 99999"
  [[ $cases =~ ^[1-9][0-9]{0,3}$ ]] || usage "--cases is '$cases', expected a whole number from 1 to 9999"
  [[ $seconds =~ ^[1-9][0-9]{0,3}$ ]] || usage "--seconds is '$seconds', expected a whole number from 1 to 9999"
  if [[ ! $steps =~ ^[1-9][0-9]{0,2}$ ]] || [ "$steps" -le $((counted_after + 1)) ]; then
    usage "--steps is '$steps', expected a whole number from $((counted_after + 2)) to 999 ($counted_after are not counted)"
  fi
  [[ -z $cluster || (-f $cluster && -r $cluster) ]] ||
    usage "--cluster is '$cluster', expected a readable cluster file of hexad profile"
}

# Settings of every run: one thread per rank, a short watchdog, and no work outside the steps.
run_settings=(train.threads=1 train.peak_flops=1e11 train.router_every=0 checkpoint.at_end=false
  distributed.watchdog_seconds=60)

# Settings of a short run that shows how fast the machine is at the moment. Speeds of shared machines drift.
reference_settings=(model.layers=2 model.hidden=256 model.heads=4 model.kv_heads=4 model.context=32 model.vocab=2048
  model.moe.expert_hidden=512 batch.global=16 batch.micro=2)
reference_steps=12

# draw GENERATOR PLACE: sets $settings to the next random recipe of GENERATOR for the ranks of PLACE.
declare -A drawn
draw() {
  drawn[$2]=$((${drawn[$2]:-0} + 1))
  settings=$(awk -v seed="$seed" -v place="$2" -v number="${drawn[$2]}" -v ranks="$(ranks_of "$2")" \
    -f tools/bench/random.awk -f "tools/bench/$1.awk")
}

# judge RANKS OVERRIDE...: runs `hexad validate` and sets $verdict. Leaves the report in $scratch/validated. Returns 1
# if the command fails without refusing the recipe. Verdicts:
# - refused: the command refuses the recipe
# - outsized: a step has less than 1 or more than 16 GFLOP per rank
# - good: all other recipes
judge() {
  local status=0
  "$hexad" validate $recipe --world "$1" --json run.dir="$scratch/run" "${run_settings[@]}" "${@:2}" \
    >"$scratch/validated" 2>"$scratch/err" || status=$?
  if [ $status -eq 2 ]; then
    verdict=refused
  elif [ $status -ne 0 ]; then
    cat "$scratch/err" >&2
    return 1
  else
    verdict=$(awk -F ': *' -v ranks="$1" '/"flops_per_token"/ { f = $2 } /"tokens_per_step"/ { t = $2 }
      END { n = f * t / ranks; print (n < 1e9 || n > 16e9 ? "outsized" : "good") }' "$scratch/validated")
  fi
}

# cores: prints the number of cores that this process may use. Counts the hardware threads of a core as one.
cores() {
  awk -F ': *' -v most="$(nproc)" '/^physical id/ { socket = $2 } /^core id/ { if (!seen[socket, $2]++) n++ }
    END { print n && n < most ? n : most }' /proc/cpuinfo
}

# ranks_of PLACE: prints the number of ranks of PLACE.
ranks_of() {
  if [ "$1" != nodes ]; then
    echo "$1"
  elif [ "$(cores)" -lt 4 ]; then
    echo 2
  else
    echo 4
  fi
}

# at PLACE COMMAND...: runs COMMAND on the ranks of PLACE. If COMMAND fails with a code other than 77, prints the end of
# its output.
at() {
  local log=$scratch/log place=$1 ranks
  ranks=$(ranks_of "$place")
  local launcher=(mpirun -np "$ranks" --map-by core --bind-to core)
  [ "$place" != nodes ] || launcher=(tools/testbed/two_nodes.sh --nodes 2 --ranks $((ranks / 2)) --rate 200mbit)
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "${launcher[@]}" "${@:2}" </dev/null >"$log" 2>&1 || {
    local status=$?
    [ $status -eq 77 ] || tail -n 20 "$log" >&2
    return $status
  }
}

# is_place WORD: true if WORD is a place for which recipes are drawn.
is_place() { [[ $1 =~ ^([1248]|nodes)$ ]]; }

# usable_places PLACE...: prints the places that this machine can provide. For each other place, prints the reason to
# standard error.
usable_places() {
  local place
  for place; do
    if [ "$place" != nodes ] && [ "$place" -gt "$(cores)" ]; then
      echo "$place ranks are skipped: this machine has $(cores) cores, and each rank needs its own core" >&2
    elif [ "$place" = nodes ] && [ "$(cores)" -lt 2 ]; then
      echo "the emulated nodes are skipped: this machine has one core, and they need two" >&2
    elif [ "$place" = nodes ] && ! at nodes true; then
      echo "the emulated nodes are skipped: $(tail -n 1 "$scratch/log")" >&2
    else
      echo "$place"
    fi
  done
}

# reference PLACE: sets $reference to the median seconds of a step of a fixed recipe on the ranks of PLACE. Sets it to
# "-" if the run fails, and for the emulated nodes: their links take most of the time and do not drift.
reference() {
  reference=-
  [ "$1" != nodes ] && train "$1" $reference_steps "${reference_settings[@]}" || return 0
  reference=$(awk -f tools/bench/median.awk -f /dev/stdin "$step_seconds" \
    <<<'BEGIN { n = split(ARGV[1], seconds, " "); print median(seconds, n) }')
}

# mean_of A B: prints the mean of two numbers; "-" if one of them is "-".
mean_of() { awk -v a="$1" -v b="$2" 'BEGIN { print (a == "-" || b == "-" ? "-" : (a + b) / 2) }'; }

# begin PLACE...: prints a description of the machine. Sets $places to the usable places, or to all places if nothing is
# measured on them. Makes the output folder. For each of $places, adds the file cluster.PLACE.yaml to this folder if the
# file does not exist. The file is a copy of --cluster, or a measurement. For a measurement, also writes
# reference.PLACE: the mean of `reference` before and after the measurement.
begin() {
  local place file
  need "$hexad" 'cmake --preset release && cmake --build --preset release'
  mkdir -p "$output"
  output=$(cd "$output" && pwd)
  machine
  places="$*"
  if [ $predict_only = no ] || [ -z "$cluster" ]; then
    need mpirun 'apt-get install openmpi-bin'
    require_open_mpi 'its options bind each rank to a core'
    places=$(usable_places "$@")
    places=${places//$'\n'/ }
    [ -n "$places" ] || exit 1
  fi
  for place in $places; do
    file=$output/cluster.$place.yaml
    if [ -e "$file" ]; then
      [ -z "$cluster" ] || cmp -s "$cluster" "$file" || usage "--cluster $cluster differs from $file; choose another --output"
    elif [ -n "$cluster" ]; then
      cp "$cluster" "$file"
    else
      echo "measuring the cluster file of place $place: about $seconds s"
      reference "$place"
      local before=$reference
      at "$place" "$hexad" profile --threads 1 --seconds "$seconds" --out "$file.new"
      reference "$place"
      mean_of "$before" "$reference" >"$output/reference.$place"
      mv "$file.new" "$file"
    fi
  done
}

# begin_table FILE TITLE: sets $header, the lines at the top of the table FILE: the title, the program and the cluster
# files. A FILE that already exists must have the same header.
begin_table() {
  local place
  header="# $2; program $(sha256sum <"$(command -v "$hexad")" | cut -c1-16)"
  for place in $places; do
    header+=$'\n'"# cluster.$place.yaml $(sha256sum <"$output/cluster.$place.yaml" | cut -c1-16)"
    [ ! -e "$output/reference.$place" ] || header+=" reference $(<"$output/reference.$place") s"
  done
  if [ -e "$1" ] && [ "$(grep '^#' "$1")" != "$header" ]; then
    echo "$(basename "$0"): $1 was made with other settings, another program or another cluster:" >&2
    printf '%s\nexpected:\n%s\nchoose another --output\n' "$(grep '^#' "$1")" "$header" >&2
    exit 2
  fi
}

# print_hash FILE: prints the hash of a table of predictions. The table must not change after the first measurement.
print_hash() { echo "sha256 of $(basename "$1"), before the first step was measured: $(sha256sum <"$1" | cut -d' ' -f1)"; }

# train PLACE STEPS OVERRIDE...: trains for STEPS steps. Sets $peak to the peak bytes of the rank that needs the most.
# Sets $step_seconds to the seconds of the counted steps, separated by blanks.
train() {
  local run=$scratch/run
  rm -rf "$run"
  at "$1" "$hexad" train $recipe "${run_settings[@]}" train.steps="$2" run.dir="$run" "${@:3}" || return
  step_seconds=$(number step_seconds "$run/metrics.jsonl" | tail -n +$((counted_after + 1)) | tr '\n' ' ')
  peak=$(sed -n 's/.*"memory_peak_bytes": *{[^}]*"total": *\([0-9]*\).*/\1/p' "$run/metrics.jsonl" | sort -n | tail -n 1)
  if [ "$(wc -w <<<"$step_seconds")" -ne $(($2 - counted_after)) ] || [ -z "$peak" ]; then
    echo "$(basename "$0"): metrics.jsonl lacks seconds or peaks of some of the $2 steps with: ${*:3}" >&2
    return 1
  fi
}
