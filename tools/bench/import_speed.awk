# Prints the speed of each program, and its ratio to the speed of the copy in the same round. Rows: round, program,
# bytes, seconds, CPU seconds. Needs median.awk.
NF == 5 && $4 > 0 {
  if (!($2 in runs)) names[++programs] = $2
  rate[$2, ++runs[$2]] = $3 / $4 / 1e6
  cpu[$2, runs[$2]] = $5
  of_round[$2, $1] = $4
}
END {
  if (!programs) { print "no rows: expected round, program, bytes, seconds and CPU seconds" > "/dev/stderr"; exit 1 }
  printf "%-8s %12s %12s %20s\n", "program", "MB/s", "CPU seconds", "ratio to the copy"
  for (p = 1; p <= programs; p++) {
    name = names[p]; count = runs[name]; ratios = 0
    for (i = 1; i <= count; i++) { a[i] = rate[name, i]; b[i] = cpu[name, i] }
    for (key in of_round) {
      split(key, part, SUBSEP)
      if (part[1] == name && (("copy", part[2]) in of_round)) c[++ratios] = of_round["copy", part[2]] / of_round[key]
    }
    printf "%-8s %12.0f %12.2f %20.2f\n", name, median(a, count), median(b, count), median(c, ratios)
  }
}
