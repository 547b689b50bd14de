# Prints the tables of tools/bench/scale_growth.sh. Needs growth_before.awk. Input: ranks, activity, messages, bytes of
# messages, bytes of memory, seconds.

function cell(value, factor, format) { return value == "" ? "-" : sprintf(format, value * factor) }

!($2 in lines) { order[++kinds] = $2 }
{
  lines[$2] = lines[$2] sprintf("%8d %12s %12d %16s %14d %10s %10.2f %10s %10.2f\n", $1,
    cell(messages_before($2, $1), 1, "%d"), $3, cell(bytes_before($2, $1), 1, "%d"), $4,
    cell(memory_before($2, $1), 1 / 1048576, "%.2f"), $5 / 1048576, cell(seconds_before($2, $1), 1000, "%.2f"), 1000 * $6)
}
END {
  for (k = 1; k <= kinds; ++k) {
    printf "\n%s\n%8s %12s %29s %25s %21s\n", order[k], "ranks", "messages", "message bytes", "MiB", "ms"
    printf "%8s %12s %12s %16s %14s %10s %10s %10s %10s\n%s", "", "before", "now", "before", "now", "before", "now",
      "before", "now", lines[order[k]]
  }
}
