#!/usr/bin/env bash
# Scripts of tools/bench/papers that measure single mechanisms. Each script stores the rows that it measures, and a
# later call measures only the missing rows. The tables are made from the stored rows. Fake programs replace the
# programs that measure.
. "$(dirname "$0")/cli.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)

# `copy_scripts`: makes a copy of the scripts in the folder `copy`. The testbed of the copy runs the command without
# nodes, and `profile` writes a cluster file without measurements. Every start of a program adds a line to the file
# `starts`.
copy_scripts() {
  mkdir -p copy/tools/testbed copy/recipes
  cp -r "$root/tools/bench" "$root/tools/launcher.sh" copy/tools
  cp -r "$root/recipes/steps" copy/recipes
  printf '%s\n' '#!/bin/bash' 'shift 6; [ "$1" != --bursts ] || exec echo "[{group: inter, seconds: 0.02}]"; exec "$@"' \
    >copy/tools/testbed/two_nodes.sh
  printf '%s\n' '#!/bin/bash' 'shift 8; [ "$1" != --placement ] || shift 2' \
    '[ "$1" != --bursts ] || exec echo "[{group: inter, seconds: 0.02}]"; exec "$@"' >copy/tools/testbed/rank_nodes.sh
  cat >hexad <<'STAND_IN'
#!/bin/bash
while [ "$1" != --out ]; do shift; done
echo 'links: []' >"$2"
printf 'speed beside: 0.5\n\n'
echo profiled >>"$STARTS"
STAND_IN
  chmod +x copy/tools/testbed/*.sh hexad
  export STARTS=$PWD/starts HEXAD=$PWD/hexad BENCH=$PWD/bench
}

# `make_bench FAILING`: makes a fake moe_layer. Each line of the file `times.txt` has a schedule (SCHEDULE or
# LAYER:SCHEDULE) and four times in seconds. They are the times of a pass, of its communication and of its computation,
# and the predicted time of the pass. The start with the number FAILING ends in the middle of its second layer.
make_bench() {
  cat >bench <<STAND_IN
#!/bin/bash
echo started >>"\$STARTS"
number=\$(grep -c started "\$STARTS") layers=() schedules=() rounds= passes=(forward backward) memory= search= ranks=
while [ \$# -gt 0 ]; do
  case \$1 in
  --layer) layers+=("\$2") ;;
  --schedule) schedules+=("\${2%%:*}") ;;
  --schedule=*) schedules+=("\$(sed 's/--schedule=//; s/:.*//' <<<"\$1")") ;;
  --rounds) rounds=\$2 ;;
  --forward) passes=(forward) ;;
  --memory) memory=yes ;;
  --search) search=yes ;;
  --token-ranks) ranks=yes ;;
  esac
  shift
done
for ((i = 0; i < \${#layers[@]}; i++)); do
  [ -z "\$ranks" ] || printf 'ranks\t%s\t1\t1.9800\t1.9798\n' "\${layers[i]}"
  for ((round = 1; round <= rounds; round++)); do
    for schedule in "\${schedules[@]}"; do
      times=\$(grep -F "\${layers[i]}:\$schedule " "$PWD/times.txt" || grep "^\$schedule " "$PWD/times.txt")
      read -r _ seconds communication computation predicted <<<"\$times"
      for pass in "\${passes[@]}"; do
        [ \$i -ne 1 ] || [ "\$number" -ne "$1" ] || { printf '%s\t1\t' "\${layers[i]}" && exit 9; }
        printf '%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t0\t1000000\t0\t4000000\n' "\${layers[i]}" \$round "\$schedule" \$pass \\
          "\$seconds" "\$seconds" "\$communication" "\$computation" "\$predicted"
      done
      [ -z "\$memory" ] || printf 'memory\t%s\t%d\t%s\t1000000\t2000000\t30000000\t4000000\t500000\n' "\${layers[i]}" \$round "\$schedule"
    done
  done
  [ -z "\$search" ] || printf "search\t\${layers[i]}\t%s\t9\n" n4 s1n4 s2n2 s3n8 s4n4
done
STAND_IN
  chmod +x bench
}
# `make_mpirun`: makes a fake mpirun that starts a program on one rank.
make_mpirun() {
  mkdir path
  printf '%s\n' '#!/bin/bash' '[ "$1" != --version ] || exec echo "mpirun (Open MPI) 4.1.4"' \
    'while [[ $1 != */bench ]]; do shift; done; exec "$@"' >path/mpirun
  chmod +x path/mpirun
  export PATH=$PWD/path:$PATH
}
stored() { sed '/^run\t/d' kept/rows; }  # prints the stored rows without lines that describe runs
starts() { sort starts | uniq -c | tr -s ' \n' ' '; }

test_mpmoe_compares_exchanges_alone() {
  copy_scripts
  printf '%s\n' 'n1 0.20 0.16 0.01 0.2' 'fastermoe 0.40 0.32 0.01 0.5' 'n2 0.25 0.20 0.01 0.2' >times.txt
  make_bench 1
  exchange() { copy/tools/bench/papers/mpmoe_exchange.sh --chunks 2 --bytes 65536,131072,262144 --output "$PWD/kept" "$@"; }
  expect 9 exchange
  expect_text kept/cluster.yaml 'bursts: [{group: inter, seconds: 0.02}]'
  expect_equal "$(stored | cut -f 1 | sort -u | wc -l)" 2
  expect 0 exchange
  expect_text out "measured:  1 layers before" "M=1024,H=64,B=32,E=4,ep=4"
  expect_equal "$(starts)" " 1 profiled 2 started "
  expect_equal "$(stored | wc -l)" 45
  # 1 MB in 0.16 s is 6.25 MB/s. FasterMoE takes twice as long, and is predicted to take 2.5 times as long.
  expect_equal "$(grep -cE '^ +65536 n1 +0\.1600 +6\.25 +2\.000 +2\.500 +\+25%$' out)" 1
  expect_equal "$(grep -cE '^ +262144 n2 +0\.2000 +5\.00 +1\.600 +2\.500 +\+56%$' out)" 1
  expect_text out "FasterMoE's seconds over MPMoE's: median 1.800, 1.600 to 2.000" "is not communication: 20%"
  expect 0 exchange
  expect_equal "$(starts)" " 1 profiled 2 started "
  expect 2 exchange --rounds 3
  expect_text err "has rows of other settings"
  expect 2 exchange --bytes 1000
  expect_text err "--bytes has '1000', expected multiples of 4096, the bytes of a row"
}

# The first start ends in the middle of the second layer. A layer that lacks one of its search rows is measured again.
test_mpmoe_measures_only_missing_layers() {
  copy_scripts
  {
    printf '%s 0.4 0.3 0.2 0.4\n' fastmoe fastermoe n{2,4,8,16} cut{2,4,8,16} s{1,2,3,4}n{2,4,8}
  } >times.txt
  make_bench 1
  mpmoe() { copy/tools/bench/papers/mpmoe.sh --rounds 1 --layers '768,3072,1024 1024,4096,1024' --output "$PWD/kept" "$@"; }
  expect 9 mpmoe
  expect 0 mpmoe
  expect_text out "measured:  1 layers before" "speed beside: 0.5" "measured:  98 rows of commit "
  expect_equal "$(starts)" " 1 profiled 2 started "
  expect_equal "$(stored | cut -f 1 | sort | uniq -c | tr -s ' \n' ' ')" \
    " 44 M=1024,H=4096,B=1024,E=2,ep=2 44 M=768,H=3072,B=1024,E=2,ep=2 10 search "
  cp out before
  expect 0 mpmoe
  expect_equal "$(starts)" " 1 profiled 2 started "
  cmp <(sed 1,/before/d before) <(sed 1,/before/d out) || failed "stored rows give different tables"
  sed -i '/^search\tM=768.*s3n8/d' kept/rows
  expect 0 mpmoe
  expect_text out "measured:  1 layers before"
  expect_equal "$(starts)" " 1 profiled 3 started "
  expect_equal "$(stored | wc -l)" 98
  expect 2 mpmoe --rounds 2
  expect_text err "has rows of other settings"
}

# The fourth start, which measures layers with different numbers of expert groups (PN), ends in the middle of the second
# layer.
test_eps_measures_only_missing_parts() {
  copy_scripts
  make_mpirun
  printf '%s\n' '#!/bin/bash' 'echo products >>"$STARTS"' 'echo "f32 forward even 1.02"' >expert_products
  chmod +x expert_products
  {
    printf '%s 0.4 0.3 0.2 0.4\n' plain merged groups copies copies1 {pn1,cut{2,5,10,20}}{,d,fp8,dfp8,b}
    printf '%s 0.1 0.3 0.2 0.1\n' pn{2,4,5,8,10,20}{,d,fp8,dfp8,b}  # so fast that no overhead R(N) can be fitted
  } >times.txt
  make_bench 4
  eps() { copy/tools/bench/papers/eps.sh --rounds 1 --tokens '64 256' --threads 1 --output "$PWD/kept" "$@"; }
  expect 9 eps
  expect_equal "$(starts)" " 1 products 1 profiled 4 started "
  expect 0 eps
  # Seven more starts: layers with different PN, combinations, groups in sequence, and four kinds of blocks.
  expect_equal "$(starts)" " 1 products 1 profiled 11 started "
  expect_equal "$(stored | cut -f 1 | sort | uniq -c | tr -s ' \n' ' ')" \
    " 10 M=512,H=1536,B=256,E=40,k=6,ep=2,routing=random,model.moe.expert=swiglu\
 10 M=512,H=1536,B=64,E=40,k=6,ep=2,routing=random,model.moe.expert=swiglu 2 ranks "
  expect_text out "f32 forward even 1.02" "formula for random experts 1.980 (seed 1): M=512,H=1536,B=64" "Table 5, 256 tokens"
  cp out before
  expect 0 eps
  expect_equal "$(starts)" " 1 products 1 profiled 11 started "
  cmp <(sed 1,/bytes:/d before) <(sed 1,/bytes:/d out) || failed "stored rows give different tables"
  rm kept/cutting
  sed -i '/dense_residual/d' kept/blocks
  expect 0 eps
  expect_equal "$(starts)" " 1 products 1 profiled 13 started "
  expect 2 eps --rounds 2
  expect_text err "has rows of other settings"
}

# Each script is interrupted. The next start measures only the missing cases, and the third start only prints.
test_other_scripts_measure_only_missing_cases() {
  copy_scripts
  printf '%s 0.4 0.3 0.2 0.4\n' stay shadow stay_chunks shadow_chunks baseline s1 s2 >times.txt
  local script
  for script in shadow parm_placements; do
    rm -f starts
    make_bench 1
    call() { "copy/tools/bench/papers/$script.sh" --rounds 1 --output "$PWD/$script" "$@"; }
    expect_interrupted
  done
  cat >bench <<'STAND_IN'
#!/bin/bash
echo started >>"$STARTS"
[ "$(grep -c started "$STARTS")" -ne "${FAILING:-2}" ] || { printf '1\tplain\t1.' && exit 9; }
schedules=() case=
while [ $# -gt 0 ]; do
  case $1 in
  --schedule) schedules+=("${2%%:*}") ;;
  esac
  shift
done
for schedule in "${schedules[@]}"; do
  printf '1\t%s\t4\t2\t1\t1' $schedule
  printf '\t1%.0s' {1..25}
  echo
done
STAND_IN
  for script in whole_step mesh_step parm_step; do
    rm -f starts
    expect_interrupted
  done
  # The folder has rows of an earlier version of the script, whose cases did not name the level of ZeRO.
  script=mesh_step
  echo 'rounds 1, 100mbit' >mesh_step/settings
  expect 2 call
  expect_text err "mesh_step has rows of other settings: rounds 1, 100mbit; this call has: cases of ep and zero, rounds 1, "
  rm -f starts
  script=monta_step
  FAILING=1 expect_interrupted
  cat >bench <<'STAND_IN'
#!/bin/bash
echo started >>"$STARTS"
[ "$(grep -c started "$STARTS")" -ne 2 ] || exit 9
printf '1\tep and dp\t%s\t0.1\t0.2\n' alone priority fifo
STAND_IN
  rm -f starts
  call() { copy/tools/bench/papers/priority.sh --runs 0 --rounds 1 --output "$PWD/priority" "$@"; }
  expect_interrupted
}

# `expect_interrupted`: calls `call` three times. Expects the first call to fail, and the second call to start programs.
# Expects the third call to start no program, and to print the tables of the second call.
expect_interrupted() {
  expect 9 call
  local before
  before=$(wc -l <starts)
  expect 0 call
  cp out tables
  [ "$(wc -l <starts)" -gt "$before" ] || failed "the second call measured nothing"
  before=$(wc -l <starts)
  expect 0 call
  expect_equal "$(wc -l <starts)" "$before"
  cmp <(sed 1,4d tables) <(sed 1,4d out) || failed "stored rows give different tables"
  expect_text out "measured:  " "rows of commit "
  expect 2 call --rounds 2
  expect_text err "has rows of other settings"
}

# The first run ends in an error. In the rows of the third case, only EPS-MoE's adviser has a verdict.
test_advisers_train_only_missing_cases() {
  copy_scripts
  cat >hexad <<'STAND_IN'
#!/bin/bash
if [ "$1" = profile ]; then
  for argument in "$@"; do [[ $argument != --product=* ]] || echo "$argument" >>"$STARTS.products"; done
  while [ "$1" != --out ]; do shift; done
  echo profiled >>"$STARTS"
  exec echo 'links: []' >"$2"
fi
echo "$@" | grep -o 'recipes/steps/[a-z0-9-]*' >>"$STARTS"
[ "$(grep -c recipes "$STARTS")" -ne 1 ] || exit 9
[[ $* == *schedule.moe.chunk_by=auto*train.steps=32* ]] || exit 8
for argument in "$@"; do [[ $argument != run.dir=* ]] || run=${argument#*=}; done
eps='{"adviser":"EPS-MoE","verdict":"right","advised":"chunks 2","slower":0.0,"measured":true}'
[[ $2 == *eps-deepseek* ]] || eps='{"adviser":"EPS-MoE","verdict":"none","reason":"needs experts"}'
mkdir -p "$run"
echo '{"kind":"step","step":9,"schedule_choice":{"chosen":"chunks 2","advice":['"$eps"']}}' >"$run/metrics.jsonl"
STAND_IN
  advisers() {
    copy/tools/bench/papers/advisers.sh --cases 'whole@100mbit parm-gpt2@50mbit:400mbit eps-deepseek-v2@200mbit' --trials 16 \
      --output "$PWD/kept" "$@"
  }
  expect 9 advisers
  expect 0 advisers
  expect_equal "$(starts)" " 3 profiled 1 recipes/steps/eps-deepseek-v2 1 recipes/steps/parm-gpt2 2 recipes/steps/whole "
  expect_equal "$(grep -c 20x512x512 "$STARTS.products")" 1
  expect_text out "measured:  3 rows of commit "
  grep -qE '^whole@100mbit, 9 +-$' out || failed "the row of the first case is missing or wrong: $(cat out)"
  grep -qE '^eps-deepseek-v2@200mbit, 9 +right$' out || failed "the row of the third case is missing or wrong: $(cat out)"
  grep -qE '^right, of those asked +1 of 1$' out || failed "the counts are missing or wrong: $(cat out)"
  cp out before
  expect 0 advisers
  expect_equal "$(starts)" " 3 profiled 1 recipes/steps/eps-deepseek-v2 1 recipes/steps/parm-gpt2 2 recipes/steps/whole "
  cmp <(sed 1,/trials:/d before) <(sed 1,/trials:/d out) || failed "stored rows give different tables"
  expect 2 advisers --trials 8
  expect_text err "has rows of other settings"
  expect 2 advisers --cases whole
  expect_text err "--cases has 'whole', expected whole@RATE, such as whole@200mbit"
}

test_mpmoe_prints_memory_by_part() {
  copy_scripts
  make_mpirun
  echo 'fastmoe 0.50 0.1 0.25 -' >times.txt
  make_bench 9
  memory() { copy/tools/bench/papers/mpmoe_memory.sh --layers '768,3072' --tokens '512 1024' --output "$PWD/kept" "$@"; }
  expect 0 memory
  expect_equal "$(starts)" " 2 started "
  expect_equal "$(grep -c '^memory' kept/rows)" 4
  # The states take three times the bytes of the parameters, plus the bytes of the gradients. Equations 1 to 3 give
  # 75.5, 12.6 and 7.9 MB for 512 tokens.
  expect_equal "$(awk '$1 == "GPT-S" { print $2, $4, $5, $6, $7, $9, $10, $11, $13, $14, $15, $17, $18 }' out)" \
    "512 5.0 30.0 4.0 0.5 12.7 75.9 11.4 78.7 13.1 8.2 50% 25%
1024 5.0 30.0 4.0 0.5 12.7 75.9 11.4 64.9 21.6 13.5 50% 50%"
  # With 512 tokens, the measured 34.5 MB exceed the 20.4 MB of equations 2 and 3 by 69%. The speed is 12 x 1024 x 768 x
  # 3072 FLOPs in 0.5 s.
  expect_text out "largest deviation from equations 2 and 3 69%" "58.0 GFLOP/s"
  sed -i '/B=1024/d' kept/rows
  expect 0 memory
  expect_equal "$(starts)" " 3 started "
  expect 2 memory --rounds 1
  expect_text err "has rows of other settings"
}

# The fake train_schedules chooses S2. Of the strategies S1 to S4, S1 is the fastest at 800 Mbit/s, and S2 is the
# fastest at 100 Mbit/s. The third start fails.
test_mpmoe_compares_the_choice_with_each_strategy() {
  copy_scripts
  cat >bench <<'STAND_IN'
#!/bin/bash
echo started >>"$STARTS"
[ "$(grep -c started "$STARTS")" -ne 3 ] || exit 9
first=1.0
while [ $# -gt 0 ]; do
  case $1 in
  --rounds) rounds=$2 ;;
  --profile) [[ $2 == *800mbit* ]] || first=2.0 ;;
  esac
  shift
done
printf 'chosen\tauto\tduplicates pause_before_gate, overlap sequential, chunk_by tokens, chunks 4, memory_reuse s2, memory_limit 64\n'
for ((round = 1; round <= rounds; round++)); do
  for row in "none 0.8 0.8" "s1 $first 1.2" "s2 1.1 1.0" "s3 1.6 1.4" "s4 1.8 1.6" "auto 1.1 1.0"; do
    read -r schedule layer predicted <<<"$row"
    printf '%d\t%s\t4\t2\t1\t%s\t%s' $round $schedule $layer $predicted
    printf '\t0%.0s' {1..24}
    echo
  done
done
STAND_IN
  chmod +x bench
  choice() { copy/tools/bench/papers/mpmoe_choice.sh --output "$PWD/kept" "$@"; }
  expect 9 choice
  expect 0 choice
  expect_equal "$(starts)" " 2 profiled 5 started "
  expect_equal "$(stored | cut -f 1 | sort | uniq -c | tr -s ' \n' ' ')" \
    " 19 100mbit,1024 19 100mbit,512 19 800mbit,1024 19 800mbit,512 "
  expect_equal "$(awk '$1 == "800mbit" && $2 == 512 { print $3, $4, $5, $6, $12, $13, $14, $16, $17 }' out)" \
    "1.25 (1.50) 1.38 (1.25) s1 s2 +10.0% s2 +10.0%"
  expect_equal "$(awk '$1 == "100mbit" && $2 == 1024 { print $3, $12, $13, $14, $16, $17 }' out)" "2.50 s2 s2 +0.0% s2 +0.0%"
  expect_text out "mean over 4 cases: auto +5.0%, simulator +5.0%, always S1 +40.9%, always S2 +5.0%"
  cp out before
  expect 0 choice
  expect_equal "$(starts)" " 2 profiled 5 started "
  cmp <(sed 1,/rounds:/d before) <(sed 1,/rounds:/d out) || failed "stored rows give different tables"
  expect 2 choice --trials 8
  expect_text err "has rows of other settings"
}

# m is the number of tokens. With m = 8 and m = 16, two groups of experts take longer than one group. The paper's
# condition on products fails with m = 8, and its condition on communication fails with m = 16. From m = 32 on, two
# groups take three quarters of the time of one group. The simulator predicts this only from m = 64 on.
test_eps_shows_where_groups_pay() {
  copy_scripts
  printf '%s\n' '#!/bin/bash' 'echo products >>"$STARTS"' 'for run in 1 2; do' \
    "  printf 'parts\t%d\t2\t16\t0.2\t0.25\t0.5\n' \$run" 'done' >expert_products
  chmod +x expert_products
  local m
  for m in 8 16 32 64; do
    local layer="M=512,H=1536,B=$m,E=40,k=6,ep=2,routing=random,model.moe.expert=swiglu" cut='0.06 0.101' foreseen=0.15
    [ $m -eq 64 ] || foreseen=0.22
    [ $m -ne 8 ] || cut='0.06 0.11'
    [ $m -ne 16 ] || cut='0.075 0.101'
    if [ $m -le 16 ]; then
      printf '%s\n' "$layer:pn1 0.1 0.05 0.1 0.1" "$layer:cut2 0.3 $cut 0.2" "$layer:pn2 0.12 0.1 0.1 0.12"
    else
      printf '%s\n' "$layer:pn1 0.2 0.05 0.1 0.2" "$layer:cut2 0.3 $cut 0.2" "$layer:pn2 0.15 0.1 0.1 $foreseen"
    fi
  done >times.txt
  make_bench 1
  range() { copy/tools/bench/papers/eps_range.sh --tokens '8 16 32 64' --groups 2 --rounds 2 --output "$PWD/kept" "$@"; }
  expect 9 range
  expect 0 range
  expect_equal "$(starts)" " 1 products 1 profiled 2 started "
  expect_equal "$(stored | wc -l)" 28
  # Products of 20 experts with 16 rows each take 0.2 s undivided, 0.25 s divided by experts and 0.5 s divided by
  # columns.
  expect_equal "$(awk '$1 == 2 && $2 == 16 && NF == 10 { print $3, $4, $5, $7, $8, $10 }' out)" "0.20000 0.25000 0.50000 0.800 2.000 1.030"
  expect_equal "$(awk '$1 == 2 && NF == 15 { print $2, $3, $4, $9, $10, $12, $13, $15 }' out)" \
    "8 0.20 0.10 no no +20.0% +20.0% 12%
16 0.50 0.01 no no +20.0% +20.0% 25%
32 0.20 0.01 hold yes -25.0% +10.0% 50%
64 0.20 0.01 hold yes -25.0% -25.0% 100%"
  expect_text out "N = 2: groups pay from m = 32 on (m0), by the conditions from 32, by the simulator from 64" \
    "right about paying: the conditions 4 of 4, the simulator 3 of 4" "of their highest rate from m = 64 on (m1)"
  cp out before
  expect 0 range
  expect_equal "$(starts)" " 1 products 1 profiled 2 started "
  cmp <(sed 1,/rounds:/d before) <(sed 1,/rounds:/d out) || failed "stored rows give different tables"
  expect 2 range --groups 5
  expect_text err "has rows of other settings"
}

test_hidden_exchange_compares_with_the_sequence() {
  expect 0 "$root/tools/bench/papers/hidden_exchange.sh" model.layers=4
  # Fields from the right: fits (yes or N GiB more), hidden, exposed s, step s.
  grep -E '^(pp 2, ep 8|ep 16) ' out | sed -E 's/ +yes$//; s/ +[0-9.]+ GiB more$//' >table
  expect_equal "$(wc -l <table)" 12
  expect_equal "$(grep -c 'sequence.* 0%$' table)" 4
  awk '/sequence/ { all = $(NF - 1); next } { hidden = 100 * (1 - $(NF - 1) / all) - $NF; if (hidden < -2 || hidden > 2) exit 1 }' table ||
    failed "a hidden share is not that of its exposed seconds"
  awk '/pairs/ && $NF + 0 < 40 { exit 1 }' table || failed "pairs hide less than 40%"
  expect 2 "$root/tools/bench/papers/hidden_exchange.sh" 4
  expect_text err "unknown argument '4', expected key.path=value"
}

run_tests "$@"
