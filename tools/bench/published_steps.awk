# Prints the tables of published_steps.sh, then the aims with their values. Exits with 1 if `gate` is 1 and an aim is
# missed. Input: published_models.tsv, then the rows, tab-separated: id, model, cluster, ranks, settings of the recipe,
# published tokens per second of each GPU (or -), published TFLOP/s of each GPU (or -), formula of the TFLOP/s, grade,
# reason why there is no prediction (or -), predicted tokens per second of all ranks (or -). Needs median.awk, whose
# functions also sort the list, and megatron_flops.awk.

# setting(settings, key): returns the value of key=value in a list of settings.
function setting(settings, key,    parts, i, n) {
  n = split(settings, parts, " ")
  for (i = 1; i <= n; i++)
    if (index(parts[i], key "=") == 1) return substr(parts[i], length(key) + 2)
}

# tau(model): returns Kendall's tau of the model's rows: the number of pairs in the same order minus the number of pairs
# in the opposite order, divided by the number of all pairs.
function tau(model,    i, j, n, sum, x) {
  n = rows[model]
  for (i = 1; i <= n; i++)
    for (j = 1; j < i; j++) {
      x = (measure[model, i] - measure[model, j]) * (forecast[model, i] - forecast[model, j])
      sum += x > 0 ? 1 : x < 0 ? -1 : 0
    }
  return sum / (n * (n - 1) / 2)
}

# new_case_quantile(list, count, share): returns the quantile for `share` of list[1..count], which must be sorted. As in
# PredictionError, value number k is the quantile k / (count + 1). Needs 1 <= share * (count + 1) < count.
function new_case_quantile(list, count, share,    place, i) {
  place = share * (count + 1)
  i = int(place)
  return list[i] + (place - i) * (list[i + 1] - list[i])
}

# Returns the number of ratios inside the interval that the ratios of all other sources give; -1 if the other sources
# have too few rows.
function covered_by_others(    i, k, n, others, inside) {
  for (i = 1; i <= ratio_count; i++) {
    n = 0
    for (k = 1; k <= ratio_count; k++) if (source_of[k] != source_of[i]) others[++n] = in_order[k]
    if (n < 19) return -1
    median(others, n)  # sorts the ratios
    inside += in_order[i] >= new_case_quantile(others, n, 0.05) && in_order[i] <= new_case_quantile(others, n, 0.95)
  }
  return inside
}

# Adds an absolute error to a set of errors.
function add_error(set, error) { errors[set, ++count[set]] = error < 0 ? -error : error }

# Returns the number, median and largest value of a set of errors. Sets `middle` and `largest`.
function summary(set,    values, i) {
  if (!count[set]) return "none"
  for (i = 1; i <= count[set]; i++) values[i] = errors[set, i]
  middle = median(values, count[set])
  largest = values[count[set]]
  return sprintf("%d, median error %.1f%%, worst %.1f%%", count[set], 100 * middle, 100 * largest)
}

# Prints an aim, its value, and whether it is met.
function check(what, value, met) {
  printf "aim: %s: %s, %s\n", what, value, met ? "met" : "missed"
  if (!met) missed++
}

# Returns a line of a table.
function line(id, model, ranks, grade, published, predicted, error, gpu, last) {
  last = sprintf("%-48s %-25s %5s %5s %9s %9s %7s  %-4s  %s", id, model, ranks, grade, published, predicted, error, gpu,
    last)
  sub(/ +$/, "", last)
  return last "\n"
}

function print_table(table, title, last) {
  if (!lines[table]) return
  print title
  printf "%s%s", line("row", "model", "ranks", "grade", "published", "predicted", "error", "GPU", last), text[table]
}

BEGIN { FS = "\t" }
NR == FNR { read_shape(); next }
{
  model = $2
  converted = $6 == "-"
  published = $6
  if (converted) {
    if ($8 != "Megatron" || !((model, "layers") in shape)) {
      printf "published_steps.awk: row %s has the formula '%s' and the model '%s', ", $1, $8, model >"/dev/stderr"
      print "expected the formula Megatron and a model of published_models.tsv" >"/dev/stderr"
      failed = 1
      exit 2
    }
    published = 1e12 * $7 / megatron_flops(model, setting($5, "model.context"), setting($5, "parallel.tp"))
  }
  predicted = $11 == "-" ? "-" : $11 / $4
  error = predicted == "-" ? 0 : predicted / published - 1
  table = converted ? "converted" : $9 == "A" && predicted != "-" ? "gated" : "ungated"
  match($3, /[hb][0-9]+/)
  cluster = toupper(substr($3, RSTART, RLENGTH))
  lines[table]++
  last = table == "converted" ? $8 : table == "gated" ? "" : $10 == "-" ? "grade " $9 : $10
  text[table] = text[table] line($1, model, $4, $9, sprintf("%.6g", published),
    predicted == "-" ? "-" : sprintf("%.6g", predicted), predicted == "-" ? "-" : sprintf("%+.1f%%", 100 * error),
    cluster, last)
  if (!listed[cluster]++) clusters[++cluster_count] = cluster
  if (predicted == "-") next
  add_error(table, error)
  add_error(cluster, error)
  if (table == "gated") add_error(cluster " gated", error)
  kind = (converted ? "TFLOP/s" : "tokens/s") ", grade " $9
  if (!count[kind]) kinds[++kind_count] = kind
  add_error(kind, error)
  if (!rows[model]) models[++model_count] = model
  measure[model, ++rows[model]] = published
  forecast[model, rows[model]] = predicted
  if ($9 != "C") {
    ratios[++ratio_count] = 1 + error  # measured seconds divided by predicted seconds
    in_order[ratio_count] = 1 + error
    match($1, /^[A-Za-z]+/)  # the ids of the rows of a source begin with the same letters
    source_of[ratio_count] = substr($1, 1, RLENGTH)
  }
}
END {
  if (failed) exit 2
  print_table("gated", "Gated rows: grade A, bf16, published in tokens/s. All rates are tokens/s of each GPU.", "")
  print_table("converted", "Rows with TFLOP/s or MFU alone: tokens/s by the source's formula for the FLOPs of a token.",
    "formula")
  print_table("ungated", "Other rows: grade B or C, or not predicted.", "reason")
  printf "rows: %d gated, %d converted, %d other\n", lines["gated"], lines["converted"], lines["ungated"]
  for (k = 1; k <= kind_count; k++) printf "%s: %s\n", kinds[k], summary(kinds[k])
  for (c = 1; c <= cluster_count; c++) {
    cluster = clusters[c]
    printf "%s: %d rows; gated: %s; all predicted: %s\n", cluster, listed[cluster], summary(cluster " gated"),
      summary(cluster)
  }
  if (ratio_count >= 19) {
    median(ratios, ratio_count)  # sorts the ratios
    printf "interval: %d rows of grades A and B; measured / predicted seconds: quantile 0.05 is %.2f, ", ratio_count,
      new_case_quantile(ratios, ratio_count, 0.05)
    printf "quantile 0.95 is %.2f\n", new_case_quantile(ratios, ratio_count, 0.95)
    covered = covered_by_others()
    if (covered >= 0)
      printf "coverage: intervals from the rows of other sources contain %d of %d rows\n", covered, ratio_count
  }
  gated = summary("gated")
  known = gated != "none"
  check("median error of the gated rows at most 15%", known ? sprintf("%.1f%%", 100 * middle) : gated,
    known && middle <= 0.15)
  check("worst error of the gated rows at most 40%", known ? sprintf("%.1f%%", 100 * largest) : gated,
    known && largest <= 0.4)
  for (m = 1; m <= model_count; m++)
    if (rows[models[m]] >= 5) {
      order = tau(models[m])
      check("Kendall's tau of the " rows[models[m]] " predicted rows of " models[m] " at least 0.80",
        sprintf("%.2f", order), order >= 0.8)
    }
  if (gate == 1 && missed) exit 1
}
