# Prints the table of tools/bench/all_to_all.sh. Input: lines with nodes x ranks, followed by a row of moe_layer.

{
  split($2, settings, /[=,]/)  # a layer such as M=256,H=64,B=8
  key = $1 SUBSEP settings[6]
  if (!seen[key]++) cases[++count] = key
  if ($3 > rounds) rounds = $3
  seconds[key, $4, $3] += $7  # seconds of the task graphs of forward and backward
  if ($3 == 1) bytes[key, $4] += $12
}

function of(key, schedule,    r, s) {
  for (r = 1; r <= rounds; r++) s[r] = 1e3 * seconds[key, schedule, r]
  return median(s, rounds)
}
function ratio(key,    r, s) {
  for (r = 1; r <= rounds; r++) s[r] = seconds[key, "hierarchical", r] / seconds[key, "direct", r]
  return median(s, rounds)
}

END {
  printf "%-6s %7s %12s %12s | %10s %13s %7s | %9s %9s\n", "nodes", "tokens", "KiB direct", "hierarchical", "direct ms", \
    "hierarchical", "ratio", "sent KiB", "hier. KiB"
  for (c = 1; c <= count; c++) {
    split(cases[c], part, SUBSEP)
    split(part[1], shape, "x")
    message = part[2] / (shape[1] * shape[2])  # number of rows of 1 KiB that are sent to each rank
    printf "%-6s %7d %12.1f %12.1f | %10.2f %13.2f %7.2f | %9.0f %9.0f\n", part[1], part[2], message, \
      message * shape[2], of(cases[c], "direct"), of(cases[c], "hierarchical"), ratio(cases[c]), \
      bytes[cases[c], "direct"] / 1024, bytes[cases[c], "hierarchical"] / 1024
  }
}
