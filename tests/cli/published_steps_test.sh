#!/usr/bin/env bash
# Tests tools/bench/published_steps.sh: its tables, its conversion of TFLOP/s to tokens/s, its aims and its quantiles.
# A fake program predicts the steps.
. "$(dirname "$0")/cli.sh"

bench=$(cd "$(dirname "$0")/../../tools/bench" && pwd)

# Writes a program `fake` that predicts $1 tokens per second, but fails for recipes whose file name matches $2.
predict() {
  cat >fake <<FAKE
#!/usr/bin/env bash
[[ ! \$2 =~ ${2:-^\$} ]] || { echo "no such layout" >&2; exit 2; }
echo '{"tokens_per_second": $1}'
FAKE
  chmod +x fake
}
published() { HEXAD=$PWD/fake "$bench/published_steps.sh" "$@"; }

# `rows ROW...`: prints the tables of made-up rows. A row has the columns of published_steps.awk, divided by spaces. The
# word `settings` in a row stands for a context of 4096 tokens and one tensor rank. With gate=1, the aims are checked.
rows() {
  local row
  for row in "$@"; do
    tr ' ' '\t' <<<"$row" | sed 's/\tsettings\t/\tmodel.context=4096 parallel.tp=1\t/'
  done >made_up
  [ -e models ] || cp "$bench/published_models.tsv" models
  (cd "$bench/../.." && awk -v gate="${gate:-0}" -f tools/bench/median.awk -f tools/bench/megatron_flops.awk \
    -f tools/bench/published_steps.awk "$OLDPWD/models" "$OLDPWD/made_up")
}

test_each_published_row_is_listed_once() {
  predict 8000
  expect 0 published
  expect_equal "$(cut -f 1 "$bench/published_steps.tsv" | sed 1d | sort -u | wc -l)" 63
  local id
  while read -r id; do
    [ "$(grep -cF -- "$id " out)" -eq 1 ] || failed "row $id is not listed once"
  done < <(cut -f 1 "$bench/published_steps.tsv" | sed 1d)
  expect_text out "rows: 20 gated, 28 converted, 15 other" "H100: 50 rows; " "B200: 11 rows; " \
    "H800: 2 rows; gated: none; all predicted: none"
}

test_rows_that_are_not_gated_have_a_reason() {
  predict 8000
  expect 0 published
  local reason
  for reason in "AVG-deepseek-v2 .* - +C +1607.5 +- +-  H800  unknown layout" "MCMOE-4 .*H100  fp8" \
    "NOUS-q30-8 .*B200  grade C" "MZ-h100-4 .*H100  uneven stages" "CHUNKEDEP-native .*H100  packed texts" "GOLD-8x7b-h100 .*H100  grade B" \
    "FOLD-T3-10 .*H100  Megatron"; do
    grep -qE "^$reason\$" out || failed "out has no row '$reason'"
  done
}

test_gate_exits_with_1_if_an_aim_is_missed() {
  predict 8000
  expect 0 published
  expect_text out "aim: median error of the gated rows at most 15%: " "%, missed"
  expect 1 published --gate
  expect_text out "aim: worst error of the gated rows at most 40%: " "%, missed" \
    "aim: Kendall's tau of the 8 predicted rows of qwen3_235b_a22b at least 0.80: "
}

test_gate_takes_no_other_option() {
  predict 8000
  expect 2 published --gate --only FOLD
  expect_text err "the options are '--gate --only FOLD', expected --gate alone"
  expect 2 published --only nothing
  expect_text err "--only is 'nothing', expected a pattern that matches a row"
}

test_row_that_cannot_be_simulated_is_listed_and_fails() {
  predict 8000 kimi
  expect 1 published --only 'AM-'
  expect_text err "AM-kimi_k2-256-512: no such layout" "rows that could not be simulated: 1"
  grep -qE '^AM-kimi_k2-256-512 .* 924 +- +-  H100  failed$' out || failed "out does not list the row that failed"
}

test_tflops_are_converted_by_megatrons_formula() {
  # Megatron Bridge reports 287.305 TFLOP/s and 12487.8 tokens/s for Qwen3-30B-A3B on H100 (row MBS-q30-hyb-on). A paper
  # (row MCMOE-4) reports 368 TFLOP/s and 1412 tokens/s for DeepSeek-V3 with a prediction block.
  head -n 1 "$bench/published_models.tsv" >models
  printf 'qwen\t48\t0\t0\t2048\t32\t4\t128\t0\t768\t8\t0\t151936\t0\t0\t0\t0\n' >>models
  printf 'deepseek\t61\t3\t1\t7168\t128\t128\t128\t18432\t2048\t8\t2048\t129280\t1536\t512\t64\t128\n' >>models
  expect 0 rows 'a qwen h100-dgx 1 settings - 287.305 Megatron A - 12487.8' \
    'b deepseek h100-dgx 1 settings - 368 Megatron A - 1412'
  grep -qE '^a .* A +12488.1 +12487.8 +-0.0%  H100  Megatron$' out || failed "the rate of Qwen3 is wrong"
  grep -qE '^b .* A +1415.42 +1412 +-0.2%  H100  Megatron$' out || failed "the rate of DeepSeek-V3 is wrong"
  expect 2 rows 'a qwen h100-dgx 1 settings - 287.305 PaLM A - 12487.8'
  expect_text err "row a has the formula 'PaLM' and the model 'qwen', expected the formula Megatron and a model of published"
}

test_gate_passes_if_all_aims_are_met() {
  gate=1 expect 0 rows 'a m h100-dgx 2 settings 100 - - A - 220' 'b m b200-dgx 1 settings 200 - - A - 230' \
    'c m h100-dgx 1 settings 300 - - B - 600' 'd m h100-dgx 1 settings 400 - - C - 1600' \
    'e m b200-dgx 1 settings 500 - - A - 700'
  expect_text out "aim: median error of the gated rows at most 15%: 15.0%, met" \
    "aim: worst error of the gated rows at most 40%: 40.0%, met" \
    "aim: Kendall's tau of the 5 predicted rows of m at least 0.80: 0.80, met" \
    "H100: 3 rows; gated: 1, median error 10.0%, worst 10.0%; all predicted: 3, median error 100.0%, worst 300.0%" \
    "B200: 2 rows; gated: 2, median error 27.5%, worst 40.0%; all predicted: 2, median error 27.5%, worst 40.0%"
  expect_no_text out "interval: "
}

test_each_aim_can_be_missed() {
  gate=1 expect 1 rows 'a m h100-dgx 1 settings 100 - - A - 116'
  expect_text out "median error of the gated rows at most 15%: 16.0%, missed" \
    "worst error of the gated rows at most 40%: 16.0%, met"
  gate=1 expect 1 rows 'a m h100-dgx 1 settings 100 - - A - 141' 'b m h100-dgx 1 settings 100 - - A - 100' \
    'c m h100-dgx 1 settings 100 - - A - 100'
  expect_text out "at most 15%: 0.0%, met" "at most 40%: 41.0%, missed"
  gate=1 expect 1 rows 'a m h100-dgx 1 settings 100 - - A - 102' 'b m h100-dgx 1 settings 101 - - A - 101' \
    'c m h100-dgx 1 settings 102 - - A - 100' 'd m h100-dgx 1 settings 103 - - A - 103' \
    'e m h100-dgx 1 settings 104 - - A - 104'
  expect_text out "at most 15%: 0.0%, met" "of m at least 0.80: 0.40, missed"
  gate=1 expect 1 rows 'a m h100-dgx 1 - 100 - - A fp8 -'
  expect_text out "at most 15%: none, missed" "at most 40%: none, missed"
}

test_interval_is_that_of_grades_a_and_b() {
  local i made=()
  for ((i = 1; i <= 39; i++)); do made+=("r$i m$i h100-dgx 1 settings 100 - - B - $((60 + 2 * i))"); done
  expect 0 rows "${made[@]}" 'c m h100-dgx 1 settings 100 - - C - 900'
  expect_text out \
    "interval: 39 rows of grades A and B; measured / predicted seconds: quantile 0.05 is 0.64, quantile 0.95 is 1.36"
  expect_no_text out "coverage: "  # all rows are of one source
}

test_coverage_uses_the_rows_of_other_sources() {
  local i made=()
  for ((i = 1; i <= 39; i++)); do
    made+=("A-$i m$i h100-dgx 1 settings 100 - - B - $((60 + 2 * i))")
    made+=("B-$i n$i h100-dgx 1 settings 100 - - B - $((101 + 2 * i))")
  done
  # The interval of source A is 0.64 to 1.36, and the interval of source B is 1.05 to 1.77. So 17 rows of A are in the
  # interval of B, and 17 rows of B are in the interval of A.
  expect 0 rows "${made[@]}"
  expect_text out "coverage: intervals from the rows of other sources contain 34 of 78 rows"
}

run_tests "$@"
