# Prints the table of published_steps.sh. Input, tab-separated: id, recipe, ranks, grade, published tokens per second of
# each GPU (or -), published MFU in percent (or -), predicted tokens per second of all ranks, predicted MFU. Needs
# median.awk, whose functions also sort the list.

# Returns Kendall's tau of a model's rows: the number of pairs in the same order minus the number of pairs in the
# opposite order, divided by the number of all pairs.
function tau(model,    i, j, n, sum, x) {
  n = rows[model]
  for (i = 1; i <= n; i++)
    for (j = 1; j < i; j++) {
      x = (measure[model, i] - measure[model, j]) * (forecast[model, i] - forecast[model, j])
      sum += x > 0 ? 1 : x < 0 ? -1 : 0
    }
  return sum / (n * (n - 1) / 2)
}

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
  if (!count[kind]) kinds[++kind_count] = kind
  errors[kind, ++count[kind]] = error < 0 ? -error : error
  model = $2 (by_tokens ? ", tokens/s" : ", MFU")
  if (!rows[model]) models[++model_count] = model
  measure[model, ++rows[model]] = published
  forecast[model, rows[model]] = predicted
}
END {
  for (k = 1; k <= kind_count; k++) {
    n = count[kinds[k]]
    for (i = 1; i <= n; i++) values[i] = errors[kinds[k], i]
    printf "%s: %d rows, median error %.1f%%, worst %.1f%%\n", kinds[k], n, 100 * median(values, n), 100 * values[n]
  }
  for (m = 1; m <= model_count; m++)
    if (rows[models[m]] >= 5) printf "%s: %d rows, Kendall's tau %.2f\n", models[m], rows[models[m]], tau(models[m])
}
