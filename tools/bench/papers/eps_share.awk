# Compares Table 6 of EPS-MoE (m = 3072) with rows of moe_layer, and the simulator's predictions with both. Speedups are
# relative to the first schedule, which uses all threads. A schedule's name is its share of the threads.

BEGIN {
  FS = "\t"
  n = split("132 124 116 108 100 92", sms, " "); split("4.597 4.403 3.894 3.967 4.031 4.081", ms, " ")
}
{ read_row() }

END {
  c = layers[1]
  printf "\n%-24s %9s %9s %10s %7s\n", "share of the threads", "seconds", "measured", "predicted", "error"
  for (w = 1; w <= schedule_count; w++) {
    x = speedup(c, "forward", schedules[w], schedules[1]); y = foreseen_speedup(c, "forward", schedules[w], schedules[1])
    printf "%-24s %9.4f %9.2f %10s %7s\n", schedules[w], typical(c, "forward", schedules[w]), x,
      y == "" ? "-" : sprintf("%.2f", y), y == "" ? "-" : error_of(y, x)
  }
  printf "%-24s %9s %9s\n", "Table 6: share of SMs", "ms", "paper"
  for (i = 1; i <= n; i++) printf "%-24.2f %9.3f %9.2f\n", sms[i] / sms[1], ms[i], ms[1] / ms[i]
}
