# Compares training with and without priorities. Reads lines that tools/bench/papers/priority.sh collects: run, name
# (such as zero2-priority), step seconds, and seconds for which a rank waited for ep, pp and dp, means over the ranks.
# Medians are over all steps.

BEGIN { FS = "\t" }

$1 != "run" {
  split($2, part, "-")
  if (!(part[1] in seen)) { seen[part[1]] = 1; kinds[++count] = part[1] }
  n = ++steps[part[1], part[2]]
  for (f = 3; f <= 6; f++) value[part[1], part[2], f, n] = $f
}

function typical(kind, order, f,    n, list) {
  for (n = 1; n <= steps[kind, order]; n++) list[n] = value[kind, order, f, n]
  return median(list, steps[kind, order])
}

END {
  printf "%-8s %-10s %9s %12s %12s %12s\n", "", "", "step s", "waits for ep", "pp", "dp"
  for (i = 1; i <= count; i++)
    for (o = 1; o <= 2; o++) {
      order = o == 1 ? "priority" : "fifo"
      printf "%-8s %-10s %9.4f %12.4f %12.4f %12.4f\n", kinds[i], order, typical(kinds[i], order, 3), typical(kinds[i], order, 4),
        typical(kinds[i], order, 5), typical(kinds[i], order, 6)
    }
}
