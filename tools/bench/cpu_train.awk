# Prints the table of tools/bench/cpu_train.sh. Input: results.tsv, with round, dtype, threads, program, tokens/s,
# GFLOP/s, peak bytes. Needs tools/bench/median.awk.

{
  tokens[$2, $3, $4, $1] = $5
  gflops[$2, $3, $4, $1] = $6
  bytes[$2, $3, $4, $1] = $7
  measured[$2, $3] = 1
}

function median_of_rounds(values, dtype, n, who,    r, list, count) {
  for (r = 1; r <= rounds; r++)
    if ((dtype, n, who, r) in values) list[++count] = values[dtype, n, who, r]
  return median(list, count)
}

# Returns the median over rounds of a ratio: the value of `who` with n threads to the value of `who2` with n2 threads.
# Each ratio compares two values of the same round.
function ratio(values, dtype, n, who, n2, who2,    r, list, count) {
  for (r = 1; r <= rounds; r++)
    if ((dtype, n, who, r) in values && values[dtype, n2, who2, r] > 0)
      list[++count] = values[dtype, n, who, r] / values[dtype, n2, who2, r]
  return median(list, count)
}

function show(format, value) { return value == "" ? "-" : sprintf(format, value) }

END {
  split(dtypes, dtype_list, " ")
  split(threads, thread_list, " ")
  line = "%-5s %7s | %8s %8s %6s | %8s %8s | %8s %8s | %9s %9s %6s | %8s\n"
  printf "%13s | %24s | %17s | %17s | %26s |\n", "", "tokens/s", "GFLOP/s", "products", "peak memory, MiB"
  printf line, "dtype", "threads", "hexad", "torch", "ratio", "hexad", "torch", "GFLOP/s", "share", "hexad", "torch", \
    "ratio", "scaling"
  for (d = 1; d in dtype_list; d++)
    for (t = 1; t in thread_list; t++) {
      dtype = dtype_list[d]
      n = thread_list[t]
      if (!((dtype, n) in measured)) continue
      torch_bytes = median_of_rounds(bytes, dtype, n, "torch")
      printf line, dtype, n, \
        show("%.0f", median_of_rounds(tokens, dtype, n, "hexad")), show("%.0f", median_of_rounds(tokens, dtype, n, "torch")), \
        show("%.2f", ratio(tokens, dtype, n, "hexad", n, "torch")), \
        show("%.1f", median_of_rounds(gflops, dtype, n, "hexad")), show("%.1f", median_of_rounds(gflops, dtype, n, "torch")), \
        show("%.1f", median_of_rounds(gflops, dtype, n, "gemm")), \
        show("%.0f%%", 100 * ratio(gflops, dtype, n, "hexad", n, "gemm")), \
        show("%.0f", median_of_rounds(bytes, dtype, n, "hexad") / 1048576), \
        show("%.0f", torch_bytes == "" ? "" : torch_bytes / 1048576), \
        show("%.2f", ratio(bytes, dtype, n, "hexad", n, "torch")), \
        n == 1 ? "-" : show("%.2f", ratio(tokens, dtype, n, "hexad", 1, "hexad"))
    }
  print "share: ratio of hexad's GFLOP/s to those of plain products; scaling: ratio of hexad's tokens/s to those of one thread"
}
