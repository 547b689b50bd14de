# Prints the table of real runs of tools/bench/pipeline_bubble.sh. Input: the output of the program pipeline_bubble for
# two ranks, then rows. Uses the simulation and the formula of the output's first table. Rows have round, schedule,
# seconds, seconds waited.

FNR == NR {
  if ($1 == 2 && !($2 in simulated)) {
    simulated[$2] = $8
    formula[$2] = $9
    kinds[++known] = $2
  }
  next
}
{
  if ($1 > rounds) rounds = $1
  seconds[$1, $2, ++count[$1, $2]] = $3
  waited[$1, $2, count[$1, $2]] = $4
}

function of_round(values, round, name,    i, list) {
  for (i = 1; i <= count[round, name]; i++) list[i] = values[round, name, i]
  return median(list, count[round, name])
}

END {
  printf "%-12s %8s %9s %8s %10s %9s\n", "pp 2, real", "seconds", "waiting", "lost", "simulated", "formula"
  for (k = 1; k <= known; k++) {
    for (r = 1; r <= rounds; r++) {
      s[r] = of_round(seconds, r, kinds[k])
      w[r] = 100 * of_round(waited, r, kinds[k]) / s[r]
      l[r] = 100 * (1 - of_round(seconds, r, "alone") / (2 * s[r]))
    }
    printf "%-12s %8.3f %8.1f%% %7.1f%% %9.1f%% %9s\n", kinds[k], median(s, rounds), median(w, rounds), \
      median(l, rounds), simulated[kinds[k]], formula[kinds[k]] == "-" ? "-" : sprintf("%.1f%%", formula[kinds[k]])
  }
}
