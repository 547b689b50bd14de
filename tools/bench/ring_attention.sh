#!/usr/bin/env bash
# Measures attention over four ranks on two emulated nodes, as a ring and after an all-gather. Prints the share of time
# for which ranks wait for keys and values. Two ranks share a core, so the attention of one rank also hides the messages
# of the other rank. "alone" is the same attention without messages.
#
#   tools/bench/ring_attention.sh [--tokens 8192] [--rounds 3] [--rates '200mbit 1gbit'] [--shapes '2,1 2,2']
#
# --tokens: tokens per rank. --shapes: numbers of query heads and key heads, each of size 64. Prints a table, then the
# raw rows. Environment: BENCH (program; build/release/bench/context_attention). Needs root
# (tools/testbed/two_nodes.sh); exits with 77 without it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/bench/common.sh

tokens=8192 rounds=3 rates='200mbit 1gbit' shapes='2,1 2,2'
while [ $# -gt 0 ]; do
  case $1 in
  --tokens) tokens=${2:?} ;;
  --rounds) rounds=${2:?} ;;
  --rates) rates=${2:?} ;;
  --shapes) shapes=${2:?} ;;
  *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
bench=${BENCH:-build/release/bench/context_attention}
need "$bench" 'cmake --build --preset release --target context_attention'

machine
echo "tokens:    $tokens per rank, 4 ranks on 2 nodes, f32; medians of $rounds rounds"
for rate in $rates; do
  for shape in $shapes; do
    tools/testbed/two_nodes.sh --nodes 2 --ranks 2 --rate "$rate" "$bench" --tokens "$tokens" --rounds "$rounds" \
      --heads "${shape%,*}" --kv-heads "${shape#*,}" --kinds ring,all_gather |
      sed "s/^/$rate\t$shape\t/" >>"$scratch/rows"
  done
done
awk -F "\t" -f tools/bench/median.awk -f tools/bench/ring_attention.awk "$scratch/rows"
printf '\nlink, heads and key heads, round, kind, pass, seconds, waited, in flight, bytes sent by a rank\n'
cat "$scratch/rows"
