#!/usr/bin/env bash
# Tables of tools/bench. awk must be able to read every combination of awk programs that a script names. The rows of
# stored outputs must give the stored tables again. Fake programs replace the programs that measure.
. "$(dirname "$0")/cli.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)
traces=$root/docs/reports/traces

# Prints the options -f of each awk command in the scripts, one command per line.
programs() {
  local script line name
  for script in "$root"/tools/bench/*.sh "$root"/tools/bench/papers/*.sh; do
    sed -e '/^ *#/d' -e ':again' -e '/\\$/N' -e 's/\\\n//' -e 't again' "$script" | tr -d '"' | grep -- '-f tools/bench/' >commands
    while read -r line; do
      line=$(grep -oE -- '-f tools/bench/[A-Za-z0-9_/$]*\.awk' <<<"$line" | tr '\n' ' ')
      if [[ $line != *'$1'* ]]; then
        echo "$line"
      else  # a function `table NAME ROWS`
        for name in $(sed -n 's/^ *table \([a-z_]*\) .*/\1/p' "$script" | sort -u); do echo "${line//\$1/$name}"; done
      fi
    done <commands
  done
}

# Prints the stored rows without lines that describe runs.
stored() { sed '/^run\t/d' kept/rows; }

# `tables ROWS OPTION...`: runs awk with the options on the file ROWS, in the folder of the sources.
tables() {
  local rows=$1
  shift
  (cd "$root" && awk "$@" "$rows")
}

test_awk_reads_the_programs_of_all_tables() {
  echo 'END { exit 0 }' >end.awk  # ends awk before other END blocks divide by the number of rows, which is zero
  programs >all
  [ "$(wc -l <all)" -ge 12 ] || failed "found $(wc -l <all) programs, expected at least 12"
  local options end=$PWD/end.awk
  while read -r options; do
    # shellcheck disable=SC2086
    (cd "$root" && awk -f "$end" $options </dev/null) >out 2>err || failed "awk cannot read these programs together: $options"
    [ ! -s err ] || failed "awk cannot read these programs together: $options"
  done <all
}

test_mpmoe_prints_its_stored_rows() {
  grep -P '^M=.*\t' "$traces/mpmoe.txt" >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/mpmoe_equations.awk \
    -f tools/bench/papers/mpmoe.awk
  grep '^GPT-S    1024   [248] ' "$traces/mpmoe.txt" >stored
  [ "$(wc -l <stored)" -eq 3 ] || failed "docs/reports/traces/mpmoe.txt has $(wc -l <stored) rows of memory, expected 3"
  while IFS= read -r line; do expect_text out "$line"; done <stored
  grep -qE '^memory of S4 against FastMoE, n = 8 +-53% +-11 to -49%$' out || failed "the row of S4 against FastMoE is missing or wrong"
}

test_parm_prints_its_stored_rows() {
  grep -P '^M=.*\tS[12]$' "$traces/parm.txt" | sed 's/^/choice\t/' >choices
  grep -P '^M=.*\t.*\t' "$traces/parm.txt" >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/parm.awk "$PWD/choices"
  grep -E '^(s1|s2|parm) +4 +4 ' "$traces/parm.txt" >stored
  [ "$(wc -l <stored)" -eq 3 ] || failed "docs/reports/traces/parm.txt has $(wc -l <stored) rows of (4, 4), expected 3"
  while IFS= read -r line; do expect_text out "$line"; done <stored
  expect_text out "Fig. 7, N_MP = N_ESP = 4: Parm over the baseline, 4.48 on average" "above 4: 91% of 64 layers"
  expect_text out "Fig. 1: share of communication in a step of the baseline, 67.4 to 99.8%, median 99.4%"
  layers_of_figure() {
    awk -v figure="$1" '/^Fig/ { shown = index($0, figure) == 1 } shown && $2 == "to" && $5 == "layers" { sum += $4 } END { print sum }' out
  }
  [ "$(layers_of_figure 'Fig. 1:')" -eq 512 ] || failed "the layers of Fig. 1 do not add up to 512: $(grep ' layers' out)"
  [ "$(layers_of_figure 'Fig. 7,')" -eq 64 ] || failed "the layers of Fig. 7 do not add up to 64: $(grep ' layers' out)"
}

# The points of the first collective are on the line 1e-3 s + 4e-9 s per element. The points of the second collective
# are not on a line. The third collective has a single point.
test_alpha_and_beta_are_fitted_with_their_errors() {
  cat >cluster.yaml <<'YAML'
links:
  - operation: all_gather
    group: intra
    ranks: 2
    nodes: 1
    points: [[2000, 0.001004], [2000000, 0.005], [4000000, 0.009]]
  - operation: all_reduce
    group: inter
    ranks: 2
    nodes: 2
    points: [[4000, 0.002], [8000, 0.005], [12000, 0.005]]
  - operation: all_to_all
    group: inter
    ranks: 2
    nodes: 2
    points: [[4096, 0.002]]
bursts: [{group: inter, seconds: 0.02}]
YAML
  expect 0 tables "$PWD/cluster.yaml" -f tools/bench/median.awk -f tools/bench/papers/parm_fits.awk
  expect_equal "$(awk '$1 == "all_gather" { print $2, $3, $4, $6, $7, $9, $10, $11 }' out)" "intra 2 3 1.00e-03 4.00e-09 1.0000 0% 0%"
  expect_equal "$(awk '$1 == "all_reduce" { print $2, $3, $4, $6, $7, $9, $10, $11, $12 }' out)" \
    "inter 2 3 1.00e-03 1.50e-06 0.7500 20% 25% 4000"
  expect_no_text out all_to_all
  expect_text out "paper: AG_MP, 8-GPU server"
}

test_layers_of_table_iii_are_all_different() {
  layers() { (cd "$root" && awk -f tools/bench/random.awk -f tools/bench/papers/parm_layers.awk -v count="$1" -v seed="$2" </dev/null); }
  layers 1296 1 >all
  expect_equal "$(sort -u all | wc -l)" 1296
  expect_equal "$(grep -o 'tp=.,etp=.' all | sort | uniq -c | tr -s ' \n' ' ')" \
    " 162 tp=1,etp=2 162 tp=1,etp=4 162 tp=2,etp=1 162 tp=2,etp=2 162 tp=2,etp=4 162 tp=4,etp=1 162 tp=4,etp=2 162 tp=4,etp=4 "
  layers 1296 2 >others
  ! cmp -s all others || failed "seeds 1 and 2 give the same order, expected different ones"
  expect_equal "$(sort all)" "$(sort others)"
  expect_equal "$(layers 20 1 | tail -n 1 | grep -o 'tp=.,etp=.')" tp=4,etp=4
}

# Makes a copy of the scripts, with fake versions of the testbed and the programs. The measuring program fails at its
# second start, in the middle of a row of a layer.
test_parm_measures_only_missing_layers() {
  mkdir -p copy/tools/testbed
  cp -r "$root/tools/bench" "$root/tools/launcher.sh" copy/tools
  printf '%s\n' '#!/bin/bash' 'shift 8; [ "$1" != --bursts ] || exec echo "[{group: inter, seconds: 0.02}]"; exec "$@"' \
    >copy/tools/testbed/rank_nodes.sh
  cat >hexad <<'STAND_IN'
#!/bin/bash
[ "$1" = simulate ] && echo '  "better": "S1"' && exit
while [ "$1" != --out ]; do shift; done
echo 'links: []' >"$2"
echo profiled >>"$STARTS"
STAND_IN
  cat >bench <<'STAND_IN'
#!/bin/bash
echo started >>"$STARTS"
if [ "$(grep -c started "$STARTS")" -eq 2 ]; then
  while [ "$1" != --layer ]; do shift; done
  printf '%s\t1\tbaseline\tforward\t0.3\t0.1\t0.1\t0.1\t0.1\t0\t1\t1\t1\n%s\t1\tbaseline\tbackward\t0.' "$2" "$2"
  exit 9
fi
while [ $# -gt 0 ]; do
  if [ "$1" = --layer ]; then
    for schedule in baseline s1 s2aas s2; do
      for pass in forward backward; do
        printf '%s\t1\t%s\t%s\t0.1\t0.1\t0.1\t0.1\t0.1\t0\t1\t1\t1\n' "$2" $schedule $pass
      done
    done
  fi
  shift
done
STAND_IN
  chmod +x copy/tools/testbed/rank_nodes.sh hexad bench
  export STARTS=$PWD/starts
  parm() { HEXAD=$PWD/hexad BENCH=$PWD/bench copy/tools/bench/papers/parm.sh --layers 60 --output "$PWD/kept" "$@"; }
  expect 9 parm
  expect_equal "$(stored | cut -f 1 | sort -u | wc -l)" 46
  expect_text kept/cluster.yaml 'bursts: [{group: inter, seconds: 0.02}]'
  # Marks the rows measured so far as rows of another commit, and of another machine with another load.
  sed -i 's/^run\t.*/run\t2026-01-02T03:04:05Z\tabc1234\tother processor, 8 cores, machine 01234567\t7.50 1 1/' kept/rows
  expect 0 parm
  expect_text out "measured:  45 layers before" "Fig. 7" "measured:  360 rows of commit abc1234 on other processor, 8 cores,\
 machine 01234567, 2026-01-02T03:04:05Z to 2026-01-02T03:04:05Z, load 7.50 to 7.50 at the starts" \
    "mixed:     rows are of several commits: abc1234; " \
    "mixed:     rows are of several machines: other processor, 8 cores, machine 01234567; "
  grep -qE '^measured:  120 rows of commit .* on .*, machine [0-9a-f]{8}, ' out || failed "the new rows are not described"
  expect_equal "$(stored | cut -f 1 | sort -u | wc -l)" 60
  expect_equal "$(stored | wc -l)" 480
  expect_equal "$(sort starts | uniq -c | tr -s ' \n' ' ')" " 1 profiled 3 started "
  expect 0 parm
  expect_text out "measured:  60 layers before"
  expect 2 parm --seed 2
  expect_text err "has rows of other settings: layers 60, seed 1"
}

# Makes a copy of the scripts, with fake versions of the testbeds and the programs. The measuring program fails at its
# fourth start, in the middle of the second layer. The fourth start is the second one that measures layers. O1 takes
# half of the baseline's time. Chunks take a quarter more or less than O1.
test_monta_measures_only_missing_layers() {
  mkdir -p copy/tools/testbed
  cp -r "$root/tools/bench" "$root/tools/launcher.sh" copy/tools
  printf '%s\n' '#!/bin/bash' 'shift 8; [ "$1" != --bursts ] || exec echo "[{group: inter, seconds: 0.02}]"; exec "$@"' \
    >copy/tools/testbed/rank_nodes.sh
  cat >hexad <<'STAND_IN'
#!/bin/bash
while [ "$1" != --out ]; do shift; done
printf '%s\n' 'links:' '  - operation: all_to_all' '    group: inter' '    ranks: 2' '    points: [[65536, 0.03]]' >"$2"
echo profiled >>"$STARTS"
STAND_IN
  cat >bench <<'STAND_IN'
#!/bin/bash
echo started >>"$STARTS"
number=$(grep -c started "$STARTS") layers=() schedules=() rounds=
while [ $# -gt 0 ]; do
  case $1 in
  --layer) layers+=("$2") ;;
  --schedule) schedules+=("${2%%:*}") ;;
  --rounds) rounds=$2 ;;
  esac
  shift
done
for layer in "${layers[@]}"; do
  [ "$layer" != "${layers[1]}" ] || [ "$number" -ne 4 ] || { printf '%s\t1\tbaseline\tforward\t0.' "$layer" && exit 9; }
  for schedule in "${schedules[@]}"; do
    case $schedule in
    baseline) seconds=0.80 foreseen=1.00 ;;
    o1) seconds=0.40 foreseen=0.50 ;;
    o2*) seconds=0.30 foreseen=0.45 ;;
    o3*) seconds=0.50 foreseen=0.40 ;;
    esac
    for pass in forward dispatch combine; do
      [ "$rounds" -gt 0 ] || printf 'predicted\t%s\t%s\t%s\t%s\t0\n' "$layer" "$schedule" $pass $foreseen
      for ((round = 1; round <= rounds; round++)); do
        printf '%s\t%d\t%s\t%s\t%s\t%s\t0.1\t0.1\t9\t9\t1\t1\t0\n' "$layer" $round "$schedule" $pass $seconds $seconds
      done
    done
  done
done
STAND_IN
  chmod +x copy/tools/testbed/rank_nodes.sh hexad bench
  export STARTS=$PWD/starts
  monta() {
    HEXAD=$PWD/hexad BENCH=$PWD/bench copy/tools/bench/papers/monta.sh --ranks '2 8' --links 25mbit:200mbit --shared '' \
      --bytes 524288,1048576 --large '' --chunks 4 --output "$PWD/kept" "$@"
  }
  expect 9 monta
  expect_equal "$(sort starts | uniq -c | tr -s ' \n' ' ')" " 2 profiled 4 started "
  sed -n 's/.*sha256 //p' out >sealed
  expect 0 monta
  expect_equal "$(sort starts | uniq -c | tr -s ' \n' ' ')" " 2 profiled 5 started "
  expect_text out "measured:  5 layers before" "predicted: 8 layers; sha256 $(cat sealed)"
  # In row 1 of the paper's table, each rank has whole experts, and expert parallelism spans both nodes. Only combine
  # has an all-gather in row 1. In row 2, dispatch and combine each have an all-gather.
  grep -qF 'tp=8,ep=2,etp=1,parallel.order=tp-cp-dp-ep-pp' kept/rows || failed "kept/rows has no layer of row 1"
  table() {
    awk -v part="$1" -v row="$2" '$1 == "25mbit:200mbit" && $2 == row && $3 == part && $4 == 8 && $5 == 1048576 &&
      NF == 16 { print $8, $9, $10, $11, $12, $13, $14, $15 }' out
  }
  expect_equal "$(table dispatch 1)" "0.500 0.125 0.375 0.125 o2x4 o3x4 0.4000 s"
  expect_equal "$(table combine 1)" "0.500 0.344 0.375 0.219 o2x4 o3x4 0.4000 s"
  expect_equal "$(table dispatch 2)" "0.500 0.344 0.375 0.219 o2x4 o3x4 0.4000 s"
  expect_equal "$(table combine 2)" "0.500 0.391 0.375 0.304 o2x4 o3x4 0.4000 s"
  expect_equal "$(table forward 1)" "0.500 0.234 0.375 0.172 o2x4 o3x4 0.4000 s"
  expect_equal "$(table forward 2)" "0.500 0.372 0.375 0.269 o2x4 o3x4 0.4000 s"
  grep -qE 'row 1, combine, t = 8, 1048576 bytes: best +0\.253 +0\.219 +0\.375 +0\.400 +\+7%$' out ||
    failed "the limit of row 1, combine, is missing or wrong"
  expect_text out "error of the simulator, forward: median 25.0%, 95th percentile 50.0% over 32 medians" \
    "all layers (8 layers): the simulator's choice loses 66.7% on average, the best fixed schedule (o2x4) 0.0%"
  cp out before
  expect 0 monta
  expect_equal "$(grep -c started starts)" 5
  cmp <(sed 1,/sha256/d before) <(sed 1,/sha256/d out) || failed "stored rows give different tables"
  expect 2 monta --rounds 3
  expect_text err "has rows of other settings"
  expect 2 monta --ranks '1 8'
  expect_text err "--ranks has '1', expected divisors of 64 (the width of an expert) that are at least 2"
  # Rows of a link whose name only ends in the wanted name do not count.
  sed -i 's/^25mbit/125mbit/' kept/rows
  expect 0 monta
  expect_text out "measured:  8 layers before"
  expect_equal "$(stored | cut -f 1,2 | sort -u | wc -l)" 16
}

test_testbeds_print_the_bursts_of_their_links() {
  expect 0 "$root/tools/testbed/rank_nodes.sh" --nodes 2 --ranks 8 --inter 20mbit --intra 1.6gbit --bursts
  expect_equal "$(cat out)" "[{group: inter, seconds: 0.012800}, {group: intra, seconds: 0.001000}]"
  expect 0 "$root/tools/testbed/two_nodes.sh" --rate 200mbit --bursts
  expect_equal "$(cat out)" "[{group: inter, seconds: 0.005243}]"
}

test_cost_of_chunks_is_relative_to_one_chunk() {
  row() { printf 'M=512,B=256\t1\t%s\tforward\t%s\t%s\t1\t1\t%s\t0\t1\t1\t1\n' "$1" "$2" "$2" "$3"; }
  { row pn1 2.0 2.0 && row pn2 1.6 1.5 && row cut2 2.5 2.4 && row pn5 1.5 - && row cut5 3.0 -; } >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/rows.awk \
    -f tools/bench/papers/eps_cutting.awk
  expect_text out "  2        1.250        1.200        0.800  M=512,B=256" "  5        1.500            -        0.750  M=512,B=256"
}

test_advisers_are_summarised_over_runs() {
  mkdir one two three
  cat >one/metrics.jsonl <<'LINES'
{"kind":"step","step":1,"loss":2.5}
{"kind":"step","step":9,"loss":2.4,"schedule_choice":{"chosen":"chunks 2","measured_seconds":0.1,"advice":[{"adviser":"MoNTA","verdict":"none","reason":"needs \"tp\""},{"adviser":"Parm","verdict":"wrong","advised":"chunks 4","slower":0.125,"measured":true},{"adviser":"MPMoE","verdict":"right","advised":"chunks 2","slower":0.0,"measured":true}]}}
LINES
  cat >two/metrics.jsonl <<'LINES'
{"kind":"step","step":7,"loss":2.4,"schedule_choice":{"chosen":"chunks 4","measured_seconds":0.1,"advice":[{"adviser":"MoNTA","verdict":"wrong","advised":"chunks 8","slower":-0.05,"measured":false},{"adviser":"Parm","verdict":"right","advised":"chunks 4","slower":0.0,"measured":true},{"adviser":"MPMoE","verdict":"right","advised":"chunks 4","slower":0.0,"measured":true}]}}
LINES
  echo '{"kind":"step","step":7,"loss":2.4}' >three/metrics.jsonl
  expect 0 "$root/tools/bench/papers/advisers.sh" "$PWD/one" "$PWD/two" "$PWD/three"
  grep -qE '/one, 9 +- +\+12\.5% +right$' out || failed "the row of the first run is missing or wrong: $(cat out)"
  grep -qE '/two, 7 +-5\.0%\? +right +right$' out || failed "the row of the second run is missing or wrong: $(cat out)"
  grep -qE '^right, of those asked +0 of 1 +1 of 2 +2 of 2$' out || failed "the counts are missing or wrong: $(cat out)"
  grep -qE '^extra time, median of measured +- +\+6\.2% +\+0\.0%$' out || failed "the medians are missing or wrong: $(cat out)"
  expect 2 "$root/tools/bench/papers/advisers.sh" "$PWD/three"
  expect_text err "no run has schedule_choice in metrics.jsonl"
  expect 2 "$root/tools/bench/papers/advisers.sh" "$PWD/four"
  expect_text err "/four', expected the folder of a run with a readable metrics.jsonl"
}

# Makes a copy of the scripts, with fake versions of the testbed and the program. The program's fifth start fails. In
# all other starts, the base takes 0.2 s and the other schedules 0.1 s.
test_eps_prefill_measures_only_missing_rows() {
  mkdir -p copy/tools/testbed
  cp -r "$root/tools/bench" "$root/tools/launcher.sh" copy/tools
  printf '%s\n' '#!/bin/bash' 'shift 6; exec "$@"' >copy/tools/testbed/two_nodes.sh
  cat >hexad <<'STAND_IN'
#!/bin/bash
echo started >>"$STARTS"
[ "$(wc -l <"$STARTS")" -ne 5 ] || exit 9
prompts=() schedules=() chunk=
while [ $# -gt 0 ]; do
  case $1 in
  --prompts=*) prompts+=("${1#*=}") ;;
  --schedule) schedules+=("${2%%:*}") ;;
  --chunk) chunk=$2 ;;
  esac
  shift
done
printf '%s\n' '{' '  "data_parallel": 2,' '  "schedules": {' '    "base": "duplicates drop"' '  },' '  "results": ['
for batch in "${prompts[@]}"; do
  for schedule in "${schedules[@]}"; do
    printf '    {\n      "schedule": "%s",\n      "prompts": %s,\n      "length": %s,\n      "pass_length": %s,\n' \
      "$schedule" "${batch%x*}" "${batch#*x}" "${chunk:-${batch#*x}}"
    seconds=$([ "$schedule" = base ] && echo 0.2 || echo 0.1)
    printf '      "tokens_per_second": 1.0,\n      "ttft_seconds": [\n        %s,\n        %s\n      ]\n    },\n' $seconds $seconds
  done
done
printf '  ]\n}\n'
STAND_IN
  chmod +x copy/tools/testbed/two_nodes.sh hexad
  export STARTS=$PWD/starts
  prefill() { HEXAD=$PWD/hexad copy/tools/bench/papers/eps_prefill.sh --output "$PWD/kept" "$@"; }
  expect 9 prefill
  expect_equal "$(stored | cut -f 1,2 | sort -u | wc -l)" 4
  expect 0 prefill
  expect_equal "$(stored | cut -f 1,2 | sort -u | wc -l)" 9
  expect_equal "$(wc -l <starts)" 10
  expect_equal "$(grep -cE '^PN = 5 +\+100\.0% \(\+21\.81\)' out)" 1
  expect_equal "$(grep -cE '^TP\+EP +2 +\+0\.0% \(-13\.7\)' out)" 1
  expect_equal "$(grep -cE '^PN = 2 +2 +-50\.0% \(-2[12]\.7\)' out)" 2
  expect_equal "$(grep -cE '^PN = 8 +2 +-50\.0% \(-1\.26\) +-50\.0% \(-0\.96\)' out)" 1
  expect_equal "$(grep -cE '^DBRX +5120 +10240 +\+100\.0% +\+52\.4%' out)" 1
  expect_equal "$(grep -cE '^64 +0\.200 +0\.100 +0\.100 +0\.100 +-50\.0%' out)" 1
  cp out before
  expect 0 prefill
  expect_equal "$(wc -l <starts)" 10
  cmp <(sed 1,/rounds:/d before) <(sed 1,/rounds:/d out) || failed "stored rows give different tables"
  expect 2 prefill --rounds 5
  expect_text err "has rows of other settings"
}

# With 16 experts on 4 ranks, the six random experts of a token are on 3.538 ranks on average. Six experts with
# consecutive numbers would be on 2 or 3 ranks.
test_eps_compares_bytes_for_the_ranks_that_tokens_visit() {
  local layer=M=256,H=64,E=16,k=6,routing=random,B=256,ep=4
  { printf 'ranks\t%s\t1\t3.5400\t3.5385\n' $layer
    printf '%s\t1\tplain\tforward\t1\t1\t1\t1\t-\t-\t2359296\t0\t1\n' $layer
    printf '%s\t1\tmerged\tforward\t1\t1\t1\t1\t-\t-\t1392050\t0\t1\n' $layer; } >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/eps_bytes.awk
  grep -qE '^DP\+EP +per device, g = 3\.54 +1391985 +1392050 +-0%$' out || failed "the row per device is missing or wrong: $(cat out)"
  expect_text out "g = 3.540 ranks have experts of a token, formula for random experts 3.538 (seed 1): $layer"
}

test_times_by_share_of_threads_are_printed_with_table_6() {
  for round in 1 2 3; do
    printf 'M=512,B=256\t%d\t1.00\tforward\t2\t1\t1\t1\t2\t0\t1\t1\t1\n' $round
    printf 'M=512,B=256\t%d\t0.50\tforward\t1.6\t1\t1\t1\t1.5\t0\t1\t1\t1\n' $round
  done >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/eps_share.awk
  expect_equal "$(grep -cE '^0\.50 +1\.6000 +1\.25 +1\.33 +\+7%$' out)" 1
  expect_equal "$(grep -cE '^0\.82 +3\.967 +1\.16$' out)" 1
}

# The stored output of mesh_step.sh has the rows of its tables: eight schedules with two levels of ZeRO.
test_mesh_step_prints_its_stored_rows() {
  grep -P '^ep2,' "$traces/mesh-step.txt" >rows
  mesh() {
    tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/mesh_step.awk \
      -v rate=200mbit -v free=40gbit -v bits=200000000
  }
  expect 0 mesh
  grep -E '^ep2,zero[01] +[a-z0-9-]+ +[0-9.]+ +[0-9.]+ ' "$traces/mesh-step.txt" | tr -s ' ' >stored
  [ "$(wc -l <stored)" -eq 16 ] || failed "docs/reports/traces/mesh-step.txt has $(wc -l <stored) rows of the table, expected 16"
  tr -s ' ' <out >printed
  while IFS= read -r line; do expect_text printed "$line"; done <stored
  # On slow links, the rank's thread waits for ep during 2.794 s of a step of 6.363 s.
  grep -qE '^ep2,zero0 plain +41% +35% +14% +4% +-11%$' out || failed "the shares of plain by class are missing or wrong: $(cat out)"
  # A schedule that was not measured on both links cannot be compared.
  sed -i -E '/^ep2,zero1,(40gbit\t[0-9]+\tplain|200mbit\t[0-9]+\tn4)\t/d' rows
  expect 0 mesh
  for schedule in plain n4; do
    expect_equal "$(grep -cE "^ep2,zero1 $schedule +- +- +- +- \| +- +- +- +- \| +- +- +-$" out)" 1
    expect_equal "$(grep -cE "^ep2,zero1 $schedule( +-){5}$" out)" 1
  done
  expect_equal "$(grep -cE '^ep2,zero1 pairs +[0-9.]+ +[0-9.]+ ' out)" 1
}

test_priority_prints_its_stored_rows() {
  awk '/^low window 131072: round/ { shown = 1; next } /^low window/ { shown = 0 } shown && NF' "$traces/priority.txt" |
    grep -P '^\d+\t' >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/priority.awk
  awk '/^low window: 131072/ { shown = 1 } /^low window: 262144/ { shown = 0 } shown' "$traces/priority.txt" | grep ' during ' >stored
  [ "$(wc -l <stored)" -eq 6 ] || failed "docs/reports/traces/priority.txt has $(wc -l <stored) conflicts, expected 6"
  while IFS= read -r line; do expect_text out "$line"; done <stored
  printf '1\t%s\t%s\t0.%d\t0.02\t0.03\n' zero2-priority 0.5 1 zero2-priority 0.7 3 zero2-fifo 0.9 4 >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/priority_steps.awk
  expect_equal "$(awk '$1 == "zero2" { print $2, $3, $4, $6 }' out)" "$(printf '%s\n' 'priority 0.6000 0.2000 0.0300' 'fifo 0.9000 0.4000 0.0300')"
}

test_monta_step_compares_with_the_paper() {
  # Arguments: the schedule, eight times in seconds, and the bytes of ep. The times are: the step, its passes, a
  # forward, a layer, a layer as predicted, the exchanges of a forward, all-to-alls, and all exchanges.
  step_row() {
    printf '2x70B\t1\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t0.1\t100\t5000000' "${@:1:9}"
    printf '\t0\t0\t0\t0\t0\t0\t%s\t0\t0' "${10}"
    printf '\t0%.0s' {1..9}
    echo
  }
  {
    step_row baseline 4.0 2.0 0.4 0.5 0.5 0.20 1.0 1.2 20000000
    step_row o1 3.0 1.0 0.2 0.25 0.3 0.06 0.3 0.6 5000000
    printf '2x70B\tchosen\tmonta\toverlap a2a_allgather\n'
    step_row monta 2.0 0.8 0.1 0.2 0.2 0.05 0.2 0.4 5000000
  } >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/monta_step.awk \
    -v inter=200000000
  expect_text out "monta chose overlap a2a_allgather"
  # Four passes of a layer are predicted to take 1.2 s. The baseline's step takes 2 s without its passes.
  grep -qE '^o1 +3\.000 .*\| +0\.3000 +\+20% +3\.200 +\+7%$' out || failed "the row of o1 is missing or wrong: $(cat out)"
  paper() { grep -qE "^$1 +$2 +$3\$" out || failed "the row '$1' is missing or wrong: $(cat out)"; }
  paper 'share of all-to-alls, baseline' 22% 25%
  paper 'all-to-alls and all-gathers, forward, O1/baseline' '0\.30 - 0\.355' 0.300
  paper 'step, O1/baseline \(Fig\. 17\)' 0.87 0.750
  paper 'ratio of bandwidth to nominal, baseline \(Fig\. 13\)' 0.741 0.800
}

test_parm_step_follows_the_predicted_schedule() {
  row() {
    printf 'gpt2\t1\t%s\t%s\t3.0\t0.1\t0.3\t%s' "$1" "$2" "$3"
    printf '\t0.1%.0s' {1..6}
    printf '\t0%.0s' {1..18}
    echo
  }
  { row baseline 4.0 0.3 && row s1 2.0 0.12 && row s2 1.6 0.1; } >rows
  parm_step() { tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/parm_step.awk; }
  expect 0 parm_step
  grep -qE '^gpt2 +3\.08 +3\.15 \| +2\.00 +2\.50 +2\.50 \| s2$' out || failed "the speedups are missing or wrong: $(cat out)"
  sed -i 's/0\.12/0.08/' rows
  expect 0 parm_step
  grep -qE '\| +2\.00 +2\.50 +2\.00 \| s1$' out || failed "the predicted schedule is missing or wrong: $(cat out)"
}

# `layer_row LAYER SCHEDULE PASS SECONDS PREDICTED EP`: prints a row that moe_layer writes for one round.
layer_row() { printf '%s\t1\t%s\t%s\t%s\t%s\t0.1\t0.1\t%s\t0\t%s\t0\t1\n' "$1" "$2" "$3" "$4" "$4" "$5" "$6"; }

test_shadow_compares_times_and_bytes() {
  local layer=M=512,H=128,B=256,E=16,k=2,ep=8,model.moe.routing=zipf,model.moe.zipf_exponent=1.2
  {
    layer_row $layer stay forward 0.4 0.4 3000000 && layer_row $layer stay backward 0.6 0.6 3000000
    layer_row $layer shadow forward 0.2 0.2 1000000 && layer_row $layer shadow backward 0.3 0.2 1000000
  } >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/shadow.awk
  grep -qE '^1\.2 +256 - +\| +1\.0000 +0\.5000 \| +2\.00 +2\.50 +\+25% \| +6\.00 +2\.00$' out ||
    failed "the row of the layer is missing or wrong: $(cat out)"
}

# Ranks 0 to 3 are on one node, and ranks 4 to 7 on another. Each EP group has one rank of each tensor-parallel pair, so
# half of its ranks are on each node.
test_parm_placements_print_traffic_between_nodes() {
  local layer=M=512,H=256,B=256,E=4,k=1,tp=2,etp=2,ep=4 schedule
  for schedule in 'baseline 0.5 0.5' 's1 0.25 0.25' 's2 0.2 0.25'; do
    read -r name seconds foreseen <<<"$schedule"
    for pass in forward backward; do printf '2\t0,0,0,0,1,1,1,1\t' && layer_row $layer "$name" $pass "$seconds" "$foreseen" 1; done
  done >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f tools/bench/papers/parm_placements.awk
  grep -qE '^2 +0,0,0,0,1,1,1,1 +2 +2 +1 \| +0% +67% +57% +0% \| +1\.0000 \| +2\.00 +2\.00 +2\.00 +\+0% \| +2\.50 +2\.50 +2\.00 +-20%$' \
    out || failed "the row of placement 2 is missing or wrong: $(cat out)"
}

# `eps_tables NAME`: prints the table eps_NAME of the rows, or the table eps if there is no NAME.
eps_tables() {
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/rows.awk -f "tools/bench/papers/eps${1:+_$1}.awk"
}
test_eps_prints_gains_of_groups_wires_and_blocks() {
  local layer=M=512,H=1536,B=256,E=40,k=6,ep=2 mixtral=M=512,B=1024,k=2,H=1792,E=8,tp=2
  {
    layer_row $layer pn1 forward 1.0 1.0 1 && layer_row $layer pn2 forward 0.5 0.8 1
    layer_row $layer pn1fp8 forward 0.8 0.8 1 && layer_row $layer pn2fp8 forward 0.4 0.5 1
  } >rows
  eps_tables
  grep -qE '^ +256 f32 +0\.100 +0\.100 +1\.000 +2\.00 \(1\.25\) \| +2 +2 +0\.0%$' out || failed "the row of f32 is missing or wrong: $(cat out)"
  grep -qE '^speedup of fp8 and best PN over f32 and PN = 1 +1\.70 +2\.50 +2\.00 +-20%$' out || failed "the last row is missing or wrong: $(cat out)"
  layer_row $layer pn1d forward 0.8 1.0 1 >>rows
  eps_tables factors
  grep -qE '^ +1 dense +f32 +0\.8000 +1\.25 +1\.00 +5\.620 +1\.01$' out || failed "the row of Table 5 is missing or wrong: $(cat out)"
  grep -qE '^PN = 1, f32 +1\.01 +1\.25$' out || failed "the gain of dense products is missing or wrong: $(cat out)"
  {
    layer_row $mixtral,etp=2,ep=1 copies1 forward 1.0 - 1 && layer_row $mixtral,etp=1,ep=2,parallel.sp=false pn1 forward 0.9 - 1
    layer_row $mixtral,etp=1,ep=2,parallel.sp=true pn1 forward 0.8 - 1
    layer_row M=512,B=512,k=2,H=352,E=32,ep=2,model.moe.dense_residual=true pn1 forward 0.5 - 1
    layer_row M=512,B=512,k=2,H=352,E=32,ep=2,model.moe.dense_residual=true pn4b forward 0.25 - 1
  } >rows
  eps_tables blocks
  grep -qE '^TP\+EP, PN = 1, sp: false .* 1138 +-10\.0% *$' out || failed "the row of sp: false is missing or wrong: $(cat out)"
  grep -qE '^TP\+EP, PN = 1 +1280 +-20\.0% +-8\.3 to -13\.7%$' out || failed "the row of TP+EP is missing or wrong: $(cat out)"
  grep -qE '^PN = 4, dense MLP beside the all-to-all +2048 +-50\.0%' out || failed "the row of the dense MLP is missing or wrong: $(cat out)"
  layer_row M=512,B=256,k=2,E=8,tp=2,etp=2,ep=1 copies1 forward 1.0 - 1048576 >rows
  eps_tables attention
  grep -qE '^TP\+TP: two AllReduces +1048576 +1048576 +\+0%$' out || failed "the row of TP+TP is missing or wrong: $(cat out)"
}

# Each script of tools/bench/papers has a test of its tables, which names the script or its awk program.
test_every_paper_script_has_a_test() {
  local script name
  for script in "$root"/tools/bench/papers/*.sh; do
    name=$(basename "$script" .sh)
    grep -qE "papers/$name\.(sh|awk)" "$root"/tests/cli/paper_{tables,scripts}_test.sh || failed "no test prints the tables of $name.sh"
  done
}

test_whole_step_prints_its_stored_rows() {
  grep -P '^(free|[0-9]+mbit)\t' "$traces/whole-step.txt" |
    grep -vP '\t(eps-tpep|shared-after|shared-beside|capacity|deepspeed-padded)\t' >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/whole_step.awk
  expect_text out "200mbit between the nodes; on links that take almost no time, a step of fastmoe takes" "auto/fastest"
  cp out before
  # Five more systems have the times of fastmoe, except that shared-beside takes half as long, and deepspeed-padded 1.5
  # times as long. One of these systems has another layout. Four have another model, and are therefore no candidates for
  # the fastest system.
  awk 'BEGIN { FS = OFS = "\t" } { print } $1 != "free" && $3 == "fastmoe" && $2 != "chosen" {
    $3 = "eps-tpep"; print; $3 = "shared-after"; print; $3 = "capacity"; print; $3 = "shared-beside"; $4 /= 2; print
    $3 = "deepspeed-padded"; $4 *= 3; print }' rows >more
  printf 'run\t2026-01-02T03:04:05Z\tabc1234\tother processor, 8 cores, machine 01234567\t7.50 1 1\n' | cat - more >rows
  expect 0 tables "$PWD/rows" -f tools/bench/median.awk -f tools/bench/papers/steps.awk -f tools/bench/papers/whole_step.awk \
    -v layouts=" eps-tpep" -v models=" shared-after shared-beside capacity deepspeed-padded"
  expect_equal "$(sed '1,/^rate/d' out)" "$(sed '1,/^rate/d' before)"
  expect_equal "$(grep -cE '^eps-tpep +[0-9.]+ +[0-9.]+ .* - +-$' out) $(grep -cE '^shared-(after|beside) +[0-9.]+ +- ' out)" "3 6"
  expect_equal "$(grep -c 'beside the all-to-all is 2.00 times as fast as with them after it' out)" 3
  expect_equal "$(grep -c 'padded to the capacity takes 1.50 times as long as without padding' out)" 3
  (. "$root/tools/bench/common.sh" && print_runs rows) >out
  expect_text out " rows of commit abc1234 on other processor, 8 cores, machine 01234567, "
  expect_no_text out "mixed:"
}

test_exposed_prints_its_stored_rows() {
  local step
  echo "commit:    abc" >rows
  for step in 1 2 3; do
    printf '1\t%s\t1.%d\t%s\t%s\t2.0\t5.%d\n' before $step dp 0.8 $step before $step ep 0.2 $step now $step dp 0.4 $step \
      now $step ep 0.2 $step fifo $step dp 1.0 $step >>rows
  done
  expect 0 "$root/tools/bench/exposed.sh" --rows "$PWD/rows"
  expect_text out "commit:    abc" "ZeRO level, variant, round.step, class"
  expect_equal "$(awk '$1 == 1 && NF == 10 { print $2, $4, $7, $10 }' out)" \
    "$(printf '%s\n' 'before 50.0% 10.0% 40.0%' 'now 30.0% 10.0% 20.0%' 'fifo 50.0% 0.0% 50.0%')"
  printf '1\tnow\t2.1\tdp\t0.4\t2.0\t6.0\n' >>rows
  expect 1 "$root/tools/bench/exposed.sh" --rows "$PWD/rows"
  expect_text err "ZeRO 1, now, step 2.1: loss 6.0, expected 5.1"
}

test_errors_of_all_scripts_are_pooled() {
  mkdir -p layers steps
  # Medians of two rounds: a forward of 2 s predicted as 1.5 + 0.1 s, and a backward of 4 s predicted as 5 s.
  printf '%s\t%d\tn4\t%s\t%s\t0\t0\t0\t%s\t%s\t0\t0\t0\n' M=8,B=2 1 forward 1.5 1.5 0.1 M=8,B=2 2 forward 2.5 1.5 0.1 \
    M=8,B=2 1 backward 4 5 0 M=8,B=4 1 forward 3 - - >layers/rows
  printf 'ranks\tM=8,B=2\t1\t1.5\t1.6\n' >>layers/rows
  cp layers/rows layers/rows.new
  awk 'BEGIN { OFS = "\t"; $1 = "100mbit"; $2 = 1; $3 = "fastmoe"; $7 = 0.5; $8 = 0.55; $32 = 0; print; $2 = "chosen"; print }' >steps/rows
  expect 0 "$root/tools/bench/papers/errors.sh" layers steps
  expect_equal "$(awk 'NR > 1 { print $1, $2, $3, $4, $5, $6 }' out)" "$(printf '%s\n' 'layers passes 2 22.5% 24.8% 25.0%' \
    'steps layers 1 10.0% 10.0% 10.0%' 'all layers 1 10.0% 10.0% 10.0%' 'all passes 2 22.5% 24.8% 25.0%' \
    'all both 3 20.0% 24.5% 25.0%')"
  mkdir empty
  expect 2 "$root/tools/bench/papers/errors.sh" layers empty
  expect_text err "FOLDER is 'empty', which has no rows with predictions"
  expect 2 "$root/tools/bench/papers/errors.sh" missing
  expect_text err "FOLDER is 'missing', expected a folder that a script wrote with --output"
}

test_import_speed_prints_its_stored_rows() {
  printf '%s\t%s\t2000000000\t%s\t0.5\n' 1 copy 2 1 import 2.5 1 export 4 2 copy 4 2 import 4 2 export 5 3 copy 2 3 import 1 \
    3 export 4 >rows
  expect 0 "$root/tools/bench/import_speed.sh" --rows "$PWD/rows"
  expect_equal "$(awk 'NR > 1 { print $1, $2, $4 }' out)" "$(printf '%s\n' 'copy 1000 1.00' 'import 800 1.00' 'export 500 0.50')"
  expect 2 "$root/tools/bench/import_speed.sh" --bytes 1e9
  expect_text err "--bytes is '1e9', expected a whole number above 0"
  echo 'commit: abc' >rows
  expect 1 "$root/tools/bench/import_speed.sh" --rows "$PWD/rows"
  expect_text err "no rows"
}

run_tests "$@"
