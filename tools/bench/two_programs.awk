# Prints the medians of the rows "NAME SECONDS CPU_SECONDS STEP" of two_programs.sh. Needs tools/bench/median.awk.
{
  n[$1]++
  wall[$1, n[$1]] = $2
  cpu[$1, n[$1]] = $3
}

function median_of(values, name,    i, list) {
  for (i = 1; i <= n[name]; i++) list[i] = values[name, i]
  return median(list, n[name])
}
function row(name) {
  printf "%s: median %.3f s, %.3f s of CPU time\n", name, median_of(wall, name), median_of(cpu, name)
}

END {
  row("old")
  row("new")
}
