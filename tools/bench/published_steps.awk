# Prints the table of published_steps.sh. Input, tab-separated: id, recipe, ranks, grade, published tokens per second for
# each GPU (or -), published MFU in percent (or -), predicted tokens per second of all ranks, predicted MFU.
BEGIN {
  FS = "\t"
  printf "%-44s %-16s %5s %5s %10s %10s %7s\n", "row", "recipe", "ranks", "grade", "published", "predicted", "error"
}
{
  by_tokens = $5 != "-"
  published = by_tokens ? $5 : $6
  predicted = by_tokens ? $7 / $3 : 100 * $8
  error = predicted / published - 1
  printf "%-44s %-16s %5d %5s %10.6g %10.6g %+6.1f%%\n", substr($1, 1, 44), $2, $3, $4, published, predicted, 100 * error
  kind = by_tokens ? "tokens/s, grade " $4 : "MFU, grade " $4
  errors[kind, ++count[kind]] = error < 0 ? -error : error
}
END {
  for (kind in count) {
    n = count[kind]
    for (i = 1; i <= n; ++i) values[i] = errors[kind, i]
    worst = 0
    for (i = 1; i <= n; ++i) if (values[i] > worst) worst = values[i]
    printf "%s: %d rows, median error %.1f%%, worst %.1f%%\n", kind, n, 100 * median(values, n), 100 * worst
  }
}
