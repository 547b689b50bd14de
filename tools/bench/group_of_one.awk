# Prints the table of tools/bench/group_of_one.sh. Input: round, program, seconds.

{
  seconds[$1, $2, ++count[$1, $2]] = $3
  if (!($2 in least) || $3 < least[$2]) least[$2] = $3
  if ($1 > rounds) rounds = $1
}

function of_round(round, name,    i, list) {
  for (i = 1; i <= count[round, name]; i++) list[i] = seconds[round, name, i]
  return median(list, count[round, name])
}

END {
  printf "%-8s %8s %8s %8s\n", "round", "old", "new", "ratio"
  for (r = 1; r <= rounds; r++) {
    old[r] = of_round(r, "old")
    new[r] = of_round(r, "new")
    ratio[r] = new[r] / old[r]
    printf "%-8d %8.3f %8.3f %8.4f\n", r, old[r], new[r], ratio[r]
  }
  printf "%-8s %8.3f %8.3f %8.4f\n", "median", median(old, rounds), median(new, rounds), median(ratio, rounds)
  for (r = 1; r <= rounds; r++) {
    old[r] = seconds[r, "old cpu", 1]
    new[r] = seconds[r, "new cpu", 1]
    ratio[r] = new[r] / old[r]
  }
  printf "%-8s %8.3f %8.3f %8.4f\n", "cpu", median(old, rounds), median(new, rounds), median(ratio, rounds)
  printf "%-8s %8.3f %8.3f %8.4f\n", "least", least["old"], least["new"], least["new"] / least["old"]
}
