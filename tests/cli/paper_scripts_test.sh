#!/usr/bin/env bash
# Scripts of tools/bench/papers that measure single mechanisms. They keep their rows, and a later call measures only the
# missing rows. Their tables follow from the rows. Programs that measure are replaced by fake ones.
. "$(dirname "$0")/cli.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)

# `copy_scripts`: makes a copy of the scripts in the folder `copy`. Its testbed runs the command without nodes,
# and `profile` writes a cluster file without measurements. Every start of a program adds a line to the file `starts`.
copy_scripts() {
  mkdir -p copy/tools/testbed copy/recipes
  cp -r "$root/tools/bench" "$root/tools/launcher.sh" copy/tools
  cp -r "$root/recipes/steps" copy/recipes
  printf '%s\n' '#!/bin/bash' 'shift 6; [ "$1" != --bursts ] || exec echo "[{group: inter, seconds: 0.02}]"; exec "$@"' \
    >copy/tools/testbed/two_nodes.sh
  cat >hexad <<'STAND_IN'
#!/bin/bash
while [ "$1" != --out ]; do shift; done
echo 'links: []' >"$2"
echo profiled >>"$STARTS"
STAND_IN
  chmod +x copy/tools/testbed/two_nodes.sh hexad
  export STARTS=$PWD/starts HEXAD=$PWD/hexad BENCH=$PWD/bench
}

# `make_bench FAILING`: makes a fake moe_layer. Each line of the file `times.txt` has a schedule, or LAYER:SCHEDULE, and its
# seconds: of the pass, of communication, of computation, predicted. The start with the number FAILING ends in the middle of
# its second layer.
make_bench() {
  cat >bench <<STAND_IN
#!/bin/bash
echo started >>"\$STARTS"
number=\$(grep -c started "\$STARTS") layers=() schedules=() rounds= passes=(forward backward) memory=
while [ \$# -gt 0 ]; do
  case \$1 in
  --layer) layers+=("\$2") ;;
  --schedule) schedules+=("\${2%%:*}") ;;
  --rounds) rounds=\$2 ;;
  --forward) passes=(forward) ;;
  --memory) memory=yes ;;
  esac
  shift
done
for ((i = 0; i < \${#layers[@]}; i++)); do
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
done
STAND_IN
  chmod +x bench
}
starts() { sort starts | uniq -c | tr -s ' \n' ' '; }

test_mpmoe_compares_exchanges_alone() {
  copy_scripts
  printf '%s\n' 'n1 0.20 0.16 0.01 0.2' 'fastermoe 0.40 0.32 0.01 0.5' 'n2 0.25 0.20 0.01 0.2' >times.txt
  make_bench 1
  exchange() { copy/tools/bench/papers/mpmoe_exchange.sh --chunks 2 --bytes 65536,131072,262144 --output "$PWD/kept" "$@"; }
  expect 9 exchange
  expect_text kept/cluster.yaml 'bursts: [{group: inter, seconds: 0.02}]'
  expect_equal "$(cut -f 1 kept/rows | sort -u | wc -l)" 2
  expect 0 exchange
  expect_text out "measured:  1 layers before" "M=1024,H=64,B=32,E=4,ep=4"
  expect_equal "$(starts)" " 1 profiled 2 started "
  expect_equal "$(wc -l <kept/rows)" 45
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

test_mpmoe_prints_memory_by_part() {
  copy_scripts
  mkdir path
  printf '%s\n' '#!/bin/bash' '[ "$1" != --version ] || exec echo "mpirun (Open MPI) 4.1.4"' \
    'while [[ $1 != */bench ]]; do shift; done; exec "$@"' >path/mpirun
  chmod +x path/mpirun
  export PATH=$PWD/path:$PATH
  echo 'fastmoe 0.50 0.1 0.25 -' >times.txt
  make_bench 9
  memory() { copy/tools/bench/papers/mpmoe_memory.sh --layers '768,3072' --tokens '512 1024' --output "$PWD/kept" "$@"; }
  expect 0 memory
  expect_equal "$(starts)" " 2 started "
  expect_equal "$(grep -c '^memory' kept/rows)" 4
  # The states are three times the parameters, plus the gradients. Equations 1 to 3 give 75.5, 12.6 and 7.9 MB for 512
  # tokens.
  expect_equal "$(awk '$1 == "GPT-S" { print $2, $4, $5, $6, $7, $9, $10, $11, $13, $14, $15, $17, $18 }' out)" \
    "512 5.0 30.0 4.0 0.5 12.7 75.9 11.4 78.7 13.1 8.2 50% 25%
1024 5.0 30.0 4.0 0.5 12.7 75.9 11.4 64.9 21.6 13.5 50% 50%"
  # With 512 tokens, 34.5 MB exceed the 20.4 MB of equations 2 and 3 by 69%. The speed is 12 x 1024 x 768 x 3072 FLOPs in
  # 0.5 s.
  expect_text out "largest deviation from equations 2 and 3 69%" "58.0 GFLOP/s"
  sed -i '/B=1024/d' kept/rows
  expect 0 memory
  expect_equal "$(starts)" " 3 started "
  expect 2 memory --rounds 1
  expect_text err "has rows of other settings"
}

# The fake train_schedules chooses S2. With the first rate, S1 is the fastest strategy; the third start fails.
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
  expect_equal "$(cut -f 1 kept/rows | sort | uniq -c | tr -s ' \n' ' ')" \
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

# With m = 8 and m = 16, groups take longer than one group. The condition of products fails with m = 8, and the
# condition of communication fails with m = 16. From m = 32 on, groups take three quarters of the time, but the
# simulator predicts this only from m = 64 on.
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
  expect_equal "$(wc -l <kept/rows)" 24
  # Products of 20 experts with 16 rows each take 0.2 s undivided, 0.25 s divided by experts and 0.5 s divided by columns.
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

run_tests "$@"
