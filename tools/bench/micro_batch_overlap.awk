# Prints the table of tools/bench/micro_batch_overlap.sh. Input: overlap, seconds of a step, seconds waited, loss.
BEGIN { FS = "\t" }
{ seconds[$1, ++n[$1]] = $2; waited[$1, n[$1]] = $3 }
function median_of(values, name,    i, list) {
  for (i = 1; i <= n[name]; i++) list[i] = values[name, i]
  return median(list, n[name])
}
function row(name) { printf "%-16s%10.3f%10.3f\n", name, median_of(seconds, name), median_of(waited, name) }
END {
  printf "%-16s%10s%10s\n", "overlap", "step s", "waiting"
  row("none")
  row("micro_batches")
  printf "%-16s%10.3f\n", "speedup", median_of(seconds, "none") / median_of(seconds, "micro_batches")
}
